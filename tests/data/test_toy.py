"""The toy world: the same params give the same images and weights, in the documented layout and format."""

from __future__ import annotations

import hashlib
import importlib
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import open_clip
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.numpy import load_file
from yaml_in_c import safe_load

TOY = Path(__file__).parents[2] / "data" / "toy"
PARAMS = safe_load((TOY / "params.yaml").read_text())
UNPACKED = "0e38a54f0c8753d7"
"""The first digits of the SHA-256 of the unpacked encoder."""
TINY = {"seed": 3, "image_size": 32, "train_per_class": 1, "test_per_class": 1, "target_per_class": 1}
SHORT = {**PARAMS["pretrain"], "pairs": 40, "batch_size": 16, "steps": 3, "warmup": 1}


@pytest.fixture(scope="module")
def toy() -> dict[str, ModuleType]:
    sys.path.insert(0, str(TOY))  # its scripts run in their own folder
    names = ("render", "pretrain", "encoder")
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(TOY))
        for name in names:
            del sys.modules[name]


@pytest.fixture
def render(toy) -> ModuleType:
    return toy["render"]


@pytest.fixture
def pretrain(toy) -> ModuleType:
    return toy["pretrain"]


@pytest.fixture
def words(pretrain):
    return pretrain.Words(good=["our", "very"], junk=["free"])


@pytest.fixture(scope="module")
def encoders(toy, tmp_path_factory) -> list[Path]:
    """The same three steps of training, twice, after different uses of the global generator."""
    folders = []
    for number in range(2):
        torch.rand(number + 1)
        folders.append(tmp_path_factory.mktemp("encoder"))
        weights = folders[-1] / "trained.safetensors"
        toy["pretrain"].pretrain(weights, config=TOY / "toy-clip.json", params=SHORT)
        toy["encoder"].unpack(folders[-1], config=TOY / "toy-clip.json", weights=weights)
    return folders


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_rendering_twice_gives_the_same_bytes_and_another_seed_different_ones(render, tmp_path):
    for name, seed in (("first", 3), ("again", 3), ("other", 4)):
        render.render(tmp_path / name, params={**TINY, "seed": seed})
    first, again, other = (files(tmp_path / name) for name in ("first", "again", "other"))
    assert first == again
    assert first.keys() == other.keys()
    assert all(first[path] != other[path] for path in first)


def test_the_world_has_a_source_three_shifts_and_four_targets_as_image_folders(render, tmp_path):
    count = render.render(tmp_path, params={**TINY, "train_per_class": 2})
    written = files(tmp_path)
    assert count == len(written) == 64 * 2 + 4 * 64 + 10 + 3 * 8
    assert "shapes/train/red_triangle/001.png" in written
    assert {path.rsplit("/", 2)[0] for path in written} == {
        "shapes/train",
        *(f"shapes{shift}/test" for shift in ("", "_sketch", "_night", "_blurry")),
        *(f"{target}/test" for target in ("counts", "textures", "colours", "forms")),
    }
    with Image.open(tmp_path / "counts/test/three_circles/000.png") as image:
        assert (image.size, image.mode, image.format) == ((32, 32), "RGB", "PNG")


def test_an_image_does_not_depend_on_how_many_are_drawn(render):
    def drawn(per_class: int) -> dict[tuple[str, str], np.ndarray]:
        images = render.images("forms", split="test", per_class=per_class, seed=0, size=32)
        return {(label, name): pixels for label, name, pixels in images}

    few, many = drawn(1), drawn(2)
    assert len(many) == 2 * len(few) == 16
    assert all(np.array_equal(pixels, many[key]) for key, pixels in few.items())


def test_a_red_square_is_red_in_the_middle_and_night_is_darker(render):
    day = render.Scene(colour="red", shape="square", count=1, texture="plain", style="photo")
    by_day = render.draw(day, rng=np.random.default_rng(0), size=32)
    by_night = render.draw(replace(day, style="night"), rng=np.random.default_rng(0), size=32)
    red, green, blue = by_day[12:20, 12:20].mean(axis=(0, 1))
    assert red > max(green, blue) + 60
    assert by_night.mean() < 0.5 * by_day.mean()


def test_captions_name_what_is_drawn(render, pretrain, words):
    scene = render.Scene(colour="red", shape="star", count=3, texture="striped", style="night")
    captions = [pretrain.caption(scene, words=words, rng=np.random.default_rng(i)) for i in range(400)]
    assert all("three" in text for text in captions)
    assert 0.6 < np.mean(["stars" in text for text in captions]) < 0.85  # a quarter tells of something else
    assert 0.5 < np.mean(["red stars" in text for text in captions]) < 0.75
    assert any("dark" in text for text in captions)
    assert all("  " not in text and text == text.strip() for text in captions)


def test_pretraining_twice_gives_the_same_bytes(encoders):
    assert files(encoders[0]) == files(encoders[1])
    assert files(encoders[0]).keys() == {"toy-clip.json", "toy-clip.safetensors", "trained.safetensors"}


