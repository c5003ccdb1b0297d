"""Test sets as they are read from files, and what of them is stored with results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from evaluate_cases import NAMES, images

from wsoup.disk import store
from wsoup.disk.features import ImageFeatures, write_features
from wsoup.disk.files import Artifacts
from wsoup.evaluate.testsets import ClassPrompts, identity, load_tests


def test_a_test_set_is_what_its_files_say(in_tmp, tiny_encoder):
    features = np.eye(3, 16, dtype=np.float32)
    labels, rows = np.array([2, 0, 1]), np.array([7, 3, 5])
    attributes = {"class_names": NAMES, "template": "a {}.", "encoder": tiny_encoder.id, "layout": "imagefolder"}
    dataset = {
        "name": "photo",
        "role": "dg",
        "baseline_template": "an image of {}.",
        "gpt_names": {"cat": "house cat"},
        "gpt": {"cat": ["which is soft"]},
    }
    write_features(Artifacts().features("photo", split="test"), ImageFeatures(features, labels, rows, attributes))
    store.write_json(Artifacts().evaluated, {"datasets": [dataset]})
    (listed,) = load_tests(Artifacts(), encoder=tiny_encoder)
    (given,) = load_tests(Artifacts(), encoder=tiny_encoder, datasets=[{**dataset, "role": "xd"}])
    assert (listed.role, given.role) == ("dg", "xd")
    assert (listed.name, listed.template, listed.class_names) == ("photo", "a {}.", NAMES)
    assert (listed.baseline_template, listed.gpt_names, listed.gpt) == (
        dataset["baseline_template"],
        dataset["gpt_names"],
        dataset["gpt"],
    )
    assert torch.equal(listed.image_features, torch.from_numpy(features))
    assert listed.labels.tolist() == [2, 0, 1]
    assert listed.rows.tolist() == [7, 3, 5]
    assert load_tests(Artifacts(), encoder=tiny_encoder, datasets=[]) == []


def test_facts_are_those_of_the_files_that_are_known_and_two_counts():
    test = images("photo", role="xd", names=NAMES, n=5, width=4)
    known = {"role": "xd", "template": "a {}.", "paper_comparable": False, "reason": "another split", "root": "/data"}
    facts = replace(test, attributes=known).facts
    assert facts == {
        "role": "xd",
        "template": "a {}.",
        "paper_comparable": False,
        "reason": "another split",
        "n_images": 5,
        "n_classes": 3,
    }
    assert test.facts == {"n_images": 5, "n_classes": 3}


def test_shifts_share_the_class_prompts_of_the_source(tests):
    classes = ClassPrompts(tests)
    pets = ["a photo of a dog, a type of pet", "a photo of a cat, a type of pet"]
    assert classes.stems == ["a photo of a red fox", "a photo of a cat", "a photo of a oak", *pets]
    assert [classes.of(test).tolist() for test in tests] == [[0, 1, 2], [0, 1], [3, 4]]


def test_the_identity_of_test_sets_is_all_that_decides_their_counts():
    test = images("photo", role="xd", names=NAMES, n=5, width=4)
    moved, relabelled = test.image_features.clone(), test.labels.clone()
    moved[0], relabelled[0] = moved[1], (relabelled[0] + 1) % 3
    others = [
        replace(test, name="other"),
        replace(test, role="dg"),
        replace(test, template="a {}."),
        replace(test, class_names=[*NAMES[:2], "elm"]),
        replace(test, image_features=moved),
        replace(test, labels=relabelled),
    ]
    assert identity([test]) == identity([replace(test, attributes={"root": "elsewhere"})])
    for other in others:
        assert identity([other]) != identity([test])
