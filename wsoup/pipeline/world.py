"""What a plan finds: datasets, pools, rankings and soups, as they lie here, or as the stages would make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from wsoup.check.whole import Params
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.datasets import layouts, manifest
from wsoup.evaluate.baselines import random_chains
from wsoup.evaluate.rows import Material
from wsoup.evaluate.testsets import TestSet
from wsoup.search.grow.params import Growth
from wsoup.search.rank import pools
from wsoup.search.rank.ranking import read_ranked
from wsoup.search.rank.source import Source
from wsoup.soup.soup import Soup
from wsoup.towers.encoder import Encoder, imagenet_class_names

FILES_SAMPLED = 20


@dataclass(frozen=True)
class Dataset:
    """What a plan knows of one dataset.

    Attributes:
        tests: its classes, without images.
        n_test, n_train: images; n_train counts the few-shot images of all seeds, 0 of a target.
        files: some of them.
    """

    tests: TestSet
    n_test: int
    n_train: int
    files: list[str]


def known_gpt() -> dict[str, Any]:
    """GPT descriptors of each dataset that stage evaluated knows, by their names; None where it has none."""
    path = Artifacts().evaluated
    return {known["name"]: known["gpt"] for known in store.read_json(path)["datasets"]} if path.exists() else {}


def dataset(name: str, params: Params, *, listed: bool, gpt: Mapping[str, Any]) -> Dataset:
    """One dataset of params.yaml.

    Args:
        name: which.
        params: checked.
        listed: whether its manifest is up to date.
        gpt: `known_gpt`.

    Raises:
        MissingError, DataError: it cannot be listed.
    """
    section, path = params.datasets[name], Artifacts().manifest(name)
    if listed and path.exists():
        table, attributes = store.read_table(path, columns=["path", "split"]), store.table_attributes(path)
    else:
        listing = layouts.read(name, params=section, imagenet_names=imagenet_class_names)
        table, names = manifest.select(listing, params=section, shots=params.fewshot.shots, seeds=list(params.seeds))
        attributes = {"root": listing.root, "class_names": names}
    n_test = pc.sum(pc.equal(table["split"], "test")).as_py()
    nothing = torch.empty(0, device="meta")
    classes = attributes["class_names"]
    return Dataset(
        tests=TestSet(
            name,
            section.role,
            section.template,
            classes,
            image_features=nothing,
            labels=nothing,
            rows=np.empty(0),
            attributes={},
            baseline_template=section.baseline_template,
            gpt_names=section.gpt_names or {},
            gpt=gpt.get(name),
        ),
        n_test=n_test,
        n_train=table.num_rows - n_test,
        files=[f"{attributes['root']}/{file}" for file in table["path"].slice(0, FILES_SAMPLED).to_pylist()],
    )


@dataclass(frozen=True)
class World:
    """Everything that a plan of one params.yaml knows.

    Attributes:
        params: checked.
        encoder: without weights.
        datasets: by name, those that can be listed.
        cached: stages whose outs are up to date, so that they can be read.
    """

    params: Params
    encoder: Encoder
    datasets: Mapping[str, Dataset]
    cached: frozenset[str]

    @property
    def tests(self) -> list[TestSet]:
        """The classes of every dataset."""
        return [dataset.tests for dataset in self.datasets.values()]

    @cached_property
    def pools(self) -> dict[str, list[str]]:
        """Words and descriptors as stage candidates writes them; mixed: words first."""
        artifacts, section = Artifacts(), self.params.candidates
        if "candidates" in self.cached and artifacts.pool("words").exists():
            words, descriptors = (pools.read_pool(artifacts.pool(name)) for name in ("words", "descriptors"))
        else:
            words = pools.common_words(section.words.count)
            if section.words.path:
                words = pools.words_from_file(section.words.path, count=section.words.count)
            descriptors = pools.descriptors(section.descriptors.paths)
        return {"words": words, "descriptors": descriptors, "mixed": list(dict.fromkeys(words + descriptors))}

    def source(self) -> Source:
        """The source's class texts without its images, with an encoder of its own that has kept nothing yet."""
        tests = self.datasets[self.params.source].tests
        return weightless_source(self.encoder, template=tests.template, class_names=tests.class_names)

    def ranked(self, pool: str) -> list[str]:
        """Candidates by falling accuracy on the first seed; in pool order where they are not scored yet."""
        path = Artifacts().scores(pool)
        if ("mix" if pool == "mixed" else f"score@{pool}") not in self.cached or not path.exists():
            return self.pools[pool]
        made_by = store.table_attributes(path)["encoder"]
        return read_ranked(path, seed=self.params.seeds[0], encoder=made_by).finalists().texts

    def soups(self, name: str) -> dict[int, list[str]] | None:
        """The members of a soup of params.yaml by seed; None where they are not there, or not up to date."""
        paths = {seed: Artifacts().soup(name, seed=seed) for seed in self.params.seeds}
        if f"soup@{name}" not in self.cached or not all(path.exists() for path in paths.values()):
            return None
        return {seed: Soup.load(path).texts for seed, path in paths.items()}

    @cached_property
    def upper_bound(self) -> Sequence[str]:
        """The members of the soup that was selected on the targets; none where it is not there, or not up to date."""
        path = Artifacts().upper_bound
        return Soup.load(path).texts if "survey" in self.cached and path.exists() else []

    @cached_property
    def material(self) -> Material:
        """What evaluation makes its rows of; texts of their size stand for soups that are not there."""
        soups = {}
        for name, definition in self.params.soups.items():
            pool = self.pools[definition.pool]
            length = min(definition.max_words, len(pool)) if isinstance(definition, Growth) else 1
            soups[name] = self.soups(name) or {
                seed: random_chains(pool, lengths=[length] * definition.m, seed=seed) for seed in self.params.seeds
            }
        return Material(
            seeds=tuple(self.params.seeds),
            words=self.pools["words"],
            descriptors=self.pools["descriptors"],
            source_class_names=self.datasets[self.params.source].tests.class_names,
            soups=soups,
            upper_bound=list(self.upper_bound),
        )


def weightless_source(encoder: Encoder, *, template: str, class_names: list[str]) -> Source:
    """A source's class texts without its images."""
    return Source(
        encoder=encoder,
        image_features=torch.empty(0, 0),
        labels=torch.empty(0, dtype=torch.int64),
        subsets={},
        template=template,
        class_names=class_names,
    )
