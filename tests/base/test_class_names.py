"""Class names from the names of folders: numbers that count go, words stay."""

from __future__ import annotations

import pytest

from wsoup.base.folder_names import changes, proposed, tidy

TIDY = {
    "n01440763_tench": "tench",
    "n02085620-Chihuahua": "Chihuahua",
    "n02085620_Chihuahua (1)": "Chihuahua",
    "n01440763": "n01440763",
    "cat (1)": "cat",
    "cat(2)": "cat",
    "cat [3]": "cat",
    "cat-2": "cat",
    "cat_2": "cat",
    "(1) cat": "cat",
    "01-cat": "cat",
    "001.Black_footed_Albatross": "Black footed Albatross",
    "86_bus": "bus",
    "猫_1": "猫",
    "7-up": "7-up",
    "F-16": "F-16",
    "747-200": "747-200",
    "cat2": "cat2",
    "007": "007",
    "TVmonitor": "TVmonitor",
    "iPhone": "iPhone",
    "AnnualCrop": "annual crop",
    "DVDPlayer": "dvd player",
    "McDonald": "McDonald",
    "T-shirt": "T-shirt",
}


@pytest.mark.parametrize("folder", TIDY)
def test_a_name(folder: str) -> None:
    assert tidy(folder) == TIDY[folder]


def test_folders_that_would_share_a_name_keep_their_words() -> None:
    names = proposed(["type-1", "type-2", "cat (1)"])
    assert names == ["type-1", "type-2", "cat"]


def test_only_changed_names_are_said() -> None:
    assert changes({"cat": "cat", "dog_2": "dog"}) == "dog_2 -> dog"
