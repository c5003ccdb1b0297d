"""`wsoup classify` on lists and folders of strangers: nothing is fetched, and no label is made up."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from miniature import png, write_hub
from run_cli import run
from web import Web, serving

from wsoup.base.errors import WsoupError
from wsoup.core.member import Member
from wsoup.core.soup import Soup
from wsoup.photos.files import find_photos
from wsoup.photos.labels import labelled
from wsoup.photos.names import listed_names, read_class_names

NAMES = ["red", "blue", "hot dog"]


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as server:
        yield server


@pytest.fixture
def here(in_tmp: Path, tiny_encoder, tiny_encoder_files) -> Path:
    """A soup, a params.yaml, and a good photo."""
    Soup("chains", 1, "a photo of a {}.", tiny_encoder.id, (Member("sharp"),)).save("soup.json")
    Path("params.yaml").write_text(json.dumps({"encoder": tiny_encoder_files}))
    Path("good.png").write_bytes(png(3))
    return in_tmp


def classify(*places: str, classes: str = "red,blue", options: tuple[str, ...] = ()) -> tuple[list[dict], list[str]]:
    code, printed, errors = run("classify", *places, "--soup", "soup.json", "--classes", classes, *options)
    assert code == 0, errors
    return list(csv.DictReader(io.StringIO(printed))), errors.splitlines()


# ------------------------------------------------------------------------------------------------------------ URLs

URLS = {
    "a server": "{web}/admin?delete=1",
    "an image there": "{web}/good.png",
    "in a zip": "zip://a.png::{web}/a.zip",
    "in a local zip": "zip://good.png::a.zip",
    "cached": "simplecache::{web}/good.png",
    "this machine's": "file:///etc/passwd",
    "beside": "file://good.png",
    "a bucket": "s3://bucket/a.png",
    "google's": "gs://bucket/a.png",
    "the hub": "hf://datasets/x/y/a.png",
    "memory": "memory://a.png",
    "data": "data://a.png",
    "capitals": "HTTP://127.0.0.1:9/a.png",
    "backslashes": "http:\\\\127.0.0.1:9\\a.png",
    "after a space": " {web}/good.png",
    "a step before": "x/../{web}/good.png",
    "ftp": "ftp://127.0.0.1/a.png",
    "ssh": "sftp://root@127.0.0.1/a.png",
    "github": "github://owner:repo@/a.png",
}


@pytest.mark.parametrize("column", ["path", "image"])
@pytest.mark.parametrize("kind", URLS)
def test_a_list_makes_nothing_be_fetched(here: Path, web: Web, kind: str, column: str) -> None:
    """The row comes back, one line says how many there were, and the server was asked for nothing."""
    web.files["/good.png"] = png(5)
    web.files["/admin?delete=1"] = png(5)
    url = URLS[kind].format(web=web.url)
    Path("list.csv").write_text(f"{column},note\ngood.png,x\n{url},y\n{url},z\n")
    rows, lines = classify("list.csv", options=("--html", "sheet.html"))
    assert [row["status"] for row in rows] == ["ok", "not read", "not read"]
    assert [row["note"] for row in rows] == ["x", "y", "z"]
    assert web.asked == []
    about = [line for line in lines if "name URLs" in line]
    assert len(about) == 1
    assert "2 of 3 rows of list.csv name URLs, such as" in about[0]
    assert "nothing that a list names is fetched: download the photos, and list their files" in about[0]
    assert lines[-1] == "2 of 3 photos could not be read"


def test_a_folder_called_like_a_url_is_a_folder(here: Path, web: Web) -> None:
    """``http:`` is a name like any other; what is in it is read from the disk, and from nowhere else."""
    folder = Path("http:") / web.url.removeprefix("http://")
    folder.mkdir(parents=True)
    (folder / "good.png").write_bytes(png(3))
    web.files["/good.png"] = png(5)
    rows, _ = classify(web.url)
    assert [row["status"] for row in rows] == ["ok"]
    Path("list.csv").write_text(f"path\nhttp:/{web.url.removeprefix('http://')}/good.png\n")
    rows, _ = classify("list.csv")
    assert [row["status"] for row in rows] == ["ok"]
    Path("list.csv").write_text(f"path\n{web.url}/good.png\n")
    rows, _ = classify("list.csv")
    assert [row["status"] for row in rows] == ["not read"]
    assert web.asked == []


def test_a_url_instead_of_a_place_is_refused(here: Path, web: Web) -> None:
    for place in (f"{web.url}/list.csv", f"{web.url}/good.png", "file:///etc/passwd"):
        code, _, errors = run("classify", place, "--soup", "soup.json", "--classes", "red,blue")
        assert code == 1
        assert "does not exist; name photos" in errors
    assert web.asked == []


def test_an_answer_of_before_is_a_list_without_urls(here: Path, web: Web) -> None:
    Path("list.csv").write_text(f"path\ngood.png\n{web.url}/x.png\n")
    classify("list.csv", options=("--out", "answer.csv"))
    rows, lines = classify("answer.csv")
    assert [row["status"] for row in rows] == ["ok", "not read"]
    assert "1 of 2 rows of answer.csv name URLs" in "\n".join(lines)
    assert web.asked == []


# ----------------------------------------------------------------------------------------------- labels by folders


def answers(*places: str, names: list[str] | None = None, folders: dict[str, str] | None = None) -> tuple[dict, list]:
    """The label of each photo by its path, and what is said."""
    photos, _ = find_photos(places)
    photos, lines = labelled(photos, class_names=names or NAMES, folders=folders or {})
    return {photo.path: photo.label for photo in photos}, lines


FOLDERS: dict[str, tuple[list[str], dict[str, str | None], str]] = {
    "own folders": (["in/red/1.png", "in/blue/2.png"], {"in/red/1.png": "red", "in/blue/2.png": "blue"}, ""),
    "splits above": (
        ["in/train/red/1.png", "in/test/blue/2.png"],
        {"in/train/red/1.png": "red", "in/test/blue/2.png": "blue"},
        "",
    ),
    "a class above": (["in/blue/holiday/1.png"], {"in/blue/holiday/1.png": None}, ""),
    "a class far above": (["blue/in/x/1.png"], {}, ""),
    "one is no class": (
        ["in/red/1.png", "in/white/2.png", "in/white/3.png"],
        {"in/red/1.png": None, "in/white/2.png": None},
        "folders are not taken for labels, since these are not classes: 'white' (2)",
    ),
    "none is a class": (["in/x/1.png", "in/y/2.png"], {"in/x/1.png": None}, ""),
    "loose photos": (
        ["in/red/1.png", "in/2.png", "in/3.png"],
        {"in/red/1.png": "red", "in/2.png": None},
        "2 of 3 photos lie beside the folders of classes, and are not counted",
    ),
    "loose photos alone": (["in/1.png", "in/2.png"], {"in/1.png": None}, ""),
    "another spelling": (["in/Hot_Dog/1.png"], {"in/Hot_Dog/1.png": "hot dog"}, ""),
    "a class in a class": (["in/red/blue/1.png"], {"in/red/blue/1.png": "blue"}, ""),
    "a class and more in it": (
        ["in/red/1.png", "in/red/more/2.png"],
        {"in/red/1.png": None, "in/red/more/2.png": None},
        "since these are not classes: 'more' (1)",
    ),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_only_a_photos_own_folder_labels_it(in_tmp: Path, kind: str) -> None:
    files, expected, line = FOLDERS[kind]
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(png(1))
    place = files[0].split("/")[0]
    found, lines = answers(place)
    for path, label in expected.items():
        assert found[path] == label
    assert not any(found.values()) or any(expected.values())
    assert any(line in said for said in lines) if line else not lines


def test_places_are_looked_at_one_by_one(in_tmp: Path) -> None:
    """Two folders of classes, a folder of anything, and photos by name."""
    for file in ("one/red/1.png", "two/blue/2.png", "three/x/3.png", "red/4.png"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(png(1))
    found, lines = answers("one", "two", "three", "red/4.png")
    assert list(found.values()) == ["red", "blue", None, "red"]
    assert not lines
    assert list(answers("red")[0].values()) == ["red"]


def test_a_folder_by_the_name_of_a_file_of_names(in_tmp: Path) -> None:
    Path("in/n01").mkdir(parents=True)
    Path("in/n01/1.png").write_bytes(png(1))
    assert list(answers("in", folders={"n01": "red"})[0].values()) == ["red"]


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        ({"Pferd": "horse", "dog": "dog", "horse": "guitar"}, {"Pferd": "horse", "dog": "dog", "horse": "guitar"}),
        ({"Felsen": "rock", "Rock": "skirt"}, {"Felsen": "rock", "Rock": "skirt"}),
        ({"n01": "red", "n02": "blue"}, {"n01": "red", "blue": "blue"}),
    ],
)
def test_a_folder_is_of_its_own_class_also_if_another_has_its_name(
    in_tmp: Path, folders: dict[str, str], expected: dict[str, str]
) -> None:
    """As for training, where only the name before the tab is a folder's."""
    for folder in expected:
        Path("in", folder).mkdir(parents=True)
        Path("in", folder, "1.png").write_bytes(png(1))
    found, lines = answers("in", names=[*folders.values()], folders=folders)
    assert found == {f"in/{folder}/1.png": name for folder, name in expected.items()}
    assert not lines


