"""Definitions of soups that ship with wsoup have every setting of their kinds: a new one is missed here, by file."""

from __future__ import annotations

import pytest

from wsoup.disk.code import ROOT
from wsoup.params.reading import read_yaml
from wsoup.params.section import Sections, parse
from wsoup.search.grow.all_kinds import Soups

PROFILES = [f"data/profiles/{name}.yaml" for name in ("demo", "own", "paper")]


class Wanted(Sections):
    soups: Soups


@pytest.mark.parametrize("file", ["params.yaml", "data/paper/settings.yaml", *PROFILES])
def test_soups_have_the_settings_of_their_kinds(file: str) -> None:
    sections = parse(Wanted, read_yaml(ROOT / file), origin=file)
    assert {"word", "descriptor"} & set(sections.soups)
