"""A head as a value and as a file: predictions, abstention, damaged and forged files."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from heads_cases import few_shots
from safetensors.numpy import load, save

from wsoup.base.errors import MismatchError, MissingError, ParamsError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.heads.choose import NOTHING_LEFT_OUT
from wsoup.heads.head import Head, _checksum, best_head
from wsoup.heads.kinds import PARTS

ENCODER = {"model": "tiny", "pretrained": None, "precision": "fp32"}
SOUP = Soup("class_name", 0, "a photo of a {}.", ENCODER, (Member(""),))
NAMES = ["cat", "dog", "bird", "fish"]


def head(kind="prototypes", *, counts=(6, 6, 6, 6), note="") -> Head:
    return best_head(
        few_shots(counts=counts),
        kind=kind,
        soup=SOUP,
        template=SOUP.template,
        class_names=NAMES[: len(counts)],
        encoder=ENCODER,
        note=note,
    )


@pytest.mark.parametrize("kind", PARTS)
def test_saving_and_loading_round_trips(tmp_path, kind):
    original = head(kind)
    original.save(tmp_path / "head.safetensors")
    other = Head.load(tmp_path / "head.safetensors", encoder=ENCODER)
    features = few_shots(seed=8).features
    assert torch.equal(other.predict_proba(features), original.predict_proba(features))
    assert other.threshold(0.5) == original.threshold(0.5)
    assert (other.soup, other.setting, other.class_names, other.temperature) == (
        *(SOUP, original.setting, tuple(NAMES), original.temperature),
    )
    other.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "head.safetensors").read_bytes()


def test_a_head_of_another_encoder_is_refused(tmp_path):
    head().save(tmp_path / "head.safetensors")
    with pytest.raises(MismatchError, match="model: 'tiny', expected 'other'"):
        Head.load(tmp_path / "head.safetensors", encoder={**ENCODER, "model": "other"})


def test_a_head_is_a_matrix_for_numpy_or_torch_features_of_its_size():
    original, features = head(), few_shots(seed=8).features
    assert torch.equal((features.float() @ original.classifier).argmax(dim=1), original.predict(features))
    assert torch.equal(original.predict(features.numpy()), original.predict(features))
    with pytest.raises(MismatchError, match=r"features have shape \(3, 2\); expected \(N, 6\)"):
        original.predict(np.ones((3, 2)))


def test_it_abstains_below_the_threshold():
    original, features = head(), few_shots(seed=8).features
    confidences = original.predict_proba(features).amax(dim=1)
    middle = float(confidences.median())
    answers = original.predict(features, at_least=middle)
    assert ((answers == -1) == (confidences < middle)).all()
    assert (original.predict(features, at_least=math.inf) == -1).all()


def test_probabilities_use_the_temperature():
    original, features = head(), few_shots(seed=8).features
    warmer = dataclasses.replace(original, temperature=2 * original.temperature)
    torch.testing.assert_close(
        warmer.predict_proba(features), (original.logits(features) / warmer.temperature).softmax(1)
    )


def test_few_images_promise_little():
    small = dataclasses.replace(head(counts=(2, 2)), right=torch.ones(4, dtype=torch.bool))
    assert small.threshold(0.95) == 0.95  # the calibrated probability itself
    assert small.n_images == 4
    assert head(counts=(1, 1)).threshold(0.95) == math.inf  # nothing is calibrated
    with pytest.raises(ParamsError, match=r"precision is 1\.5; expected less than 1"):
        small.threshold(1.5)


@pytest.mark.parametrize(
    ("counts", "note", "expected"),
    [
        ((2, 2, 2), "", ""),
        ((2, 2, 2), "dropped 1 of 7 images as duplicates", "dropped 1 of 7 images as duplicates"),
        ((1, 1, 1), "", NOTHING_LEFT_OUT),
        ((1, 1, 1), "dropped 1 of 4 images as duplicates", f"dropped 1 of 4 images as duplicates; {NOTHING_LEFT_OUT}"),
    ],
)
def test_the_note_says_what_was_dropped_and_what_was_not_chosen(counts, note, expected):
    assert head(counts=counts, note=note).note == expected


def test_the_threshold_is_that_of_95_per_cent():
    """Of 40 left-out images all are right: the smallest confidence is the threshold up to 1 - 1/41."""
    confidences = torch.linspace(0.97, 0.99, 40)
    original = dataclasses.replace(head(), confidences=confidences, right=torch.ones(40).bool())
    assert original.threshold() == original.threshold(0.95) == float(confidences[0])
    wrong = torch.arange(40) > 0  # the least confident one: (1 + 1) / 41 is not within 4 per cent
    assert dataclasses.replace(original, right=wrong).threshold() == float(confidences[0])
    assert dataclasses.replace(original, right=wrong).threshold(0.96) > float(confidences[0])
    three = torch.arange(40) > 2  # (3 + 1) / 41 is within 10 per cent, but not within 5
    assert dataclasses.replace(original, right=three).threshold(0.9) == float(confidences[0])
    assert dataclasses.replace(original, right=three).threshold() > float(confidences[1])


def test_states_of_torch_change_no_head():
    """Another default dtype, and autocast, which would multiply in bfloat16."""
    expected, features = head("both"), few_shots(seed=8).features
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(expected.predict_proba(features), head("both").predict_proba(features))
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(expected.predict_proba(features), head("both").predict_proba(features))


# ------------------------------------------------------------------------------------------------- untrusted files


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "head.safetensors"
    head("ridge").save(path)
    return path


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_only_regular_files_are_read(tmp_path, make):
    with pytest.raises(MissingError, match=r"does not exist; heads are made by wsoup\.fit_head"):
        Head.load(tmp_path / "head.safetensors")
    make(tmp_path / "head.safetensors")
    with pytest.raises(MismatchError, match="is not a head"):
        Head.load(tmp_path / "head.safetensors")


def test_any_changed_or_missing_byte_is_detected(saved):
    whole, draw = saved.read_bytes(), np.random.default_rng(0)
    cut = [whole[:length] for length in (0, 1, 7, 8, 100, -1)]
    changed = [bytearray(whole) for _ in range(60)]
    for damaged, place in zip(changed, draw.integers(0, len(whole), 60), strict=True):
        damaged[place] ^= 1 << int(draw.integers(8))
    for damaged in (*cut, *changed):
        saved.write_bytes(damaged)
        with pytest.raises(MismatchError):
            Head.load(saved)


def forged(saved: Path, *, arrays=None, metadata=None) -> None:
    """Change the content and correct the checksum."""
    content = {**load(saved.read_bytes()), **(arrays or {})}
    del content["checksum"]
    forged_metadata = {**json.loads(content["about"].tobytes()), **(metadata or {})}
    content["about"] = np.frombuffer(json.dumps(forged_metadata).encode(), dtype=np.uint8)
    saved.write_bytes(save({**content, "checksum": _checksum(content)}))


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"kind": "forest"}, "its kind is unknown or its setting is of another kind"),
        ({"kind": 3}, "kind is 3"),
        ({"kind": "both"}, "its kind is unknown or its setting is of another kind"),
        ({"setting": {"penalty": "x"}}, r"setting\['penalty'\] is 'x'"),
        ({"setting": {"penalty": -1}}, r"setting\['penalty'\] is -1"),
        ({"class_names": ["a"]}, "class_names .* a list of 2 or more"),
        ({"class_names": ["a", "b", "c", "d\n"]}, r"class_names\[3\] .* control character"),
        ({"class_names": ["a", "b", "c"]}, r"classifier is float32 \(6, 4\); expected \(6, 3\)"),
        ({"logit_scale": 0}, "logit_scale is 0"),
        ({"logit_scale": math.nan}, "logit_scale is nan"),
        ({"encoder": [1]}, "encoder is "),
        ({"soup": {}}, "its soup is not a soup"),
        ({"soup": {**SOUP.as_json(), "template": "a"}}, "its soup is not a soup"),
        ({"note": "x" * 10_001}, "note is .* a text of 10000 characters or fewer"),
        ({"note": "\033[2J"}, "note is .* control character"),
        ({"classifier": 1}, "classifier"),
    ],
)
def test_values_out_of_bounds_are_refused(saved, metadata, message):
    forged(saved, metadata=metadata)
    with pytest.raises(MismatchError, match=f"is not a head: .*{message}"):
        Head.load(saved)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"temperature": np.array([0.0])}, "temperature is 0.0"),
        ({"temperature": np.array([1.0, 2.0])}, "array of size 1"),
        ({"classifier": np.full((6, 4), np.nan, dtype=np.float32)}, "classifier is .* finite"),
        ({"classifier": np.zeros((6, 5), dtype=np.float32)}, r"classifier is float32 \(6, 5\); expected \(6, 4\)"),
        ({"right": np.zeros(24)}, "right is float64"),
        ({"confidences": np.zeros(23)}, "confidences is float64"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(saved, arrays, message):
    forged(saved, arrays=arrays)
    with pytest.raises(MismatchError, match=message):
        Head.load(saved)
