"""Zero-shot rows of the authors' evaluation, count by count, on all of their templates."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import torch
from oracle_world import DESCRIPTORS, NAMES, images_near
from torch import Tensor
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.datasets.paper import PAPER
from wsoup.evaluate import baselines
from wsoup.search.rank import gpt
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import ensemble_templates

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


def texts_of(encoder, template: str, *, baseline: str) -> dict[str, list[Tensor]]:
    """Features (M, C, D) or, by class, (n, D) of every row; `baseline`: the template of rows with prompts by class."""
    encoded = {
        f"{kind}-soup": [
            encoder.encode_texts([prompts.prompt(template, name, text) for name in NAMES]).clone() for text in texts
        ]
        for kind, texts in SOUPS.items()
    }
    said = {name: [gpt.sentence(text, wording="code") for text in texts or [""]] for name, texts in SAID.items()}
    by_class = {
        "ensemble": baselines.ensemble_prompts(baseline, class_names=NAMES, templates=ensemble_templates()),
        "gpt": baselines.gpt_prompts(baseline, class_names=NAMES, descriptors=said),
    }
    rows = {name: [encoder.encode_texts(texts).clone() for texts in groups] for name, groups in by_class.items()}
    stems = [f"{template.format(name).removesuffix('.')}," for name in NAMES]
    encode, whole = PromptEncoder.of(encoder), dict(encoded)
    for name, groups in whole.items():
        said_after = [f" {text}." for text in SOUPS[name.removesuffix("-soup")]]
        copies = [encode.encode_grid(stems, said_after, token_offset=t, offset_formula="code") for t in OFFSETS[1:]]
        encoded[f"{name}-token-offset"] = [*groups, *torch.cat(copies)]
    plain = [encoder.encode_texts([template.format(name) for name in NAMES]).clone()]
    return {"ZS": plain, **encoded, **rows}


def right(images: tuple[Tensor, Tensor], classes: Sequence[Tensor], *, normalise: bool = True) -> int:
    """Images whose nearest class is their own."""
    features, labels = images
    weights = torch.stack(list(classes))
    return int(((features @ (F.normalize(weights, dim=-1) if normalise else weights).T).argmax(dim=1) == labels).sum())


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_row_has_the_authors_count(accuracies, images, tiny_encoder, name):
    baseline = PAPER[OURS[name]].baseline_template or TEMPLATES[name]
    assert PAPER[OURS[name]].template == TEMPLATES[name]
    texts, n_images = texts_of(tiny_encoder, TEMPLATES[name], baseline=baseline), len(images[name][1])
    found = {row: round(value / 100 * n_images) for row, value in accuracies[name].items()}
    word = torch.stack(texts["word-soup"])
    ours = {
        "ZS": right(images[name], texts["ZS"][0]),
        "ensemble": right(images[name], [group.mean(dim=0) for group in texts["ensemble"]]),
        "gpt-centroids": right(images[name], [group.mean(dim=0) for group in texts["gpt"]]),
        "gpt-score-averaging": right(images[name], [group.mean(dim=0) for group in texts["gpt"]], normalise=False),
        "word-soup": right(images[name], word.mean(dim=0)),
        "descriptor-soup": right(images[name], torch.stack(texts["descriptor-soup"]).mean(dim=0)),
        "word-soup-token-offset": right(images[name], torch.stack(texts["word-soup-token-offset"]).mean(dim=0)),
        "descriptor-soup-token-offset": right(
            images[name], torch.stack(texts["descriptor-soup-token-offset"]).mean(dim=0)
        ),
        "word-soup-score-average": right(images[name], word.mean(dim=0), normalise=False),
    }
    assert found == ours
    assert len({*ours.values()}) > 3  # rows do differ