def test_a_folder_that_may_be_either_of_two_classes_labels_nothing(in_tmp: Path) -> None:
    for folder in ("DOG", "red"):
        Path("in", folder).mkdir(parents=True)
        Path("in", folder, "1.png").write_bytes(png(1))
        found, lines = answers("in", names=["dog", "Dog", "red"])
        assert not any(found.values())
        assert lines == ["folders are not taken for labels, since these may mean two classes: 'DOG' (1)"]


# ------------------------------------------------------------------------------------------------- labels by lists


def test_a_label_that_may_be_either_of_two_classes_is_not_counted(in_tmp: Path) -> None:
    """Training refuses such a list."""
    Path("list.csv").write_text("path,label\na.png,horse\nb.png,Pferd\nc.png,guitar\nd.png,horse\ne.png,cow\n")
    found, lines = answers("list.csv", names=["horse", "guitar"], folders={"Pferd": "horse", "horse": "guitar"})
    assert [*found.values()] == [None, "horse", "guitar", None, None]
    assert lines == [
        "1 of 5 photos have a label that is not a class name, and are not counted: 'cow' (1)",
        "2 of 5 photos have a label that may mean two classes, and are not counted: 'horse' (2)",
    ]


@pytest.mark.parametrize(
    ("text", "expected", "line"),
    [
        ("path,label\na.png,red\nb.png,Blue\n", ["red", "blue"], ""),
        ("path,label\na.png,0\nb.png,2\n", ["red", "hot dog"], ""),
        ("path,label\na.png,0.0\nb.png,2.0\n", ["red", "hot dog"], ""),
        ("path,label\na.png,00\nb.png,02\n", ["red", "hot dog"], ""),
        ("path,label\na.png,0\nb.png,3\n", ["red", None], "1 of 2 photos have a label that is not a class name"),
        ("path,class\na.png,red\nb.png,Hot_dog\n", ["red", "hot dog"], ""),
        ("path,class_name\na.png,red\nb.png,blue\n", ["red", "blue"], ""),
        ("path,label,class_name\na.png,1,red\nb.png,0,blue\n", ["red", "blue"], ""),  # numbers of another list
        ("path,label,class\na.png,7,red\nb.png,8,blue\n", ["red", "blue"], ""),
        ("path,label\na.png,\nb.png,blue\n", [None, "blue"], ""),
        ("path,label\na.png,cow\nb.png,blue\n", [None, "blue"], "and are not counted: 'cow' (1)"),
        ("path,label,class\na.png,red,x\nb.png,blue,y\n", ["red", "blue"], ""),
        ("path,class,probability,status\na.png,red,0.5,ok\nb.png,blue,0.5,ok\n", [None, None], ""),
        ("path,label,class,probability,status\na.png,red,blue,.5,ok\nb.png,red,red,.5,ok\n", ["red", "red"], ""),
    ],
)
def test_labels_of_a_list(in_tmp: Path, text: str, expected: list[str | None], line: str) -> None:
    Path("list.csv").write_text(text)
    found, lines = answers("list.csv")
    assert list(found.values()) == expected
    assert any(line in said for said in lines) if line else not lines


