"""Data as it is distributed gives the classes, splits and shots of the same photos in class folders."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import forms
import numpy as np
import pytest
from PIL import Image
from said import unsaid

from wsoup.base.errors import DataError, MissingError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets import manifest, webdataset
from wsoup.datasets.given import given, is_given
from wsoup.disk.files import read_bytes
from wsoup.images.decode import load_rgb
from wsoup.params.inputs import DatasetParams
from wsoup.params.reading import parse_yaml
from wsoup.photos.files import find_photos
from wsoup.photos.labelled import LabelledPhotos, look
from wsoup.photos.labels import labelled
from wsoup.pipeline.params import parse_params
from wsoup.pipeline.profiles import own as profile_own

NAMES = ("ant", "bee", "red_fox")


def picture(shade: int) -> bytes:
    """A photo that differs from those of other numbers."""
    pixels = np.random.default_rng(shade).integers(256, size=(9, 9, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def photos() -> forms.Photos:
    """Six photos of each class to learn from, and four to test on."""
    found: dict[str, list[tuple[str, bytes]]] = {"train": [], "test": []}
    for split, number in (("train", 6), ("test", 4)):
        for name in NAMES:
            found[split] += [(name, picture(len(found["train"] + found["test"]) + i)) for i in range(number)]
    return found


def tried(root: Path, **choices: object) -> LabelledPhotos:
    return look(str(root), **({"shots": 3, "seed": 1, "template": "a {}.", "classes": None} | choices))


def facts(found: LabelledPhotos) -> tuple[object, ...]:
    """Class names, and the photos to learn from and to test on with their labels, by content."""
    digests = [hashlib.sha256(read_bytes(path)).hexdigest() for path in found.paths]
    labelled = list(zip(digests, found.labels.tolist(), strict=True))
    return found.class_names, sorted(labelled[: found.n_train]), sorted(labelled[found.n_train :])


def in_params(root: Path) -> tuple[list[str], list[tuple[str, int, str, list[int]]]]:
    """Class names and the manifest's images by content, as `profile own` sets the pipeline up."""
    text = profile_own.own(str(root), encoder={"pretrained": "openai"}).text
    params = parse_params(parse_yaml(text, origin="profile"), origin="profile")
    section = params.datasets[params.source]
    listing = manifest.read_listing("mine", params=section)
    built = manifest.build(listing, name="mine", params=section, shots=3, seeds=[1, 2])
    rows = built.table.select(["digest", "label", "split", "seeds"]).to_pylist()
    return listing.class_names, sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize("form", forms.FORMS)
def test_each_form_gives_what_class_folders_give(in_tmp: Path, photos: forms.Photos, form: str) -> None:
    folders = forms.folders(Path("folders"), photos)
    root = forms.FORMS[form](Path("mine"), photos)
    assert is_given(str(root))
    assert not is_given(str(folders))
    found = tried(root)
    assert facts(found) == facts(tried(folders))
    assert in_params(root) == in_params(folders)
    assert any(word in " ".join(found.notes) for word in ("WebDataset", " is train", "is taken for the class"))
    for path in found.paths[:3]:
        assert load_rgb(path).size == (9, 9)


@pytest.mark.parametrize("form", ["lists from 1", "labels.csv"])
def test_the_list_itself_may_be_named(in_tmp: Path, photos: forms.Photos, form: str) -> None:
    root = forms.FORMS[form](Path("mine"), photos)
    (file, *_) = [path for path in sorted(root.iterdir()) if path.suffix in (".txt", ".csv")]
    assert facts(tried(file)) == facts(tried(root))
    assert in_params(file) == in_params(root)


@pytest.mark.parametrize("form", forms.LISTS)
def test_lists_of_releases_give_what_class_folders_give(in_tmp: Path, photos: forms.Photos, form: str) -> None:
    folders = forms.folders(Path("folders"), photos)
    file = forms.LISTS[form](Path("mine"), photos)
    found = tried(file)
    assert facts(found) == facts(tried(folders))
    assert in_params(file) == in_params(folders)
    assert load_rgb(found.paths[0]).size == (9, 9)
    to_classify, _ = find_photos([str(file)])
    assert len(to_classify) == len(photos["train"]) + len(photos["test"])
    classes = {clean_class_name(name) for name in NAMES}
    assert {clean_class_name(photo.said or "") for photo in to_classify} in (classes, {"0", "1", "2"})
    assert all(Path(photo.path).is_file() for photo in to_classify)


def test_the_other_lists_of_a_release(in_tmp: Path, photos: forms.Photos) -> None:
    folders = facts(tried(forms.folders(Path("folders"), photos)))
    file = forms.aircraft(Path("family"), photos, what="family")
    assert facts(tried(file.with_name("images_family_trainval.txt"))) == folders
    assert facts(tried(file.with_name("images_family_test.txt"))) == folders
    pets = forms.pets(Path("pets"), photos)
    assert facts(tried(pets.with_name("test.txt"))) == folders
    lines = [path.read_text() for path in (pets, pets.with_name("test.txt"))]
    pets.with_name("list.txt").write_text("#Image CLASS-ID SPECIES BREED ID\n#ID: 1:37 Class ids\n" + "".join(lines))
    assert len(tried(pets.with_name("list.txt"), shots=99).paths) == 30
    places = forms.places(Path("places"), photos)
    assert facts(tried(places.with_name("places365_val.txt"))) == folders


@pytest.mark.parametrize(
    ("form", "old", "new", "said"),
    [
        (
            "FGVC-Aircraft",
            "ant\n",
            "\n",
            "images_variant_t.*.txt, line 1: '.*' is of another form|lists no|not a folder",
        ),
        ("FGVC-Aircraft", " bee", "bee", "train.txt, line 7: '.*bee' is of another form than the first line"),
        (
            "Oxford-IIIT Pets",
            "bee_5006 2 1 1",
            "bee_5006 2 1",
            "trainval.txt, line 7: .* is of another form",
        ),
        ("Places365", " 2\n", " 9\n", "is of class 9, which categories_places365.txt does not name"),
        ("CoOp's splits", '1, "bee"', '0, "bee"', "label 0"),
        ("CoOp's splits", '1, "bee"', '"bee"', "expected {.train.: .*path, label, class name"),
    ],
)
def test_lists_of_releases_that_do_not_fit_are_refused(
    in_tmp: Path, photos: forms.Photos, form: str, old: str, new: str, said: str
) -> None:
    file = forms.LISTS[form](Path("mine"), photos)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises((DataError, MissingError), match=said):
        tried(file)


