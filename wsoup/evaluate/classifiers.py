"""From the table of rows to classifiers: which texts are counted, with which seeds, at which sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from wsoup.core import prompts
from wsoup.core.disk.artifacts import Artifacts
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import GIVEN, ClassMaterial, Material, Method, TableRow, methods, table
from wsoup.evaluate.testsets import TestSet
from wsoup.search.rank.pools import read_pool
from wsoup.soup.soup import Soup
from wsoup.texts.tokens import Tokenizer

MEMBERS_SHOWN = 8
"""Members of each soup of the first seed that are also evaluated alone, beside as many random texts."""


@dataclass(frozen=True)
class Row:
    """One classifier: texts that all classes share, or for one dataset prompts of each class.

    Attributes:
        method: its name in results, for example ``word_soup``.
        seeds: the seeds it stands for; more than one where nothing was drawn.
        texts: the members, bare; none where there are `prompts`.
        offsets: null tokens between class name and text; each gives a copy of every member.
        offset_formula: where they stand (``evaluate.offset_formula``).
        text: what it is about, where it stands for one text alone.
        class_name_weight: the class name without a text joins the mean as if it were so many members.
        prompts: C lists, of any lengths; none where texts are shared.
    """

    method: str
    seeds: tuple[int, ...]
    texts: tuple[str, ...] = ()
    offsets: tuple[int, ...] = (0,)
    text: str | None = None
    offset_formula: Literal["wording", "code"] = "wording"
    class_name_weight: float = 0.0
    prompts: Sequence[Sequence[str]] = ()

    @property
    def m(self) -> int | None:
        """Members, not counting their copies at other token offsets; None where classes have different numbers."""
        sizes = {len(texts) for texts in self.prompts or [self.texts]}
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def texts_per_class(self) -> float:
        """The paper's column m, the mean over classes."""
        return float(np.mean([len(texts) for texts in self.prompts or [self.texts]])) * len(self.offsets)

    def cut(self, m: Sequence[int]) -> list[Row]:
        """The first 1, 2, 4, ... members and all: a row for each size that it holds."""
        whole = len(self.texts)
        wanted = sorted({*(size for size in m if size <= whole), whole})
        return [replace(self, texts=self.texts[:size]) for size in wanted]


def pretrained_rows(material: Material, *, params: EvaluateParams) -> list[Row]:
    """Every row with shared texts for the pretrained encoder: the tables, the curves over m, and single members."""
    rows = table(list(material.soups))
    made = [
        row
        for by_seed, seeds in [(False, material.seeds), *((True, (seed,)) for seed in material.seeds)]
        for method in methods(rows)
        if method.by_seed is by_seed
        for row in _sizes(method, material, rows, params=params, seeds=seeds)
    ]
    given = [Row(GIVEN, material.seeds[:1], (text,), text=text) for text in map(prompts.bare, params.texts)]
    return made + single_rows(material) + given


def _sizes(
    method: Method, material: Material, rows: Sequence[TableRow], *, params: EvaluateParams, seeds: tuple[int, ...]
) -> list[Row]:
    """One method's texts: whole, at the sizes of the curves, and with the offset trick where the table has that."""
    shown, most = params.baseline_m, max(params.baseline_m, *params.m)
    if method.limit is not None:
        most = min(most, max(shown, method.limit(material)))
    whole = _texts(method, material, seeds=seeds, m=most)
    if not whole.texts:
        return []
    in_tables = replace(whole, texts=whole.texts[:shown]) if method.drawn else whole
    sizes = [*(params.m if method.sized else ()), *([shown] if method.drawn else ())]
    return whole.cut(sizes) + _with_offsets(in_tables, rows, params=params)


def tuned_rows(
    material: Material, *, params: EvaluateParams, seed: int, trained: tuple[str, int] | None = None
) -> list[Row]:
    """Rows for the model that was finetuned with one seed: that seed's soups and draws, at their full size.

    Args:
        material: what texts are made from.
        params: sizes.
        seed: which.
        trained: (soup, members) where the model was trained over a soup's first members only: that many are a row, too.
    """
    rows = [row for row in table(list(material.soups)) if row.tuned]
    made = []
    if trained is not None:
        name, members = trained
        texts, weight = tuple(material.soups[name][seed][:members]), material.class_name_weights.get(name, 0.0)
        made.append(Row(f"{name}_soup", (seed,), texts, class_name_weight=weight))
    for method in methods(rows):
        whole = _texts(method, material, seeds=(seed,), m=params.tuned_baseline_m)
        if whole.texts:
            made += [row for row in (whole, *_with_offsets(whole, rows, params=params)) if row not in made]
    return made


