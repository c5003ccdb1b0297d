"""All seeds of a soup as one soup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wsoup.base.errors import MismatchError, MissingError
from wsoup.soup.formats import summary
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup, load_seeds, together

ENCODER = {"model": "m", "pretrained": "p"}
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


def test_a_single_seed_is_returned_as_is():
    assert together([FIRST], origin="here") is FIRST


def test_soups_of_different_definitions_are_refused(tmp_path):
    with pytest.raises(MismatchError, match="here holds soups of several definitions"):
        together([FIRST, replace(SECOND, kind="chains")], origin="here")
    with pytest.raises(MismatchError, match="here"):
        together([FIRST, replace(SECOND, encoder={"model": "other", "pretrained": "p"})], origin="here")
    with pytest.raises(MissingError, match=r"holds no seed<k>.json; soups are made by stage 'soup'"):
        load_seeds(tmp_path)
