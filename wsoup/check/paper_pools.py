"""The authors' pools, known by count and digest (data/paper/settings.yaml), and where to get them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from wsoup.base import project
from wsoup.check.whole import Params
from wsoup.datasets.paper import PAPER
from wsoup.search.rank import pools

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


def known(params: Params) -> dict[str, dict[str, Any]]:
    """The pools of params.yaml, before any run: without those whose files are missing; wordfreq's has no digest."""
    words, paths = params.candidates.words, params.candidates.descriptors.paths
    known_pools: dict[str, dict[str, Any]] = {}
    if words.path is None:
        known_pools["words"] = {"count": words.count}
    elif Path(words.path).exists():
        known_pools["words"] = facts(pools.words_from_file(words.path, count=words.count))
    if all(Path(path).exists() for path in paths):
        known_pools["descriptors"] = facts(pools.descriptors(paths))
    return known_pools


def compare(ours: Facts, *, expected: Facts | None = None) -> Iterator[tuple[bool, str]]:
    """Whether each pool is the authors' (or `expected`), with a sentence that says so and where to get theirs."""
    for pool, theirs in (expected or authors()).items():
        if pool not in ours:
            continue
        count = f"{theirs['count']:,}"
        if ours[pool].get("digest") == theirs["digest"]:
            yield True, f"candidates.{pool}: the authors' {count}"
        else:
            here = f"{ours[pool]['count']:,} texts, not the authors' {count}"
            yield False, f"candidates.{pool}: {here}; rows that depend on them are marked. Theirs: {SOURCES[pool]}"


def of_params(params: Params) -> list[tuple[bool, str]]:
    """`compare` for a params.yaml with one of the paper's datasets; empty pools are not mentioned."""
    if not any(name in PAPER and dataset.layout.startswith("coop") for name, dataset in params.datasets.items()):
        return []
    return list(compare({pool: about for pool, about in known(params).items() if about["count"]}))