def tasks(rows: Sequence[tuple[str, Sequence[str]]], **about: object) -> list[dict[str, object]]:
    """Label Studio's export: an image, and what each annotator chose."""
    found = []
    for image, choices in rows:
        results = [{"type": "choices", "from_name": "c", "value": {"choices": [choice]}} for choice in choices]
        answers = [{"result": [result], "was_cancelled": False} for result in results]
        found.append({"id": len(found), "data": {"image": image, "note": "x"}, "annotations": answers, **about})
    return found


@pytest.mark.parametrize("place", ["/data/upload/3/{}", "/data/local-files/?d=photos/{}", "photos/{}"])
def test_label_studios_choices_are_classes(in_tmp: Path, photos: forms.Photos, place: str) -> None:
    rows = forms.flat(Path("photos"), photos["train"])
    held = tasks([(place.format(path), [name]) for path, name in rows]) + tasks([("/data/upload/3/z.png", [])])
    Path("export.json").write_text(json.dumps(held))
    found = given("export.json", fraction=None, classes=None)
    assert found.listing.class_names == sorted(map(clean_class_name, NAMES))
    assert len(found.listing.splits["test"].paths) == len(rows)
    assert "left out, without a choice: 1 of 19 tasks" in found.notes
    assert [photo.said for photo in find_photos(["export.json"])[0]] == [name for _, name in rows]


@pytest.mark.parametrize("kind", ["json", "csv"])
@pytest.mark.parametrize("place", ["/data/upload/3/{}", "/data/local-files/?d=photos/{}"])
def test_label_studios_short_exports_are_lists(in_tmp: Path, photos: forms.Photos, kind: str, place: str) -> None:
    rows = forms.flat(Path("photos"), photos["train"])
    about = [(i, place.format(path), name, 1) for i, (path, name) in enumerate(rows)]
    columns = ("id", "image", "choice", "annotator")
    file = Path(f"export.{kind}")
    if kind == "csv":
        forms.write_csv(file, columns, about)
    else:
        file.write_text(json.dumps([dict(zip(columns, row, strict=True)) for row in about]))
    found = given(str(file), fraction=None, classes=None)
    assert found.listing.class_names == sorted(map(clean_class_name, NAMES))
    assert [photo.said for photo in find_photos([str(file)])[0]] == [name for _, name in rows]
    assert all(Path(photo.path).is_file() for photo in find_photos([str(file)])[0])


def short_export(rows: Sequence[tuple[str, str]]) -> list[dict[str, object]]:
    return [{"id": i, "image": image, "choice": name} for i, (image, name) in enumerate(rows)]


def uploaded(path: str, i: int = 0) -> str:
    """What Label Studio calls an uploaded file."""
    return f"/data/upload/1/{0xAB12CD34 + i:08x}-{Path(path).name}"


@pytest.mark.parametrize("form", ["tasks", "short", "csv"])
def test_uploads_to_label_studio_are_found_by_their_own_names(in_tmp: Path, photos: forms.Photos, form: str) -> None:
    rows = forms.flat(Path("photos"), photos["train"])
    as_uploads = [(uploaded(path, i), name) for i, (path, name) in enumerate(rows)]
    file = Path("export.csv" if form == "csv" else "export.json")
    if form == "csv":
        forms.write_csv(
            file, ("image", "id", "choice"), [(image, i, name) for i, (image, name) in enumerate(as_uploads)]
        )
    elif form == "short":
        file.write_text(json.dumps(short_export(as_uploads)))
    else:
        file.write_text(json.dumps(tasks([(image, [name]) for image, name in as_uploads])))
    found = given(str(file), fraction=None, classes=None)
    assert found.listing.class_names == sorted(map(clean_class_name, NAMES))
    assert sorted(found.listing.splits["test"].paths) == sorted(f"photos/{path}" for path, _ in rows)
    first, _ = as_uploads[0]
    assert f"files are found by their names: '{Path(first).name}' is 'photos/{rows[0][0]}'" in "\n".join(found.notes)
    seen = find_photos([str(file)])[0]
    assert [photo.said for photo in seen] == [name for _, name in rows]
    assert all(Path(photo.path).is_file() for photo in seen)


def test_an_upload_that_may_be_two_files_or_is_there_as_written_is_not_guessed(in_tmp: Path) -> None:
    rows = [(uploaded("a.png"), "cat"), (uploaded("b.png"), "dog")]
    Path("export.json").write_text(json.dumps(short_export(rows)))
    for place in ("one/a.png", "two/a.png", "one/b.png"):
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).touch()
    with pytest.raises(DataError, match=r"'ab12cd34-a\.png' may be 'one/a\.png', 'two/a\.png'; give paths"):
        given("export.json", fraction=None, classes=None)
    Path("two/ab12cd34-a.png").touch()
    found = given("export.json", fraction=None, classes=None)
    assert sorted(found.listing.splits["test"].paths) == ["one/b.png", "two/ab12cd34-a.png"]


def test_the_folder_of_pets_names_its_list(in_tmp: Path, photos: forms.Photos) -> None:
    file = forms.pets(Path("mine"), photos)
    (file.parent / "xmls").mkdir()
    (file.parent / "xmls/ant_5000.xml").write_text("<annotation>\n<object><name>cat</name></object>")
    with pytest.raises(DataError, match=r"are parts of a dataset and not classes; name mine/annotations/trainval\.txt"):
        tried(Path("mine"))


LABEL_STUDIO = [
    (
        tasks([("/data/upload/1/a.png", ["cat", "dog"]), ("/data/upload/1/b.png", ["dog"])]),
        "1 of 2 images are of sever",
    ),
    ([{"data": {"text": "hello"}, "annotations": []}], "a part of its form is missing or of another kind"),
    ([{"data": {"image": "a.png"}, "annotations": [{"id": 1}]}], "a part of its form is missing or of another kind"),
    (tasks([("https://example.org/a.png", ["cat"]), ("https://example.org/b.png", ["dog"])]), "paths are URLs"),
]


def test_tasks_of_label_studio_that_do_not_fit_are_refused(in_tmp: Path) -> None:
    assert unsaid([(held, re.compile(line)) for held, line in LABEL_STUDIO], lambda held: read_json(in_tmp, held)) == []


