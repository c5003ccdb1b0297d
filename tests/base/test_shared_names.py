"""Two classes may have one name wherever a label is a position; where a name must identify, both are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from api_world import NAMES, SMALL, WORDS, photos
from run_cli import run
from small_world import COLOURS, write_image_folder

import wsoup
from stages import head as head_stage
from wsoup.base.class_names import positions_by_name, shared_names
from wsoup.base.errors import DataError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.datasets import folder
from wsoup.datasets.listing import validated
from wsoup.photos.names import listed_names, read_class_names

TWICE = ["cat", "dog", "cat", "fish"]


def test_the_classes_of_each_name_are_said() -> None:
    assert positions_by_name(TWICE) == {"cat": [0, 2], "dog": [1], "fish": [3]}
    assert shared_names(NAMES) == ""
    line = shared_names(["a", "b", "a", "b", "a", "c", "c", "d", "d"])
    assert line == (
        "class name 'a' is that of classes 0, 2 and 4, 'b' is that of classes 1 and 3, 'c' is that of classes 5 and 6 "
        "and 1 more such names: a tie between them goes to the first"
    )


def test_imagenets_names_as_open_clip_has_them_make_a_classifier(tiny_encoder) -> None:
    from open_clip import IMAGENET_CLASSNAMES

    assert len({*IMAGENET_CLASSNAMES}) == 998
    soup = wsoup.Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, (Member("sharp"),))
    with pytest.warns(UserWarning, match="class name 'missile' is that of classes 657 and 744, 'sunglasses' is that"):
        weights = soup.classifier(
            class_names=IMAGENET_CLASSNAMES, model=tiny_encoder.model, tokenizer=tiny_encoder.tokenizer
        )
    assert weights.shape[1] == 1000
    assert torch.equal(weights[:, 657], weights[:, 744])


def test_a_search_and_a_head_take_classes_of_one_name(tiny_encoder) -> None:
    images = photos(tiny_encoder)
    towers = {"model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    given = {"features": images.features, "labels": images.labels, "class_names": TWICE}
    with pytest.warns(UserWarning, match="class name 'cat' is that of classes 0 and 2"):
        soup = wsoup.word_soup(**given, **towers, words=WORDS, seed=1, progress=False, **SMALL)
    with pytest.warns(UserWarning, match="class name 'cat' is that of classes 0 and 2"):
        head = wsoup.fit_head(**given, soup=soup, model=tiny_encoder.model, tokenizer=tiny_encoder.tokenizer)
    assert list(head.class_names) == TWICE
    head.save("head.safetensors")
    assert list(wsoup.Head.load("head.safetensors").class_names) == TWICE


@pytest.fixture(autouse=True)
def _in_tmp(in_tmp: Path) -> None:
    """Heads are written into a folder of the test."""


def test_labels_that_are_names_are_refused_where_a_name_is_that_of_two_classes(tiny_encoder) -> None:
    images = photos(tiny_encoder)
    labels = [TWICE[label] for label in images.labels.tolist()]
    message = "labels holds 'cat', which classes 0 and 2 of class_names are both called; give labels as numbers"
    with pytest.warns(UserWarning, match="classes 0 and 2"), pytest.raises(DataError, match=message):
        wsoup.word_soup(
            features=images.features,
            labels=labels,
            class_names=TWICE,
            model=tiny_encoder.model,
            tokenizer=tiny_encoder.tokenizer,
            words=WORDS,
            seed=1,
            **SMALL,
        )


@pytest.mark.parametrize(
    ("text", "names", "folders"),
    [
        ("cat,dog", ["cat", "dog"], {"cat": "cat", "dog": "dog"}),
        ("missile\ncrane\ncrane\n", ["missile", "crane", "crane"], {"missile": "missile", "crane": "crane"}),
        ("n1\tcrane\nn2\tcrane\n", ["crane", "crane"], {"n1": "crane", "n2": "crane"}),
    ],
)
def test_files_of_names_may_repeat_one(text: str, names: list[str], folders: dict[str, str]) -> None:
    if "\n" in text:
        Path("names.txt").write_text(text)
        text = "names.txt"
    assert listed_names(text) == names
    assert read_class_names(text) == folders


def test_a_folder_with_two_names_is_refused() -> None:
    Path("names.txt").write_text("n1\tcrane\nn1\tbird\n")
    with pytest.raises(DataError, match="lines 1 and 2: folder 'n1' is named twice; keep one"):
        listed_names("names.txt")


def test_a_name_that_is_typed_twice_is_refused_with_both_places() -> None:
    with pytest.raises(DataError, match="--classes holds 'cat' 2 times, as classes 0 and 2; leave one out, or write"):
        listed_names("cat,dog,cat")


def test_own_folders_of_one_name_are_two_classes_and_said() -> None:
    write_image_folder(Path("mine"), splits={"train": 2, "test": 1}, classes=COLOURS)
    Path("mine/classnames.txt").write_text("red crane\ngreen crane\nblue sky\nwhite snow\n")
    listing = validated(folder.read("mine"))
    assert listing.class_names == ["sky", "crane", "crane", "snow"]
    assert listing.splits["test"].labels.tolist() == [0, 1, 2, 3]


def test_classify_takes_names_that_repeat_and_says_it(tiny_encoder, tiny_encoder_files) -> None:
    Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, (Member("sharp"),)).save("soup.json")
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    write_image_folder(Path("new"), splits={"a": 1}, classes=COLOURS)
    Path("names.txt").write_text("red\ngreen\nred\n")
    options = ("--soup", "soup.json", "--classes", "names.txt", "--params", "params.yaml")
    code, printed, errors = run("classify", "new", *options)
    assert code == 0, errors
    assert len(printed.splitlines()) == 5
    assert errors.count("class name 'red' is that of classes 0 and 2: a tie between them goes to the first") == 1
    code, _, errors = run("soup", "export", "soup.json", "--format", "npz", "--classes", "names.txt", "--out", "c.npz")
    assert code == 0, errors
    assert np.load("c.npz")["class_names"].tolist() == ["red", "green", "red"]


@pytest.mark.parametrize(
    ("names", "of_head", "columns", "labels"),
    [
        (["a", "b", "a"], ["a", "b", "a"], [0, 1, 2], [0, 1, 2]),
        (["a", "a", "b"], ["a", "b", "a"], [0, 2, 1], [0, 1, 2]),
        (["b", "a"], ["a", "b", "a"], [1, 0, 2], [0, 1, 1]),
        (["a", "b", "a"], ["b", "a", "c"], [1, 0], [0, 1]),
        (["c", "b"], ["a", "b", "c"], [2, 1], [0, 1]),
    ],
)
def test_a_heads_columns_are_found_by_name_and_place(names, of_head, columns, labels) -> None:
    found, found_labels = head_stage.columns_of(names, of_head=of_head)
    assert (found, found_labels.tolist()) == (columns, labels)
