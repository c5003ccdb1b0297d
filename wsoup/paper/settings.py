"""Which settings of a run differ from the paper's (data/paper/settings.yaml and methods.yaml), by key of params.yaml.

A row is shown beside the paper's figure without a mark only if every key that it depends on has the paper's value.
Images and classes of a dataset are counted elsewhere (`wsoup.datasets.paper`), and the encoder is compared by its id
(`wsoup.paper.tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache, cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import yaml

from wsoup.datasets.paper import PAPER, comparable
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.made_from import MadeFrom, made_from
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.paper.tables import QUICK_GELU, encoder_differs, path_of
from wsoup.params.graph import Graph, graph_of, own_dvc_yaml
from wsoup.params.section import Sections, parse
from wsoup.search.grow.all_kinds import Soups

DEFINITIONS = ("soups.", "finetune.methods.")
"""Sections of which every key matters, whether the paper states it or not. Of the keys that methods share, those that
data/paper/settings.yaml does not name have their default in the paper."""
AS_FINE = {"encoder.precision": ("reference", "fp16")}
"""Values as good as the paper's: the authors' own texts and images are in half precision."""
OBSERVING = ("finetune.log_every", ".snapshots", ".snapshots.every", ".snapshots.images")
"""Endings of keys that only say how training is looked at."""
BY_CLASS = {"ensemble": ("baseline_template",), "gpt": ("baseline_template", "gpt_names", "gpt_wording")}
"""Beginning of the key of a row whose texts differ by class -> keys of a dataset that they depend on."""


class Mark(NamedTuple):
    """Why a row is not comparable with the paper's.

    Attributes:
        why: a key of params.yaml, or what else differs, and how.
        option: of `wsoup profile paper`, which would take the mark away; "" if none does.
    """

    why: str
    option: str = ""


class PaperSoups(Sections):
    """The soups of data/paper/settings.yaml."""

    soups: Soups

    def as_json(self) -> dict[str, Any]:
        """Their definitions by name, with defaults."""
        soups: dict[str, Any] = self.model_dump(mode="json")["soups"]
        return soups


@dataclass(frozen=True)
class Settings:
    """Settings of a run or of the paper.

    Attributes:
        values: by dotted key of params.yaml.
        pools: ``words``, ``descriptors`` -> count and digest of the texts; unknown pools are left out.
        differs: of the paper: known differences of rows whatever the settings, by name; see `differs_always`.
    """

    values: Mapping[str, object]
    pools: Mapping[str, Mapping[str, object]]
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, sections: Mapping[str, object], *, pools: Mapping[str, Mapping[str, object]]) -> Settings:
        """From sections of params.yaml as JSON values, and what the results say about pools."""
        return cls(flat(sections), pools)

    @classmethod
    def of_paper(cls) -> Settings:
        """The paper's settings, from data/paper."""
        settings = path_of("settings.yaml").read_text(encoding="utf-8")
        return _of_paper(settings, path_of("methods.yaml").read_text(encoding="utf-8"))

    @cached_property
    def sections(self) -> dict[str, Any]:
        """The values as in params.yaml."""
        return nested(self.values)

    @cached_property
    def graph(self) -> Graph:
        """What feeds what, with these settings."""
        return graph_of(own_dvc_yaml(), params=self.sections)

    def below(self, section: str) -> list[str]:
        """Every key that is `section` or below it."""
        return self._below.get(section, [])

    @cached_property
    def _below(self) -> dict[str, list[str]]:
        """Section -> keys; each of the paper's rows asks for dozens."""
        keys_below: dict[str, list[str]] = {}
        for key in self.values:
            sections = accumulate(key.split("."), "{}.{}".format)
            for section in sections:
                keys_below.setdefault(section, []).append(key)
        return keys_below


@cache
def _of_paper(settings: str, methods: str) -> Settings:
    """From the texts of the two files: they are parsed once."""
    sections = yaml.safe_load(settings)
    # With the defaults of their kinds and methods, as a run's params.yaml is compared.
    sections["soups"] = parse(PaperSoups, sections, origin="data/paper/settings.yaml").as_json()
    pools = sections.pop("pools")
    differs = sections.pop("differs")
    by_name = {}
    for name, method in yaml.safe_load(methods).items():
        del method["group"]
        by_name[name] = MethodParams.model_validate(method).model_dump(mode="json", by_alias=True)
    shared = FinetuneParams.model_validate({**sections["finetune"], "methods": {}})
    sections["finetune"] = {**shared.model_dump(mode="json"), "methods": by_name}
    return Settings(flat(sections), pools, differs)