@pytest.mark.parametrize("form", ["webdataset", "metadata.csv", "labels.csv", "coco"])
def test_photos_to_classify_have_the_labels_of_such_a_form(in_tmp: Path, photos: forms.Photos, form: str) -> None:
    root = forms.FORMS[form](Path("mine"), photos)
    found, line = find_photos([str(root)])
    assert len(found) == 30
    said = [photo.said for photo in found]
    # Those of shards are numbers of a file of class names.
    assert {*said} == ({"ant", "bee", "red fox"} if form == "webdataset" else {*NAMES})
    assert "decode" not in line


def test_undivided_photos_are_divided_by_their_digests_in_each_form(in_tmp: Path, photos: forms.Photos) -> None:
    """FiftyOne's form, a map of files, and shards in one folder."""
    rows = forms.flat(Path("fiftyone/data"), photos["train"])
    labels = {path.removesuffix(".png"): NAMES.index(name) for path, name in rows}
    Path("fiftyone/labels.json").write_text(json.dumps({"classes": NAMES, "labels": labels}))
    forms.flat(Path("map"), photos["train"])
    Path("map/classes.json").write_text(json.dumps({f"x{path[1:4]}-map.png": name for path, name in rows}))
    forms.webdataset(Path("shards"), {"train": photos["train"]})
    Path("shards/train").rename("shards/x")
    for path in Path("shards/x").iterdir():
        path.rename(Path("shards") / path.name)
    Path("shards/x").rmdir()
    for name, data in photos["train"]:
        place = Path("folders", name)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{len([*place.iterdir()])}.png").write_bytes(data)
    expected = facts(tried(Path("folders")))
    for root in ("fiftyone", "map", "shards"):
        found = tried(Path(root))
        assert facts(found) == expected, root
        assert any("has no train/ and test/: about 50 %" in note for note in found.notes)


def test_class_folders_come_first(in_tmp: Path, photos: forms.Photos) -> None:
    root = forms.folders(Path("mine"), photos)
    forms.write_csv(root / "train/metadata.csv", ("file_name", "label"), [("ant/000.png", "another")])
    forms.write_csv(root / "labels.csv", ("path", "label"), [("train/ant/000.png", "another")])
    (root / "all.tar").write_bytes(b"PK")
    assert not is_given(str(root))
    assert tried(root).class_names == [clean_class_name(name) for name in NAMES]


def test_parts_of_a_dataset_are_no_classes_where_a_list_names_these(in_tmp: Path, photos: forms.Photos) -> None:
    rows = []
    for part, of_part in (("images_part_1", photos["train"]), ("images_part_2", photos["test"])):
        rows += [(path.removesuffix(".png"), name) for path, name in forms.flat(Path("mine", part), of_part)]
    forms.write_csv(Path("mine/metadata.csv"), ("image_id", "dx"), rows)
    assert tried(Path("mine")).class_names == [clean_class_name(name) for name in NAMES]


# ------------------------------------------------------------------------------------------------------------ lists


def listed(root: Path, text: str, *, file: str = "labels.csv", names: str = "a b c d") -> Path:
    """A list beside photos in a folder of their own."""
    (root / "photos").mkdir(parents=True, exist_ok=True)
    for name in names.split():
        shutil.copy(__file__, root / f"photos/{name}.jpg")
    (root / file).write_text(text)
    return root / file


COMPETITIONS = [
    ("id,breed\na,cat\nb,dog\nc,cat\nd,dog\n", ["cat", "dog"], "column 'breed' is taken for the class"),
    ("Image,Id\na.jpg,w1\nb.jpg,w2\nc.jpg,w1\nd.jpg,w2\n", ["w1", "w2"], "column 'Id' is taken for the class"),
    ("subject,classname,img\np1,c0,a.jpg\np2,c1,b.jpg\np3,c0,c.jpg\np4,c1,d.jpg\n", ["c0", "c1"], "by their names"),
    ("image_id;kind\na;x\nb;y\nc;x\nd;y\n", ["x", "y"], "column 'kind' is taken for the class"),
    ("image,is_cat,is_dog\na,1,0\nb,0,1\nc,1.0,0\nd,0,1.0\n", ["is cat", "is dog"], "that holds its 1: 'is_cat'"),
    ("id,species,species_id\na,cat,1\nb,dog,2\nc,cat,1\nd,dog,2\n", ["cat", "dog"], "column 'species' is taken"),
]


def test_lists_of_competitions(in_tmp: Path) -> None:
    for text, classes, note in COMPETITIONS:
        found = given(str(listed(in_tmp / "data", text)), fraction=None, classes=None)
        assert found.listing.class_names == classes
        assert found.listing.splits["test"].paths == [f"photos/{name}.jpg" for name in "abcd"]
        assert any(note in line for line in found.notes), found.notes


def test_numbers_are_named_by_the_json_file_beside_the_list(in_tmp: Path) -> None:
    file = listed(in_tmp, "image_id,label\na.jpg,0\nb.jpg,1\nc.jpg,1\nd.jpg,0\n", file="train.csv")
    (in_tmp / "label_num_to_disease_map.json").write_text('{"0": "blight", "1": "mosaic"}')
    found = given(str(file), fraction=None, classes=None)
    assert found.listing.class_names == ["blight", "mosaic"]
    assert "label_num_to_disease_map.json names the classes" in found.notes
    (in_tmp / "label_num_to_disease_map.json").write_text('{"rust": 0, "scab": 1}')
    assert given(str(file), fraction=None, classes=None).listing.class_names == ["rust", "scab"]


TWO_MEANINGS = [
    ("id,breed,species\na,cat,x\nb,dog,y\n", "columns 'breed', 'species' may all be the class; call the right one"),
    ("id,one,two\na,x,s\nb,y,t\nc,x,s\nd,y,t\n", "columns 'one', 'two' may all be the class; call the right one"),
    ("filename,cat,dog\na.jpg,1,0\nb.jpg,1,1\n", "row 2 is of 2 classes, 'cat', 'dog': its columns of ones"),
    ("filename,cat,dog\na.jpg,0,0\nb.jpg,0,1\n", "row 1 is of no class: its columns of ones and zeros"),
]


def test_lists_that_may_mean_two_things_are_refused(in_tmp: Path) -> None:
    assert unsaid(TWO_MEANINGS, lambda text: given(str(listed(in_tmp, text)), fraction=None, classes=None)) == []


