"""What of a run's settings is not the paper's: data/paper/settings.yaml and methods.yaml, key by key of params.yaml.

A row of ours stands beside the paper's figure without a mark only if every key that the row depends on is the paper's.
Datasets (split, template, classes) and encoder are judged elsewhere (`wsoup.datasets.paper`, `wsoup.report.paper`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import TableRow
from wsoup.finetune.params import MethodParams
from wsoup.report.paper import FOLDER, encoder_differs

TRAINING = "finetune"
SNAPSHOTS = "snapshots"
SHARED = ("iterations", "batch_size", "momentum", "weight_decay", "logit_scale", "ema", "augment")
"""Keys of section finetune that all methods share."""
AUTHORS = "the authors' list"
DRAWN_FROM = {
    "random_descriptors": ("descriptors",),
    "upper_bound": ("descriptors",),
    "waffle": ("words", "descriptors"),
}
"""Pools that texts of a method come from, but for soups."""


@dataclass(frozen=True)
class Settings:
    """Settings by dotted key, and the pools.

    Attributes:
        values: of every key.
        pools: ``words``, ``descriptors`` -> count and digest of the texts; what is not known is left out.
    """

    values: Mapping[str, Any]
    pools: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of_run(cls, sections: Mapping[str, Any], *, pools: Mapping[str, Mapping[str, Any]]) -> Settings:
        """Of a run: sections of params.yaml as JSON values, and what its results say of its pools."""
        return cls(flat(sections), pools)

    @classmethod
    def of_paper(cls, folder: Path = FOLDER) -> Settings:
        """What the paper fixes."""
        sections = yaml.safe_load((folder / "settings.yaml").read_text(encoding="utf-8"))
        pools = sections.pop("pools")
        methods = yaml.safe_load((folder / "methods.yaml").read_text(encoding="utf-8"))
        for method in methods.values():
            method.pop("group")
        sections["finetune"]["methods"] = {
            name: MethodParams.model_validate(method).model_dump(mode="json", by_alias=True)
            for name, method in methods.items()
        }
        return cls(flat(sections), pools)

    def below(self, *prefixes: str) -> list[str]:
        """Every key that is one of `prefixes` or lies below one."""
        return [key for key in self.values if any(key == p or key.startswith(f"{p}.") for p in prefixes)]


def marks(run: Settings, *, paper: Settings, encoder: Mapping[str, Any], variant: str, row: TableRow) -> list[str]:
    """Why a row of a run is not the paper's on whatever dataset: another encoder, and every setting that differs.

    Args:
        run: of this run.
        paper: `Settings.of_paper`.
        encoder: id of the encoder.
        variant: ``pretrained``, or the finetuned method whose row it is.
        row: which.
    """
    another = encoder_differs(encoder, tuned=variant != PRETRAINED)
    return [*([another] if another else []), *differing(run, paper=paper, variant=variant, row=row)]


def differing(run: Settings, *, paper: Settings, variant: str, row: TableRow) -> list[str]:
    """What in the settings makes a row another than the paper's, one phrase a key; empty where nothing does."""
    method = f"finetune.methods.{variant}"
    if variant != PRETRAINED and not paper.below(method):
        return [f"{method}: the paper has no such method"]
    soups = _soups(run, variant=variant, row=row)
    prefixes = _prefixes(row, variant=variant, soups=soups)
    phrases = []
    for key in dict.fromkeys(key for settings in (paper, run) for key in settings.below(*prefixes)):
        ours, theirs = run.values.get(key), paper.values.get(key)
        same = _same(ours, theirs) or f".{SNAPSHOTS}" in key  # which look at training and change nothing
        if not same and not (key == "candidates.words.count" and _is_theirs("words", run, paper)):
            phrases.append(f"{key}: {_shown(ours)}, the paper's {_shown(theirs)}")
    if variant != PRETRAINED or row.method.soup:
        phrases += _images_differ(run)
    return phrases + [phrase for pool in _pools(row, soups=soups) for phrase in _pool_differs(pool, run, paper)]