def marks(run: Settings, *, paper: Settings, encoder: Mapping[str, object], variant: str, row: str) -> list[Mark]:
    """Why a row of a run is not comparable with the paper's on any dataset: another encoder, settings that differ.

    Args:
        run: settings of the run.
        paper: `Settings.of_paper`.
        encoder: id of the encoder.
        variant: ``pretrained``, or a finetuned method.
        row: which.
    """
    reasons = []
    encoder_reason = encoder_differs(encoder, tuned=variant != PRETRAINED)
    if encoder_reason is not None:
        reasons.append(Mark(encoder_reason))
    reasons += differs_always(run, paper=paper, model=str(encoder["model"]), variant=variant, row=row)
    reasons += differing(run, paper=paper, variant=variant, row=row)
    return reasons


def differs_always(
    run: Settings, *, paper: Settings, model: str, variant: str, row: str, column: str = "accuracy"
) -> Iterable[Mark]:
    """Known differences between a row's computation and the authors', whatever params.yaml says.

    The exceptions are rows of the authors' lists, if the run has them (``unless`` names the list).
    """
    names = {"encoders": model.removesuffix(QUICK_GELU), "variants": variant, "rows": row}
    for known in paper.differs.values():
        if known.get("column", "accuracy") != column or not _concerns(known, names):
            continue
        if not _has_list(known, run, variant=variant):
            yield Mark(str(known["why"]), str(known.get("option", "")))


def _concerns(known: Mapping[str, Any], names: Mapping[str, str]) -> bool:
    """Whether each name fits one of the patterns that a known difference has for its kind; none fit all."""
    for kind, name in names.items():
        patterns = known.get(kind, ["*"])
        if not any(fnmatch(name, pattern) for pattern in patterns):
            return False
    return True


def differing(run: Settings, *, paper: Settings, variant: str, row: str) -> list[Mark]:
    """Settings that make a row differ from the paper's, one mark per key; empty if there are none."""
    method = f"finetune.methods.{variant}"
    if variant != PRETRAINED and not paper.below(method):
        return [Mark(f"{method}: the paper has no such method")]
    made = made_from(variant, row, params=run.sections)
    found: list[Mark] = []
    for key in _deciding(made, run=run, paper=paper):
        ours = run.values.get(key)
        theirs = paper.values.get(key)
        if ours != theirs and ours not in AS_FINE.get(key, ()):
            found.append(Mark(f"{key}: {_shown(ours)}, the paper's {_shown(theirs)}"))
    if made.selected:
        found += images_differ(run)
    by_class, _, _ = row.partition("_")
    found += _baselines_differ(run, keys=BY_CLASS.get(by_class, ()))
    # The authors' list of Waffle's texts takes nothing from the pools.
    if not (row.startswith("waffle") and _has_list(paper.differs["waffle"], run, variant=variant)):
        for pool in made.pools:
            found += _pool_differs(pool, run, paper)
    return found


def _deciding(made: MadeFrom, *, run: Settings, paper: Settings) -> list[str]:
    """The keys that decide a row and that the paper states, and all keys of its own soup and method."""
    stated: dict[str, None] = {}
    for section in made.deciding(run.graph):
        stated |= dict.fromkeys(paper.below(section))
        if section.startswith(DEFINITIONS):
            stated |= dict.fromkeys(run.below(section))
    # Lists of words are marked by `differs_always`.
    return [key for key in stated if not key.endswith(".tune.words") and not key.endswith(OBSERVING)]


def images_differ(run: Settings) -> Iterable[Mark]:
    """Why the few-shot images are not the paper's; the authors' draws of ImageNet are CoOp's pickles."""
    for key, value in run.values.items():
        if value != "source" or not fnmatch(key, "datasets.*.role"):
            continue
        _, source, _ = key.split(".")
        if source in ("imagenet", "laion"):
            # Whatever the run's own test split is, no soup is selected on it.
            yield from dataset_differs(run, source, test_split="test")
        if source == "laion":
            yield Mark("datasets.laion: the authors' images of LAION are not published")
        elif source != "imagenet":
            yield Mark(f"source: {source}, the paper's imagenet")
        elif run.values.get(f"datasets.{source}.fewshot_pickles") is None:
            why = f"datasets.{source}.fewshot_pickles: none, the paper's are the authors'"
            yield Mark(why, option="--fewshot-pickles FOLDER")


