"""`wsoup try`: its counts equal a plain recount, its advice is that of the held-out photos, and its files give both."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import shlex
import shutil
from pathlib import Path

import open_clip
import pytest
import torch
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.base.errors import DataError
from wsoup.images.decode import load_rgb
from wsoup.images.pixels import encode_pixels
from wsoup.photos import trial
from wsoup.photos.labelled import LabelledPhotos, look

NAMES = sorted(COLOURS)


@pytest.fixture
def where(tiny_encoder_files) -> list[str]:
    names = ("pretrained", "config", "interpolation")
    return [part for name in names for part in (f"--{name}", tiny_encoder_files[name])]


@pytest.fixture(autouse=True)
def five_words(monkeypatch):
    monkeypatch.setattr(trial, "WORDS", 5)


def tried(photos: Path, where: list[str], *options: str) -> tuple[list[str], str]:
    """Lines of stdout and stderr."""
    code, printed, errors = run("try", str(photos), *where, *options)
    assert code == 0, errors
    return printed.splitlines(), errors


def looked(root: Path | str, *, shots: int = 16, classes: str | None = None) -> LabelledPhotos:
    return look(str(root), shots=shots, seed=1, template="a {}.", classes=classes)


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_counts_equal_a_plain_recount(in_tmp, where, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={"train": 3, "test": 4}, classes=COLOURS)
    lines, _ = tried(root, where, "--shots", "2")
    soup, head = wsoup.Soup.load("tried/soup.json"), wsoup.Head.load("tried/head.safetensors")
    means = wsoup.Head.load("tried/class_means.safetensors")
    assert (len(soup.members), [*head.class_names]) == (5, NAMES)
    assert [(one.kind, one.soup.kind) for one in (means, head)] == [("means", "class_name"), ("ridge", "class_name")]
    assert Path("tried/classes.txt").read_text().split() == [name for name in NAMES for _ in range(2)]
    paths = sorted((root / "test").rglob("*.png"))
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(str(path))) for path in paths])
    x, y = encode_pixels(tiny_encoder, pixels), torch.tensor([NAMES.index(path.parent.name) for path in paths])
    how = {"class_names": NAMES, "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    model, tokenizer, templates = tiny_encoder.model, tiny_encoder.tokenizer, open_clip.OPENAI_IMAGENET_TEMPLATES
    answers = [
        (x @ soup.class_name_soup().classifier(**how)).argmax(1),
        (x @ open_clip.build_zero_shot_classifier(model, tokenizer, NAMES, templates)).argmax(1),
        (x @ soup.classifier(**how)).argmax(1),
        means.predict(x),
        head.predict(x),
    ]
    printed = [int(re.search(r"\((\d+) of 16 held out\)", line)[1]) for line in lines[:5]]
    assert printed == [int((given == y).sum()) for given in answers]
    table = rows_of(Path("tried/predictions.csv").read_text())
    assert [row["path"] for row in table] == [*map(str, paths)]
    for column, given in zip([*table[0]][2:], answers, strict=True):
        assert [row[column] for row in table] == [NAMES[label] for label in given]
    assert Path("tried/sheet.html").read_text().count("<figure") == 16


def test_classes_that_share_a_name_are_told_apart_by_their_positions(in_tmp, where):
    root = write_image_folder(Path("photos"), splits={"train": 3, "test": 4}, classes=COLOURS)
    Path("names.txt").write_text("".join(f"{name}\t{'one' if i < 2 else name}\n" for i, name in enumerate(NAMES)))
    lines, _ = tried(root, where, "--classes", "names.txt")
    table = rows_of(Path("tried/predictions.csv").read_text())
    for line, row in zip(lines, [*table[0]][2:7], strict=False):
        n_right = sum(cells["label_index"] == cells[f"{row}_index"] for cells in table)
        assert f"({n_right} of 16 held out)" in line


@pytest.mark.parametrize("use", [trial.CLASS_NAME, trial.TEMPLATES, trial.SOUP, trial.CLASS_MEANS, trial.HEAD])
def test_the_printed_command_gives_the_printed_accuracy(in_tmp, where, use, monkeypatch):
    root = write_image_folder(Path("photos"), splits={"train": 3, "test": 4}, classes=COLOURS)
    advised = trial.advise
    monkeypatch.setattr(trial, "advise", lambda *rows, **how: dataclasses.replace(advised(*rows, **how), use=use))
    lines, _ = tried(root, where)
    command = re.search(r"next: (wsoup classify PHOTOS .*) --out predictions.csv", lines[-1])[1]
    code, printed, errors = run(*shlex.split(command.replace("PHOTOS", str(root / "test")))[1:])
    assert code == 0, errors
    right = sum(Path(row["path"]).parent.name == row["class"] for row in rows_of(printed))
    assert next(f"({right} of 16 held out)" in line for line in lines if line.startswith(use))


def test_every_class_gives_as_many_shots_as_it_has(in_tmp, tiny_encoder, where):
    root = write_image_folder(Path("photos"), splits={"train": 6, "test": 2}, classes=COLOURS)
    for name in ("01.png", "02.png", "03.png", "04.png", "05.png"):
        (root / "train/red" / name).unlink()
    wanted = looked(root, shots=4)
    assert torch.bincount(wanted.labels[: wanted.n_train]).tolist() == [4, 4, 1, 4]
    assert torch.bincount(wanted.labels[wanted.n_train :]).tolist() == [2, 2, 2, 2]
    assert trial.trial(wanted, encoder=tiny_encoder).heads[trial.HEAD].class_names == tuple(NAMES)
    (root / "train/red/00.png").write_bytes(b"broken")
    lines, errors = tried(root, where)
    assert "no head: nothing to learn 'red' from, as no training photo of it can be used; add photos" in errors
    assert not Path("tried/head.safetensors").exists()
    assert not any(line.startswith("head") for line in lines)


def test_a_folder_without_a_split_is_split_without_duplicates(in_tmp, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={".": 6}, classes=COLOURS)
    shutil.copy(root / "red/00.png", root / "red/copy.png")
    shutil.copy(root / "red/00.png", root / "red/again.png")
    shutil.copy(root / "green/00.png", root / "white/green.png")
    Path("photos/blue/00.png").write_bytes(b"broken")
    Path("photos/blue/01.heic").write_bytes(b"unknown")
    wanted = looked(root)
    result = trial.trial(wanted, encoder=tiny_encoder)
    shown = wanted.paths[: wanted.n_train]
    assert not {*shown} & {*result.paths}
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in shown if "blue/00" not in path])
    near = torch.cdist(result.features.double(), encode_pixels(tiny_encoder, pixels).double()) < 1e-3
    assert not near.any()
    assert "1 photo could not be read: 'photos/blue/00.png'" in result.notes
    (copies,) = [note for note in result.notes if note.startswith("2 photos are left out as copies of others: ")]
    (twice,) = [note for note in result.notes if "the same pictures lie in two classes" in note]
    assert copies.count("photos/red") == 2
    assert "photos/green/00.png" in twice
    assert "photos/white/green.png" in twice
    assert "left out, convert them to .jpg: 1 .heic" in result.notes


def test_names_are_proposed_said_and_compared(in_tmp, where):
    classes = {"redRose_easy": COLOURS["red"], "green_tea": COLOURS["green"], "blue": COLOURS["blue"]}
    root = write_image_folder(Path("photos"), splits={"train": 2, "test": 2}, classes=classes)
    errors = tried(root, where)[1]
    assert "classes are named green_tea -> green tea, redRose_easy -> red rose; --classes FILE" in errors
    assert Path("tried/classes.txt").read_text() == "blue\tblue\ngreen_tea\tgreen tea\nredRose_easy\tred rose\n"
    Path("names.txt").write_text("blue\tsky\ngreen_tea\ttea\nredRose_easy\trose\n")
    wanted = looked(root, classes="names.txt")
    assert wanted.names == {"blue": "sky", "green_tea": "tea", "redRose_easy": "rose"}
    assert not wanted.notes


def test_an_empty_class_folder_is_left_out_and_said(in_tmp, where, tiny_encoder):
    root = write_image_folder(Path("photos"), splits={"train": 2, "test": 2}, classes=COLOURS)
    for folder in ("train/violet", "test/violet", "train/heic"):
        (root / folder).mkdir()
    (root / "train/heic/1.heic").write_bytes(b"unknown")
    for path in (root / "test/red").iterdir():
        path.unlink()
    looked_at = looked(root)
    assert [*looked_at.names] == NAMES
    assert torch.bincount(looked_at.labels[looked_at.n_train :], minlength=4)[NAMES.index("red")] == 0
    assert "left out, since no photo in them can be read: the class folders 'heic', 'violet'" in looked_at.notes
    lines, errors = tried(root, where)
    assert "the class folders 'heic', 'violet'" in errors
    assert lines[0].endswith(" of 6 held out)")
    shutil.rmtree(root / "train")
    shutil.rmtree(root / "test/blue")
    shutil.rmtree(root / "test/green")
    with pytest.raises(DataError, match="photos has one class, 'white'"):
        looked(root)


def test_few_held_out_photos_are_judged_with_all_others_in_turn(in_tmp, tiny_encoder, monkeypatch):
    root = write_image_folder(Path("photos"), splits={"train": 2, "test": 2}, classes=COLOURS)
    few = trial.trial(looked(root), encoder=tiny_encoder)
    assert {row: len(shares) for row, shares in few.in_turn.items()} == dict.fromkeys(few.classifiers, 16)
    for row in (trial.CLASS_NAME, trial.TEMPLATES, trial.SOUP):
        n_right = int((few.answers[row] == few.labels).sum())
        assert few.in_turn[row][8:].sum() == n_right, "texts answer the held-out photos alike"
    assert "With only 8 photos held out, this is judged on 16 labelled photos in turn." in few.advice.sentence
    monkeypatch.setattr(trial, "FEW", 8)
    enough = trial.trial(looked(root), encoder=tiny_encoder)
    assert enough.in_turn is None
    assert "in turn" not in enough.advice.sentence
    assert enough.advice.gains == few.advice.gains


def test_the_percentages_above_the_advice_are_those_of_the_advice(in_tmp, tiny_encoder, monkeypatch):
    """Whether the held-out photos decide or all labelled ones in turn."""
    root = write_image_folder(Path("photos"), splits={"train": 2, "test": 2}, classes=COLOURS)
    for few, said in ((100, "% of 16 photos in turn ("), (8, "% (")):
        monkeypatch.setattr(trial, "FEW", few)
        *rows, _, advice = trial.trial(looked(root), encoder=tiny_encoder).lines()
        printed = {re.search(r"\d+\.\d %", row)[0] for row in rows if said in row}
        told = set(re.findall(r"\d+\.\d %", advice))
        assert told
        assert told <= printed


def test_the_help_names_the_soup_that_is_compared(in_tmp):
    _, printed, _ = run("try", "--help")
    assert "64 random words" in printed


def test_a_name_that_hurts_is_one_with_most_others_nearer():
    cosines = torch.tensor([[0.9, 0.1, 0.0]] * 5 + [[0.5, 0.1, 0.4]] * 5 + [[0.0, 0.1, 0.2]] * 4)
    labels = torch.tensor([0] * 5 + [1] * 5 + [2] * 4)
    assert trial.hurting_names(cosines, labels) == [1]
    assert trial.hurting_names(-cosines, labels) == [0], "too few photos of the last class"


@pytest.mark.parametrize(
    ("splits", "classes", "message"),
    [
        ({"train": 1, "test": 1}, {"red": COLOURS["red"]}, "photos has one class, 'red'"),
        ({"train": 1}, COLOURS, "photos: no class has two images that differ, so that none is left to test on"),
    ],
)
def test_unusable_folders_are_one_line_before_a_model_is_loaded(in_tmp, where, splits, classes, message, monkeypatch):
    monkeypatch.setattr("wsoup.api.encoders.load_encoder", lambda *_, **__: pytest.fail("a model was loaded"))
    write_image_folder(Path("photos"), splits=splits, classes=classes)
    code, printed, errors = run("try", "photos", *where)
    assert (code, printed) == (1, "")
    assert message in errors.splitlines()[-1]
    assert "lost is not a folder; give one of lost/<class>/<image>" in run("try", "lost", *where)[2]
    Path("tried").mkdir()
    Path("tried/soup.json").write_text("mine")
    assert "--out tried/soup.json exists already; give another name, or --force" in run("try", "photos", *where)[2]


def test_without_network_it_ends_at_once(in_tmp, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_CACHE", str(in_tmp))
    write_image_folder(Path("photos"), splits={"train": 1, "test": 1}, classes=COLOURS)
    code, _, errors = run("try", "photos", "--model", "ViT-B-32", "--pretrained", "laion400m_e31")
    assert code == 1
    assert errors == (
        "error: the weights of ViT-B-32 / laion400m_e31 are not on this machine, and the hub does not answer; connect "
        "to the network, or name files that you have: --pretrained FILE --config FILE (its open_clip config)\n"
    )
    # A folder that is not there is said first, whatever the weights.
    for place in ("nowhere", "params.yaml"):
        Path("params.yaml").touch()
        code, _, errors = run("try", place)
        assert (code, errors) == (1, f"error: {place} is not a folder; give one of {place}/<class>/<image>\n")
    (_, _, errors) = run("try", "photos", "--model", "ViT-B-32", "--pretrained", "no.pt")
    assert "no.pt, the weights of wsoup try, is not a file here" in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        (["--pretrained", "w.pt"], "--pretrained w.pt is a weights file; name its model, too: --config FILE"),
        (["--config", "own.json"], "--config own.json is a model without weights; add --pretrained FILE"),
        (
            ["--model", "own-clip", "--pretrained", "w.pt"],
            "open_clip has no model 'own-clip'; for a model of your own give --config FILE (its open_clip config) "
            "beside --pretrained FILE",
        ),
    ],
)
def test_an_incomplete_local_model_is_told_which_option_is_missing(in_tmp, options, missing):
    write_image_folder(Path("photos"), splits={"train": 1, "test": 1}, classes=COLOURS)
    code, printed, errors = run("try", "photos", *options)
    assert (code, printed) == (1, "")
    assert missing in errors
    assert not Path("tried").exists()


def test_a_folder_of_datasets_is_not_taken_for_one_of_classes(in_tmp):
    for name in ("art", "photo"):
        write_image_folder(Path("all", name), splits={"test": 1}, classes=COLOURS)
    with pytest.raises(DataError, match=r"all holds folders with train/, val/ or test/, .*: 'art', 'photo'; name one"):
        looked("all")


@pytest.mark.parametrize("given", ["0.5", "a,b,c"])
def test_a_mean_that_is_not_three_numbers_is_told_what_is(given):
    code, _, errors = run("try", "photos", "--image-mean", given)
    assert code == 2
    assert f"'{given}' is not three numbers, such as" in errors
