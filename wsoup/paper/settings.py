"""Which settings of a run differ from the paper's (data/paper/settings.yaml and methods.yaml), by key of params.yaml.

A row is shown beside the paper's figure without a mark only if every key that it depends on has the paper's value.
Images and classes of a dataset are counted elsewhere (`wsoup.datasets.paper`), and the encoder is compared by its id
(`wsoup.paper.tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import chain
from typing import Any

import yaml

from wsoup.datasets.paper import PAPER, comparable
from wsoup.disk.files import PRETRAINED
from wsoup.finetune.params import MethodParams
from wsoup.paper.tables import QUICK_GELU, encoder_differs, path_of

SHARED_KEYS = ("iterations", "batch_size", "batches", "momentum", "weight_decay", "logit_scale", "ema", "augment")
"""Keys of section finetune that all methods share."""
AS_FINE = {"encoder.precision": ("reference", "fp16")}
"""Values as good as the paper's: the authors' own texts and images are in half precision."""
BY_CLASS = {"ensemble": ("baseline_template",), "gpt": ("baseline_template", "gpt_names", "gpt_wording")}
"""Beginning of the key of a row whose texts differ by class -> keys of a dataset that they depend on."""
DRAWN_FROM = {
    "random_descriptors": ("descriptors",),
    "upper_bound": ("descriptors",),
    "waffle": ("words", "descriptors"),
}
"""Beginning of a row's key, which is not a soup's -> pools that its texts come from."""
DRAWN = ("random_descriptors", "waffle")
"""Beginnings of rows whose number of texts params.yaml sets."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run or of the paper.

    Attributes:
        values: by dotted key of params.yaml.
        pools: ``words``, ``descriptors`` -> count and digest of the texts; unknown pools are left out.
        differs: of the paper: known differences of rows whatever the settings, by name; see `differs_always`.
        depends: of the paper: keys that decide a row, by pattern of its key.
    """

    values: Mapping[str, object]
    pools: Mapping[str, Mapping[str, object]]
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    depends: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, sections: Mapping[str, object], *, pools: Mapping[str, Mapping[str, object]]) -> Settings:
        """From sections of params.yaml as JSON values, and what the results say about pools."""
        return cls(flat(sections), pools)

    @classmethod
    def of_paper(cls) -> Settings:
        """The paper's settings, from data/paper."""
        sections = yaml.safe_load(path_of("settings.yaml").read_text(encoding="utf-8"))
        pools, differs, depends = (sections.pop(key) for key in ("pools", "differs", "depends"))
        methods = yaml.safe_load(path_of("methods.yaml").read_text(encoding="utf-8"))
        for method in methods.values():
            method.pop("group")
        sections["finetune"]["methods"] = {
            name: MethodParams.model_validate(method).model_dump(mode="json", by_alias=True)
            for name, method in methods.items()
        }
        return cls(flat(sections), pools, differs, depends)

    def below(self, *prefixes: str) -> list[str]:
        """Every key that is one of `prefixes` or below one."""
        roots = tuple(f"{prefix}." for prefix in prefixes)
        return [key for key in self.values if key in prefixes or key.startswith(roots)]


def marks(run: Settings, *, paper: Settings, encoder: Mapping[str, object], variant: str, row: str) -> list[str]:
    """Why a row of a run is not comparable with the paper's on any dataset: another encoder, settings that differ.

    Args:
        run: settings of the run.
        paper: `Settings.of_paper`.
        encoder: id of the encoder.
        variant: ``pretrained``, or a finetuned method.
        row: which.
    """
    encoder_reason = encoder_differs(encoder, tuned=variant != PRETRAINED)
    known = differs_always(run, paper=paper, model=str(encoder["model"]), variant=variant, row=row)
    settings = differing(run, paper=paper, variant=variant, row=row)
    return [*([encoder_reason] if encoder_reason else []), *known, *settings]


def differs_always(
    run: Settings, *, paper: Settings, model: str, variant: str, row: str, column: str = "accuracy"
) -> Iterable[str]:
    """Known differences between a row's computation and the authors', whatever params.yaml says.

    The exceptions are rows of the authors' lists, if the run has them (``unless`` names the list).
    """
    names = {"encoders": model.removesuffix(QUICK_GELU), "variants": variant, "rows": row}
    for known in paper.differs.values():
        matches = all(any(fnmatch(name, p) for p in known.get(key, ["*"])) for key, name in names.items())
        if matches and known.get("column", "accuracy") == column and not _has_list(known, run, variant=variant):
            yield str(known["why"])


def differing(run: Settings, *, paper: Settings, variant: str, row: str) -> list[str]:
    """Settings that make a row differ from the paper's, one phrase per key; empty if there are none."""
    method = f"finetune.methods.{variant}"
    if variant != PRETRAINED and not paper.below(method):
        return [f"{method}: the paper has no such method"]
    soups = _soups(run, variant=variant, row=row)
    prefixes = _deciding(row, variant=variant, soups=soups, paper=paper)
    phrases = []
    for key in dict.fromkeys(key for settings in (paper, run) for key in settings.below(*prefixes)):
        ours, theirs = run.values.get(key), paper.values.get(key)
        only_observes = key.endswith(".tune.words") or ".snapshots" in key  # or is in `differs`
        if ours != theirs and ours not in AS_FINE.get(key, ()) and not only_observes:
            phrases.append(f"{key}: {_shown(ours)}, the paper's {_shown(theirs)}")
    if variant != PRETRAINED or soups:
        phrases += images_differ(run)
    phrases += _baselines_differ(run, keys=BY_CLASS.get(row.partition("_")[0], ()))
    drawn_from = [pools for start, pools in DRAWN_FROM.items() if row.startswith(start)]
    if row.startswith("waffle") and _has_list(paper.differs["waffle"], run, variant=variant):
        drawn_from = []
    pools = dict.fromkeys([*map(_pool_of, soups), *chain.from_iterable(drawn_from)])
    return phrases + [phrase for pool in pools for phrase in _pool_differs(pool, run, paper)]