def dataset_differs(run: Settings, name: str, *, test_split: str | None = None) -> Iterable[Mark]:
    """Why one of the paper's datasets differs from the paper's, as far as params.yaml tells.

    Args:
        run: settings of the run.
        name: of the dataset in params.yaml.
        test_split: replaces the run's own.
    """
    section = f"datasets.{name}"
    layout = run.values.get(f"{section}.layout")
    template = run.values.get(f"{section}.template")
    class_names = run.values.get(f"{section}.class_names")
    if class_names is not None:
        yield Mark(f"{section}.class_names: {class_names}, the paper's are CoOp's")
    if test_split is None:
        test_split = str(run.values.get(f"{section}.test_split"))
    # Images and classes are not counted yet: before a run, their numbers are unknown.
    same, why = comparable(str(layout), dataset=name, template=str(template), test_split=test_split)
    if not same:
        yield Mark(f"{name}: {why}")


def _baselines_differ(run: Settings, *, keys: Iterable[str]) -> Iterable[Mark]:
    """Where the wording of prompts by class differs from the authors', on the paper's datasets that the run has."""
    for name, dataset in PAPER.items():
        if f"datasets.{name}.role" not in run.values:
            continue
        for key in keys:
            section = f"datasets.{name}.{key}"
            theirs = flat(getattr(dataset, key), prefix=section)
            for place in dict.fromkeys([*theirs, *run.below(section)]):
                our_value = run.values.get(place) or None  # {} is none
                their_value = theirs.get(place) or None
                if our_value != their_value:
                    yield Mark(f"{place}: {_shown(our_value)}, the paper's {_shown(their_value)}")


def _has_list(known: Mapping[str, Any], run: Settings, *, variant: str) -> bool:
    """Whether the run draws a row, or a method its start, from the authors' list that would take a mark away."""
    lists = known.get("unless", {})
    start = run.values.get(f"finetune.methods.{variant}.tune.words")
    starts_from_pool = start is not None and start == run.values.get("candidates.words.path")
    # Only pools have digests, so a method's own list of words is known by one only if it is the pool's file.
    if "words" in lists and not starts_from_pool:
        return False
    return any(run.pools.get(pool, {}).get("digest") == digest for pool, digest in lists.items())


def _pool_differs(pool: str, run: Settings, paper: Settings) -> Iterable[Mark]:
    """Why a pool is not the authors' list."""
    ours = run.pools.get(pool, {})
    theirs = paper.pools.get(pool)
    if theirs is None:
        yield Mark(f"candidates.{pool}: the paper has no such pool")
        return
    if ours.get("digest") == theirs["digest"]:
        return
    texts = "an unknown list"
    count = ours.get("count")
    if count is not None:
        texts = f"{count:,} texts"
    # Descriptors of the paper are given with --gpt-descriptors, without which there are no rows of them.
    option = "--words FILE" if pool == "words" else ""
    yield Mark(f"candidates.{pool}: {texts}, not the authors' list of {theirs['count']:,}", option)


def flat(value: object, *, prefix: str = "") -> dict[str, object]:
    """Nested mappings as dotted keys.

    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    if not isinstance(value, Mapping) or not value:
        return {prefix: value}
    leaves: dict[str, object] = {}
    for name, part in value.items():
        key = f"{prefix}.{name}" if prefix else str(name)
        leaves |= flat(part, prefix=key)
    return leaves


def nested(values: Mapping[str, object]) -> dict[str, Any]:
    """Dotted keys as nested mappings: the inverse of `flat`.

    >>> nested({"a.b": 1, "c": [2]})
    {'a': {'b': 1}, 'c': [2]}
    """
    sections: dict[str, Any] = {}
    for key, value in values.items():
        *outer, last = key.split(".")
        section = sections
        for name in outer:
            section = section.setdefault(name, {})
        section[last] = value
    return sections


def _shown(value: object) -> str:
    return "none" if value is None else str(value)