ONE_EACH = {
    "Python's list": ("label", [["['cat']"], ["['dog']"]], ["cat", "dog"]),
    "JSON's list": ("label", [['["cat"]'], ['["dog"]'], ["dog"]], ["cat", "dog"]),
    "a bare list": ("label", [["[cat]"], ["[dog]"]], ["cat", "dog"]),
    "brackets of a name": ("label", [["[cat]"], ["dog"]], ["[cat]", "dog"]),
    "a separator at the end": ("labels", [["cat;"], ["dog;"], ["cat"]], ["cat", "dog"]),
    "yes and no": ("cat,dog", [["yes", "no"], ["No", "Yes"]], ["cat", "dog"]),
    "marks": ("cat,dog", [["x", ""], ["", "X"]], ["cat", "dog"]),
    "CelebA's": ("cat,dog", [["1", "-1"], ["-1", "1"]], ["cat", "dog"]),
    "gaps": ("cat,dog", [["1.0", ""], ["", "1.0"]], ["cat", "dog"]),
    "a comma in names": ("label", [["crane"], ["crane, bird"], ["kite, bird"]], ["crane", "crane, bird", "kite, bird"]),
    "levels": ("label", [["animal|cat"], ["animal|dog"]], ["animal|cat", "animal|dog"]),
    "a blank in names": ("label", [["hot dog"], ["hot"], ["dog"]], ["dog", "hot", "hot dog"]),
}
SEVERAL = {
    "ones": ("cat,dog", [["1", "1"], ["1", "0"], ["0", "1"], ["0", "1"]], "row 1 is of 2 classes.*; remove these"),
    "none": ("cat,dog", [["1", "0"], ["0", "0"], ["0", "1"], ["0", "1"]], "row 2 is of no class"),
    "Python's list": ("label", [["['cat']"], ["['cat', 'dog']"]], r"row 2 \(label .*, which is 'cat', 'dog'\)"),
    "NumPy's list": ("label", [["['cat']"], ["['cat' 'dog']"]], "row 2 .*, which is 'cat', 'dog'"),
    "JSON's list": ("class_name", [['["cat", "dog"]'], ['["dog"]']], "row 1 .class_name .*, which is 'cat', 'dog'"),
    "bars": ("label", [["cat"], ["dog"], ["dog|horse"]], "row 3 .*, which is 'dog', 'horse'"),
    "bars alone": ("label", [["cat|dog"], ["dog|horse"]], "row 1 .*, which is 'cat', 'dog'"),
    "semicolons": ("labels", [["cat;"], ["cat;dog"]], "row 2 .*, which is 'cat', 'dog'"),
    "commas": ("label", [["cat"], ["dog"], ["cat,dog"]], "row 3 .*, which is 'cat', 'dog'"),
    "blanks between tags": ("tags", [["cat"], ["dog"], ["cat dog"]], "row 3 .*, which is 'cat', 'dog'"),
    "blanks between numbers": ("Target", [["1"], ["7"], ["7 1"]], "row 3 .*, which is '7', '1'"),
}


def of_cells(root: Path, header: str, rows: Sequence[Sequence[str]]) -> Path:
    """A list of as many photos, beside these, as there are rows, each row twice."""
    names = [f"{i}" for i in range(2 * len(rows))]
    file = listed(root, "", names=" ".join(names))
    twice = [*rows, *rows]
    forms.write_csv(file, ["file", *header.split(",")], [[f"{name}.jpg", *twice[int(name)]] for name in names])
    return file


def test_one_class_in_a_row_however_it_is_written(in_tmp: Path) -> None:
    for kind, (header, rows, classes) in ONE_EACH.items():
        file = of_cells(in_tmp / kind, header, rows)
        assert given(str(file), fraction=None, classes=None).listing.class_names == classes, kind
        photos, _ = find_photos([str(file)])
        assert {photo.said for photo in photos} == {*classes}, kind
        assert [[*photo.columns.values()][1:] for photo in photos[: len(rows)]] == [*map(list, rows)], "as they were"


def test_rows_of_several_classes_are_refused_with_their_number(in_tmp: Path) -> None:
    """Also where their folder is named; and `classify` counts none of them as right or wrong."""
    for kind, (header, rows, message) in SEVERAL.items():
        file = of_cells(in_tmp / kind, header, rows)
        for read in (lambda name: given(name, fraction=None, classes=None), lambda name: tried(Path(name).parent)):
            with pytest.raises(DataError, match=message) as caught:
                read(str(file))
            n_odd = sum(f"{2 * n} of {2 * len(rows)}" in str(caught.value) for n in range(1, len(rows) + 1))
            assert n_odd == 1
        photos, _ = find_photos([str(file)])
        known, _ = labelled(photos, class_names=["cat", "dog", "7", "1"], folders={})
        assert len(known) == 2 * len(rows)
        assert sum(photo.label is not None for photo in known) < len(known)


@pytest.mark.parametrize("gap", ["nan", "NaN", "<NA>", "#N/A", "N/A"])
def test_what_programs_write_for_a_gap_is_no_class(in_tmp: Path, gap: str) -> None:
    file = of_cells(in_tmp, "label", [["cat"], ["dog"], [gap]])
    with pytest.raises(DataError, match=r"row 3 \('2.jpg'\) has no label; fill it in, or remove the row"):
        given(str(file), fraction=None, classes=None)
    photos, _ = find_photos([str(file)])
    assert [photo.said for photo in photos[:3]] == ["cat", "dog", ""]


@pytest.mark.parametrize(
    ("column", "values"),
    [("is_train", "01"), ("train", ("True", "False")), ("Is Test Image", "10"), ("in_val", ("yes", "no"))],
)
def test_a_column_that_says_by_yes_or_no_what_a_photo_is_for_is_refused(
    in_tmp: Path, column: str, values: Sequence[str]
) -> None:
    file = of_cells(in_tmp, f"label,{column}", [["cat", values[0]], ["dog", values[1]]])
    with pytest.raises(DataError, match=f"column '{column}' says which photos are of a split; make a column split"):
        given(str(file), fraction=None, classes=None)


def test_a_train_among_vehicles_is_a_class(in_tmp: Path) -> None:
    file = of_cells(in_tmp, "bus,train", [["1", "0"], ["0", "1"]])
    assert given(str(file), fraction=None, classes=None).listing.class_names == ["bus", "train"]


