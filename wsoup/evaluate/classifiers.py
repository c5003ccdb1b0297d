"""From rows of the tables to classifiers: which texts are evaluated, with which seeds and at which sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wsoup.base.errors import PoolError
from wsoup.core import prompts
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import (
    BASELINES,
    CUPL,
    GIVEN,
    TEMPLATES,
    Material,
    Method,
    Row,
    methods,
    row_name,
    template_methods,
)
from wsoup.evaluate.testsets import TestSet
from wsoup.search.pools.lists import read_pool
from wsoup.search.pools.params import ALWAYS
from wsoup.texts.tokens import Tokenizer, check_fits, check_prompts
from wsoup.towers.run import Run

MEMBERS_SHOWN = 8
"""Members of each soup of the first seed that are also evaluated alone, along with as many random texts."""


def pretrained_rows(material: Material, *, params: EvaluateParams) -> list[Row]:
    """All rows with shared texts for the pretrained encoder: tables, curves over m, and single texts."""
    every = methods(list(material.soups))
    rows = []
    for method in every:
        if not method.by_seed:
            rows += _sizes(method, material, params=params, seeds=material.seeds)
    for seed in material.seeds:
        for method in every:
            if method.by_seed:
                rows += _sizes(method, material, params=params, seeds=(seed,))
    rows += _single_rows(material)
    for given in params.texts:
        text = prompts.bare(given)
        rows.append(Row(GIVEN, material.seeds[:1], (text,), text=text))
    return rows


def _sizes(method: Method, material: Material, *, params: EvaluateParams, seeds: tuple[int, ...]) -> list[Row]:
    """Rows of one method: whole, at the sizes of the curves, and with the offset trick if it has that."""
    in_tables = params.baseline_m
    # One draw, at the largest size: every smaller row is its beginning, so that a curve over m adds texts only.
    whole = _whole(method, material, seeds=seeds, m=max(in_tables, *params.m), least=in_tables)
    if not whole.texts:
        return []
    shown = whole
    sizes: set[int] = set()
    if method.sized:
        sizes.update(params.m)
    if method.drawn:
        # More are drawn for the curves than the tables show.
        shown = replace(whole, texts=whole.texts[:in_tables])
        sizes.add(in_tables)
    smaller = sorted(m for m in sizes if m < len(whole.texts))
    rows = [replace(whole, texts=whole.texts[:m]) for m in smaller]
    rows.append(whole)
    # Null tokens go between a class name and the text after it, which a template does not have.
    if method.offsets != "never" and not any(map(prompts.is_template, whole.texts)):
        rows += _with_offsets(shown, params=params)
    return rows


def tuned_rows(material: Material, *, params: EvaluateParams, seed: int, trained: Mapping[str, Any]) -> list[Row]:
    """Rows for a model finetuned with one seed: the soups and draws of that seed, at full size.

    Args:
        material: inputs for the texts.
        params: sizes of draws, and offsets.
        seed: seed of the model.
        trained: params of the method; if it was trained on its soup's first members only, there is a row of those.
    """
    rows = []
    if trained["members"]:
        texts = material.soups[trained["soup"]][seed][: trained["members"]]
        rows.append(Row(row_name(trained["soup"]), (seed,), tuple(texts)))
    drawn = params.tuned_baseline_m
    for method in methods(list(material.soups)):
        whole = _whole(method, material, seeds=(seed,), m=drawn, least=drawn)
        if not whole.texts or not method.tuned:
            continue
        if whole not in rows:  # a soup whose first members are all of its members
            rows.append(whole)
        if method.offsets == "always":
            rows += _with_offsets(whole, params=params)
    return rows


def _whole(method: Method, material: Material, *, seeds: tuple[int, ...], m: int, least: int = 0) -> Row:
    """A method's texts for the first of the seeds; none if its pool is empty or its prompts differ by class.

    Raises:
        PoolError: m texts are drawn, and the pool has fewer than `least`.
    """
    texts: tuple[str, ...] = ()
    if method.texts is not None:
        texts = tuple(method.texts(material, seeds[0], m))
    if method.drawn and 0 < len(texts) < least:
        raise PoolError(
            f"{method.name}: cannot draw {least} texts from a pool of {len(texts)}; lower evaluate.baseline_m and "
            "evaluate.tuned_baseline_m, or add texts"
        )
    return Row(method.name, seeds, texts)


def _with_offsets(row: Row, *, params: EvaluateParams) -> list[Row]:
    """The row with the offset trick, if there is an offset other than 0."""
    offsets = tuple(params.offsets)
    if offsets == (0,):
        return []
    return [replace(row, offsets=offsets, offset_formula=params.offset_formula)]


def _single_rows(material: Material) -> list[Row]:
    """The first members of the first seed's soups, and random texts, each evaluated alone, equal ones once."""
    first_seed = material.seeds[:1]
    rows = []
    for method in methods(list(material.soups)):
        if method.alone:
            whole = _whole(method, material, seeds=first_seed, m=MEMBERS_SHOWN)
            for text in dict.fromkeys(whole.texts[:MEMBERS_SHOWN]):
                rows.append(Row(method.name, first_seed, (text,), text=text))
    return rows


