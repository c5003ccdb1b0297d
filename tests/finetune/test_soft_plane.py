"""The paper's plane: at its corners the three descriptors that span it, between them by hand."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from finetune_cases import COMMON, finetune_params
from torch.nn import functional as F

from wsoup.evaluate.landscape import SoftDescriptorPlane, shown_datasets
from wsoup.evaluate.testsets import TestSet
from wsoup.finetune.params import MethodParams
from wsoup.finetune.train import Trainer
from wsoup.search.rank.source import Source

STEMS = ["a photo of a cat", "a photo of a rather long name", "a photo of a dog, a type of pet"]
SOUP = ["sharp red hat", "cat dog"]
SOFT = {"kind": "soft_descriptors", "members": 1, "tokens": 3, "prompt_tokens": 0}


@pytest.fixture
def trained(tiny_encoder, colours):
    """A method that starts at random, after a step; and the encoder with it."""
    method = MethodParams(**{**COMMON, "tune": SOFT, "loss": {"kind": "cross_entropy"}})
    run = Trainer(tiny_encoder, source=colours, method=method, shared=finetune_params(iterations=2), seed=5)
    begun = run.student.soft_descriptors[0].detach().clone()
    return begun, dataclasses.replace(tiny_encoder, model=run.run())


def plane_of(encoder, tuned) -> SoftDescriptorPlane:
    return SoftDescriptorPlane(
        tuned, encoder=encoder, template="a photo of a {}.", seed=5, soup=SOUP, stems=STEMS, batch_size=2
    )


def test_the_random_corner_is_where_training_began(tiny_encoder, trained):
    begun, tuned = trained
    assert torch.equal(plane_of(tiny_encoder, tuned).corners[0], begun)
    assert not torch.equal(plane_of(tiny_encoder, tuned).corners[2], begun)


def test_the_corners_are_the_soups_text_and_the_tuned_model(tiny_encoder, trained):
    _, tuned = trained
    plane = plane_of(tiny_encoder, tuned)
    text = tiny_encoder.encode_texts([f"{stem}, {SOUP[0]}." for stem in STEMS])
    torch.testing.assert_close(plane.texts(1.0, 0.0), text.clone(), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        own = tuned.model.encode_text(tiny_encoder.tokenizer([f"{stem}." for stem in STEMS]), normalize=True)
    torch.testing.assert_close(plane.texts(0.0, 0.0), own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("x", "y"), [(0.0, 1.0), (1.0, 1.0), (0.25, 0.5)])
def test_the_plane_goes_out_from_the_tuned_tokens_as_the_authors_does(tiny_encoder, trained, x, y):
    """Their main_cross_dataset.wise_errors.2d.py: from the apex T by x towards B and by y towards A."""
    _, tuned = trained
    plane = plane_of(tiny_encoder, tuned)
    a, b, end = plane.corners
    mixed = dataclasses.replace(tuned, model=tuned.model)
    with torch.no_grad():
        mixed.model.soft_descriptors[0].copy_(end + x * (b - end) + y * (a - end))
        own = mixed.model.encode_text(tiny_encoder.tokenizer([f"{stem}." for stem in STEMS]), normalize=True)
    torch.testing.assert_close(plane.texts(x, y), own, rtol=1e-4, atol=1e-5)


def test_the_figure_is_of_training_images_and_cross_dataset_targets(tiny_encoder):
    features = F.normalize(torch.randn(6, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    subsets = {1: torch.tensor([0, 1, 2]), 2: torch.tensor([3, 4, 5])}
    source = Source(tiny_encoder, features, labels, subsets, "a photo of a {}.", ["a", "b", "c"])

    def test(name: str, role: str) -> TestSet:
        return TestSet(name, role, "a photo of a {}.", ["a", "b", "c"], features, labels, labels.numpy(), {})

    shown = shown_datasets([test("photo", "source"), test("other", "xd"), test("dim", "dg")], source=source, seed=2)
    assert [(t.name, t.role, len(t.labels)) for t in shown] == [
        ("photo (training images)", "source", 3),
        ("other", "xd", 6),
    ]
    assert torch.equal(shown[0].image_features, features[3:])
