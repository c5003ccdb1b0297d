"""Datasets that `wsoup profile own` names after folders: each folder has a name of its own, or both are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_cli import run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.base.errors import DataError, ParamsError
from wsoup.pipeline.profiles import own

TARGET = {"colour": (9, 9, 9), "shade": (90, 90, 90)}


def profiled(source: str, target: str) -> dict[str, dict]:
    """Datasets of `source` with train/ and test/ beside `target` with test/."""
    write_image_folder(Path("all", source), splits={"train": 2, "test": 1}, classes=COLOURS)
    write_image_folder(Path("all", target), splits={"test": 1}, classes=TARGET)
    text = own.own("all", encoder={"pretrained": "openai"}).text
    return safe_load(text)["datasets"]


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        ("фото", "эскиз", ["фото", "эскиз"]),
        ("猫", "狗", ["猫", "狗"]),
        ("写真 一", "写真 二", ["写真_一", "写真_二"]),
        ("été", "ete", ["été", "ete"]),
        ("e\u0301te\u0301", "ete", ["été", "ete"]),
        ("हिन्दी", "हिनदी", ["हिन्दी", "हिनदी"]),
        ("set 1", "set 2", ["set_1", "set_2"]),
        ("set-1", "set_1", ["set-1", "set_1"]),
        ("Straße", "Strabe", ["Straße", "Strabe"]),
        ("١", "٢", ["١", "٢"]),
        ("-photos", "sketch", ["photos", "sketch"]),
        ("!!!", "sketch", ["images", "sketch"]),
    ],
)
def test_each_folder_is_a_dataset_of_its_own(in_tmp: Path, source: str, target: str, names: list[str]) -> None:
    datasets = profiled(source, target)
    assert list(datasets) == names
    assert [section["role"] for section in datasets.values()] == ["source", "xd"]
    assert [Path(section["watch"]).name for section in datasets.values()] == [source, target]
    assert "test_fraction" not in datasets[names[0]]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("my photos", "my_photos"),
        ("set 1", "set_1"),
        ("set.1", "set_1"),
        ("set 1", "set.1"),
        ("!!!", "???"),
        ("-photos", "_photos"),
        ("été", "e\u0301te\u0301"),
        ("a+b", "a&b"),
        ("🐱", "🐶"),
        ("images", "+++"),
    ],
)
def test_two_folders_with_one_name_are_refused_with_both(in_tmp: Path, source: str, target: str) -> None:
    with pytest.raises(DataError, match=r"would both be dataset .*; rename one, or move it elsewhere") as error:
        profiled(source, target)
    assert f"all/{source}'" in str(error.value)
    assert f"all/{target}'" in str(error.value)


@pytest.mark.parametrize(("source", "target"), [("Photos", "photos"), ("ФОТО", "фото"), ("MASSE", "maße")])
def test_names_that_share_files_where_case_is_ignored_are_refused(in_tmp: Path, source: str, target: str) -> None:
    with pytest.raises(ParamsError, match=rf"'{source}' and '{target}' differ by case alone"):
        profiled(source, target)


def test_two_links_to_one_folder_are_not_two_datasets(in_tmp: Path) -> None:
    write_image_folder(Path("elsewhere"), splits={"train": 2, "test": 1}, classes=COLOURS)
    Path("all").mkdir()
    Path("all/a").symlink_to(Path("elsewhere").resolve())
    write_image_folder(Path("all/b"), splits={"test": 1}, classes=COLOURS)
    assert list(safe_load(own.own("all", encoder={"pretrained": "openai"}).text)["datasets"]) == ["elsewhere", "b"]
    Path("more").mkdir()
    Path("more/a").symlink_to(Path("all/b").resolve())
    Path("more/b").symlink_to(Path("all/b").resolve())
    write_image_folder(Path("more/c"), splits={"train": 2, "test": 1}, classes=COLOURS)
    with pytest.raises(DataError, match="'more/a' and 'more/b' would both be dataset 'b'"):
        own.own("more", encoder={"pretrained": "openai"})


@pytest.mark.parametrize("name", ["method", "m", "variant", "row", "stored", "kind", "text"])
def test_a_name_of_a_column_of_the_tables_is_not_a_datasets(in_tmp: Path, name: str) -> None:
    write_image_folder(Path(name), splits={"train": 2, "test": 1}, classes=COLOURS)
    code, printed, errors = run("profile", "own", "--images", name)
    assert (code, printed) == (1, "")
    assert f"datasets: the name {name!r} is taken by wsoup itself; choose another" in errors