def class_rows(material: Material, tests: Sequence[TestSet]) -> list[Row]:
    """Rows with prompts by class for each dataset, omitting methods without prompts there."""
    rows = []
    for test in tests:
        own = bool(material.own_templates)
        for method in (*BASELINES, *template_methods(material.template_lists, own=own)):
            if method.prompts is None:
                continue
            of_classes = method.prompts(material, test)
            if any(of_classes):
                rows.append(Row(method.name, material.seeds, prompts=of_classes, dataset=test.name))
    return rows


def check_rows(rows: Sequence[Row], *, tests: Sequence[TestSet], tokenizer: Tokenizer) -> None:
    """Raise PoolError for a text or prompt that exceeds the model's context, naming dataset and class."""
    by_offset: dict[int, set[str]] = {}
    for row in rows:
        for offset in row.offsets:
            by_offset.setdefault(offset, set()).update(row.texts)
    # Dataset by dataset, because its class names decide how much room a text has.
    for test in tests:
        origin = f"dataset {test.name}"
        step = f"shorten the name (datasets.{test.name}.class_names), or remove such long texts from the pool"
        for offset, texts in sorted(by_offset.items()):
            if texts:
                in_order = sorted(texts)
                check_fits(
                    in_order,
                    template=test.template,
                    class_names=test.class_names,
                    tokenizer=tokenizer,
                    origin=origin,
                    step=step,
                    token_offset=offset,
                )
        for row in rows:
            if row.dataset == test.name:
                given = f"datasets.{test.name}.{'sentences' if row.method == CUPL.name else 'gpt_descriptors'}"
                if row.method.endswith(TEMPLATES):
                    given = "evaluate.templates"
                of_class_step = f"shorten the name (datasets.{test.name}.class_names), or the text in {given}"
                for name, of_class in zip(test.class_names, row.prompts, strict=True):
                    about = f"{origin}, class {name!r}, row {row.method}"
                    check_prompts(of_class, tokenizer=tokenizer, origin=about, step=of_class_step)


def load_material(run: Run, tests: Sequence[TestSet]) -> Material:
    """Read the pools, and the soups of all seeds as listed by stage evaluated.

    Raises:
        MissingError, MismatchError: a soup is missing, or was selected with another encoder.
    """
    artifacts = run.artifacts
    encoder_id = run.encoder.id
    listed = store.read_checked_object(artifacts.evaluated)
    pools = {soup["name"]: soup["pool"] for soup in listed["soups"]}
    own_pools = sorted(set(pools.values()) - set(ALWAYS))
    soups: dict[str, dict[int, list[str]]] = {}
    for name in pools:
        soups[name] = {}
        for seed in run.seeds:
            soup = Soup.load(artifacts.soup(name, seed=seed), encoder=encoder_id)
            soups[name][seed] = soup.texts
    upper_bound: list[str] = []
    if artifacts.upper_bound.exists():
        bound = Soup.load(artifacts.upper_bound, encoder=encoder_id)
        # Stage survey writes the class name alone where there is no target to select on.
        upper_bound = [text for text in bound.texts if text]
    source_class_names = next(test.class_names for test in tests if test.name == run.source)
    return Material(
        seeds=run.seeds,
        words=read_pool(artifacts.pool("words")),
        descriptors=read_pool(artifacts.pool("descriptors")),
        own_pools={name: read_pool(artifacts.pool(name)) for name in own_pools},
        waffle=listed["waffle"],
        source_class_names=source_class_names,
        soups=soups,
        pools=pools,
        upper_bound=upper_bound,
    )
