"""What of a run's settings is not the paper's: data/paper/settings.yaml and methods.yaml, key by key of params.yaml.

A row of ours stands beside the paper's figure without a mark only if every key that the row depends on is the paper's.
Of a dataset (`dataset_differs`) images and classes are counted elsewhere (`wsoup.datasets.paper`), and the encoder is
judged by its id (`wsoup.report.paper`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.datasets.paper import PAPER, comparable
from wsoup.evaluate.rows import TableRow
from wsoup.finetune.params import MethodParams
from wsoup.report.paper import FOLDER, QUICK_GELU, encoder_differs

TRAINING = "finetune"
SNAPSHOTS = "snapshots"
SHARED = ("iterations", "batch_size", "batches", "momentum", "weight_decay", "logit_scale", "ema", "augment")
"""Keys of section finetune that all methods share."""
AS_FINE = {"encoder.precision": ("reference", "fp16")}
"""Values that move a figure no more than the paper's: the authors' own texts and images are in half precision."""
AUTHORS = "the authors' list"
HOW = {"words": " (--words)"}
"""The option of `wsoup profile paper` that takes it."""
IMAGES = ("interpolation", "image_mean", "image_std", "decoding", "precision")
"""Keys of section encoder that change features."""
BY_CLASS = ("baseline_template", "gpt_names", "gpt_wording")
"""Keys of a dataset that its GPT texts depend on; on the first one its prompt ensemble, too."""
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
        differs: of the paper's: rows that are another computation whatever the settings are (`always`), by name.
    """

    values: Mapping[str, Any]
    pools: Mapping[str, Mapping[str, Any]]
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, sections: Mapping[str, Any], *, pools: Mapping[str, Mapping[str, Any]]) -> Settings:
        """Of a run: sections of params.yaml as JSON values, and what its results say of its pools."""
        return cls(flat(sections), pools)

    @classmethod
    def of_paper(cls, folder: Path = FOLDER) -> Settings:
        """What the paper fixes."""
        sections = yaml.safe_load((folder / "settings.yaml").read_text(encoding="utf-8"))
        pools, differs = sections.pop("pools"), sections.pop("differs")
        methods = yaml.safe_load((folder / "methods.yaml").read_text(encoding="utf-8"))
        for method in methods.values():
            method.pop("group")
        sections["finetune"]["methods"] = {
            name: MethodParams.model_validate(method).model_dump(mode="json", by_alias=True)
            for name, method in methods.items()
        }
        return cls(flat(sections), pools, differs)

    def below(self, *prefixes: str) -> list[str]:
        """Every key that is one of `prefixes` or lies below one."""
        roots = tuple(f"{prefix}." for prefix in prefixes)
        return [key for key in self.values if key in prefixes or key.startswith(roots)]


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
    whatever = always(paper, model=str(encoder["model"]), variant=variant, row=row)
    return [*([another] if another else []), *whatever, *differing(run, paper=paper, variant=variant, row=row)]


def always(paper: Settings, *, model: str, variant: str, row: TableRow, column: str = "accuracy") -> Iterable[str]:
    """Why a row is another computation than the authors', whatever params.yaml says; nothing where it is not."""
    for kind in (kind for kind in paper.differs.values() if kind.get("column", "accuracy") == column):
        patterns = (kind.get(key, ["*"]) for key in ("encoders", "variants", "rows"))
        names = (model.removesuffix(QUICK_GELU), variant, row.key)
        if all(any(fnmatch(name, p) for p in some) for name, some in zip(names, patterns, strict=True)):
            yield kind["why"]


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
        # Snapshots look at training and change nothing.
        if not (_same(ours, theirs) or f".{SNAPSHOTS}" in key or ours in AS_FINE.get(key, ())):
            phrases.append(f"{key}: {_shown(ours)}, the paper's {_shown(theirs)}")
    if variant != PRETRAINED or row.method.soup:
        phrases += _images_differ(run)
    if row.method.name in ("ensemble", "gpt"):
        phrases += _baselines_differ(run, keys=BY_CLASS if row.method.name == "gpt" else BY_CLASS[:1])
    return phrases + [phrase for pool in _pools(row, soups=soups) for phrase in _pool_differs(pool, run, paper)]