@pytest.mark.parametrize(
    ("held", "classes"),
    [
        ({"cat": ["0.jpg", "2.jpg"], "dog": ["1.jpg"]}, ["cat", "dog"]),
        ({"0.jpg": ["cat"], "1.jpg": ["dog"], "2.jpg": ["cat"]}, ["cat", "dog"]),
    ],
)
def test_json_maps_of_lists_are_of_files_or_of_classes(in_tmp: Path, held: object, classes: list[str]) -> None:
    file = listed(in_tmp, json.dumps(held), file="x.json", names="0 1 2")
    found = given(str(file), fraction=None, classes=None)
    assert (found.listing.class_names, len(found.listing.splits["test"].paths)) == (classes, 3)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("list.csv", b"photos/0.jpg,cat\nphotos/1.jpg,dog\n", "names them\\): put one above this line, which is"),
        ("list.csv", "path,label\n0.jpg,c\u00f6t\n".encode("utf-16"), r"not UTF-8 .* \(it begins as UTF-16 does\)"),
        ("list.csv", b"PK\x03\x04\x14\xff", r"it begins as an Excel or zip file does"),
        ("list.xlsx", b"PK\x03\x04", "is not a folder; .*, or save the table as CSV UTF-8, with the columns path and"),
        (
            "list.csv.gz",
            gzip.compress(b"path,label", mtime=0),
            "is not a folder; .*: unpack it, and name what was in it",
        ),
        ("list.txt", b"path,label\n0.jpg,cat\n", "is not a folder; .*, or a list that is read: CSV with the columns"),
        ("data.yaml", b"train: ../train/images\nnames: [cat]\n", "describes a dataset as YOLO's do, .* its folder"),
        ("coco128.yml", b"path: x\ntrain: images/a\nnames:\n  0: cat\n", "no photos: name its folder .* or crop"),
        ("obj.data", b"classes = 2\ntrain = train.txt\n", "it describes a dataset as YOLO's do"),
        ("params.yaml", b"source: photo\nseeds: [1]\n", "is not a folder; give one of .*params.yaml/<class>/<image>$"),
        ("places_val.txt", b"a.jpg 0\nb.jpg 1\n", "lies in no folder, which would name its class; write a CSV with"),
    ],
)  # fmt: skip
def test_what_is_no_list_is_said(in_tmp: Path, file: str, content: bytes, message: str) -> None:
    (in_tmp / file).write_bytes(content)
    with pytest.raises((DataError, MissingError), match=message):
        tried(in_tmp / file)


def test_ones_of_remarks_are_no_labels_of_photos_to_classify(in_tmp: Path) -> None:
    file = of_cells(in_tmp, "blurry,night", [["1", "0"], ["0", "0"], ["0", "0"]])
    photos, _ = find_photos([str(file)])
    assert {photo.said for photo in photos} == {None}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("elsewhere/{}.jpg", r"6 of 6 listed files are not there; the first, 'elsewhere/0.jpg', was looked for at"),
        ("photos/{}.png", r"looked for at .*/data/photos/0.png \(there is 0.jpg\), and by its name below .*/data"),
        ("photos/{}.JPG", r"looked for at .*/data/photos/0.JPG \(there is 0.jpg\)"),
        ("{}.webp", "looked for at .*/data/0.webp, and by its name below"),
    ],
)  # fmt: skip
def test_a_list_whose_files_are_missing_says_where_they_were_looked_for(in_tmp: Path, path: str, message: str) -> None:
    text = "".join(f"{path.format(i)},{NAMES[i % 2]}\n" for i in range(6))
    file = listed(in_tmp / "data", f"path,label\n{text}", names="0 1 2 3 4 5")
    # Another dataset beside it may have files of these names, and others.
    for other in (0, 2):
        (in_tmp / "other" / path.format(other)).parent.mkdir(parents=True, exist_ok=True)
        (in_tmp / "other" / path.format(other)).write_bytes(picture(0))
    for refused in (lambda: tried(file), lambda: profile_own.own(str(file), encoder={"pretrained": "openai"})):
        with pytest.raises(MissingError, match=message):
            refused()


def test_two_files_that_fit_a_name_are_refused_with_both(in_tmp: Path) -> None:
    file = listed(in_tmp, "id,breed\na,cat\nb,dog\nc,cat\nd,dog\n")
    shutil.copytree("photos", "again")
    with pytest.raises(DataError, match=r"'a' may be 'again/a.jpg', 'photos/a.jpg'"):
        given(str(file), fraction=None, classes=None)


def test_two_lists_in_a_folder_are_refused_with_both(in_tmp: Path) -> None:
    text = "id,breed\na,cat\nb,dog\nc,cat\nd,dog\n"
    listed(in_tmp / "data", text)
    listed(in_tmp / "data", text, file="train.csv")
    with pytest.raises(DataError, match=r"holds several lists of images with classes, 'labels.csv', 'train.csv'; name"):
        is_given("data")