@pytest.mark.parametrize("names", [["0", "1", "2"], ["2", "1", "0"]])
def test_classes_called_by_numbers_are_names(in_tmp: Path, names: list[str]) -> None:
    Path("list.csv").write_text("path,label\na.png,0\nb.png,2\n")
    assert list(answers("list.csv", names=names)[0].values()) == ["0", "2"]


NUMBERED = [
    ("1\tdog\n7\tcow\n", ["1", "7"], ["dog", "cow"]),
    ("1\tdog\n7\tcow\n", ["1.0", "7.0"], ["dog", "cow"]),
    ("1\tdog\n7\tcow\n", ["01", "07"], ["dog", "cow"]),
    ("001\tdog\n007\tcow\n", ["1", "7.0"], ["dog", "cow"]),
    ("1\tcat\n0\tdog\n", ["1.0", "0.0"], ["cat", "dog"]),
    ("1\tcat\n2\tdog\n", ["0.0", "1.0"], [None, "cat"]),
    ("1\tcat\n2\tdog\n", ["0", "0"], [None, None]),
    ("1\t2\n2\t1\n", ["1.0", "2"], [None, None]),  # training refuses these
    ("1\n2\n3\n", ["1.0", "2.0"], ["1", "2"]),
    ("7\n8\n9\n", ["1", "0"], [None, None]),
    ("7\n8\n9\n", ["1.0", "07"], [None, "7"]),
    ("n1\tcat\nn2\tdog\n", ["01", "00"], ["dog", "cat"]),
    ("1\tcat\nn2\tdog\n", ["1.0", "01"], ["cat", "cat"]),
    ("747\nbus\n", ["1", "0"], ["bus", "747"]),
]
"""A file of class names, the labels of two rows, and their class names."""


