"""GPT descriptors: the sentence that each becomes, and how classes find theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wsoup.errors import MissingError, PoolError
from wsoup.search import gpt, pools

REFERENCE = Path(__file__).parents[2] / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the authors' pools are not here")


@pytest.mark.parametrize(
    ("descriptor", "sentence"),
    [
        ("a long tail", "which is a long tail"),
        ("an animal", "which is an animal"),
        ("A bird", "which is A bird"),
        ("used for cooking", "which is used for cooking"),
        ("made of wood", "which is made of wood"),
        ("covered in scales", "which is covered in scales"),
        ("found in Africa", "which is found in Africa"),
        ("usually brown", "which is usually brown"),
        ("usually has a lid", "which usually has a lid"),
        ("often brown", "which often brown"),
        ("often, a handle", "which often, a handle"),
        ("can fly.", "which can fly"),
        ("may have stripes", "which may have stripes"),
        ("has wings", "which has wings"),
        ("antennae", "which has antennae"),
        ("armrests", "which has armrests"),
        ("candles on top", "which has candles on top"),
        ("mayonnaise", "which has mayonnaise"),
        ("hash browns", "which has hash browns"),
        ("webbed feet", "which has webbed feet"),
        ("red in color", "which has red in color"),
        ("two eyes", "which has two eyes"),
        ("the body is long", "which has the body is long"),
        ("which is red", "which is red"),
    ],
)
def test_whole_words_decide_between_is_and_has(descriptor: str, sentence: str) -> None:
    assert gpt.sentence(descriptor) == sentence


def test_a_file_is_read_bare_and_each_descriptor_once(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"cat": ["a tail", " claws. ", "claws", ""], "dog": []}))
    assert gpt.read(path) == {"cat": ["which is a tail", "which has claws"], "dog": []}


def test_classes_find_their_key_by_normalised_name_never_by_order() -> None:
    keys = {"Apply Eye Makeup": ["b"], "hip hop": ["a"]}
    found = gpt.matched(keys, class_names=["hip-hop", "Apply_Eye_Makeup"], origin="x")
    assert found == {"hip-hop": ["a"], "Apply_Eye_Makeup": ["b"]}


@pytest.mark.parametrize(("ours", "theirs"), [("newt", "eft"), ("newt", "smooth newt"), ("tights", "maillot")])
def test_imagenets_known_aliases(ours: str, theirs: str) -> None:
    assert gpt.matched({theirs: ["x"]}, class_names=[ours], origin="x") == {ours: ["x"]}


def test_an_own_key_goes_before_an_alias() -> None:
    keys = {"smooth newt": ["a"], "eft": ["b"]}
    found = gpt.matched(keys, class_names=["smooth newt", "newt"], origin="x")
    assert found["smooth newt"] == ["a"]
    assert found["newt"] == ["b"]


def test_an_unmatched_class_lists_the_nearest_keys() -> None:
    with pytest.raises(
        PoolError, match=r"d.json has no descriptors for class 'aple pie' \(1 of 2 .* nearest keys: 'apple_pie'"
    ):
        gpt.matched({"apple_pie": [], "sushi": []}, class_names=["sushi", "aple pie"], origin="d.json")


@pytest.mark.parametrize("text", ["[]", "{", '{"cat": "a tail"}', '{"cat": [1]}'])
def test_a_file_of_another_shape(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(
        PoolError, match=r"d.json is no GPT-descriptor file \(.*\); expected {class: \[descriptor, ...\]}"
    ):
        gpt.read(tmp_path / "d.json")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"d.json does not exist; correct the path of the GPT descriptors"):
        gpt.read(tmp_path / "d.json")


@needs_reference
def test_nearly_all_of_the_authors_pool_comes_out_of_imagenets_descriptors() -> None:
    """4,022 of 4,227 are equal; the others are where whole words or a participle decide otherwise."""
    ours = set(pools.descriptors([REFERENCE / "gpt_descriptors/descriptors_imagenet.json"]))
    theirs = set(pools.descriptors([REFERENCE / "descriptors.txt"]))
    assert len(theirs) == len(ours) == 4_227
    assert len(ours & theirs) == 4_022
    assert not any(text.startswith(("which is antennae", "which candles", "which mayonnaise")) for text in ours)


@needs_reference
def test_all_1000_imagenet_classes_find_their_descriptors() -> None:
    from wsoup.towers import imagenet_class_names

    names = imagenet_class_names()
    path = REFERENCE / "gpt_descriptors/descriptors_imagenet.json"
    found = gpt.matched(gpt.read(path), class_names=names, origin=str(path))
    assert set(found) == set(names)
    assert found["newt"] == gpt.read(path)["eft"]
