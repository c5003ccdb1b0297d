"""Class names, labels and paths in the forms that people have them in: the same answer, or one line."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
from api_world import DESCRIPTORS, NAMES, photos
from small_world import COLOURS, write_image_folder

import wsoup
from wsoup.base.errors import WsoupError
from wsoup.core.member import Member


@pytest.fixture
def how(tiny_encoder) -> dict[str, object]:
    return {"model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}


@pytest.fixture
def images(tiny_encoder):
    return photos(tiny_encoder)


def soup_of(tiny_encoder) -> wsoup.Soup:
    return wsoup.Soup("greedy", 1, "a photo of a {}.", tiny_encoder.id, (Member("which is bright"),))


SAME = {
    "a list": lambda: NAMES,
    "a tuple": lambda: tuple(NAMES),
    "an array": lambda: np.array(NAMES),
    "an array of objects": lambda: np.array(NAMES, dtype=object),
    "class_to_idx": lambda: {name: label for label, name in enumerate(NAMES)},
    "class_to_idx, sorted otherwise": lambda: {name: NAMES.index(name) for name in sorted(NAMES)},
    "numpy's positions": lambda: {name: np.int64(label) for label, name in enumerate(NAMES)},
    "id2label": lambda: dict(enumerate(NAMES)),
    "id2label of JSON": lambda: {str(label): name for label, name in reversed([*enumerate(NAMES)])},
    "keys": lambda: dict.fromkeys(NAMES).keys(),
    "values": lambda: dict(enumerate(NAMES)).values(),
    "a generator": lambda: (name for name in NAMES),
    "a map": lambda: map(str, NAMES),
}


@pytest.mark.parametrize("kind", SAME)
def test_class_names_in_any_form_mean_the_same(tiny_encoder, how, kind: str) -> None:
    expected = soup_of(tiny_encoder).classifier(class_names=NAMES, **how)
    assert torch.equal(soup_of(tiny_encoder).classifier(class_names=SAME[kind](), **how), expected)


@pytest.mark.parametrize("kind", ["unique", "index", "series", "categories", "strings"])
def test_pandas(tiny_encoder, how, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(NAMES)
    given = {
        "unique": series.astype("category").unique(),
        "index": pandas.Index(NAMES),
        "series": series,
        "categories": pandas.Categorical(NAMES, categories=NAMES),
        "strings": series.astype("string").unique(),
    }[kind]
    expected = soup_of(tiny_encoder).classifier(class_names=NAMES, **how)
    assert torch.equal(soup_of(tiny_encoder).classifier(class_names=given, **how), expected)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"cat", "dog"}, "class_names is a set, which has no order; give a list in label order, such as sorted"),
        (frozenset(NAMES), "class_names is a set, which has no order"),
        ({"cat": 1, "dog": 2}, "class_names is a dict of 2 positions without 0; they must count from 0"),
        ({"cat": 0, "dog": 0}, r"class_names is a dict with \{'dog': 0\}; expected each name's position"),
        ({"cat": "tabby", "dog": "spaniel"}, r"class_names is a dict with \{'cat': 'tabby'\}; expected each name's"),
        ({"cat": 0.5, "dog": 1}, r"class_names is a dict with \{'cat': 0.5\}"),
        ({"cat": True, "dog": False}, r"class_names is a dict with \{'cat': True\}"),
        ({0: 1, 1: 0}, r"class_names\[0\] is 1"),
        ({}, "class_names is"),
        ("cat", "class_names is 'cat'"),
        (None, "class_names is None"),
        (3, "class_names is 3"),
    ],
)
def test_class_names_that_say_no_order(tiny_encoder, how, names: object, message: str) -> None:
    with pytest.raises(WsoupError, match=message) as caught:
        soup_of(tiny_encoder).classifier(class_names=names, **how)
    assert "\n" not in str(caught.value)


def test_names_are_those_of_labels_that_are_names(images, how) -> None:
    """Without class_names: sorted, as everybody would list them."""
    said = [NAMES[label] for label in images.labels]
    in_order = sorted(NAMES)
    head = wsoup.fit_head(images.features, said, progress=False, **how)
    assert head.class_names == tuple(in_order)
    same = wsoup.fit_head(images.features, said, class_names=in_order, progress=False, **how)
    assert torch.equal(head.classifier, same.classifier)
    search = {"descriptors": DESCRIPTORS, "m": 2, "progress": False}
    soup = wsoup.descriptor_soup(images.features, np.array(said), **search, **how)
    assert soup == wsoup.descriptor_soup(images.features, said, class_names=in_order, **search, **how)
    table = wsoup.score_texts(images.features, said, texts=DESCRIPTORS, progress=False, **how)
    numbers = [in_order.index(name) for name in said]
    named = wsoup.score_texts(images.features, numbers, class_names=in_order, texts=DESCRIPTORS, progress=False, **how)
    assert table["n_correct"] == named["n_correct"]


@pytest.mark.parametrize("labels", [[0, 1] * 30, ["cat", 1] * 30, np.zeros(60), []])
def test_names_cannot_be_guessed_from_numbers(images, how, labels: object) -> None:
    message = "class_names is missing, and labels are not names; give class_names= in label order"
    with pytest.raises(WsoupError, match=message):
        wsoup.fit_head(images.features, labels, **how)


# ----------------------------------------------------------------------------------------------------------- paths


def test_one_path_is_one_image(in_tmp: Path, tiny_encoder) -> None:
    root = write_image_folder(Path("photos"), splits={"a": 1}, classes=COLOURS)
    file = next(root.rglob("*.png"))
    encode = {"model": tiny_encoder.model, "preprocess": tiny_encoder.preprocess, "progress": False}
    expected = wsoup.encode_images([file], **encode)
    for given in (file, str(file)):
        assert torch.equal(wsoup.encode_images(given, **encode), expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("photos", r"paths.* is 'photos'; it is a folder; list its files: sorted\(Path\(folder\).rglob\('\*.jpg'\)\)"),
        (Path("photos"), "it is a folder; list its files"),
        (["photos/a"], "it is a folder; list its files"),
        ("lost.png", "lost.png does not exist"),
        (3, "paths is 3"),
        ({"photos": 1}, "paths is"),
    ],
)
def test_a_folder_where_paths_are_asked(in_tmp: Path, tiny_encoder, given: object, message: str) -> None:
    write_image_folder(Path("photos"), splits={"a": 1}, classes=COLOURS)
    with pytest.raises(WsoupError, match=message) as caught:
        wsoup.encode_images(given, model=tiny_encoder.model, preprocess=tiny_encoder.preprocess, progress=False)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ words of open_clip


@pytest.mark.parametrize(
    ("call", "word", "ours"),
    [
        (wsoup.fit_head, "classnames", "class_names"),
        (wsoup.word_soup, "classnames", "class_names"),
        (wsoup.zero_shot_accuracy, "classnames", "class_names"),
        (wsoup.encode_images, "batchsize", "batch_size"),
        (wsoup.descriptor_soup, "templates", "template"),
        (wsoup.Soup.classifier, "classnames", "class_names"),
    ],
)
def test_an_argument_by_another_name_gets_a_hint(call, word: str, ours: str) -> None:
    with pytest.raises(TypeError, match=rf"got an unexpected keyword argument '{word}'; did you mean '{ours}'\?"):
        call(**{word: NAMES})


@pytest.mark.parametrize(
    "call",
    [wsoup.fit_head, wsoup.word_soup, wsoup.descriptor_soup, wsoup.score_texts, wsoup.encode_images,
     wsoup.Soup.classifier],
)  # fmt: skip
def test_progress_bars_can_be_turned_off(call) -> None:
    """As docs/python.md promises."""
    assert "progress" in inspect.signature(call).parameters


def test_a_head_and_a_soup_of_a_model_in_memory_have_no_name_that_is_none(images, how) -> None:
    head = wsoup.fit_head(images.features, images.labels, class_names=NAMES, progress=False, **how)
    assert repr(head).startswith("<ridge head, 4 classes, ")
    assert "None" not in repr(head)
    assert "None" not in repr(head.soup)
