"""Mistakes that `wsoup verify paper` must find: logs made by the right code, then compared after each mistake."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from open_clip.transformer import QuickGELU
from oracle_world import DESCRIPTORS, NAMES, WORDS, images_near

from wsoup.core.class_texts import normalize
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import TestSet
from wsoup.paper import coverage, verify
from wsoup.paper.logs import Known, SearchLine
from wsoup.paper.verify import Compared, usual_causes
from wsoup.search.rank.source import Source
from wsoup.texts.encoder import PromptEncoder

PLAIN = "a photo of a {}."
DATASETS = {
    "imagenet": (PLAIN, None),
    "oxford_pets": ("a photo of a {}, a type of pet.", None),
    "food101": ("a photo of {}, a type of food.", "a photo of a {}, a type of food."),
}
CHAIN = ["sharp", "sharp old", "sharp old river"]
SOUPS = {("word", 1): ["sharp old", "nice river"], ("descriptor", 1): DESCRIPTORS[:4]}
SAID = {name: ["which has legs, wings, etc.", f"which has {name} parts"][: 1 + i % 2] for i, name in enumerate(NAMES)}
UNENDED = {name: [text.removesuffix(".") for text in texts] for name, texts in SAID.items()}
PARAMS: Any = {
    "m": [1], "baseline_m": 1, "tuned_baseline_m": 1, "offsets": [0, 5, 10], "offset_formula": "code",
    "ensemble": True, "weighed": False, "texts": [],
    "survey": {"descriptors": 1, "chains": 1, "chain_length": 1, "m": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run, before or after a mistake."""

    source: Source
    tests: list[TestSet]
    gpt: dict[str, dict[str, list[str]]]
    params: EvaluateParams
    pools: dict[str, list[str]]
    period: dict[str, bool]

    def counted(self, log: list[Known]) -> list[Compared]:
        encoder = PromptEncoder.of(self.source.encoder)
        tests = [replace(test, gpt=self.gpt.get(test.name)) for test in self.tests]
        return list(verify.compare_counts(log, texts=SOUPS, tests=tests, text_encoder=encoder, params=self.params))


