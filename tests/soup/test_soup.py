"""Facts about soups as values: what lies on disk comes back, and what is none is refused."""

from __future__ import annotations

from dataclasses import replace

import fsspec
import pytest

from wsoup.core.disk import store
from wsoup.core.errors import DataError, MismatchError, MissingError
from wsoup.core.prompts import prompt
from wsoup.soup.member import Member, Step
from wsoup.soup.soup import Soup

ENCODER = {"model": "m", "pretrained": "p", "config": "c", "weights": "w", "quick_gelu": False, "precision": "fp32"}
MEMBERS = (Member("sharp clean", 74, 100, (Step("sharp", 70), Step("clean", 75))), Member(""))
SOUP = Soup("chains", 1, "a photo of a {}.", ENCODER, MEMBERS, {"torch": "2"})


def test_a_soup_comes_back_as_it_was(tmp_path):
    SOUP.save(tmp_path / "x.json")
    assert Soup.load(tmp_path / "x.json", encoder=ENCODER) == SOUP
    assert SOUP.texts == ["sharp clean", ""]


def test_a_soup_is_told_in_a_line():
    assert repr(SOUP) == "<chains soup, seed 1, m/p, 2 members: 'sharp clean', ''>"
    assert repr(replace(SOUP, members=4 * (Member("x"),))).endswith("4 members: 'x', 'x', 'x', ...>")


def test_a_soup_lies_behind_a_url():
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


def test_a_folder_has_a_url_too(tmp_path):
    SOUP.save(f"file://{tmp_path}/word.json")
    assert Soup.load(tmp_path / "word.json") == SOUP


def test_templates_hold_one_place_for_the_class_name_whatever_a_member_says():
    odd = Soup("chains", 1, "a photo of a {}.", ENCODER, (Member("a {b} c"), Member("")))
    assert [template.format("cat") for template in odd.templates()] == [
        "a photo of a cat, a {b} c.",
        "a photo of a cat.",
    ]
    assert odd.templates("art of a {c}.")[1].format("cat", c="cat") == "art of a cat."


@pytest.mark.parametrize("template", ["a photo of the {}.", "a photo of the {}", "{c} seen from above."])
def test_a_class_name_that_ends_in_a_period_keeps_it_in_templates_and_in_the_pipeline(template):
    for name in ("Capitol in D.C.", "cat"):
        prompts_there = [prompt(template, name, text) for text in SOUP.texts]
        assert [other.format(name) for other in SOUP.templates(template)] == prompts_there


def test_a_file_that_is_not_a_soup_is_refused(tmp_path):
    store.write_json(tmp_path / "x.json", {"kind": "chains"})
    with pytest.raises(MismatchError, match=r"not a soup: .* missing 4 required positional arguments: .seed."):
        Soup.load(tmp_path / "x.json")
    (tmp_path / "y.json").write_text("{")
    with pytest.raises(MismatchError, match="not JSON"):
        Soup.load(tmp_path / "y.json")
    with pytest.raises(MissingError, match=r"z.json does not exist; soups are made by wsoup.word_soup"):
        Soup.load(tmp_path / "z.json")


def test_a_soup_of_another_encoder_is_refused_and_both_are_named(tmp_path):
    SOUP.save(tmp_path / "x.json")
    with pytest.raises(MismatchError, match="'m' there, 'ViT-B-16' wanted"):
        Soup.load(tmp_path / "x.json", encoder={**ENCODER, "model": "ViT-B-16"})


def test_members_that_get_no_more_right_than_the_class_name_are_counted(tmp_path):
    members = tuple(Member(text, n_correct=n, n_images=10) for text, n in (("a", 4), ("b", 5), ("c", 6)))
    made = Soup("chains", 1, "a {}.", {"model": "m", "pretrained": "w"}, members, class_name_correct=5)
    made.save(tmp_path / "soup.json")
    assert Soup.load(tmp_path / "soup.json") == made
    assert made.no_better == 2
    assert replace(made, kind="greedy").no_better == 0  # whose members were counted together
    assert replace(made, class_name_correct=None).no_better == 0
