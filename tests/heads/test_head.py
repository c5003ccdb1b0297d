"""Facts about a head as a value and as a file: answers, abstention, files that are damaged or come from anywhere."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from heads_cases import few
from safetensors.numpy import load, save

from wsoup.core.errors import MismatchError, MissingError, ParamsError
from wsoup.heads import file
from wsoup.heads.choose import ANY
from wsoup.heads.head import Head, made
from wsoup.heads.kinds import KINDS
from wsoup.soup.soup import Member, Soup

ENCODER = {"model": "tiny", "pretrained": None, "precision": "fp32"}
SOUP = Soup("class_name", 0, "a photo of a {}.", ENCODER, (Member(""),))
NAMES = ["cat", "dog", "bird", "fish"]


def head(kind="prototypes", *, counts=(6, 6, 6, 6)) -> Head:
    return made(
        few(counts=counts),
        kinds=[kind],
        soup=SOUP,
        template=SOUP.template,
        class_names=NAMES[: len(counts)],
        encoder=ENCODER,
        note="",
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_holds_the_whole_head(tmp_path, kind):
    one = head(kind)
    one.save(tmp_path / "head.safetensors")
    other = Head.load(tmp_path / "head.safetensors", encoder=ENCODER)
    features = few(seed=8).features
    assert torch.equal(other.predict_proba(features), one.predict_proba(features))
    assert other.threshold(0.5) == one.threshold(0.5)
    assert (other.soup, other.setting, other.class_names, other.temperature) == (
        *(SOUP, one.setting, tuple(NAMES), one.temperature),
    )
    other.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "head.safetensors").read_bytes()


def test_a_head_of_another_encoder_is_refused(tmp_path):
    head().save(tmp_path / "head.safetensors")
    with pytest.raises(MismatchError, match="model: 'tiny' there, 'other' wanted"):
        Head.load(tmp_path / "head.safetensors", encoder={**ENCODER, "model": "other"})


@pytest.mark.parametrize("kind", ["prototypes", "gda"])
def test_a_linear_head_is_a_matrix_and_a_bias(kind):
    one, features = head(kind), few(seed=8).features.float()
    assert torch.equal((features @ one.classifier + one.bias).argmax(dim=1), one.predict(features))


@pytest.mark.parametrize("kind", ["tip", "ridge"])
def test_a_kernel_head_says_that_it_is_no_matrix(kind):
    with pytest.raises(ParamsError, match=f"a {kind} head is no single matrix; use head.predict"):
        _ = head(kind).classifier


def test_arrays_of_numpy_will_do_and_other_sizes_will_not():
    one, features = head(), few(seed=8).features
    assert torch.equal(one.predict(features.numpy()), one.predict(features))
    with pytest.raises(MismatchError, match=r"features have shape \(3, 2\); expected \(N, 6\)"):
        one.predict(np.ones((3, 2)))


def test_below_the_threshold_it_abstains():
    one, features = head(), few(seed=8).features
    confidences = one.predict_proba(features).amax(dim=1)
    middle = float(confidences.median())
    answers = one.predict(features, at_least=middle)
    assert ((answers == -1) == (confidences < middle)).all()
    assert (one.predict(features, at_least=math.inf) == -1).all()


def test_probabilities_are_at_the_heads_temperature():
    one, features = head(), few(seed=8).features
    warmer = dataclasses.replace(one, temperature=2 * one.temperature)
    torch.testing.assert_close(warmer.predict_proba(features), (one.logits(features) / warmer.temperature).softmax(1))


def test_few_images_promise_little():
    few_shots = head(counts=(2, 2))
    assert few_shots.threshold(0.95) == math.inf
    assert few_shots.n_images == 4
    with pytest.raises(ParamsError, match=r"precision is 1\.5; expected less than 1"):
        few_shots.threshold(1.5)


def test_with_one_shot_a_head_says_what_was_not_chosen():
    one = made(
        few(counts=(1, 1, 1)),
        kinds=ANY,
        soup=SOUP,
        template=SOUP.template,
        class_names=NAMES[:3],
        encoder=ENCODER,
        note="1 of 4 images are there twice and count once",
    )
    assert one.kind == ANY[0]
    assert one.note.startswith("1 of 4 images are there twice and count once; no class has two images")


# ------------------------------------------------------------------------------------------ files from anywhere


@pytest.fixture
def saved(tmp_path) -> Path:
    path = tmp_path / "head.safetensors"
    head("ridge").save(path)
    return path


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(MissingError, match=r"does not exist; heads are made by wsoup\.fit_head"):
        Head.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_not_read(tmp_path, make):
    make(tmp_path / "head.safetensors")
    with pytest.raises(MismatchError, match="is no head"):
        Head.load(tmp_path / "head.safetensors")


def test_any_byte_that_differs_is_seen(saved):
    whole = saved.read_bytes()
    draw = np.random.default_rng(0)
    for place in (*draw.integers(0, len(whole), 60), len(whole) - 1, 8):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(draw.integers(8))
        saved.write_bytes(damaged)
        with pytest.raises(MismatchError):
            Head.load(saved)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 100, -1])
def test_a_file_cut_short_is_refused(saved, length):
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(MismatchError):
        Head.load(saved)


def forged(saved: Path, *, arrays=None, about=None) -> None:
    """Other content under a checksum that fits."""
    held = {**load(saved.read_bytes()), **(arrays or {})}
    del held["checksum"]
    said = {**json.loads(held["about"].tobytes()), **(about or {})}
    held["about"] = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
    saved.write_bytes(save({**held, "checksum": file._checksum(held)}))


def test_a_forgery_that_fits_is_read(saved):
    forged(saved)
    assert Head.load(saved).kind == "ridge"


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"kind": "forest"}, "kind and setting are of none that there is"),
        ({"kind": 3}, "kind is not as expected"),
        ({"kind": "tip", "setting": {"weight": 1}}, "kind and setting are of none that there is"),
        ({"setting": {"penalty": "x", "sharpness": 1}}, "setting is not as expected"),
        ({"setting": {"penalty": -1, "sharpness": 1}}, "setting is not as expected"),
        ({"class_names": ["a"]}, "class_names is not as expected"),
        ({"class_names": ["a", "b", "b", "c"]}, "holds a name twice"),
        ({"class_names": ["a", "b", "c", "d\n"]}, "class_names is not as expected"),
        ({"class_names": ["a", "b", "c"]}, r"classifier has shape \(6, 4\), expected \(6, 3\)"),
        ({"logit_scale": 0}, "logit_scale is not as expected"),
        ({"logit_scale": math.nan}, "NaN is no number"),
        ({"n_correct": 30}, "n_correct and n_images are not as expected"),
        ({"n_correct": True}, "n_correct and n_images are not as expected"),
        ({"encoder": [1]}, "encoder is not as expected"),
        ({"soup": {}}, "is not a soup"),
        ({"soup": {**SOUP.as_json(), "template": "a"}}, "is not a soup"),
        ({"note": "x" * 10_001}, "note is not as expected"),
    ],
)
def test_values_out_of_bounds_are_refused(saved, about, said):
    forged(saved, about=about)
    with pytest.raises(MismatchError, match=said):
        Head.load(saved)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"temperature": np.array([0.0])}, "temperature is not above 0"),
        ({"temperature": np.array([1.0, 2.0])}, "temperature has shape"),
        ({"bias": np.array([np.nan] * 4, dtype=np.float32)}, "bias holds NaN or infinity"),
        ({"bias": np.zeros(5, dtype=np.float32)}, r"bias has shape \(5,\), expected \(4,\)"),
        ({"support": np.zeros((24, 5), dtype=np.float32)}, "support has shape"),
        ({"right": np.zeros(24)}, "right is not as expected"),
        ({"more": np.zeros(1)}, "it holds other arrays"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(saved, arrays, said):
    forged(saved, arrays=arrays)
    with pytest.raises(MismatchError, match=said):
        Head.load(saved)