def _images_differ(run: Settings) -> Iterable[str]:
    """Why the few-shot images are not the paper's: the authors' draws of ImageNet are CoOp's pickles."""
    roles = {key.split(".")[1]: role for key, role in run.values.items() if re.fullmatch(r"datasets\.[^.]+\.role", key)}
    for source in (name for name, role in roles.items() if role == "source"):
        if source == "laion":
            yield "datasets.laion: the authors' images of LAION are not published"
        elif source != "imagenet":
            yield f"source: {source}, the paper's imagenet"
        elif run.values.get(f"datasets.{source}.fewshot_pickles") is None:
            yield f"datasets.{source}.fewshot_pickles: none, the paper's are the authors' (--fewshot-pickles)"


def _soups(run: Settings, *, variant: str, row: TableRow) -> list[str]:
    """The soups of params.yaml that the row is evaluated with, or its model was trained over."""
    trained = run.values.get(f"finetune.methods.{variant}.soup")
    return [name for name in dict.fromkeys((row.method.soup, trained)) if name not in (None, "class_name")]


def _prefixes(row: TableRow, *, variant: str, soups: Sequence[str]) -> list[str]:
    """Keys that a row depends on, or that lie above such."""
    tuned, bound = variant != PRETRAINED, row.method.name == "upper_bound"
    depends = {
        "encoder.interpolation": True,
        "seeds": tuned or row.method.by_seed,
        "fewshot.shots": tuned or row.method.soup is not None,
        "evaluate.baseline_m": row.method.drawn and not tuned,
        "evaluate.tuned_baseline_m": row.method.drawn and tuned,
        "evaluate.offsets": row.offsets,
        "evaluate.survey.descriptors": bound,
        "evaluate.survey.m": bound,
        "candidates.words.count": "words" in _pools(row, soups=soups),
        f"{TRAINING}.methods.{variant}": tuned,
        **dict.fromkeys((f"{TRAINING}.{key}" for key in SHARED), tuned),
        **dict.fromkeys((f"soups.{name}" for name in soups), True),
        **dict.fromkeys((f"candidates.{_pool_of(name)}.period" for name in soups), True),
    }
    return [key for key, it_does in depends.items() if it_does]


def _pool_of(soup: str) -> str:
    """The pool of one of the paper's soups."""
    return "descriptors" if soup == "descriptor" else "words"


def _pools(row: TableRow, *, soups: Iterable[str]) -> list[str]:
    """The pools that a row's texts come from."""
    return list(dict.fromkeys([*map(_pool_of, soups), *DRAWN_FROM.get(row.method.name, ())]))


def _pool_differs(pool: str, run: Settings, paper: Settings) -> Iterable[str]:
    """Why a pool is not the authors'. wordfreq's 10,000 common words stand for the paper's "10,000 common words"."""
    ours, theirs = run.pools.get(pool, {}), paper.pools[pool]
    if _is_theirs(pool, run, paper) or (pool == "words" and run.values.get("candidates.words.path") is None):
        return
    count = ours.get("count")
    said = f"{count:,} texts" if count is not None else "an unknown list"
    yield f"candidates.{pool}: {said}, not {AUTHORS} of {theirs['count']:,}"


def _is_theirs(pool: str, run: Settings, paper: Settings) -> bool:
    return run.pools.get(pool, {}).get("digest") == paper.pools[pool]["digest"]


def flat(value: Any, *, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted keys.

    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    if isinstance(value, Mapping) and value:
        pairs = ((f"{prefix}.{name}" if prefix else str(name), part) for name, part in value.items())
        return {key: leaf for name, part in pairs for key, leaf in flat(part, prefix=name).items()}
    return {prefix: value}


def _same(ours: Any, theirs: Any) -> bool:
    """Equal as JSON values: a tuple is a list, 60 is 60.0; a key that is left out is null."""
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return list(ours) == list(theirs)
    return bool(ours == theirs)


def _shown(value: Any) -> str:
    return "none" if value is None else str(list(value) if isinstance(value, tuple) else value)