def _texts(method: Method, material: Material, *, seeds: tuple[int, ...], m: int) -> Row:
    """A method's texts for the first of some seeds; none from an empty pool, or where it has prompts by class."""
    none = method.texts is None or (method.limit is not None and not method.limit(material))
    texts = () if none or method.texts is None else tuple(method.texts(material, seeds[0], m))
    weight = material.class_name_weights.get(method.soup or "", 0.0)
    return Row(method.name, seeds, texts, class_name_weight=weight)


def _with_offsets(row: Row, rows: Sequence[TableRow], *, params: EvaluateParams) -> list[Row]:
    """The offset trick's row beside a plain one; none where the only offset is 0, or the table has no such row."""
    wanted = any(other.offsets and other.method.name == row.method for other in rows)
    copies = replace(row, offsets=tuple(params.offsets), offset_formula=params.offset_formula)
    return [copies] if wanted and copies.offsets != (0,) else []


def single_rows(material: Material) -> list[Row]:
    """The first members of the first seed's soups, each alone, and random texts beside them."""
    made = []
    for method in methods(table(list(material.soups))):
        if method.alone is not None:
            count = MEMBERS_SHOWN if method.limit is None else min(MEMBERS_SHOWN, method.limit(material))
            texts = _texts(method, material, seeds=material.seeds[:1], m=count).texts[:count]
            made += [Row(method.name, material.seeds[:1], (text,), text=text) for text in texts]
    return made


def class_rows(
    tests: Sequence[TestSet],
    *,
    rows: Sequence[TableRow],
    seeds: Sequence[int],
    templates: Sequence[Callable[[str], str]],
    nearest: Mapping[str, Sequence[Sequence[str]]] = MappingProxyType({}),
) -> dict[str, list[Row]]:
    """Rows with prompts by class of each dataset, by its name; whichever there are.

    Args:
        tests: the datasets.
        rows: of which methods.
        seeds: the seeds that the rows stand for.
        templates: the ensemble's templates; none leaves it out.
        nearest: dataset -> prompts of each class with the descriptors nearest to it; alike.
    """
    by_dataset: dict[str, list[Row]] = {}
    for test in tests:
        template = test.baseline_template or test.template
        near = nearest.get(test.name, ())
        classes = ClassMaterial(template, test.class_names, templates, test.gpt, test.gpt_names, near)
        made = [
            Row(method.name, tuple(seeds), prompts=method.prompts(classes))
            for method in methods(rows)
            if method.prompts is not None
        ]
        by_dataset[test.name] = [row for row in made if any(row.prompts)]
    return by_dataset


def check_rows(
    rows: Sequence[Row], *, class_rows: Mapping[str, Sequence[Row]], tests: Sequence[TestSet], tokenizer: Tokenizer
) -> None:
    """Raise PoolError where a text or a prompt of any row does not fit the model's context, by dataset and class."""
    for test in tests:
        for offset in sorted({offset for row in rows for offset in row.offsets}):
            texts = sorted({text for row in rows if offset in row.offsets for text in row.texts})
            test.check_texts(texts, tokenizer=tokenizer, token_offset=offset)
        for row in class_rows.get(test.name, ()):
            test.check_prompts(row.prompts, tokenizer=tokenizer)


def load_material(
    artifacts: Artifacts,
    *,
    source: str,
    seeds: Sequence[int],
    soups: Sequence[str],
    encoder: Mapping[str, Any],
    tests: Sequence[TestSet],
) -> Material:
    """Pools and soups of all seeds; `encoder` is the id that the soups must be of.

    Raises:
        MissingError, MismatchError: a soup is missing, or was selected with another encoder.
    """
    loaded = {
        name: {seed: Soup.load(artifacts.soup(name, seed=seed), encoder=encoder) for seed in seeds} for name in soups
    }
    return Material(
        seeds=tuple(seeds),
        words=read_pool(artifacts.pool("words")),
        descriptors=read_pool(artifacts.pool("descriptors")),
        source_class_names=next(test.class_names for test in tests if test.name == source),
        soups={name: {seed: soup.texts for seed, soup in of_seeds.items()} for name, of_seeds in loaded.items()},
        class_name_weights={name: of_seeds[seeds[0]].class_name_weight for name, of_seeds in loaded.items()},
        upper_bound=(Soup.load(artifacts.upper_bound, encoder=encoder).texts if artifacts.upper_bound.exists() else []),
    )
