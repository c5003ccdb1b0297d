"""Exported classifiers: used without wsoup, they give the probabilities of `wsoup classify`."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.core.member import Member
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels

NAMES = sorted(COLOURS)


@pytest.fixture(scope="module")
def world(tmp_path_factory, tiny_encoder, tiny_encoder_files) -> tuple[Path, torch.Tensor]:
    """A folder of photos, a soup, a head and a params.yaml with the path of the weights; the photos' pixels."""
    folder = tmp_path_factory.mktemp("exported") / "made"
    paths = sorted(write_image_folder(folder / "new", splits={"a": 3}, classes=COLOURS).rglob("*.png"))
    members = tuple(Member(text) for text in ("sharp", "which is flat"))
    about = {"encoder": tiny_encoder.id, "preprocessing": tiny_encoder.preprocessing}
    soup = wsoup.Soup(kind="chains", seed=1, template="a photo of a {}.", members=members, **about)
    soup.save(folder / "soup.json")
    (folder / "params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(str(path))) for path in paths])
    how = {"class_names": NAMES, "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    features, labels = encode_pixels(tiny_encoder, pixels), [path.parent.name for path in paths]
    head = wsoup.fit_head(features, labels, soup=soup, encoder={"model": "tiny-clip"}, **how)
    head.save(folder / "head.safetensors")
    return folder, pixels


@pytest.fixture
def photos(world, in_tmp) -> torch.Tensor:
    """A copy of `world` in the working folder; the photos' pixels."""
    folder, pixels = world
    shutil.copytree(folder, in_tmp, dirs_exist_ok=True)
    return pixels


WHAT = {
    "soup": (["soup.json", "--classes", ",".join(NAMES)], ["--soup", "soup.json", "--classes", ",".join(NAMES)]),
    "head": (["head.safetensors"], ["--soup", "head.safetensors"]),
}


@pytest.fixture(scope="module", params=WHAT)
def expected(request, world, tiny_encoder_files) -> tuple[list[str], np.ndarray]:
    """Arguments of the export, and the probabilities (N, C) that `wsoup classify` gives."""
    folder, pixels = world
    export, classify = WHAT[request.param]
    # A head of a model in memory does not say where its weights lie; params.yaml is of the soup's encoder.
    where = [] if request.param == "soup" else ["--pretrained", tiny_encoder_files["pretrained"]]
    with contextlib.chdir(folder):
        code, printed, errors = run("classify", "new", *classify, "--top", "4", *where)
    assert code == 0, errors
    chances = np.zeros((len(pixels), len(NAMES)))
    for i, row in enumerate(csv.DictReader(io.StringIO(printed))):
        for end in ("", "_2", "_3", "_4"):
            chances[i, NAMES.index(row[f"class{end}"])] = row[f"probability{end}"]
    return [*export, *where], chances


def exported(arguments: list[str], file: str, *options: str) -> str:
    form = file.rpartition(".")[2]
    code, _, errors = run("soup", "export", *arguments, "--format", form, "--out", file, "--force", *options)
    assert code == 0, errors
    return file


def by_hand(features: np.ndarray, arrays) -> np.ndarray:
    """The formula of the docs."""
    scores = features @ arrays["classifier"]
    scores = np.exp(arrays["logit_scale"] * (scores - scores.max(1, keepdims=True)))
    return scores / scores.sum(1, keepdims=True)


def test_npz_needs_only_numpy(expected, photos, tiny_encoder):
    arguments, chances = expected
    arrays = np.load(exported(arguments, "c.npz"), allow_pickle=False)
    np.testing.assert_allclose(by_hand(encode_pixels(tiny_encoder, photos).numpy(), arrays), chances, atol=2e-6)
    assert arrays["class_names"].tolist() == NAMES
    about = json.loads(str(arrays["about"]))
    assert about["preprocessing"] == tiny_encoder.preprocessing
    assert about["encoder"]["weights"] == tiny_encoder.id["weights"]
    assert [member["text"] for member in about["soup"]["members"]] == ["sharp", "which is flat"]
    first = Path("c.npz").read_bytes()
    assert Path(exported(arguments, "c.npz")).read_bytes() == first


def test_onnx_takes_pixels(expected, photos):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    arguments, chances = expected
    session = runtime.InferenceSession(exported(arguments, "c.onnx"))
    np.testing.assert_allclose(session.run(["probabilities"], {"pixels": photos.numpy()})[0], chances, atol=2e-5)
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["class_names"]) == NAMES
    assert {"encoder", "preprocessing", "soup"} <= {*about}


def test_a_head_is_exported_without_its_encoder(photos):
    Path("params.yaml").unlink()
    about = json.loads(str(np.load(exported(["head.safetensors"], "c.npz"))["about"]))
    assert about["class_names"] == NAMES
    assert run("soup", "export", "head.safetensors", "--format", "npz", "--out", "c.npz")[2].startswith(
        "error: --out c.npz exists already"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["soup.json", "--format", "npz"], "--format npz is not text; give --out FILE.npz"),
        (["soup.json", "--format", "npz", "--out", "a.onnx"], "--out a.onnx must end in .npz"),
        (["soup.json", "--format", "npz", "--out", "a.npz"], "name the classes, and a soup"),
        (["soup.json", "--format", "yaml"], "must be one of open_clip, clip_benchmark, text, npz, onnx"),
        (["head.safetensors", "--format", "npz", "--out", "a.npz", "--classes", "a,b"], "a head knows its classes"),
    ],
)
def test_unusable_options_are_one_line(photos, arguments, message):
    code, printed, errors = run("soup", "export", *arguments)
    assert (code, printed) == (1, "")
    assert message in errors