@pytest.mark.parametrize(("classes", "labels", "expected"), NUMBERED)
def test_numbers_are_keys_or_names_before_they_are_positions(
    in_tmp: Path, classes: str, labels: list[str], expected: list[str | None]
) -> None:
    Path("names.txt").write_text(classes)
    Path("list.csv").write_text("path,label\na.png,{}\nb.png,{}\n".format(*labels))
    found, lines = answers("list.csv", names=listed_names("names.txt"), folders=read_class_names("names.txt"))
    assert [*found.values()] == expected
    assert bool(lines) == (None in expected)
    assert all(repr(label) in lines[0] for label, name in zip(labels, expected, strict=True) if name is None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,label,class_name\na.png,red,blue\n", "label is 'red', but class_name is 'blue'; correct one of them"),
        ("path,label,class_name\na.png,0,red\nb.png,0,blue\n", "label 0 has two class names, 'red' and 'blue'"),
        ("path,Label,label\na.png,red,red\n", "which mean the same; rename one"),
        ("path,label\na.png,99999999999999999999\n", ""),
    ],
)
def test_a_list_that_contradicts_itself(in_tmp: Path, text: str, message: str) -> None:
    Path("list.csv").write_text(text)
    if not message:
        assert list(answers("list.csv")[0].values()) == [None]
        return
    with pytest.raises(WsoupError) as caught:
        answers("list.csv")
    assert message in str(caught.value)


def test_folders_say_nothing_of_a_list_with_labels(in_tmp: Path) -> None:
    Path("red").mkdir()
    Path("red/a.png").write_bytes(png(1))
    Path("list.csv").write_text("path,label\nred/a.png,\n")
    assert list(answers("list.csv")[0].values()) == [None]
    Path("list.csv").write_text("path,note\nred/a.png,x\n")
    assert list(answers("list.csv")[0].values()) == ["red"]


def test_every_list_comes_back_whole(here: Path) -> None:
    """TSV, Parquet with pictures, and other columns in their order."""
    Path("list.tsv").write_text("id\tFile\tlabel\n7\tgood.png\tred\n8\tlost.png\tblue\n")
    rows, lines = classify("list.tsv")
    assert [(row["path"], row["status"], row["id"], row["File"]) for row in rows] == [
        ("good.png", "ok", "7", "good.png"),
        ("lost.png", "not read", "8", "lost.png"),
    ]
    assert any(line.startswith("accuracy ") and line.endswith("of 1)") for line in lines)
    write_hub(here / "hub.parquet", labels=[0, 1, 0], names=["red", "blue"], note=["x", "y", "z"])
    rows, lines = classify("hub.parquet")
    assert [(row["path"], row["status"], row["note"]) for row in rows] == [
        ("hub.parquet/image/0", "ok", "x"),
        ("hub.parquet/image/1", "ok", "y"),
        ("hub.parquet/image/2", "ok", "z"),
    ]
    assert any(line.startswith("accuracy ") and line.endswith("of 3)") for line in lines)


# ---------------------------------------------------------------------------------------------- files of class names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("red fox\nhot dog\n", {"red fox": "red fox", "hot dog": "hot dog"}),
        ("n01\tred fox\nn02\tdog\n", {"n01": "red fox", "n02": "dog"}),
        ("\ufeffn01\tred\r\nn02\tdog\r\n", {"n01": "red", "n02": "dog"}),
        ("n01\t red \n\n n02 \tdog", {"n01": "red", "n02": "dog"}),
        ("red, fox\ndog\n", {"red, fox": "red, fox", "dog": "dog"}),
    ],
)
def test_a_tab_separates_and_a_space_does_not(in_tmp: Path, text: str, expected: dict[str, str]) -> None:
    Path("names.txt").write_text(text)
    assert read_class_names("names.txt") == expected
