"""Data for object detection: boxes of one class are a photo's class, and anything else is refused with what to do."""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import forms
import numpy as np
import pytest
from PIL import Image

from wsoup.base.errors import DataError, MissingError
from wsoup.datasets.given import given
from wsoup.photos.files import find_photos
from wsoup.photos.labelled import LabelledPhotos, look
from wsoup.pipeline.profiles import own

CLASSES = ("cat", "dog")
CROP = "holds boxes of objects ({}), and classes of whole photos are needed: .*crop the boxes into a folder for each"


def fill(place: Path, *, number: int = 6) -> Path:
    """Photos 0.jpg, 1.jpg, ..., which all differ."""
    place.mkdir(parents=True, exist_ok=True)
    for i in range(number):
        buffer = io.BytesIO()
        seed = zlib.crc32(f"{place.as_posix()}/{i}".encode())
        Image.fromarray(np.random.default_rng(seed).integers(256, size=(8, 8, 3), dtype=np.uint8)).save(buffer, "PNG")
        (place / f"{i}.jpg").write_bytes(buffer.getvalue())
    return place


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def tried(root: Path) -> LabelledPhotos:
    return look(str(root), shots=3, seed=1, template="a {}.", classes=None)


def yolo(photos: Path, labels: Path) -> None:
    fill(photos)
    for i in range(6):
        write(labels / f"{i}.txt", f"{i % 2} 0.5 0.25 .125 1\n0 0.1 0.1 1e-3 0.2\n".replace("1e-3", "0.001"))


def voc(photos: Path, notes: Path) -> None:
    fill(photos)
    for i in range(6):
        write(notes / f"{i}.xml", f"<annotation>\n<filename>{i}.jpg</filename><object><name>cat</name></object>")


def coco(photos: Path, file: Path, *, several: bool = True) -> None:
    fill(photos)
    images = [{"id": i, "file_name": f"{i}.jpg"} for i in range(6)]
    boxes = [{"image_id": i, "category_id": i % 2, "bbox": [1, 1, 3, 3]} for i in range(6)] * 2
    boxes += [{"image_id": i, "category_id": (i + 1) % 2, "bbox": [1, 1, 3, 3]} for i in (4, 5) if several]
    categories = [{"id": i, "name": name} for i, name in enumerate(CLASSES)]
    write(file, json.dumps({"images": images, "annotations": boxes, "categories": categories}))


def rows_of_boxes(photos: Path, file: Path, *, several: bool = True, corner: str = "xmin,ymin") -> None:
    fill(photos)
    rows = [(f"{i}.jpg", 8, 8, CLASSES[i % 2], 1, 1) for i in range(6)] * 2
    rows += [(f"{i}.jpg", 8, 8, CLASSES[(i + 1) % 2], 1, 1) for i in (4, 5) if several]
    forms.write_csv(file, ("filename", "width", "height", "class", *corner.split(",")), rows)


def in_splits(make: Callable[[Path, Path], None], photos: str, notes: str) -> Callable[[Path], None]:
    """A maker of a folder of three splits as Roboflow calls them."""

    def made(root: Path) -> None:
        for split in ("train", "valid", "test"):
            make(root / split / photos, root / split / notes)

    return made


