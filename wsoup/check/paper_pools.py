"""The authors' pools, known by count and digest (data/paper/settings.yaml), and where anyone may fetch them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from wsoup.check.whole import Params
from wsoup.core.disk import project
from wsoup.datasets.paper import PAPER
from wsoup.search.rank import pools

FETCH = {
    "words": "google-10000-english-no-swears.txt of github.com/first20hours/google-10000-english, given to "
    "`wsoup profile paper --words FILE`",
    "descriptors": "gpt_descriptors/descriptors_imagenet.json of github.com/Chris210634/word_soups, given to "
    "`wsoup profile paper --gpt-descriptors DIR`",
}
Facts = Mapping[str, Mapping[str, Any]]
"""Pool -> count and digest of its texts."""


def authors() -> dict[str, dict[str, Any]]:
    """Theirs."""
    settings = yaml.safe_load((project.file("data/paper") / "settings.yaml").read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = settings["pools"]
    return found


def facts(texts: Iterable[str]) -> dict[str, Any]:
    """Count and digest of a pool."""
    texts = list(texts)
    return {"count": len(texts), "digest": pools.digest(texts)}


def known(params: Params) -> dict[str, dict[str, Any]]:
    """Those of params.yaml before a run: a pool whose files are not there yet is left out; wordfreq's has no digest."""
    words, paths = params.candidates.words, params.candidates.descriptors.paths
    found: dict[str, dict[str, Any]] = {}
    if words.path is None:
        found["words"] = {"count": words.count}
    elif Path(words.path).exists():
        found["words"] = facts(pools.words_from_file(words.path, count=words.count))
    if all(Path(path).exists() for path in paths):
        found["descriptors"] = facts(pools.descriptors(paths))
    return found


def said(ours: Facts, *, expected: Facts | None = None) -> Iterator[tuple[bool, str]]:
    """Whether each pool is the authors' (or as `expected`), and the sentence that says so, with where theirs is."""
    for pool, theirs in (expected or authors()).items():
        if pool in ours:
            same, count = ours[pool].get("digest") == theirs["digest"], f"{theirs['count']:,}"
            if same:
                yield True, f"candidates.{pool}: the authors' {count}"
            else:
                here = f"{ours[pool]['count']:,} texts, not the authors' {count}"
                yield False, f"candidates.{pool}: {here}; rows that depend on them are marked. Theirs: {FETCH[pool]}"


def of_params(params: Params) -> list[tuple[bool, str]]:
    """The same of params.yaml, where it has one of the paper's datasets; a pool of none needs no word."""
    if not any(name in PAPER and dataset.layout.startswith("coop") for name, dataset in params.datasets.items()):
        return []
    return list(said({pool: about for pool, about in known(params).items() if about["count"]}))