def _images_differ(run: Settings) -> Iterable[str]:
    """Why the few-shot images are not the paper's: the authors' draws of ImageNet are CoOp's pickles."""
    roles = {key.split(".")[1]: role for key, role in run.values.items() if re.fullmatch(r"datasets\.[^.]+\.role", key)}
    for source in (name for name, role in roles.items() if role == "source"):
        if source in ("imagenet", "laion"):
            yield from dataset_differs(run, source, test_split="test")  # which nothing is selected on
        if source == "laion":
            yield "datasets.laion: the authors' images of LAION are not published"
        elif source != "imagenet":
            yield f"source: {source}, the paper's imagenet"
        elif run.values.get(f"datasets.{source}.fewshot_pickles") is None:
            yield f"datasets.{source}.fewshot_pickles: none, the paper's are the authors' (--fewshot-pickles)"


def dataset_differs(run: Settings, name: str, *, test_split: str | None = None) -> Iterable[str]:
    """Why one of the paper's datasets is not as the paper has it, as far as params.yaml says.

    Args:
        run: of this run.
        name: of the dataset in params.yaml.
        test_split: in place of the run's own.
    """
    given = {key: run.values.get(f"datasets.{name}.{key}") for key in ("layout", "template", "classes", "class_names")}
    if given["class_names"] is not None:
        yield f"datasets.{name}.class_names: {given['class_names']}, the paper's are CoOp's"
    same, why = comparable(
        str(given["layout"]),
        dataset=name,
        template=str(given["template"]),
        classes=str(given["classes"]),
        test_split=test_split or str(run.values.get(f"datasets.{name}.test_split")),
    )
    if not same:
        yield f"{name}: {why}"


def _baselines_differ(run: Settings, *, keys: Iterable[str]) -> Iterable[str]:
    """What prompts by class are worded with on the paper's datasets that the run has, where it is not the authors'."""
    for name in (name for name in PAPER if f"datasets.{name}.role" in run.values):
        for where, theirs in ((f"datasets.{name}.{key}", getattr(PAPER[name], key)) for key in keys):
            wanted = flat(theirs, prefix=where)
            for key in dict.fromkeys([*wanted, *run.below(where)]):
                pair = [values.get(key) or None for values in (run.values, wanted)]  # no names are none
                if pair[0] != pair[1]:
                    yield f"{key}: {_shown(pair[0])}, the paper's {_shown(pair[1])}"


def _soups(run: Settings, *, variant: str, row: TableRow) -> list[str]:
    """The soups of params.yaml that the row is evaluated with, or its model was trained over."""
    trained = run.values.get(f"finetune.methods.{variant}.soup")
    return [name for name in dict.fromkeys((row.method.soup, trained)) if name not in (None, "class_name")]


def _prefixes(row: TableRow, *, variant: str, soups: Sequence[str]) -> list[str]:
    """Keys that a row depends on, or that lie above such."""
    tuned, bound = variant != PRETRAINED, row.method.name == "upper_bound"
    depends = {
        **dict.fromkeys((f"encoder.{key}" for key in IMAGES), True),
        "seeds": tuned or row.method.by_seed,
        "fewshot.shots": tuned or row.method.soup is not None,
        "evaluate.baseline_m": row.method.drawn and not tuned,
        "evaluate.tuned_baseline_m": row.method.drawn and tuned,
        "evaluate.offsets": row.offsets,
        "evaluate.offset_formula": row.offsets,
        "evaluate.survey.descriptors": bound,
        "evaluate.survey.m": bound,
        f"{TRAINING}.methods.{variant}": tuned,
        **dict.fromkeys((f"{TRAINING}.{key}" for key in SHARED), tuned),
        **dict.fromkeys((f"soups.{name}" for name in soups), True),
        **dict.fromkeys((f"candidates.{_pool_of(name)}.period" for name in soups), True),
        **dict.fromkeys((f"score.racing.{_pool_of(name)}" for name in soups), True),
    }
    return [key for key, it_does in depends.items() if it_does]


def _pool_of(soup: str) -> str:
    """The pool of one of the paper's soups."""
    return "descriptors" if soup == "descriptor" else "words"


def _pools(row: TableRow, *, soups: Iterable[str]) -> list[str]:
    """The pools that a row's texts come from."""
    return list(dict.fromkeys([*map(_pool_of, soups), *DRAWN_FROM.get(row.method.name, ())]))


def _pool_differs(pool: str, run: Settings, paper: Settings) -> Iterable[str]:
    """Why a pool is not the authors'."""
    ours, theirs = run.pools.get(pool, {}), paper.pools[pool]
    if ours.get("digest") != theirs["digest"]:
        count = ours.get("count")
        said = f"{count:,} texts" if count is not None else "an unknown list"
        yield f"candidates.{pool}: {said}, not {AUTHORS} of {theirs['count']:,}{HOW.get(pool, '')}"


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
