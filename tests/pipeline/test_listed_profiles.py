"""`wsoup profile own` with a list, and what it, `check` and `prepare` say of roles."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from miniature import png, write_hub
from processes import run_module
from project import ROOT
from run_cli import run
from yaml_in_c import safe_load

from wsoup.datasets import manifest, roles
from wsoup.pipeline.checks.roles import foreign_targets
from wsoup.pipeline.params import Params, parse_params


def own(images: str, *options: str) -> tuple[dict[str, dict], str]:
    """Section datasets, and what is said."""
    code, printed, errors = run("profile", "own", "--images", images, *options)
    assert code == 0, errors
    return safe_load(printed)["datasets"], errors


def write_list(file: Path, rows: list[tuple[str, ...]], *, header: str) -> None:
    """A list, and the images that it names beside it."""
    lines = [header]
    for i, row in enumerate(rows):
        path = file.parent / row[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(i))
        lines.append(",".join(row))
    file.write_text("\n".join(lines))


SPLIT = [
    (f"{name}/{split}{i}.png", name, split) for name in ("cat", "dog") for split in ("Train", "test") for i in range(3)
]


def test_a_list_with_splits_is_the_source(in_tmp: Path) -> None:
    write_list(in_tmp / "pets.csv", SPLIT, header="file,label,split")
    datasets, errors = own("pets.csv")
    assert datasets == {
        "pets": {
            "role": "source",
            "layout": f"manifest:{in_tmp}/pets.csv",
            "watch": f"{in_tmp}/pets.csv",
            "root": str(in_tmp),
            "template": "a photo of a {}.",
        }
    }
    listing = manifest.read_listing("pets", params=of(datasets, "pets"))
    assert {split: len(images.paths) for split, images in listing.splits.items()} == {"train": 6, "test": 6}
    assert "left out" not in errors


def of(datasets: dict[str, dict], name: str):
    whole = {"source": name, "seeds": [1], "datasets": datasets}
    text = run("profile", "demo")[1]
    return parse_params({**safe_load(text), **whole}, origin="params.yaml").datasets[name]


@pytest.mark.parametrize(
    ("splits", "options", "expected", "said"),
    [
        (("Train", "Valid"), (), {"test_split": "val"}, "has no test/: the photos in val/ are for testing"),
        (("train", "train"), (), {"test_fraction": 0.5}, "has only train/: about 50 % of the photos of each class"),
        (("test", "test"), ("--test-fraction", "0.3"), {"test_fraction": 0.3}, "about 30 % of the photos"),
        (("train", "test"), (), {}, ""),
    ],
)
def test_a_list_is_divided_as_a_folder_would_be(
    in_tmp: Path, splits: tuple[str, str], options: tuple[str, ...], expected: dict, said: str
) -> None:
    rows = [(f"{i}.png", ["cat", "dog"][i % 2], splits[i // 2 % 2]) for i in range(24)]
    write_list(in_tmp / "pets.csv", rows, header="path,class,split")
    datasets, errors = own("pets.csv", *options)
    about = {key: datasets["pets"].get(key) for key in ("test_split", "test_fraction")}
    assert {key: value for key, value in about.items() if value is not None} == expected
    assert said in errors
    listing = manifest.read_listing("pets", params=of(datasets, "pets"))
    assert len(listing.splits) == 2


@pytest.mark.parametrize(
    ("header", "rows", "options", "message"),
    [
        (
            "path,label,split",
            [("a.png", "cat", "val"), ("b.png", "dog", "test")],
            (),
            "has val/ and test/, but no train/",
        ),
        (
            "path,label,split",
            [("a.png", "cat", "train"), ("b.png", "cat", "test")],
            ("--test-fraction", "0.5"),
            "is divided into train, test already",
        ),
        ("path,label,set", [("a.png", "cat", "train"), ("b.png", "cat", "test")], (), "rename it to split"),
        ("name,label", [("a.png", "cat")], (), "column path is missing beside 'name', 'label'"),
        ("path,label", [("a.png", "0")], (), "has no class names beside the columns"),
    ],
)
def test_a_list_that_cannot_be_a_source(in_tmp: Path, header: str, rows: list, options: tuple, message: str) -> None:
    write_list(in_tmp / "pets.csv", rows, header=header)
    code, printed, errors = run("profile", "own", "--images", "pets.csv", *options)
    assert (code, printed) == (1, "")
    assert message in errors


def test_names_that_read_better_are_written_beside(in_tmp: Path) -> None:
    rows = [(f"{i}.png", ["AnnualCrop", "car_side"][i % 2], ["train", "test"][i // 2 % 2]) for i in range(12)]
    write_list(in_tmp / "land.csv", rows, header="path,label,split")
    assert "AnnualCrop -> annual crop" in own("land.csv")[1]
    code, _, errors = run("profile", "own", "--images", "land.csv", "--out", "params.yaml")
    assert code == 0, errors
    datasets = safe_load(Path("params.yaml").read_text())["datasets"]
    assert datasets["land"]["class_names"] == "class_names.txt"
    listing = manifest.read_listing("land", params=of(datasets, "land"))
    assert listing.class_names == ["annual crop", "car side"]
    Path("mine.txt").write_text("car_side\tcar\nAnnualCrop\tfield\n")
    datasets, _ = own("land.csv", "--classes", "mine.txt")
    assert manifest.read_listing("land", params=of(datasets, "land")).class_names == ["car", "field"]


def test_a_folder_of_the_hub_is_the_source(in_tmp: Path) -> None:
    for split in ("train", "test"):
        write_hub(in_tmp / f"pets/data/{split}-00000-of-00001.parquet", labels=[0, 1, 0, 1], names=["dog", "cat"])
    datasets, _ = own("pets")
    assert datasets["pets"]["layout"] == "huggingface"
    listing = manifest.read_listing("pets", params=of(datasets, "pets"))
    assert listing.class_names == ["dog", "cat"]


def test_rows_of_unknown_splits_are_said(in_tmp: Path) -> None:
    write_list(in_tmp / "pets.csv", [*SPLIT, ("x.png", "cat", "tst"), ("y.png", "cat", "")], header="path,label,split")
    assert "2 of 14 rows of the list, whose split is not train, val or test: 'tst' (1), '' (1)" in own("pets.csv")[1]


# ----------------------------------------------------------------------------------------------------------- roles


def write_folders(root: Path, *classes: str, splits: tuple[str, ...]) -> None:
    for split in splits:
        for i, name in enumerate(classes):
            for k in range(2):
                path = root / split / name / f"{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(png(i * 40 + k * 10 + len(split)))


@pytest.mark.parametrize(
    ("classes", "line"),
    [
        (("Red", "blue"), "1 of its 2 classes are not among the source's 2: 'Red' (there 'red')"),
        (("red", "blue", "pink"), "1 of its 3 classes are not among the source's 2: 'pink'"),
        (("cat", "dog"), "2 of its 2 classes are not among the source's 2: 'cat', 'dog'"),
        (("red_", "blue"), ""),  # which reads as red
        (("blue", "red"), ""),
        (("red",), ""),
    ],
)
def test_a_target_of_role_dg_has_the_sources_classes(in_tmp: Path, classes: tuple[str, ...], line: str) -> None:
    """Said by check and by prepare; `profile own` says why a target is not dg."""
    write_folders(in_tmp / "all/photos", "blue", "red", splits=("train", "test"))
    write_folders(in_tmp / "all/sketch", *classes, splits=("test",))
    datasets, errors = own("all")
    same = {*classes} == {"red", "blue"} or classes == ("red_", "blue")
    assert datasets["sketch"]["role"] == ("dg" if same else "xd")
    assert ("sketch: role xd (other classes), since" in errors) == (not same)
    if line:
        assert line in errors
    datasets["sketch"]["role"] = "dg"
    raw = {**safe_load(run("profile", "own", "--images", "all")[1]), "datasets": datasets}
    Path("params.yaml").write_text(yaml.safe_dump(raw))
    findings = [*foreign_targets(params())]
    assert [finding.about for finding in findings] == (["sketch"] if line else [])
    Path("data").symlink_to(ROOT / "data")
    code, printed_to_stderr = run_module("stages", "prepare", "sketch", folder=in_tmp, out="printed.txt")
    assert code == 0, printed_to_stderr
    printed = Path("printed.txt").read_text()
    assert ("sketch: role dg means the source's classes, but" in printed) == bool(line)
    if line:
        assert line in findings[0].text
        assert line in printed


def params() -> Params:
    return parse_params(safe_load(Path("params.yaml").read_text()), origin="params.yaml")


def test_a_source_that_is_not_there_is_not_said_twice(in_tmp: Path) -> None:
    write_folders(in_tmp / "all/photos", "blue", "red", splits=("train", "test"))
    write_folders(in_tmp / "all/sketch", "cat", splits=("test",))
    raw = safe_load(run("profile", "own", "--images", "all")[1])
    raw["datasets"]["sketch"]["role"] = "dg"
    raw["datasets"]["photos"]["watch"] = "nowhere"
    whole = parse_params(raw, origin="params.yaml")
    assert not [*foreign_targets(whole)]


def test_a_class_without_a_test_image_is_still_the_sources(in_tmp: Path) -> None:
    write_folders(in_tmp / "all/photos", "blue", "red", "white", splits=("train",))
    write_folders(in_tmp / "all/photos", "blue", "red", splits=("test",))
    write_folders(in_tmp / "all/sketch", "white", "red", "blue", splits=("test",))
    raw = safe_load(run("profile", "own", "--images", "all")[1])
    whole = parse_params(raw, origin="params.yaml")
    assert not [*foreign_targets(whole)]
    names = ["white", "red", "blue"]
    assert roles.foreign("sketch", class_names=names, datasets=whole.datasets) == ""
