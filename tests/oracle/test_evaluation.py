"""Zero-shot rows of the authors' evaluation, count by count, on all of their templates."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from evaluate_cases import evaluate_params
from oracle_world import DESCRIPTORS, NAMES, WORDS, images_near

from wsoup.datasets.paper import PAPER
from wsoup.evaluate.classifiers import class_rows, pretrained_rows
from wsoup.evaluate.evaluation import answers_of, evaluate, mean_texts
from wsoup.evaluate.rows import Material
from wsoup.evaluate.testsets import TestSet
from wsoup.search.pools import wording
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.models import ensemble_templates

pytestmark = pytest.mark.slow
SOUPS = {"word": ["sharp", "nice old", "small river"], "descriptor": DESCRIPTORS[:4]}
TEMPLATES = {
    "Caltech101": "a photo of a {}.",
    "OxfordPets": "a photo of a {}, a type of pet.",
    "DTD": "a photo of a {} texture.",
    "Food101": "a photo of {}, a type of food.",
    "EuroSAT": "a photo of {}, from a satellite.",
    "UCF101": "a photo of a person doing {}.",
}
FILES = dict(zip(TEMPLATES, ("caltech", "pets", "dtd", "food101", "eurosat", "ucf"), strict=True))
OURS = dict(zip(TEMPLATES, ("caltech101", "oxford_pets", "dtd", "food101", "eurosat", "ucf101"), strict=True))
OFFSETS = [0, 1, 2, 5, 10]
SAID = {name: [f"{name} parts", "a long tail", "can move", "used outside"][: 2 + i % 3] for i, name in enumerate(NAMES)}
SAID |= {NAMES[0]: ["legs, wings, etc.", "a tail"], NAMES[1]: []}


@pytest.fixture(scope="module")
def images(tiny_encoder):
    return {
        name: images_near(tiny_encoder, NAMES, template=template, each=30, seed=i)
        for i, (name, template) in enumerate(TEMPLATES.items())
    }


@pytest.fixture(scope="module")
def accuracies(theirs, images):
    tensors = {
        f"{name}/{split}/{part}": tensor
        for name, both in images.items()
        for split in ("train1", "test")
        for part, tensor in zip(("features", "labels"), both, strict=True)
    }
    world = {
        "source": "Caltech101", "soups": SOUPS, "offsets": OFFSETS,
        "datasets": {name: {"class_names": NAMES} for name in TEMPLATES},
    }  # fmt: skip
    files = {f"gpt_descriptors/descriptors_{file}.json": SAID for file in FILES.values()}
    made = json.loads((theirs("evaluate", world=world, tensors=tensors, files=files) / "evaluate.json").read_text())
    return {name: dict(zip(made["metrics"], values, strict=True)) for name, values in made["accuracies"].items()}


ROWS = {
    "ZS": ("class_name", "centroid", 1),
    "ensemble": ("ensemble", "centroid", 1),
    "gpt-centroids": ("gpt", "centroid", 1),
    "gpt-score-averaging": ("gpt", "score_mean", 1),
    "word-soup": ("word_soup", "centroid", 1),
    "descriptor-soup": ("descriptor_soup", "centroid", 1),
    "word-soup-token-offset": ("word_soup", "centroid", len(OFFSETS)),
    "descriptor-soup-token-offset": ("descriptor_soup", "centroid", len(OFFSETS)),
    "word-soup-score-average": ("word_soup", "score_mean", 1),
}
"""Row of their table -> our method, mode and number of token offsets."""


@pytest.fixture(scope="module")
def counted(images, tiny_encoder) -> pa.Table:
    """All rows on all templates by wsoup's own evaluation."""
    said = {name: [wording.sentence(text, wording="code") for text in texts or [""]] for name, texts in SAID.items()}
    tests = [
        TestSet(
            name, "xd", template, NAMES, *images[name], np.arange(len(images[name][1])), {}, gpt=said,
            baseline_template=PAPER[OURS[name]].baseline_template,
        )
        for name, template in TEMPLATES.items()
    ]  # fmt: skip
    params = evaluate_params(m=[1], offsets=OFFSETS, offset_formula="code", ensemble=True)
    soups = {name: {1: texts} for name, texts in SOUPS.items()}
    material = Material((1,), WORDS, DESCRIPTORS, NAMES, soups, templates=ensemble_templates())
    rows = [*pretrained_rows(material, params=params), *class_rows(material, tests)]
    classifiers = mean_texts(rows, tests=tests, text_encoder=PromptEncoder.of(tiny_encoder))
    answers = answers_of(classifiers, tests=tests)
    return evaluate(answers, tokenizer=tiny_encoder.tokenizer, variant="pretrained")


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_row_has_the_authors_count(accuracies, counted, images, name):
    assert PAPER[OURS[name]].template == TEMPLATES[name]
    n_images = len(images[name][1])
    found = {row: round(value / 100 * n_images) for row, value in accuracies[name].items()}
    whole = {
        (line["method"], line["mode"], line["offsets"]): line["n_correct"]  # the last one of a method is the whole soup
        for line in counted.to_pylist()
        if line["dataset"] == name and line["text"] is None
    }
    ours = {row: whole[key] for row, key in ROWS.items()}
    assert found == ours
    assert len({*ours.values()}) > 3  # rows do differ