def images_differ(run: Settings) -> Iterable[str]:
    """Why the few-shot images are not the paper's; the authors' draws of ImageNet are CoOp's pickles."""
    roles = [key for key, value in run.values.items() if value == "source" and fnmatch(key, "datasets.*.role")]
    for source in (key.split(".")[1] for key in roles):
        if source in ("imagenet", "laion"):
            yield from dataset_differs(run, source, test_split="test")  # no soup is selected on the test split
        if source == "laion":
            yield "datasets.laion: the authors' images of LAION are not published"
        elif source != "imagenet":
            yield f"source: {source}, the paper's imagenet"
        elif run.values.get(f"datasets.{source}.fewshot_pickles") is None:
            yield f"datasets.{source}.fewshot_pickles: none, the paper's are the authors'"


def dataset_differs(run: Settings, name: str, *, test_split: str | None = None) -> Iterable[str]:
    """Why one of the paper's datasets differs from the paper's, as far as params.yaml tells.

    Args:
        run: settings of the run.
        name: of the dataset in params.yaml.
        test_split: replaces the run's own.
    """
    given = {key: run.values.get(f"datasets.{name}.{key}") for key in ("layout", "template", "class_names")}
    if given["class_names"] is not None:
        yield f"datasets.{name}.class_names: {given['class_names']}, the paper's are CoOp's"
    same, why = comparable(
        str(given["layout"]),
        dataset=name,
        template=str(given["template"]),
        test_split=test_split or str(run.values.get(f"datasets.{name}.test_split")),
    )
    if not same:
        yield f"{name}: {why}"


def _baselines_differ(run: Settings, *, keys: Iterable[str]) -> Iterable[str]:
    """Where the wording of prompts by class differs from the authors', on the paper's datasets that the run has."""
    for name in (name for name in PAPER if f"datasets.{name}.role" in run.values):
        for where, theirs in ((f"datasets.{name}.{key}", getattr(PAPER[name], key)) for key in keys):
            expected = flat(theirs, prefix=where)
            for key in dict.fromkeys([*expected, *run.below(where)]):
                value, paper = (values.get(key) or None for values in (run.values, expected))  # {} is none
                if value != paper:
                    yield f"{key}: {_shown(value)}, the paper's {_shown(paper)}"


def _soups(run: Settings, *, variant: str, row: str) -> list[str]:
    """Soups of params.yaml that the row is evaluated with or its model was trained over."""
    own, is_soup, _ = row.partition("_soup")
    trained = run.values.get(f"finetune.methods.{variant}.soup")
    names = dict.fromkeys((own if is_soup else None, trained))
    return [str(name) for name in names if name not in (None, "class_name")]


def _deciding(row: str, *, variant: str, soups: Sequence[str], paper: Settings) -> list[str]:
    """Keys and sections that a row depends on."""
    tuned = variant != PRETRAINED
    keys = [key for pattern, keys in paper.depends.items() if fnmatch(row, pattern) for key in keys]
    if row.startswith(DRAWN):
        keys.append("evaluate.tuned_baseline_m" if tuned else "evaluate.baseline_m")
    if tuned:
        keys += ["seeds", "fewshot.shots", f"finetune.methods.{variant}", *(f"finetune.{key}" for key in SHARED_KEYS)]
    for soup in soups:
        keys += [f"soups.{soup}", f"candidates.{_pool_of(soup)}.period"]
    return keys


def _has_list(known: Mapping[str, Any], run: Settings, *, variant: str) -> bool:
    """Whether the run draws a row, or a method its start, from the authors' list that would take a mark away."""
    start = run.values.get(f"finetune.methods.{variant}.tune.words")
    if "words" in known.get("unless", {}) and (start is None or start != run.values.get("candidates.words.path")):
        return False
    return any(run.pools.get(pool, {}).get("digest") == digest for pool, digest in known.get("unless", {}).items())


def _pool_of(soup: str) -> str:
    """The pool of one of the paper's soups."""
    return "descriptors" if soup == "descriptor" else "words"


def _pool_differs(pool: str, run: Settings, paper: Settings) -> Iterable[str]:
    """Why a pool is not the authors' list."""
    ours, theirs = run.pools.get(pool, {}), paper.pools[pool]
    if ours.get("digest") != theirs["digest"]:
        count = ours.get("count")
        texts = f"{count:,} texts" if count is not None else "an unknown list"
        yield f"candidates.{pool}: {texts}, not the authors' list of {theirs['count']:,}"


def flat(value: object, *, prefix: str = "") -> dict[str, object]:
    """Nested mappings as dotted keys.

    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    if isinstance(value, Mapping) and value:
        pairs = ((f"{prefix}.{name}" if prefix else str(name), part) for name, part in value.items())
        return {key: leaf for name, part in pairs for key, leaf in flat(part, prefix=name).items()}
    return {prefix: value}


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
