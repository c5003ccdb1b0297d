"""`wsoup try`: its counts equal a plain recount, and the files that it writes give those counts."""

from __future__ import annotations

import csv
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.api import trial
from wsoup.images.decode import load_rgb

NAMES = sorted(COLOURS)


@pytest.fixture
def where(tiny_encoder_files) -> list[str]:
    names = ("model", "pretrained", "config", "interpolation")
    return [part for name in names for part in (f"--{name}", tiny_encoder_files[name])]


def tried(photos: Path, where: list[str], *options: str) -> tuple[list[str], str]:
    """Lines of stdout and stderr."""
    code, printed, errors = run("try", str(photos), "--words", "5", *where, *options)
    assert code == 0, errors
    return printed.splitlines(), errors


def features_of(paths, encoder) -> torch.Tensor:
    return encoder.encode_images(torch.stack([encoder.preprocess(load_rgb(str(path))) for path in paths]))


def test_counts_equal_a_plain_recount(in_tmp, where, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={"train": 3, "test": 4}, classes=COLOURS)
    lines, _ = tried(root, where, "--shots", "2")
    soup, head = wsoup.Soup.load("tried/soup.json"), wsoup.Head.load("tried/head.safetensors")
    assert (len(soup.members), head.soup.as_json(), [*head.class_names]) == (5, soup.as_json(), NAMES)
    assert Path("tried/classes.txt").read_text().split() == NAMES
    paths = sorted((root / "test").rglob("*.png"))
    x, y = features_of(paths, tiny_encoder), torch.tensor([NAMES.index(path.parent.name) for path in paths])
    how = {"class_names": NAMES, "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    counts = [
        int(((x @ soup.class_name_soup().classifier(**how)).argmax(1) == y).sum()),
        int(((x @ soup.classifier(**how)).argmax(1) == y).sum()),
        int((head.predict(x) == y).sum()),
    ]
    printed = [int(re.search(r"\((\d+) of 16\)", line)[1]) for line in lines[:4]]
    assert [printed[0], printed[2], printed[3]] == counts
    assert head.n_images == 8
    assert Path("tried/sheet.html").read_text().count("<figure") == 16


def test_the_printed_command_gives_the_printed_accuracy(in_tmp, where):
    root = write_image_folder(Path("photos"), splits={"train": 3, "test": 4}, classes=COLOURS)
    lines, _ = tried(root, where)
    command = re.search(r"next: (wsoup classify PHOTOS .*) >", lines[-1])[1]
    code, printed, errors = run(*shlex.split(command.replace("PHOTOS", str(root / "test")))[1:])
    assert code == 0, errors
    rows = list(csv.DictReader(io.StringIO(printed)))
    right = sum(Path(row["path"]).parent.name == row["class"] for row in rows)
    row = lines[3] if "--head" in command else lines[2]
    assert f"({right} of 16)" in row
    assert f"{100 * right / 16:.1f} % of 16 held-out photos right" in lines[-2]


def test_a_folder_without_a_split_is_split_without_duplicates(in_tmp, where, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={".": 6}, classes=COLOURS)
    shutil.copy(root / "red/00.png", root / "red/copy.png")
    shutil.copy(root / "red/00.png", root / "red/again.png")
    Path("photos/blue/00.png").write_bytes(b"broken")
    result = trial.trial(
        str(root), encoder=tiny_encoder, shots=16, m=3, seed=1, template="a {}.", batch_size=4
    )  # half of the smallest class: 3
    assert len(result.shots.labels) <= 12
    near = torch.cdist(result.held_out.features.double(), result.shots.features) < 1e-3
    assert not near.any()
    assert "1 photos could not be read" in result.notes


def test_the_recommendation_uses_shots_and_no_held_out_photos(in_tmp, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={"train": 4, "test": 4}, classes=COLOURS)
    how = {"encoder": tiny_encoder, "shots": 4, "m": 3, "seed": 1, "template": "a {}.", "batch_size": 8}
    before = trial.trial(str(root), **how)
    x, y = before.shots.features.float(), before.shots.labels
    of_soup = int(((x @ before.texts["soup of 3 words"].T).argmax(1) == y).sum())
    assert before.wants_head == (before.head.n_correct > of_soup)
    for red, blue in zip(sorted(root.glob("test/red/*")), sorted(root.glob("test/blue/*")), strict=True):
        red.rename("kept.png"), blue.rename(red), Path("kept.png").rename(blue)
    after = trial.trial(str(root), **how)
    assert after.wants_head == before.wants_head
    assert torch.equal(after.head.fitted.classifier, before.head.fitted.classifier)


def test_the_verdict_says_better_worse_or_noise(in_tmp, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={"train": 1, "test": 30}, classes=COLOURS)
    how = {"encoder": tiny_encoder, "shots": 1, "m": 3, "seed": 1, "template": "a {}.", "batch_size": 8}
    result = trial.trial(str(root), **how)
    assert not result.wants_head, "with one shot nothing can be left out"
    x, y = result.held_out.features, result.held_out.labels
    perfect = torch.stack([torch.nn.functional.normalize(x[y == c].mean(0) - x.mean(0), dim=0) for c in range(4)])
    rows = list(result.texts)
    result.texts.update({rows[0]: -perfect, rows[2]: perfect})
    assert result.verdict().startswith("Use the soup of 3 words. It gets ")
    assert result.verdict().endswith("more than noise.")
    result.texts.update({rows[0]: perfect, rows[2]: -perfect})
    assert result.verdict().startswith("Use class names alone. The soup of 3 words gets ")
    result.texts[rows[2]] = perfect
    assert result.verdict().startswith("Use the soup of 3 words or class names alone.")
    assert result.verdict().endswith("which may be noise.")


@pytest.mark.parametrize(
    ("splits", "classes", "message"),
    [
        ({"train": 1, "test": 1}, {"red": COLOURS["red"]}, "a head needs two classes"),
        ({"train": 1}, COLOURS, "no photos are left to be held out"),
    ],
)
def test_unusable_folders_are_one_line(in_tmp, where, splits, classes, message):
    write_image_folder(Path("photos"), splits=splits, classes=classes)
    code, printed, errors = run("try", "photos", *where)
    assert (code, printed) == (1, "")
    assert message in errors.splitlines()[-1]
    assert "lost is not a folder; give one of lost/<class>/<image>" in run("try", "lost", *where)[2]