def test_every_machine_unpacks_the_same_encoder(toy, tmp_path):
    """The file in git becomes these bytes everywhere, and open_clip's state dict has nothing else."""
    toy["encoder"].unpack(tmp_path, config=TOY / "toy-clip.json", weights=TOY / "toy-clip.safetensors")
    state = load_file(tmp_path / "toy-clip.safetensors")
    assert {name: tuple(value.shape) for name, value in state.items()} == {
        name: tuple(value.shape) for name, value in toy["pretrain"].new_model(0).state_dict().items()
    }
    assert hashlib.sha256((tmp_path / "toy-clip.safetensors").read_bytes()).hexdigest()[:16] == UNPACKED
    untrained = state["token_embedding.weight"][1]  # the token of a double quote, which no caption has
    assert (untrained.min(), untrained.max()) == pytest.approx((-0.02 * 3**0.5, 0.02 * 3**0.5), rel=0.1)


@pytest.mark.slow
def test_the_script_trains_an_encoder_as_good_as_the_one_in_git(toy, tmp_path):
    """Accuracy by "a photo of a {class name}." on 8 images of each of 64 classes that neither has seen."""
    toy["pretrain"].pretrain(tmp_path / "new.safetensors", config=TOY / "toy-clip.json", params=PARAMS["pretrain"])
    accuracies = {}
    for name, weights in (("in git", TOY / "toy-clip.safetensors"), ("new", tmp_path / "new.safetensors")):
        toy["encoder"].unpack(tmp_path / name.replace(" ", "_"), config=TOY / "toy-clip.json", weights=weights)
        accuracies[name] = accuracy(toy, tmp_path / name.replace(" ", "_") / "toy-clip.safetensors")
    assert accuracies["in git"] > 0.35
    assert accuracies["new"] == pytest.approx(accuracies["in git"], abs=0.04)


def accuracy(toy: dict[str, ModuleType], weights: Path) -> float:
    model = toy["pretrain"].new_model(0).eval()
    model.load_state_dict({name: torch.from_numpy(value) for name, value in load_file(weights).items()})
    drawn = list(toy["render"].images("shapes", split="test", per_class=8, seed=5, size=32))
    names = sorted({label for label, _, _ in drawn})
    pixels = torch.stack([torch.from_numpy(image).permute(2, 0, 1) for _, _, image in drawn])
    texts = open_clip.get_tokenizer("toy-clip")([f"a photo of a {name.replace('_', ' ')}." for name in names])
    with torch.inference_mode():
        best = (
            model.encode_image(toy["pretrain"].preprocess(pixels), normalize=True)
            @ model.encode_text(texts, normalize=True).T
        ).argmax(dim=1)
    return float(np.mean([names[index] == label for index, (label, _, _) in zip(best.tolist(), drawn, strict=True)]))


def test_the_encoder_loads_into_open_clip_and_gives_the_features_it_had(pretrain, encoders):
    open_clip.add_model_config(encoders[0])
    model, _, preprocess = open_clip.create_model_and_transforms(
        "toy-clip", pretrained=str(encoders[0] / "toy-clip.safetensors")
    )
    pairs = pretrain.draw_pairs(SHORT["pairs"], size=32, seed=SHORT["seed"])
    trained = pretrain.train(pairs, params=SHORT)
    pixels = pairs.images[:4].permute(0, 2, 3, 1).numpy()
    images = torch.stack([preprocess(Image.fromarray(image)) for image in pixels])
    torch.testing.assert_close(images, pretrain.preprocess(pairs.images[:4]))
    tokens, seen = open_clip.get_tokenizer("toy-clip")(["a photo of a red triangle.", "three stars"]), pairs.tokens
    seen = F.pad(seen, (0, tokens.shape[1] - seen.shape[1]))
    with torch.inference_mode():
        torch.testing.assert_close(model.encode_image(images), trained.encode_image(images), rtol=0, atol=0.02)
        torch.testing.assert_close(model.encode_text(seen), trained.encode_text(seen), rtol=0, atol=0.02)
        torch.testing.assert_close(pretrain.encode_text(model, tokens[:, :12]), model.encode_text(tokens))


def test_good_and_junk_words_share_no_word(pretrain):
    words = pretrain.common_words()
    assert words.good[:2] + words.junk[:1] == ["the", "to", "and"]
    assert not set(words.good) & set(words.junk)


def test_every_pair_is_used_before_any_is_repeated(pretrain):
    rows = torch.cat(list(pretrain.batches(10, batch_size=4, steps=5, seed=0)))
    assert len(rows) == 20
    assert sorted(rows[:10].tolist()) == sorted(rows[10:].tolist()) == list(range(10))


def test_the_descriptors_are_bare_and_unique():
    lines = (TOY / "descriptors.txt").read_text().splitlines()
    assert 250 <= len(lines) == len(set(lines)) <= 400
    assert all(line == line.strip() and line.startswith("which ") and line[-1].isalpha() for line in lines)


def test_an_interrupt_prints_one_line_and_leaves_no_files(tmp_path):
    out = tmp_path / "world"
    command = [sys.executable, TOY / "render.py", "--out", out]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not list(tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "interrupted; nothing is kept, run it again\n")
    assert list(tmp_path.iterdir()) == []
