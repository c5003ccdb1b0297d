"""The authors' pools, known by count and digest (data/paper/settings.yaml), and where to get them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from wsoup.base import project
from wsoup.datasets.paper import PAPER
from wsoup.search.rank import gpt, pools

SOURCES = {
    "words": "google-10000-english-no-swears.txt of github.com/first20hours/google-10000-english, given to "
    "`wsoup profile paper --words FILE`",
    "descriptors": "gpt_descriptors/descriptors_imagenet.json of github.com/Chris210634/word_soups, given to "
    "`wsoup profile paper --gpt-descriptors DIR`",
}
Facts = Mapping[str, Mapping[str, Any]]
"""Pool -> count and digest of its texts."""


def authors() -> Facts:
    """The authors' pools."""
    return yaml.safe_load((project.file("data/paper") / "settings.yaml").read_text(encoding="utf-8"))["pools"]


def facts(texts: Sequence[str]) -> dict[str, Any]:
    """Count and digest of a pool."""
    return {"count": len(texts), "digest": pools.digest(texts)}


def known(candidates: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The pools of params.yaml, before any run: without those whose files are missing; wordfreq's has no digest.

    Args:
        candidates: that section of params.yaml.
    """
    path, count = candidates["words"]["path"], candidates["words"]["count"]
    known_pools: dict[str, dict[str, Any]] = {}
    if path is None:
        known_pools["words"] = {"count": count}
    elif Path(path).exists():
        known_pools["words"] = facts(pools.words_from_file(path, count=count))
    paths = candidates["descriptors"]["paths"]
    if all(Path(path).exists() for path in paths):
        known_pools["descriptors"] = facts(pools.descriptors(paths))
    waffle = candidates.get("waffle")
    if waffle is not None and Path(waffle).exists():
        known_pools["waffle"] = facts(gpt.waffle_texts(waffle))
    return known_pools


def compare(ours: Facts, *, expected: Facts | None = None) -> Iterator[tuple[bool, str]]:
    """Whether each pool is the authors' (or `expected`), with a sentence that says so and where to get theirs."""
    for pool, theirs in (expected or authors()).items():
        if not ours.get(pool, {}).get("count"):
            continue  # not known yet, or left out
        count = f"{theirs['count']:,}"
        if ours[pool].get("digest") == theirs["digest"]:
            yield True, f"candidates.{pool}: the authors' {count}"
        else:
            here = f"{ours[pool]['count']:,} texts, not the authors' {count}"
            yield False, f"candidates.{pool}: {here}; rows that depend on them are marked. Theirs: {SOURCES[pool]}"


def of_params(sections: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """`compare` for a params.yaml with one of the paper's datasets."""
    datasets = sections["datasets"].items()
    if not any(name in PAPER and dataset["layout"].startswith("coop") for name, dataset in datasets):
        return []
    return list(compare(known(sections["candidates"])))
