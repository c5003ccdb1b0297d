"""GPT descriptors: their wording, and how they are matched to classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reference import REFERENCE, needs_reference

from wsoup.base.errors import MissingError, PoolError
from wsoup.search.candidates import gpt, gpt_classes, pools
from wsoup.search.pools import lists, wording

AUTHORS_POOL = "ae2b85191103e0f6"


@pytest.mark.parametrize(
    ("descriptor", "sentence"),
    [
        ("a long tail", "which is a long tail"),
        ("A bird", "which has A bird"),
        ("used for cooking", "which is used for cooking"),
        ("made of wood", "which has made of wood"),
        ("often brown", "which often brown"),
        ("can fly.", "which can fly"),
        ("antennae", "which is antennae"),
        ("mayonnaise", "which mayonnaise"),
        ("two eyes", "which has two eyes"),
        ("cloth, leather, etc.", "which has cloth, leather, etc"),
        ("which is red", "which has which is red"),
    ],
)
def test_first_letters_decide_the_wording_as_in_the_source(descriptor: str, sentence: str) -> None:
    assert wording.sentence(descriptor) == sentence


def test_descriptors_are_read_bare_without_empty_ones(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"cat": ["a tail", " claws. ", "claws", ""], "dog": []}))
    assert gpt.read_descriptors(path) == {"cat": ["which is a tail", "which has claws", "which has claws"], "dog": []}
    as_in_code = {
        "cat": ["which is a tail", "which has  claws. ", "which has claws", "which has "],
        "dog": ["which has "],
    }
    assert gpt.read_descriptors(path, wording="code") == as_in_code


def test_classes_are_matched_by_normalised_name_never_by_order() -> None:
    keys = {"Apply Eye Makeup": ["b"], "hip hop": ["a"]}
    by_class = gpt_classes.matched(keys, class_names=["hip-hop", "Apply_Eye_Makeup"], origin="x")
    assert by_class == {"hip-hop": ["a"], "Apply_Eye_Makeup": ["b"]}


def test_names_that_differ_by_a_digit_are_different_classes() -> None:
    keys = {"737-200": ["a"], "747-200": ["b"]}
    assert gpt_classes.matched(keys, class_names=["747 200", "737 200"], origin="x") == {
        "747 200": ["b"],
        "737 200": ["a"],
    }


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("newt", "eft"),
        ("newt", "smooth newt"),
        ("eft", "smooth newt"),
        ("tights", "maillot"),
        ("projectile", "missile"),
        ("missile", "projectile"),
        ("sunglass", "sunglasses"),
        ("sunglasses", "sunglass"),
    ],
)
def test_known_aliases_of_imagenet_are_matched_where_a_class_has_no_key_of_its_own(ours: str, theirs: str) -> None:
    assert gpt_classes.matched({theirs: ["x"]}, class_names=[ours], origin="x") == {ours: ["x"]}
    assert gpt_classes.matched({theirs: ["x"], ours: ["y"]}, class_names=[ours], origin="x") == {ours: ["y"]}


def test_a_class_may_have_another_key_than_its_name() -> None:
    keys, gpt_names = {"smooth newt": ["a"], "newt": ["b"]}, {"newt": "smooth newt", "tights": "maillot"}
    by_class = gpt_classes.matched(keys, class_names=["smooth newt", "newt"], origin="x", gpt_names=gpt_names)
    assert by_class == {"smooth newt": ["a"], "newt": ["a"]}


@pytest.mark.parametrize(
    ("keys", "names", "says"),
    [
        (["cat"], ["owl"], "d.json has no sentences for class 'owl'"),
        (["Cat", "CAT"], ["cat"], "may both be class 'cat'; rename one"),
        (["cat"], ["Cat", "CAT"], "give each class a key that is exactly its name"),
    ],
)
def test_sentences_are_not_sent_to_gpt_names_which_are_not_read_for_them(keys, names, says) -> None:
    texts = {key: ["A thing."] for key in keys}
    with pytest.raises(PoolError) as for_gpt:
        gpt_classes.matched(texts, class_names=names, origin="d.json")
    assert "gpt_names" in str(for_gpt.value)
    with pytest.raises(PoolError) as raised:
        gpt_classes.matched(texts, class_names=names, origin="d.json", key_of_file="sentences")
    assert says in str(raised.value)
    assert "gpt_names" not in str(raised.value)


def test_an_unmatched_class_is_reported_with_the_nearest_keys() -> None:
    with pytest.raises(
        PoolError, match=r"d.json has no descriptors for class 'aple pie' \(1 of 2 .* nearest keys: 'apple_pie'"
    ):
        gpt_classes.matched({"apple_pie": [], "sushi": []}, class_names=["sushi", "aple pie"], origin="d.json")


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["猫", "狗"], ["猫", "狗"]),
        (["c", "c++", "c#"], ["c", "c++", "c#"]),
        (["C", "C++", "C#"], ["c", "c++", "c#"]),
        (["A+", "A-", "A"], ["A+", "A-", "A"]),
        (["a_-", "a_+"], ["A -", "A +"]),
        (["1.5", "15"], ["1.5", "15"]),
        (["1,5 t", "15 t"], ["1.5 t", "15 t"]),
        (["café", "caf"], ["café", "caf"]),
        (["CAFE\u0301", "Caf"], ["café", "caf"]),
        (["Ärzte", "Arzte"], ["ärzte", "arzte"]),
        (["кот", "собака"], ["Кот", "Собака"]),
        (["🐱", "🐶"], ["🐱", "🐶"]),
        (["½ pint", "¼ pint"], ["½_pint", "¼_pint"]),
        (["Red", "red"], ["Red", "red"]),
        (["a b", "ab"], ["a b", "ab"]),
        (["St. Bernard", "D.C.", "s'mores"], ["st bernard", "DC", "smores"]),
        (["F/A-18", "F-16A/B", "kite (bird of prey)"], ["f_a_18", "F-16AB", "kite bird of prey"]),
    ],
)
def test_each_class_has_the_descriptors_of_its_own_key(keys: list[str], names: list[str]) -> None:
    by_class = gpt_classes.matched({key: [key] for key in keys}, class_names=names, origin="d.json")
    assert by_class == {name: [key] for key, name in zip(keys, names, strict=True)}


@pytest.mark.parametrize(
    ("keys", "names", "message"),
    [
        (["Red", "RED"], ["red", "x"], "keys 'Red' and 'RED' may both be class 'red'; rename one, or name the key"),
        (["a b", "a_b", "x"], ["a-b", "x"], "keys 'a b' and 'a_b' may both be class 'a-b'"),
        (["a b", "x"], ["a b", "a_b"], "classes 'a b' and 'a_b' would both get the descriptors of key 'a b'"),
        (["hot dog", "x"], ["hot-dog", "Hotdog"], "classes 'hot-dog' and 'Hotdog' would both get"),
        (["c", "python"], ["c++", "python"], r"no descriptors for class 'c\+\+' \(1 of 2 .* nearest keys: 'c'"),
        (["A"], ["A-"], "no descriptors for class 'A-'"),
        (["15"], ["1.5"], "no descriptors for class '1.5'"),
        (["caf"], ["café"], "no descriptors for class 'café'"),
        (["_"], ["()"], r"no descriptors for class '\(\)'"),
        (["..."], ["-"], "no descriptors for class '-'"),
        (["猫"], ["狗"], "no descriptors for class '狗'"),
    ],
)
def test_two_names_that_may_be_one_are_refused_with_both(keys: list[str], names: list[str], message: str) -> None:
    with pytest.raises(PoolError, match=message):
        gpt_classes.matched({key: [key] for key in keys}, class_names=names, origin="d.json")


def test_classes_of_one_name_share_their_descriptors() -> None:
    """ImageNet has "missile" twice."""
    by_class = gpt_classes.matched({"Missile": ["a"]}, class_names=["missile", "missile"], origin="d.json")
    assert by_class == {"missile": ["a"]}


@pytest.mark.parametrize("text", ["[]", "{", '{"cat": "a tail"}', '{"cat": [1]}'])
def test_a_file_with_another_structure_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(PoolError, match=r"d.json is not a GPT-descriptor file \(.*\); expected"):
        gpt.read_descriptors(tmp_path / "d.json")
    with pytest.raises(MissingError, match=r"e.json does not exist; correct the path of this dataset's texts"):
        gpt.read_descriptors(tmp_path / "e.json")


@needs_reference
def test_imagenets_descriptors_give_exactly_the_authors_pool() -> None:
    ours = pools.descriptors([REFERENCE / "gpt_descriptors/descriptors_imagenet.json"])
    theirs = pools.descriptors([REFERENCE / "descriptors.txt"])
    assert len(ours) == 4_227
    assert ours == theirs
    assert lists.digest(ours) == AUTHORS_POOL


@needs_reference
@pytest.mark.parametrize(
    ("name", "periods", "empty"), [("imagenet", 1, 0), ("caltech", 1, 0), ("food101", 1, 5), ("sun", 0, 0)]
)
def test_nothing_else_is_changed_in_the_published_files(name: str, periods: int, empty: int) -> None:
    path = REFERENCE / f"gpt_descriptors/descriptors_{name}.json"
    raw, read = json.loads(path.read_text()), gpt.read_descriptors(path)
    pairs = [(a, b) for key, texts in raw.items() for a, b in zip(texts, read[key], strict=True)]
    assert sum(not b.endswith(a) for a, b in pairs) == periods
    assert all(b.endswith(a.removesuffix(".")) for a, b in pairs)
    assert sum(not texts for texts in read.values()) == empty


@needs_reference
def test_all_1000_imagenet_classes_are_matched() -> None:
    from wsoup.towers.models import imagenet_class_names

    names = imagenet_class_names()
    path = REFERENCE / "gpt_descriptors/descriptors_imagenet.json"
    by_class = gpt_classes.matched(gpt.read_descriptors(path), class_names=names, origin=str(path))
    assert set(by_class) == set(names)
    assert by_class["newt"] == gpt.read_descriptors(path)["eft"]
