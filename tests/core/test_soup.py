"""Soups as values: saved and loaded unchanged; other files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from wsoup.base.errors import DataError, MismatchError, MissingError, ParamsError
from wsoup.cli.formats import summary
from wsoup.core.member import Cost, Member, Step
from wsoup.core.prompts import prompt
from wsoup.core.soup import Soup, load_seeds, together

ENCODER = {"model": "m", "pretrained": "p", "config": "c", "weights": "w", "quick_gelu": False, "precision": "fp32"}
MEMBERS = (Member("sharp clean", 74, 100, (Step("sharp", 70), Step("clean", 75))), Member(""))
SOUP = Soup("chains", 1, "a photo of a {}.", ENCODER, MEMBERS, {"torch": "2"})


def test_a_saved_soup_is_loaded_unchanged(tmp_path):
    SOUP.save(tmp_path / "x.json")
    assert Soup.load(tmp_path / "x.json", encoder=ENCODER) == SOUP
    assert SOUP.texts == ["sharp clean", ""]


def test_soup_files_are_as_their_schema_says(tmp_path):
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    schema = validator(json.loads((Path(__file__).parents[2] / "data/soup.schema.json").read_text()))
    for soup in (SOUP, SOUP.class_name_soup(), replace(SOUP, seed=None, cost={"search": Cost(1, 2, None)})):
        soup.save(tmp_path / "x.json")
        value = json.loads((tmp_path / "x.json").read_text())
        assert [*schema.iter_errors(value)] == []
        for wrong in ({"members": []}, {"seed": -1}, {"more": 1}, {"encoder": {}}, {"members": [{"text": "x"}]}):
            assert not schema.is_valid({**value, **wrong})


def test_repr_is_one_line():
    assert repr(SOUP) == "<chains soup, seed 1, m/p, 2 members: 'sharp clean', ''>"
    unnamed = replace(SOUP, encoder={"model": "CLIP", "pretrained": None})
    assert repr(unnamed) == "<chains soup, seed 1, 2 members: 'sharp clean', ''>", "CLIP is the class of the model"
    hub = replace(SOUP, encoder={"model": "hf-hub:owner/name", "pretrained": None})
    assert repr(hub).startswith("<chains soup, seed 1, hf-hub:owner/name, 2 members: ")
    assert repr(replace(SOUP, members=4 * (Member("x"),))).endswith("4 members: 'x', 'x', 'x', ...>")


def test_a_soup_is_saved_to_and_loaded_from_a_url():
    url = "memory://bucket/soups/word.json"
    with pytest.raises(MissingError, match=r"memory://bucket/soups/word\.json does not exist; soups are made by"):
        Soup.load(url)
    SOUP.save(url)
    assert Soup.load(url, encoder=ENCODER) == SOUP
    fsspec.filesystem("memory").pipe_file("/bucket/soups/broken.json", b"{")
    with pytest.raises(MismatchError, match=r"broken\.json is not JSON"):
        Soup.load("memory://bucket/soups/broken.json")
    with pytest.raises(DataError, match=r"odd://x\.json.*odd"):
        SOUP.save("odd://x.json")
    fsspec.filesystem("memory").rm("/bucket/soups", recursive=True)


def test_a_file_url_is_a_path(tmp_path):
    SOUP.save(f"file://{tmp_path}/word.json")
    assert Soup.load(tmp_path / "word.json") == SOUP


def test_templates_have_one_placeholder_whatever_a_member_holds():
    odd = Soup("chains", 1, "a photo of a {}.", ENCODER, (Member("a {b} c"), Member("")))
    assert [template.format("cat") for template in odd.templates()] == [
        "a photo of a cat, a {b} c.",
        "a photo of a cat.",
    ]
    assert odd.templates("art of a {c}.")[1].format("cat", c="cat") == "art of a cat."


@pytest.mark.parametrize("template", ["a photo.", "a {} and a {}.", "a {c} and a {c}.", "a {} and a {c}."])
def test_a_template_has_one_placeholder_in_either_form(template):
    with pytest.raises(ParamsError, match="must hold exactly one placeholder"):
        prompt(template, "cat")


@pytest.mark.parametrize("template", ["a photo of the {}.", "a photo of the {}", "{c} seen from above."])
def test_a_class_name_keeps_its_final_period(template):
    for name in ("Capitol in D.C.", "cat"):
        prompts_there = [prompt(template, name, text) for text in SOUP.texts]
        assert [other.format(name) for other in SOUP.templates(template)] == prompts_there


def test_a_soup_of_another_encoder_is_refused_with_both_names(tmp_path):
    SOUP.save(tmp_path / "x.json")
    with pytest.raises(MismatchError, match="'m', expected 'ViT-B-16'"):
        Soup.load(tmp_path / "x.json", encoder={**ENCODER, "model": "ViT-B-16"})


# ------------------------------------------------------------------------------------------------- all seeds

FIRST = Soup("top", 2, "a photo of a {}.", ENCODER, (Member("sharp", 7, 10), Member("old", 6, 10)))
SECOND = replace(FIRST, seed=10, members=(Member("sharp", 8, 10),))


def test_members_are_in_the_order_of_seeds_with_duplicates(tmp_path):
    SECOND.save(tmp_path / "seed10.json")
    FIRST.save(tmp_path / "seed2.json")
    soup = load_seeds(tmp_path)
    assert (soup.seed, soup.texts) == (None, ["sharp", "old", "sharp"])
    assert "all seeds, 3 members" in summary(soup)
    soup.save(tmp_path / "whole.json")
    assert Soup.load(tmp_path / "whole.json") == soup


@pytest.mark.parametrize("written", [(2, 3, 10), (10, 3, 2)])
def test_seeds_are_in_the_order_of_their_numbers_whatever_the_file_system_lists_first(tmp_path, written):
    """By time written, one of the two would be wrong; by name, 10 would come first."""
    for seed in written:
        replace(FIRST, seed=seed, members=(Member(f"of seed {seed}"),)).save(tmp_path / f"seed{seed}.json")
    assert load_seeds(tmp_path).texts == ["of seed 2", "of seed 3", "of seed 10"]


def test_soups_of_one_kind_with_other_settings_are_not_joined():
    searched = [replace(FIRST, seed=seed, definition={"kind": "top", "m": m}) for seed, m in ((1, 8), (2, 16))]
    with pytest.raises(MismatchError, match="here holds soups of several definitions"):
        together(searched, origin="here")
    same = replace(searched[1], definition=searched[0].definition)
    assert together([searched[0], same], origin="here").definition == {"kind": "top", "m": 8}


def test_a_single_seed_is_returned_as_is():
    assert together([FIRST], origin="here") is FIRST


def test_soups_of_different_definitions_are_refused(tmp_path):
    with pytest.raises(MismatchError, match="here holds soups of several definitions"):
        together([FIRST, replace(SECOND, kind="chains")], origin="here")
    with pytest.raises(MismatchError, match="here"):
        together([FIRST, replace(SECOND, encoder={"model": "other", "pretrained": "p"})], origin="here")
    with pytest.raises(MissingError, match=r"holds no seed<k>.json; soups are made by stage 'soup'"):
        load_seeds(tmp_path)


def test_a_member_may_get_every_image_right_and_no_more():
    about = {"kind": "top", "seed": 1, "template": "a {}.", "encoder": {"model": "x", "pretrained": "y"}}
    member = {"text": "sharp", "n_correct": 5, "n_images": 5, "trace": []}
    assert Soup.from_json({**about, "members": [member]}, origin="x").members[0].n_correct == 5
    with pytest.raises(MismatchError, match="6 right of 5 images"):
        Soup.from_json({**about, "members": [{**member, "n_correct": 6}]}, origin="x")


def test_costs_add_up_and_unknown_ones_stay_unknown():
    assert Cost(1, 2, 3) + Cost(10, 20, 30) == Cost(11, 22, 33)
    assert Cost(1, 2, None) + Cost(10, 20, 30) == Cost(10, 20, 30) + Cost(1, 2, None) == Cost(11, 22, None)


def test_soups_of_all_seeds_have_one_kind_and_template_and_no_counts_of_one_seed():
    counted = replace(SOUP, class_name_correct=3, cost={"search": Cost(1, 2, 3)})
    joined = together([counted, replace(counted, seed=2)], origin="here")
    assert (joined.seed, joined.class_name_correct, joined.cost) == (None, None, {})
    for other in (replace(counted, template="a {}."), replace(counted, kind="top")):
        with pytest.raises(MismatchError, match="here holds soups of several definitions"):
            together([counted, other], origin="here")


@pytest.mark.parametrize("key", ["kind", "seed", "template", "encoder", "members"])
def test_a_key_that_is_missing_is_named(key):
    value = json.loads(json.dumps(SOUP.as_json()))
    del value[key]
    with pytest.raises(MismatchError, match=f"x.json is not a soup: key '{key}' is missing"):
        Soup.from_json(value, origin="x.json")