NO_LISTS_OF_JSON: list[tuple[object, str]] = [
    ({"images": [], "annotations": []}, "is no list of images; expected objects"),
    ({"images": [{"id": 1}], "annotations": [], "categories": []}, "a part of its form is missing"),
    (
        {
            "images": [{"id": 1, "file_name": "a.jpg"}],
            "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 1, "category_id": 2}],
            "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        },
        "1 of 1 images are of several classes, such as 'a.jpg' of 2, 'cat', 'dog'; images of one class each",
    ),
    ({"labels": {"a": ["x", "y"]}}, "1 of 1 images are of several classes, such as 'a' of 2, 'x', 'y'"),
    ([1, 2], "row 1 is not an object"),
    ([{"url": "x"}], "column path is missing beside 'url'"),
]


def read_json(root: Path, held: object) -> object:
    return given(str(listed(root, json.dumps(held), file="x.json")), fraction=None, classes=None)


def test_json_that_is_no_list_of_one_class_each(in_tmp: Path) -> None:
    assert unsaid(NO_LISTS_OF_JSON, lambda held: read_json(in_tmp, held), file="x.json") == []


def test_images_of_coco_without_annotation_are_counted(in_tmp: Path) -> None:
    images = [{"id": i, "file_name": f"{name}.jpg"} for i, name in enumerate("abcd")]
    boxes = [{"image_id": i, "category_id": i % 2} for i in range(3)]
    held = {"images": images, "annotations": boxes, "categories": [{"id": i, "name": f"c{i}"} for i in range(2)]}
    found = given(str(listed(in_tmp, json.dumps(held), file="x.json")), fraction=None, classes=None)
    assert "left out, without annotation: 1 image, such as d.jpg" in found.notes


ANNOTATED = {
    "images": [{"id": 0, "file_name": "a.jpg"}, {"id": 1, "file_name": "b.jpg"}],
    "annotations": [{"image_id": 0, "category_id": 1}, {"image_id": 1, "category_id": 2}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
}


WRONG_IDS = [
    ("images", {"id": 0, "file_name": "c.jpg"}, r"image id 0 is of both 'a.jpg' and 'c.jpg'; give each an id"),
    ("categories", {"id": 1, "name": "emu"}, r"category id 1 is of both 'cat' and 'emu'; give each an id"),
    ("annotations", {"image_id": 1, "category_id": "2"}, r"of image id 1 has category_id '2', which is not .* 1, 2;"),
    ("annotations", {"image_id": 0, "category_id": 7}, r"of image id 0 has category_id 7, which is not among"),
]


def test_ids_of_coco_that_do_not_fit_are_refused(in_tmp: Path) -> None:
    table = [(ANNOTATED | {part: [*ANNOTATED[part], more]}, re.compile(line)) for part, more, line in WRONG_IDS]
    assert unsaid(table, lambda held: read_json(in_tmp, held)) == []


def test_annotations_of_no_image_and_categories_of_one_name_are_told(in_tmp: Path) -> None:
    held = ANNOTATED | {
        "annotations": [*ANNOTATED["annotations"], {"image_id": 77, "category_id": 3}],
        "categories": [*ANNOTATED["categories"], {"id": 3, "name": "dog"}],
    }
    found = given(str(listed(in_tmp, json.dumps(held), file="x.json")), fraction=None, classes=None)
    assert "left out, annotated but not among the images: 1 image id, 77" in found.notes
    assert "read as one class though listed as several categories: 'dog'" in found.notes


def test_coco_whose_annotations_are_of_no_image_is_refused(in_tmp: Path) -> None:
    boxes = [{"image_id": str(i), "category_id": 1} for i in range(2)]
    file = listed(in_tmp, json.dumps(ANNOTATED | {"annotations": boxes}), file="x.json")
    with pytest.raises(DataError, match=r"annotations are of image ids '0', '1', and images have others, 0, 1; write"):
        given(str(file), fraction=None, classes=None)


def rows_of_json(*labels: str) -> str:
    return "\n".join(f'{{"path": "{i}.jpg", "label": {label}}}' for i, label in enumerate(labels))


VALUES_OF_JSON = [
    ('{"a.jpg": "cat", "b.jpg": "dog", "a.jpg": "dog"}', "x.json", r"x.json: key 'a.jpg' is there twice, with 'cat'"),
    ('{"path": "a.jpg", "label": 1, "label": 2}', "x.jsonl", r"x.jsonl, line 1: key 'label' is there twice, with 1"),
    (rows_of_json('"cat"', "NaN", '"dog"'), "x.jsonl", r"x.jsonl, row 2 \('1.jpg'\) has no label; fill it in"),
    (rows_of_json("0", "1" + 400 * "0"), "x.jsonl", r"label holds numbers, such as '0'"),
    (rows_of_json("1" + 400 * "0", "1"), "x.jsonl", r"such as '1(0){19}..., of 401 digits'"),
    (rows_of_json(5000 * "9", "1"), "x.jsonl", r"such as '(9){20}..., of 5,000 digits'"),
]


def test_values_of_json_that_no_class_has(in_tmp: Path) -> None:
    listed(in_tmp, '{"cat": 0, "dog": 1}', file="names.json")

    def read(held: tuple[str, str]) -> None:
        for file in in_tmp.glob("x.*"):
            file.unlink()
        text, name = held
        tried(listed(in_tmp, text, file=name))

    assert unsaid([((text, file), re.compile(line)) for text, file, line in VALUES_OF_JSON], read) == []


def test_lists_of_splits_that_share_photos_say_so(in_tmp: Path, photos: forms.Photos) -> None:
    root = forms.split_lists(Path("mine"), photos)
    with (root / "photo_test_kfold.txt").open("a") as file:
        file.write((root / "photo_train_kfold.txt").read_text())
    assert any("18 paths lie in the lists of train and of test, such as" in note for note in tried(root).notes)


def test_lists_beside_the_folder_of_their_photos(in_tmp: Path, photos: forms.Photos) -> None:
    """PACS keeps its lists in a folder of their own."""
    forms.split_lists(Path("pacs/pacs_data"), photos)
    Path("pacs/pacs_label").mkdir()
    for file in Path("pacs/pacs_data").glob("*.txt"):
        file.rename(Path("pacs/pacs_label") / file.name)
    folders = forms.folders(Path("folders"), photos)
    assert facts(tried(Path("pacs/pacs_label/photo_train_kfold.txt"))) == facts(tried(folders))


def test_a_folder_of_numbered_files_is_refused_with_the_command_that_lists_its_classes(in_tmp: Path) -> None:
    root = Path("my photos")
    root.mkdir()
    for name in ("dog", "guinea pig", "cat"):
        for number in range(4):
            (root / f"{name}_{number:03d}.png").write_bytes(picture(number + 50 * len(name)))
    for refused in (lambda: tried(root), lambda: profile_own.own(str(root), encoder={"pretrained": "openai"})):
        with pytest.raises(DataError, match="names of its photos show 3 classes, 'cat', 'dog', 'guinea pig'") as caught:
            refused()
    command = str(caught.value).split("write a list, ")[1].split(", and name ")[0]
    subprocess.run(["bash", "-c", command], check=True)
    assert tried(root / "list.csv").class_names == ["cat", "dog", "guinea pig"]


@pytest.mark.parametrize("names", [("IMG_1.png", "IMG_2.png"), ("a.png", "b.png"), ("a_1.png", "b_1.png")])
def test_names_that_show_no_classes_are_not_proposed(in_tmp: Path, names: tuple[str, ...]) -> None:
    Path("photos").mkdir()
    for name in names:
        Path("photos", name).touch()
    with pytest.raises(DataError, match="has no class folders; expected photos/train/<class>/<image>"):
        tried(Path("photos"))


# ------------------------------------------------------------------------------------------------------- WebDataset


def test_a_layout_in_params_reads_shards(in_tmp: Path, photos: forms.Photos) -> None:
    forms.webdataset(Path("mine"), photos)
    section = DatasetParams(role="xd", layout="webdataset", watch="mine", template="a {}.")
    listing = manifest.read_listing("mine", params=section)
    assert [*listing.splits] == ["test"]
    assert listing.splits["test"].paths[0].startswith("test/0.tar/s0000000.png@")


def shard(root: Path, *files: tuple[str, bytes], names: str | None = "cat\ndog\n") -> Path:
    """A folder with one shard of files."""
    (root / "test").mkdir(parents=True, exist_ok=True)
    with tarfile.open(root / "test/0.tar", "w") as tar:
        for name, data in files:
            forms.put(tar, name, data)
    if names is not None:
        (root / "classnames.txt").write_text(names)
    return root


def sample(key: str, label: str, *, kind: str = "cls") -> list[tuple[str, bytes]]:
    return [(f"{key}.png", picture(hash(key) % 999)), (f"{key}.{kind}", label.encode())]


def test_labels_may_be_numbers_or_names_in_any_of_three_files(in_tmp: Path) -> None:
    for kind in ("cls", "txt", "json"):
        for number, labels in enumerate([("0", "1"), ("cat", "dog")]):
            texts = labels if kind != "json" else [json.dumps({"label": text, "width": 9}) for text in labels]
            files = [file for i in range(8) for file in sample(f"k{i}", texts[i % 2], kind=kind)]
            found = tried(shard(Path(f"{kind}{number}"), *files))
            assert found.class_names == ["cat", "dog"]
            assert len(found.paths) == 8


def test_captions_beside_labels_are_not_read(in_tmp: Path) -> None:
    files = [file for i in range(8) for file in [*sample(f"k{i}", str(i % 2)), (f"k{i}.txt", b"a dog and a cat")]]
    assert tried(shard(Path("mine"), *files)).class_names == ["cat", "dog"]


@pytest.mark.parametrize("name", ["s.{:03d}", "v1.0-{:03d}", "dog.{:03d}.small", "a/b.c/d.{:03d}"])
def test_keys_with_periods_are_read_to_the_last_one(in_tmp: Path, photos: forms.Photos, name: str) -> None:
    """WebDataset's own keys end at the first period, and so no file of these would be a picture."""
    root = forms.webdataset(in_tmp / "mine", photos)
    for split, of_split in photos.items():
        shutil.rmtree(root / split)
        (root / split).mkdir()
        with tarfile.open(root / split / "0.tar", "w") as tar:
            for i, (of_class, data) in enumerate(of_split):
                forms.put(tar, f"{name.format(i)}.png", data)
                forms.put(tar, f"{name.format(i)}.cls", str(NAMES.index(of_class)).encode())
    assert facts(tried(root)) == facts(tried(forms.folders(in_tmp / "folders", photos)))


def test_pictures_beside_a_samples_own_are_no_samples(in_tmp: Path) -> None:
    (in_tmp / "mine").mkdir()
    with tarfile.open(in_tmp / "mine/0.tar", "w") as tar:
        for key in "abcd":
            for kind, data in (("png", picture(ord(key))), ("mask.png", picture(0)), ("cls", NAMES["ac".count(key)])):
                forms.put(tar, f"{key}.{kind}", data.encode() if isinstance(data, str) else data)
    assert len(given(str(in_tmp / "mine"), fraction=None, classes=None).listing.splits["test"].paths) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            gzip.compress(b"x" * 9000, mtime=0),
            r"is compressed; shards are read by offset: rename it to .tar.gz, and unc.*gunzip",
        ),
        (bz2.compress(b"x" * 9000), r"rename it to .tar.bz2, and uncompress it \(bunzip2\)"),
        (lzma.compress(b"x" * 9000), r"rename it to .tar.xz, and uncompress it \(unxz\)"),
        (b"PK\x03\x04" + bytes(2000), r"is a zip file; unpack it \(unzip\), and name the folder"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n", "is a pointer of Git LFS; fetch"),
        (
            b"\n<!DOCTYPE html><title>404</title>" + b" " * 600,
            "is a web page, as a failed download leaves it; download",
        ),
    ],
)
def test_what_is_called_tar_by_mistake_is_said(in_tmp: Path, content: bytes, message: str) -> None:
    (in_tmp / "mine").mkdir()
    (in_tmp / "mine/0.tar").write_bytes(content)
    for refused in (lambda: given("mine", fraction=None, classes=None), lambda: find_photos(["mine"])):
        with pytest.raises(DataError, match=rf"mine/0.tar is no whole tar archive after its beginning: it .*{message}"):
            refused()


