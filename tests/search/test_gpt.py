"""GPT descriptors: the sentence that each becomes, and how classes find theirs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reference import REFERENCE, needs_reference

from wsoup.core.errors import MissingError, PoolError
from wsoup.search.rank import gpt, pools

AUTHORS_POOL = "ae2b85191103e0f6"


@pytest.mark.parametrize(
    ("descriptor", "sentence"),
    [
        ("a long tail", "which is a long tail"),
        ("an animal", "which is an animal"),
        ("A bird", "which has A bird"),
        ("used for cooking", "which is used for cooking"),
        ("made of wood", "which has made of wood"),
        ("attached to a handle", "which is attached to a handle"),
        ("usually brown", "which has usually brown"),
        ("often brown", "which often brown"),
        ("typically used for sleeping", "which typically used for sleeping"),
        ("can fly.", "which can fly"),
        ("may have stripes", "which may have stripes"),
        ("has wings", "which has wings"),
        ("antennae", "which is antennae"),
        ("candles on top", "which candles on top"),
        ("mayonnaise", "which mayonnaise"),
        ("two eyes", "which has two eyes"),
        ("cloth, leather, etc.", "which has cloth, leather, etc"),
        ("which is red", "which has which is red"),
    ],
)
def test_first_letters_decide_as_in_the_source(descriptor: str, sentence: str) -> None:
    assert gpt.sentence(descriptor) == sentence


def test_a_file_is_read_bare_without_empty_descriptors(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"cat": ["a tail", " claws. ", "claws", ""], "dog": []}))
    assert gpt.read(path) == {"cat": ["which is a tail", "which has claws", "which has claws"], "dog": []}


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
        PoolError, match=r"d.json is not a GPT-descriptor file \(.*\); expected {class: \[descriptor, ...\]}"
    ):
        gpt.read(tmp_path / "d.json")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"d.json does not exist; correct the path of the GPT descriptors"):
        gpt.read(tmp_path / "d.json")


@needs_reference
def test_the_authors_pool_comes_out_of_imagenets_descriptors_to_the_letter() -> None:
    ours = pools.descriptors([REFERENCE / "gpt_descriptors/descriptors_imagenet.json"])
    theirs = pools.descriptors([REFERENCE / "descriptors.txt"])
    assert len(ours) == 4_227
    assert ours == theirs
    assert pools.digest(ours) == AUTHORS_POOL


@needs_reference
@pytest.mark.parametrize(
    ("name", "periods", "empty"), [("imagenet", 1, 0), ("caltech", 1, 0), ("food101", 1, 5), ("sun", 0, 0)]
)
def test_all_else_that_is_changed_in_the_published_files(name: str, periods: int, empty: int) -> None:
    path = REFERENCE / f"gpt_descriptors/descriptors_{name}.json"
    raw, found = json.loads(path.read_text()), gpt.read(path)
    pairs = [(a, b) for key, texts in raw.items() for a, b in zip(texts, found[key], strict=True)]
    assert sum(not b.endswith(a) for a, b in pairs) == periods
    assert all(b.endswith(a.removesuffix(".")) for a, b in pairs)
    assert sum(not texts for texts in found.values()) == empty


@needs_reference
def test_all_1000_imagenet_classes_find_their_descriptors() -> None:
    from wsoup.towers.encoder import imagenet_class_names

    names = imagenet_class_names()
    path = REFERENCE / "gpt_descriptors/descriptors_imagenet.json"
    found = gpt.matched(gpt.read(path), class_names=names, origin=str(path))
    assert set(found) == set(names)
    assert found["newt"] == gpt.read(path)["eft"]