@pytest.fixture(scope="module")
def right(tiny_encoder) -> Run:
    def near(template: str, each: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        return images_near(tiny_encoder, NAMES, template=template, each=each, seed=seed)

    parts = [near(PLAIN, 60, seed) for seed in (1, 2)]
    features, labels = (torch.cat(some) for some in zip(*parts, strict=True))
    subsets = {1: torch.arange(600), 2: torch.arange(600, 1200)}
    tests = [
        TestSet(name, "xd", template, list(NAMES), *near(template, 100, i), np.arange(1000), {}, baseline)
        for i, (name, (template, baseline)) in enumerate(DATASETS.items())
    ]
    source = Source(tiny_encoder, features, labels, subsets, PLAIN, list(NAMES))
    return Run(
        source=source,
        tests=tests,
        gpt={test.name: SAID for test in tests},
        params=EvaluateParams.model_validate(PARAMS),
        pools={"words": WORDS, "descriptors": DESCRIPTORS},
        period=dict(verify.PERIOD),
    )


@pytest.fixture(scope="module")
def logs(right) -> tuple[list[SearchLine], list[Known]]:
    """The right code's counts, in the form of the authors' logs."""
    steps = [SearchLine("word", 1, 1, text, 0.0) for text in CHAIN]
    steps += [SearchLine("descriptor", 1, int(i > 0), text, 0.0) for i, text in enumerate(DESCRIPTORS[:3])]
    searched = verify.score(steps, source=right.source)
    blank = [Known(method, 1, test.name, 1000, 0) for method in verify.ROWS for test in right.tests]
    counted = [Known(line.row, line.seed, line.on, line.of, line.ours) for line in right.counted(blank)]
    return [step._replace(theirs=round(100.0 * line.ours / line.of, 3)) for step, line in searched.items()], counted


def disagreements(run: Run, *, logs: tuple[list[SearchLine], list[Known]], right: Run) -> dict[str, list[str]]:
    """Lines of the searches, counts and pools that disagree."""
    expected = {pool: coverage.facts(texts) for pool, texts in right.pools.items()}
    searched = verify.score(logs[0], source=run.source, period=run.period)
    counted = run.counted(logs[1])
    ours = {pool: coverage.facts(texts) for pool, texts in run.pools.items()}
    return {
        "search": [line.on for line in searched.values() if not line.agrees],
        "counts": [f"{line.row} {line.on}" for line in counted if not line.agrees],
        "pools": [says for same, says in coverage.compare(ours, theirs=expected) if not same],
        "causes": usual_causes(counted),
    }


def on_all(run: Run, **changes: Any) -> Run:
    """A run whose source and datasets have another template or other class names."""
    tests = [replace(test, **changes) for test in run.tests]
    return replace(run, source=replace(run.source, **changes), tests=tests)


def named(run: Run, change: Callable[[list[str]], list[str]]) -> Run:
    changed = on_all(run, class_names=change(list(NAMES)))
    return replace(changed, gpt={name: dict(zip(change(list(NAMES)), SAID.values(), strict=True)) for name in run.gpt})


def swapped(names: list[str]) -> list[str]:
    names[3], names[4] = names[4], names[3]
    return names


def other_activation(run: Run) -> Run:
    model = copy.deepcopy(run.source.encoder.model)
    for block in model.transformer.resblocks:  # type: ignore[union-attr]
        block.mlp.gelu = QuickGELU()
    return replace(run, source=replace(run.source, encoder=replace(run.source.encoder, model=model)))


def turned(run: Run) -> Run:
    """Images after another preprocessing: slightly different features."""

    def moved(features: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(features.shape, generator=torch.Generator().manual_seed(7))
        return normalize(features + 0.02 * noise)

    tests = [replace(test, image_features=moved(test.image_features)) for test in run.tests]
    return replace(run, source=replace(run.source, image_features=moved(run.source.image_features)), tests=tests)


MISTAKES: dict[str, tuple[Callable[[Run], Run], str]] = {
    "another activation": (other_activation, "counts"),
    "words with the final period": (lambda run: replace(run, period={"word": True, "descriptor": True}), "search"),
    "descriptors without it": (lambda run: replace(run, period={"word": False, "descriptor": False}), "search"),
    "another template": (lambda run: on_all(run, template="a picture of a {}."), "counts"),
    "no article": (lambda run: on_all(run, template="a photo of {}."), "counts"),
    "underscores in class names": (lambda run: named(run, lambda n: [x.replace(" ", "_") for x in n]), "counts"),
    "one class name reworded": (lambda run: named(run, lambda n: [n[0], "tom cat", *n[2:]]), "counts"),
    "two class names swapped": (lambda run: named(run, swapped), "counts"),
    "another seed's images": (
        lambda run: replace(run, source=replace(run.source, subsets={1: run.source.subsets[2]})), "search",
    ),
    "another preprocessing": (turned, "counts"),
    "the offsets' other formula": (
        lambda run: replace(run, params=run.params.model_copy(update={"offset_formula": "wording"})), "counts",
    ),
    "the GPT texts' plain template": (
        lambda run: replace(run, tests=[replace(test, baseline_template=None) for test in run.tests]), "counts",
    ),
    "GPT texts of other ends": (lambda run: replace(run, gpt=dict.fromkeys(run.gpt, UNENDED)), "counts"),
    "other words": (lambda run: replace(run, pools=run.pools | {"words": WORDS[3:]}), "pools"),
    "half the descriptors": (lambda run: replace(run, pools=run.pools | {"descriptors": DESCRIPTORS[::2]}), "pools"),
}  # fmt: skip


def test_the_right_code_agrees_with_its_own_logs(right, logs):
    wrong = disagreements(right, logs=logs, right=right)
    assert not any(wrong.values())


def test_half_precision_is_no_mistake(right, logs):
    """As the authors compute: weights, texts and images rounded to 16 bits."""

    def half(features: torch.Tensor) -> torch.Tensor:
        return normalize(features.half().float())

    encoder = replace(right.source.encoder, model=copy.deepcopy(right.source.encoder.model).half().float())
    source = replace(right.source, encoder=encoder, image_features=half(right.source.image_features))
    tests = [replace(test, image_features=half(test.image_features)) for test in right.tests]
    run = replace(right, source=source, tests=tests)
    assert not any(disagreements(run, logs=logs, right=right).values())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, right, logs):
    change, where = MISTAKES[mistake]
    wrong = disagreements(change(right), logs=logs, right=right)
    assert wrong[where]
    assert bool(wrong["causes"]) == bool(wrong["counts"])