def test_compressed_shards_beside_others_are_refused(in_tmp: Path) -> None:
    root = shard(Path("mine"), *sample("k1", "0"), *sample("k2", "1"))
    (root / "train").mkdir()
    (root / "train/0.tar.gz").touch()
    with pytest.raises(DataError, match=r"mine/train holds compressed shards, and shards are .*; uncompress them"):
        tried(root)


def test_names_need_no_list_of_classes_and_keys_may_lie_in_folders(in_tmp: Path) -> None:
    files = [file for i in range(8) for file in sample(f"./a.b/k{i}", ("owl", "bee")[i % 2])]
    root = shard(Path("mine"), *files, ("more.txt", b"note"), ("__MACOSX/._k.png", b"x"), names=None)
    assert tried(root).class_names == ["bee", "owl"]


SHARDS: list[tuple[list[tuple[str, bytes]], str | None, str]] = [
    ([*sample("k1", "0"), ("k2.png", b"x")], "cat\ndog\n", r"test/0.tar: image 'k2' has no label; expected k2.cls"),
    ([*sample("k1", "0"), *sample("k2", "7")], "cat\ndog\n", r"k2.png@.*has label 7, out of range for 2 classes"),
    ([*sample("k1", "0"), *sample("k2", "1")], None, r"labels are numbers, such as '0', and no classnames.txt"),
    ([*sample("k1", "cat"), *sample("k2", "emu")], "cat\ndog\n", r"k2.png@.*class 'emu' is not in the list"),
    ([("k.png", b"x"), ("k.jpg", b"x"), ("k.cls", b"0")], "cat\ndog\n", r"'k' has two images, .png and .jpg; keep"),
    ([*sample("k1", "0"), *sample("k2", "1"), *sample("k1", "1")], "cat\ndog\n", r"0.tar: 'k1' is there twice, with"),
    ([*sample("k1", "0"), ("k1.CLS", b"1")], "cat\ndog\n", r"test/0.tar: 'k1.cls' is there twice; keep one"),
    ([*sample("k1", "0"), ("k1.txt", b"dog")], "cat\ndog\n", r"k1.png@.* label '0' means 'cat', but its .txt is 'dog'"),
    ([*sample("k1", "0"), ("k1.txt", b"1"), *sample("k2", "1")], "cat\ndog\n", r"means 'cat', but its .txt is '1'"),
    ([*sample("k1", "cat"), ("k1.txt", b"dog"), *sample("k2", "dog")], None, r"means 'cat', but its .txt is 'dog'"),
    ([("k.png", b"x"), ("k.json", b"{")], "cat\ndog\n", r"'k.json' is no label"),
    ([("k.cls", b"0")], "cat\ndog\n", r"its shards hold no images that are decoded; expected KEY.jpg and KEY.cls"),
    (
        [file for i in range(6) for file in sample(f"k{i}", f"a photo of thing {i}", kind="txt")],
        None,
        r"6 images have 6 texts, such as 'a photo of thing 0': these are captions and not classes",
    ),
]