BOXES = {
    "YOLO": (lambda root: yolo(root / "images", root / "labels"), CROP.format("YOLO's form")),
    "YOLO, splits": (
        lambda root: [yolo(root / f"images/{split}", root / f"labels/{split}") for split in ("train", "val")],
        CROP.format("YOLO's form"),
    ),
    "YOLO of Roboflow": (in_splits(yolo, "images", "labels"), CROP.format("YOLO's form")),
    "YOLO beside": (lambda root: yolo(root / "obj_train_data", root / "obj_train_data"), CROP.format("YOLO's form")),
    "VOC": (lambda root: voc(root / "JPEGImages", root / "Annotations"), CROP.format("Pascal VOC's form")),
    "VOC of Roboflow": (in_splits(voc, "", ""), CROP.format("Pascal VOC's form")),
    "VOC in one folder": (lambda root: voc(root, root), CROP.format("Pascal VOC's form")),
    "COCO": (
        lambda root: [coco(root / f"{each}2017", root / f"annotations/{each}.json") for each in ("train", "val")],
        "name .*annotations/train.json itself, if each photo's boxes are of one class",
    ),
    "COCO of Roboflow": (in_splits(coco, "", "_annotations.coco.json"), "2 of 6 images are of several classes"),
    "rows of Roboflow": (in_splits(rows_of_boxes, "", "_annotations.csv"), "2 of 6 photos have boxes of several"),
    "LabelMe": (
        lambda root: [fill(root), write(root / "0.json", '{"shapes": [{"label": "cat"}]}')],
        CROP.format("LabelMe's form"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOXES)
def test_boxes_are_no_classes_of_photos(in_tmp: Path, kind: str) -> None:
    make, message = BOXES[kind]
    root = in_tmp / "data"
    make(root)
    message = message.replace("(", r"\(").replace(")", r"\)")
    for refused in (lambda: tried(root), lambda: own.own(str(root), encoder={"pretrained": "openai"})):
        with pytest.raises(DataError, match=message) as caught:
            refused()
        assert "\n" not in str(caught.value)
    photos, _ = find_photos([str(root)])
    assert len(photos) % 6 == 0, "photos to classify need no classes"


@pytest.mark.parametrize("kind", ["YOLO", "YOLO of Roboflow", "YOLO beside", "VOC", "VOC in one folder", "LabelMe"])
def test_boxes_are_said_where_names_of_photos_show_classes_too(in_tmp: Path, kind: str) -> None:
    make, _ = BOXES[kind]
    root = in_tmp / "data"
    make(root)
    for file in sorted(root.rglob("[0-9].*")):
        file.rename(file.with_name(f"{CLASSES[int(file.stem) % 2]}_{file.name}"))
    with pytest.raises(DataError) as caught:
        tried(root)
    said = str(caught.value)
    assert re.search(
        r"holds boxes of objects \(.*'s form\), so a photo may be of several classes: crop the boxes", said
    )
    assert "; or, if each is of one, the names of its photos show 2 classes, 'cat', 'dog'; to take these" in said


def test_pictures_beside_the_photos_of_voc_are_no_class(in_tmp: Path) -> None:
    voc(Path("data/JPEGImages"), Path("data/Annotations"))
    fill(Path("data/SegmentationClass"))
    with pytest.raises(DataError, match="JPEGImages/ and Annotations/ are parts of a dataset and not classes; Annotat"):
        tried(Path("data"))


@pytest.mark.parametrize("corner", ["xmin,ymin", "x1,y1", "XMin,YMin", "bbox,area", "bbox_x,bbox_y"])
def test_boxes_of_one_class_are_the_class_of_their_photo(in_tmp: Path, corner: str) -> None:
    rows_of_boxes(Path("data"), Path("data/boxes.csv"), several=False, corner=corner)
    found = given("data/boxes.csv", fraction=None, classes=None)
    assert found.listing.class_names == ["cat", "dog"]
    assert found.listing.splits["test"].labels.tolist() == [0, 1] * 3
    assert "12 boxes are in 6 photos, each of the one class of its boxes" in found.notes
    photos, _ = find_photos(["data/boxes.csv"])
    assert [photo.said for photo in photos] == ["cat", "dog"] * 6, "every row goes out"


def test_boxes_of_two_classes_are_no_label_of_a_photo_to_classify(in_tmp: Path) -> None:
    rows_of_boxes(Path("data"), Path("data/boxes.csv"))
    for place in ("data", "data/boxes.csv"):
        photos, _ = find_photos([place])
        said = {Path(photo.path).name: photo.said for photo in photos}
        assert said == {"0.jpg": "cat", "1.jpg": "dog", "2.jpg": "cat", "3.jpg": "dog"} | dict.fromkeys(
            ("4.jpg", "5.jpg"), "cat|dog"
        )


def test_rows_without_boxes_name_a_photo_once(in_tmp: Path) -> None:
    rows_of_boxes(Path("data"), Path("data/boxes.csv"), several=False, corner="author,note")
    with pytest.raises(DataError, match="more than once; list every image once"):
        tried(Path("data/boxes.csv"))


def test_cocos_photos_lie_beside_the_folder_of_its_lists(in_tmp: Path) -> None:
    coco(Path("data/val2017"), Path("data/annotations/instances_val2017.json"), several=False)
    found = given("data/annotations/instances_val2017.json", fraction=None, classes=None)
    assert found.listing.root.endswith("data/val2017")
    assert found.listing.splits["test"].paths == [f"{i}.jpg" for i in range(6)]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("images.txt", "1 ant/train000.png\n2\n", "line 2: '2' should be: an id, a space, and what it is"),
        ("images.txt", "1 ant/a.png\n1 ant/b.png\n", "line 2: id '1' is there twice"),
        ("image_class_labels.txt", "2 1\n", "image_class_labels.txt has no line for id '1'; download"),
        ("classes.txt", "2 bee\n", "classes.txt has no line for id '1'; download"),
        ("train_test_split.txt", "2 1\n", "train_test_split.txt has no line for id '1'; download"),
        ("classes.txt", None, "classes.txt does not exist; expected lines of a class's number and its name"),
    ],
)
def test_cubs_lists_that_do_not_fit_are_refused(in_tmp: Path, file: str, text: str | None, message: str) -> None:
    picture = (fill(Path("x"), number=1) / "0.jpg").read_bytes()
    root = forms.cub(Path("mine"), {"train": [("ant", picture)], "test": [("ant", picture)]})
    (root / file).unlink()
    if text is not None:
        (root / file).write_text(text)
    with pytest.raises((DataError, MissingError), match=message):
        given(str(root / "images.txt"), fraction=None, classes=None)
