"""The paper's plane: at its corners the three descriptors that span it, between them by hand."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from finetune_cases import COMMON, finetune_params
from torch.nn import functional as F

from wsoup.evaluate.landscape import SCHEMA, Plane, find_corners, rows_of_points, shown_datasets, table
from wsoup.evaluate.testsets import TestSet
from wsoup.finetune.params import MethodParams
from wsoup.finetune.train import Trainer
from wsoup.search.rank.source import Source

MEMBER = "sharp red hat"
SOFT = {"kind": "soft_descriptors", "members": 1, "tokens": 4, "prompt_tokens": 0}  # three words and a period


def dataset(name: str, role: str) -> TestSet:
    features = F.normalize(torch.randn(6, 16, generator=torch.Generator().manual_seed(0)), dim=-1)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    names = ["cat", "a rather long name", "dog"]
    return TestSet(name, role, f"a photo of a {{}}, {name}.", names, features, labels, labels.numpy(), {})


TESTS = [dataset("photo", "source"), dataset("pets", "xd")]
STEMS = [stem for test in TESTS for stem in test.stems]


@pytest.fixture
def trained(tiny_encoder, colours):
    """A method that starts at random, after two steps: its start, the encoder with it, and the plane."""
    method = MethodParams(**{**COMMON, "tune": SOFT, "loss": {"kind": "cross_entropy"}})
    run = Trainer(tiny_encoder, source=colours, method=method, shared=finetune_params(iterations=2), seed=5)
    begun = run.student.soft_descriptors[0].detach().clone()
    tuned = dataclasses.replace(tiny_encoder, model=run.run())
    corners = find_corners(tuned, pretrained=tiny_encoder, template="a photo of a {}.", words=(), member=MEMBER, seed=5)
    plane = Plane(tuned, corners=corners, tests=TESTS, batch_size=2)
    return begun, tuned, plane


def encoded(tuned) -> torch.Tensor:
    with torch.no_grad():
        return tuned.model.encode_text(tuned.tokenizer([f"{stem}." for stem in STEMS]), normalize=True)


def test_rows_hold_the_square_with_its_corners_and_the_lines_beyond_it():
    rows = rows_of_points(steps=2, margin=1)
    square = [[(0, y), (0.5, y), (1, y)] for y in (0, 0.5, 1)]
    assert rows == [*square, [(-0.5, 0), (1.5, 0)], [(0, -0.5), (0, 1.5)]]
    assert rows_of_points(steps=1, margin=0) == [[(0, 0), (1, 0)], [(0, 1), (1, 1)]]
    for steps in (3, 7, 10):  # 1 is exact, whatever the steps
        assert {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)} < {
            point for row in rows_of_points(steps=steps, margin=5) for point in row
        }


def test_the_corners_are_the_start_of_training_the_soups_text_and_the_tuned_model(tiny_encoder, trained):
    begun, tuned, plane = trained
    assert torch.equal(plane.corners.random, begun)
    assert not torch.equal(plane.corners.tuned, begun)
    text = tiny_encoder.encode_texts([f"{stem}, {MEMBER}." for stem in STEMS])
    torch.testing.assert_close(plane.texts((1.0, 0.0)), text.clone(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(plane.texts((0.0, 0.0)), encoded(tuned), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("x", "y"), [(0.0, 1.0), (1.0, 1.0), (0.25, 0.5)])
def test_the_plane_goes_out_from_the_tuned_tokens_as_the_authors_does(trained, x, y):
    """Their main_cross_dataset.wise_errors.2d.py: from the apex T by x towards B and by y towards A."""
    _, tuned, plane = trained
    a, b, end = plane.corners.random, plane.corners.soup, plane.corners.tuned
    with torch.no_grad():
        tuned.model.soft_descriptors[0].copy_(end + x * (b - end) + y * (a - end))
    torch.testing.assert_close(plane.texts((x, y)), encoded(tuned), rtol=1e-4, atol=1e-5)


def test_counts_are_of_each_datasets_own_classes(trained):
    _, _, plane = trained
    features = plane.texts((0.5, 0.0))
    classes = features[:3], features[3:]
    wanted = [int((t.image_features @ c.T).argmax(1).eq(t.labels).sum()) for t, c in zip(TESTS, classes, strict=True)]
    assert plane.count((0.5, 0.0)) == wanted


def test_the_table_has_a_line_for_each_point_and_dataset():
    made = table({(0.0, 0.0): [1, 2], (1.0, 0.0): [3, 4]}, tests=TESTS, seed=3)
    assert made.schema.equals(SCHEMA)
    assert [tuple(line.values()) for line in made.to_pylist()] == [
        (0.0, 0.0, "photo", "source", 3, 1, 6),
        (0.0, 0.0, "pets", "xd", 3, 2, 6),
        (1.0, 0.0, "photo", "source", 3, 3, 6),
        (1.0, 0.0, "pets", "xd", 3, 4, 6),
    ]


def test_the_figure_is_of_training_images_and_cross_dataset_targets(tiny_encoder):
    photo, subsets = TESTS[0], {1: torch.tensor([0, 1, 2]), 2: torch.tensor([3, 4, 5])}
    source = Source(tiny_encoder, photo.image_features, photo.labels, subsets, photo.template, photo.class_names)
    shown = shown_datasets([*TESTS, dataset("dim", "dg")], source=source, seed=2)
    assert [(test.name, test.role, len(test.labels)) for test in shown] == [
        ("photo (training images)", "source", 3),
        ("pets", "xd", 6),
    ]
    assert torch.equal(shown[0].image_features, photo.image_features[3:])