def test_shards_that_cannot_be_meant_say_which_key(in_tmp: Path) -> None:
    def read(number: int) -> None:
        files, names, _ = SHARDS[number]
        tried(shard(Path(f"shards{number}"), *files, names=names))

    assert unsaid([(number, re.compile(line)) for number, (*_, line) in enumerate(SHARDS)], read) == []


def test_a_shard_that_is_cut_off_or_missing_is_named(in_tmp: Path, photos: forms.Photos) -> None:
    root = forms.webdataset(Path("mine"), photos)
    whole = (root / "train/1.tar").read_bytes()
    (root / "train/1.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"train/1.tar is no whole tar archive after 's000000\d\.\w+' \(it "):
        tried(root)
    (root / "train/1.tar").unlink()
    with pytest.raises(DataError, match=r"train/nshards.txt says '4', and .*train holds 3 shards; download those"):
        tried(root)
    (root / "train/1.tar.gz").touch()
    with pytest.raises(DataError, match="holds compressed shards, and shards are read by offset; uncompress them"):
        tried(root)


def test_images_of_other_kinds_are_counted(in_tmp: Path) -> None:
    files = [file for i in range(8) for file in sample(f"k{i}", str(i % 2))]
    found = tried(shard(Path("mine"), *files, ("k9.heic", b"x"), ("k9.cls", b"0")))
    assert "left out, convert them to .jpg: 1 .heic; no photos: 1 .cls" in found.notes


def labels_of(place: str, *, class_names: Sequence[str]) -> tuple[set[tuple[str | None, str | None]], list[str]]:
    """What photos are called and the labels that they get, for `wsoup classify`, and what is said of them."""
    found, _ = find_photos([place])
    known, lines = labelled(found, class_names=class_names, folders={name: name for name in class_names})
    return {(photo.said, photo.label) for photo in known}, lines


@pytest.mark.parametrize("place", ["mine", "mine/test", "mine/test/0.tar", "."])
def test_classify_reads_the_names_of_the_shards_numbers(
    in_tmp: Path, monkeypatch: pytest.MonkeyPatch, photos: forms.Photos, place: str
) -> None:
    """In whatever order the classes are given, and whether a split or a shard of it is named alone."""
    forms.webdataset(Path("mine"), photos, per_shard=99)
    if place == ".":
        monkeypatch.chdir("mine/test")
    said, lines = labels_of(place, class_names=["red_fox", "ant", "bee"])
    assert said == {("ant", "ant"), ("bee", "bee"), ("red fox", "red_fox")}
    assert not lines
    said, lines = labels_of(place, class_names=["cow", "bee"])
    assert said == {("ant", None), ("bee", "bee"), ("red fox", None)}
    assert "have a label that is not a class name, and are not counted: 'ant' (" in lines[0]


def test_classify_reads_shards_whose_numbers_have_keys_or_no_names(in_tmp: Path) -> None:
    files = [*sample("k1", "1"), *sample("k2", "2"), ("k3.png", picture(3))]
    keyed = shard(Path("keyed"), *files, names="1\tdog\n2\tcat\n")
    assert labels_of(str(keyed), class_names=["cat", "dog"])[0] == {("dog", "dog"), ("cat", "cat"), ("", None)}
    unnamed = shard(Path("unnamed"), *files, names=None)
    assert labels_of(str(unnamed), class_names=["cow", "cat", "dog"])[0] == {("1", "cat"), ("2", "dog"), ("", None)}
    of_folders = shard(Path("folders"), *sample("k1", "n1"), *sample("k2", "a caption"), names="n1\tdog\nn2\tcat\n")
    assert labels_of(str(of_folders), class_names=["cat", "dog"])[0] == {("dog", "dog"), ("a caption", None)}


def test_classify_refuses_a_number_outside_of_the_names_as_training_does(in_tmp: Path) -> None:
    root = shard(Path("mine"), *sample("k1", "0"), *sample("k2", "7"))
    for place in (str(root), str(root / "test/0.tar")):
        with pytest.raises(DataError, match=r"k2.png@.*has label 7, out of range for 2 classes .*mine/classnames.txt"):
            find_photos([place])


@pytest.mark.parametrize("numbers", [("0", "1"), ("0.0", "1.0"), ("00", "01")])
def test_whole_numbers_are_labels_however_they_are_written(in_tmp: Path, numbers: Sequence[str]) -> None:
    for kind in ("cls", "json"):
        texts = numbers if kind == "cls" else [f'{{"label": {int(float(text))}.0}}' for text in numbers]
        files = [file for i in range(8) for file in sample(f"k{i}", texts[i % 2], kind=kind)]
        assert tried(shard(Path(kind), *files)).class_names == ["cat", "dog"]
        assert {name for _, name in labels_of(kind, class_names=["dog", "cat"])[0]} == {"cat", "dog"}


def test_shards_are_divided_by_words_in_their_names(in_tmp: Path, photos: forms.Photos) -> None:
    forms.webdataset(Path("parts"), photos)
    Path("mine").mkdir()
    for path in Path("parts").glob("*/*.tar"):
        path.rename(Path("mine") / f"pets-{path.parent.name}-{int(path.stem):06d}.tar")
    Path("parts/classnames.txt").rename("mine/classnames.txt")
    assert facts(tried(Path("mine"))) == facts(tried(forms.folders(Path("folders"), photos)))


def test_the_templates_of_shards_become_those_of_the_dataset(in_tmp: Path, photos: forms.Photos) -> None:
    root = forms.webdataset(Path("mine"), photos)
    (root / webdataset.TEMPLATES).write_text("a photo of a {c}.\na picture of the {c}.\n")
    text = profile_own.own(str(root), encoder={"pretrained": "openai"}).text
    params = parse_params(parse_yaml(text, origin="profile"), origin="profile")
    assert params.datasets["mine"].templates == str((root / webdataset.TEMPLATES).resolve())
