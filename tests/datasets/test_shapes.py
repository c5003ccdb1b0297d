"""Folders as they are downloaded: what is taken for classes and splits is right and said, or refused in one line."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from said import unsaid

from wsoup.base.errors import LONGEST, DataError
from wsoup.datasets import division, folder
from wsoup.datasets.left_out import left_out
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, SUFFIXES_OF, TO_CONVERT, is_photo
from wsoup.datasets.shape import shape_of
from wsoup.photos.files import find_photos
from wsoup.photos.labelled import LabelledPhotos, look
from wsoup.pipeline.profiles import own

RNG = np.random.default_rng(0)


def picture(kind: str = "JPEG") -> bytes:
    """A photo that differs from every other one."""
    buffer = io.BytesIO()
    Image.fromarray(RNG.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def fill(root: Path, *places: str, photos: int = 4, ending: str = ".jpg") -> Path:
    """Folders with photos of their own."""
    for place in places:
        (root / place).mkdir(parents=True, exist_ok=True)
        for number in range(photos):
            (root / place / f"{number}{ending}").write_bytes(picture())
    return root


def below(*splits: str, classes: tuple[str, ...] = ("cat", "dog")) -> list[str]:
    return [f"{split}/{name}" for split in splits for name in classes]


def anew(root: Path, *places: str) -> Path:
    """Fill the folder after all that was in it is gone."""
    shutil.rmtree(root, ignore_errors=True)
    return fill(root, *places)


@pytest.fixture
def root(in_tmp: Path) -> Path:
    return Path("photos")


def tried(root: Path, **choices: object) -> LabelledPhotos:
    given = {"shots": 16, "seed": 1, "template": "a {}.", "classes": None} | choices
    return look(str(root), **given)


def used(root: Path) -> LabelledPhotos:
    """What `wsoup try` takes from a folder; what it refuses, `wsoup profile own` must refuse in the same words."""
    try:
        return tried(root)
    except DataError as error:
        said = str(error)
    with pytest.raises(DataError) as of_profile:
        own.own(str(root), encoder={"pretrained": "openai"})
    assert str(of_profile.value).replace(str(root.resolve()), str(root)) == said
    raise DataError(said)


def sides_of(photos: LabelledPhotos, root: Path) -> tuple[set[str], set[str]]:
    """Top folders of the photos to learn from, and of those to test on."""
    tops = [Path(path).relative_to(root).parts[0] for path in photos.paths]
    return {*tops[: photos.n_train]}, {*tops[photos.n_train :]}


SPELLINGS = [
    ("Train", "Test"),
    ("TRAIN", "TEST"),
    ("train", "Test"),
    ("Training", "Testing"),
    ("training", "testing"),
    ("train", "valid"),
    ("train", "validation"),
    ("Train", "Val"),
    ("training", "dev"),
    ("training_set", "test_set"),
    ("Training Data", "Testing Data"),
    ("train_images", "test_images"),
    ("trainset", "testset"),
    ("seg_train", "seg_test"),
    ("flowers-train", "flowers-test"),
    ("2019_train", "2019_val"),
]


def test_folders_of_splits_in_usual_spellings(root: Path) -> None:
    for train, test in SPELLINGS:
        photos = tried(anew(root, *below(train, test)))
        assert photos.class_names == ["cat", "dog"]
        assert sides_of(photos, root) == ({train}, {test})
        assert photos.taken == (
            f"photos: {train}/ is to learn from, {test}/ is to test on; the folders in there are the classes"
        )


@pytest.mark.parametrize(
    ("unread", "line"), [("valid", "valid/ is not read"), ("Validation", "Validation/ is not read")]
)
def test_a_split_that_is_not_read_is_said(root: Path, unread: str, line: str) -> None:
    photos = tried(fill(root, *below("train", "test", unread)))
    assert sides_of(photos, root) == ({"train"}, {"test"})
    assert line in photos.taken


@pytest.mark.parametrize(
    ("train", "test"),
    [("seg_train/seg_train", "seg_test/seg_test"), ("train/train", "test/test"), ("Train/training", "Test/Test")],
)
def test_a_split_that_holds_itself_once_more_is_looked_into(root: Path, train: str, test: str) -> None:
    photos = tried(fill(root, *below(train, test)))
    assert photos.class_names == ["cat", "dog"]
    assert f"{train}/ is to learn from, {test}/ is to test on" in photos.taken


def test_intels_photos_to_predict_are_left_out_and_counted(root: Path) -> None:
    fill(root, *below("seg_train/seg_train", "seg_test/seg_test"))
    fill(root, "seg_pred/seg_pred", photos=7)
    assert tried(root).notes == [
        "left out, only classes in seg_train/seg_train/ and seg_test/seg_test/ are read: 7 in 'seg_pred'"
    ]


@pytest.mark.parametrize("test", ["test", "Test", "testing", "test_images"])
def test_a_flat_test_folder_is_left_out_with_a_line_and_train_is_divided(root: Path, test: str) -> None:
    fill(root, *below("train"), photos=20)
    fill(root, test, photos=3)
    photos = tried(root)
    assert sides_of(photos, root) == ({"train"}, {"train"})
    assert f"left out, since {test}/ has no class folders: 3 photos in it" in photos.notes
    assert any("only train/: about 50 % of the photos" in note for note in photos.notes)
    assert "test_fraction: 0.5" in own.own("photos", encoder={"pretrained": "openai"}).text


def test_flat_photos_for_validation_are_refused_with_what_to_do(root: Path) -> None:
    def read(place: str) -> None:
        anew(root, *below("train"), place)
        used(root)

    table = []
    for place in ("val", "Valid", "val/images"):
        top = place.partition("/")[0]
        line = rf"photos/{top} holds photos but no folder for each class; move each photo into .*photos/{top}/<class>/"
        table.append((place, re.compile(line)))
    assert unsaid(table, read) == []


def test_tiny_imagenet_is_read_once_its_val_is_sorted(root: Path) -> None:
    classes = ("n01", "n02", "n03")
    fill(root, *(f"train/{name}/images" for name in classes))
    fill(root, "test/images", photos=5)
    fill(root, "val/images", photos=5)
    (root / "val/val_annotations.txt").write_text("0.jpg\tn01\n")
    with pytest.raises(DataError, match=r"a list beside them, such as val_annotations.txt, may name the classes"):
        tried(root)
    (root / "val/images").rename(root / "elsewhere")
    fill(root, *(f"val/{name}" for name in classes))
    photos = tried(root)
    assert photos.class_names == list(classes)
    assert sides_of(photos, root) == ({"train"}, {"val"})
    assert "left out, since test/ has no class folders: 5 photos in it" in photos.notes
    assert any("3 of 3 class folders hold folders, whose 12 photos count to the class" in note for note in photos.notes)


TWO_DEEP = [
    ("a/abbey", "a/alley", "d/dog", "g/gate"),
    ("a/abbey", "d/dog", "g/gate"),
    ("animal/cat", "animal/dog", "tool/saw", "tool/axe"),
    ("train/animal/cat", "train/tool/saw", "test/animal/cat", "test/tool/saw"),
    ("c/cathedral/indoor", "c/cathedral/outdoor", "d/dam"),
    ("x/1", "y/2", "z/3"),
]


def test_photos_two_folders_deep_are_refused(root: Path) -> None:
    line = re.compile("photos lie two folders deep, as in .*, so it is not clear which folders are the classes")
    assert unsaid([(places, line) for places in TWO_DEEP], lambda places: used(anew(root, *places))) == []


def test_the_way_out_is_to_name_the_classes(root: Path) -> None:
    fill(root, "animal/cat", "animal/dog", "tool/saw", "tool/axe")
    Path("names.txt").write_text("animal\tanimal\ntool\ttool\n")
    photos = tried(root, classes="names.txt")
    assert photos.class_names == ["animal", "tool"]
    assert any("2 of 2 class folders hold folders, whose 16 photos count to the class" in note for note in photos.notes)


def test_folders_within_classes_count_to_the_class_and_are_said(root: Path) -> None:
    table = [
        (("cat/images", "dog/images"), 2),
        (("cat/monday", "cat/friday", "dog/monday"), 2),
        (("n01/images", "n02/images", "n03/images"), 3),
        (("cat", "dog", "dog/more"), 1),
        (("cat", "cat/a", "dog", "dog/b"), 2),
    ]
    for places, n_nested in table:
        photos = tried(anew(root, *places))
        assert photos.class_names == sorted({place.partition("/")[0] for place in places})
        (note,) = [note for note in photos.notes if "class folders hold folders" in note]
        assert note.startswith(f"{n_nested} of {len(photos.class_names)} class folders")


PARTS = [
    (["images", "annotations/trimaps"], "images/ and annotations/ are parts of a dataset and not classes; write a"),
    (["Images", "Annotation"], "Images/ and Annotation/ are parts of a dataset and not classes"),
    (["images/001.a", "images/002.b", "segmentations/001.a", "segmentations/002.b"], "; name photos/images"),
    (["images", "labels"], "images/ and labels/ are parts of a dataset and not classes"),
    (["img", "masks"], "img/ and masks/ are parts of a dataset and not classes"),
    (["images/cat", "images/dog", "meta"], "name photos/images"),
]


def test_parts_of_a_downloaded_dataset_are_no_classes(root: Path) -> None:
    assert unsaid(((tuple(places), line) for places, line in PARTS), lambda places: used(anew(root, *places))) == []
    photos = tried(anew(root, "JPEGImages", "SegmentationClass", "Masks"))
    assert len(photos.class_names) == 3, "a name of one's own is a class"


def test_food_101_and_cub_as_unpacked_say_which_folder_to_name(root: Path) -> None:
    fill(root, "images/apple_pie", "images/sushi")
    (root / "meta").mkdir()
    (root / "meta/classes.txt").write_text("apple_pie\nsushi\n")
    with pytest.raises(DataError, match=r"images/ and meta/ are parts of a dataset and not .*; name photos/images$"):
        used(root)
    assert tried(root / "images").class_names == ["apple pie", "sushi"]


def test_two_folders_of_one_split_are_refused_with_both(root: Path) -> None:
    table = [
        (["train", "Train", "test"], "photos/Train and photos/train"),
        (["train", "training", "test"], "photos/train and photos/training"),
        (["train", "test", "testing"], "photos/test and photos/testing"),
        (["train", "val", "valid"], "photos/val and photos/valid"),
    ]
    lines = [(splits, f"{both} would both be split") for splits, both in table]
    assert unsaid(lines, lambda splits: tried(anew(root, *below(*splits)))) == []


def test_folders_of_photos_alone_are_classes_whatever_their_names(root: Path) -> None:
    table = [
        ("bus", "train"),
        ("Test", "Train", "bus"),
        ("bullet train", "steam train"),
        ("validation", "wallet"),
        ("set", "test"),
    ]
    for classes in table:
        photos = tried(anew(root, *classes))
        assert list(photos.names) == sorted(classes)
        assert photos.taken == "photos: its folders are the classes"


@pytest.mark.parametrize("parts", [("train_1", "train_2"), ("train1",), ("Training 01", "Training 02")])
def test_parts_of_a_split_are_refused_where_they_would_be_left_out(root: Path, parts: tuple[str, ...]) -> None:
    fill(root, *below("test", *parts))
    with pytest.raises(DataError, match=rf"photos/{parts[0]} would be a part of split 'train', which has no folder of"):
        tried(root)
    (root / parts[0]).rename(root / "train")
    assert sides_of(tried(root), root) == ({"train"}, {"test"})


def test_one_folder_like_training_among_classes_is_a_class(root: Path) -> None:
    fill(root, "training/monday", "running", "cycling")
    assert list(tried(root).names) == ["cycling", "running", "training"]


def test_folders_of_datasets_with_other_spellings_are_not_classes(root: Path) -> None:
    fill(root, *(f"{name}/{place}" for name in ("art", "photo") for place in below("Train", "Test")))
    with pytest.raises(DataError, match="holds folders with train/, val/ or test/, which are datasets"):
        tried(root)


# ------------------------------------------------------------------------------------------------------------ files


KINDS = [
    ("photo.jfif", "JPEG"),
    ("photo.JFIF", "JPEG"),
    ("photo", "JPEG"),
    ("IMG_0001", "PNG"),
    ("photo.jpe", "JPEG"),
    ("photo.jpg_large", "JPEG"),
    ("photo.1", "WEBP"),
    ("photo.image", "GIF"),
    ("photo.dat", "BMP"),
    ("photo.bin", "TIFF"),
    ("photo.pic", "AVIF"),
    ("a1b2c3.com-picture", "JPEG"),
]


def test_photos_are_known_by_their_content_where_the_ending_is_unknown(root: Path) -> None:
    fill(root, "cat", "dog")
    for name, kind in KINDS:
        (root / "dog" / name).write_bytes(picture(kind))
    assert {f"dog/{name}" for name, _ in KINDS} <= {*folder.read(str(root)).splits["test"].paths}
    photos, line = find_photos([str(root)])
    assert len(photos) == 8 + len(KINDS)
    assert line == ""
    assert left_out(str(root)) == []


def test_a_class_of_such_files_alone_is_a_class(root: Path) -> None:
    fill(root, "cat")
    fill(root, "dog", ending=".jfif")
    fill(root, "owl", ending="")
    assert tried(root).class_names == ["cat", "dog", "owl"]


NO_PHOTOS = [
    ("notes", b"BM is a shop, and not a bitmap\n", "1 without an ending"),
    ("README", b"read me", "1 without an ending"),
    ("P3", b"P3 is the third part", "1 without an ending"),
    ("labels.csv", b"path,label\n", "1 .csv"),
    ("empty", b"", "1 without an ending"),
    ("page.html", b"<!DOCTYPE html>", "1 .html"),
    ("clip.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0", "1 .mp4"),
    ("a.zip", b"PK\x03\x04", "1 .zip"),
    ("a.PDF", b"%PDF-1.7", "1 .pdf"),
    ("song.wav", b"RIFF\x24\x08\0\0WAVEfmt ", "1 .wav"),
    ("half", b"\xff\xd8", "1 without an ending"),
    ("a.\x1b[2J", b"", r"1 .\x1b[2j"),
]


def test_other_files_are_no_photos_and_are_counted_by_their_ending(root: Path) -> None:
    fill(root, "cat", "dog")
    for name, content, counted in NO_PHOTOS:
        file = root / "dog" / name
        file.write_bytes(content)
        photos, line = find_photos([str(root)])
        assert len(photos) == 8
        assert not is_photo(str(file))
        assert left_out(str(root)) == [line] == [f"left out, no photos: {counted}"]
        file.unlink()


def test_many_endings_are_one_line(root: Path) -> None:
    fill(root, "cat", "dog")
    for number in range(12):
        (root / f"cat/a.{number:02d}").touch()
    (line,) = left_out(str(root))
    assert line.startswith("left out, no photos: 1 .00, 1 .01, ")
    assert line.endswith("1 .07, 4 with 4 other endings")


def test_notes_of_systems_are_nothing(root: Path) -> None:
    fill(root, "cat", "dog")
    for name in ("Thumbs.db", "desktop.ini", "ehthumbs.db", ".DS_Store", "._1.jpg", "Picasa.ini"):
        (root / "cat" / name).write_bytes(b"x")
    assert left_out(str(root)) == []


def test_every_suffix_that_pillow_reads_is_read(root: Path) -> None:
    """Also those that few have heard of; each is a file of its own kind."""
    fill(root, "cat", "dog")
    for suffix in IMAGE_SUFFIXES:
        kind = Image.registered_extensions()[suffix]
        (root / f"dog/last{suffix.upper()}").write_bytes(picture(kind))
    photos = tried(root, shots=len(IMAGE_SUFFIXES) + 4)  # so that none is left over
    assert {f"photos/dog/last{suffix.upper()}" for suffix in IMAGE_SUFFIXES} <= {*photos.paths}
    assert not any("left out" in note for note in photos.notes)


def test_the_suffixes_are_those_that_pillow_knows() -> None:
    """Each is read, or counted as an image to convert, or known to be no image first of all."""
    known = Image.registered_extensions()
    decoded = {suffix for suffix, kind in known.items() if kind in SUFFIXES_OF}
    assert decoded - {".pfm"} == IMAGE_SUFFIXES
    no_images = {".pdf", ".ps", ".mpg", ".mpeg", ".h5", ".hdf", ".bufr", ".grib"}
    assert {*known} - decoded - no_images <= TO_CONVERT


def test_pictures_that_are_not_read_are_counted(root: Path) -> None:
    undecoded = (".tga", ".ico", ".pcx", ".dcm", ".orf", ".rw2", ".sgi", ".xbm", ".exr", ".icns")
    to_convert = {
        f"1{suffix}": f"left out, convert them to .jpg: 1 {suffix}" for suffix in (*undecoded, ".heic", ".dng")
    }
    table = to_convert | {
        "1.jpg.crdownload": "left out, unfinished files or copies: 1 .crdownload",
        "1.part": "left out, unfinished files or copies: 1 .part",
        "1.jpg.bak": "left out, unfinished files or copies: 1 .bak",
    }
    fill(root, "cat", "dog")
    for name, line in table.items():
        for content in (b"\0\0\2", picture("TIFF")):
            file = root / "dog" / name
            file.write_bytes(content)
            photos, said = find_photos([str(root)])
            assert (len(photos), said) == (8, line)
            assert left_out(str(root)) == [line]
            file.unlink()


def test_a_raw_file_is_not_a_second_photo_of_its_jpeg(root: Path) -> None:
    for suffix, is_known in ((".PEF", True), (".srw", True), (".3fr", True), (".newraw", False)):
        anew(root, "cat", "dog")
        (root / f"cat/0{suffix}").write_bytes(picture("TIFF"))
        assert len(tried(root).paths) == 8
        (line,) = left_out(str(root))
        assert line == f"left out, {'convert them to .jpg' if is_known else 'no photos'}: 1 {suffix.lower()}"


def test_links_that_lead_nowhere_are_left_out_and_counted(root: Path) -> None:
    for target in ("nowhere", "../cat/loop.jpg", "/gone/annex/objects/x.jpg"):
        anew(root, "cat", "dog")
        for name in ("loop.jpg", "more.jpg", "note"):
            (root / "cat" / name).symlink_to(target)
        assert len(tried(root).paths) == 8
        (line,) = left_out(str(root))
        assert line.startswith("left out, since they are links that lead nowhere: 3, such as photos/cat/")


def test_a_class_folder_that_is_such_a_link_is_said_and_a_split_is_refused(root: Path) -> None:
    fill(root, *below("train"))
    (root / "train/owl").symlink_to("/gone/owl")
    assert "links that lead nowhere: 1, such as photos/train/owl" in tried(root).notes[0]
    (root / "test").symlink_to("/gone/test")
    with pytest.raises(DataError, match="photos/test is a link that leads nowhere; repair or remove it"):
        tried(root)


def test_a_folder_of_such_links_alone_says_why_it_is_empty(root: Path) -> None:
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        (root / name / "1.jpg").symlink_to(f"../../.git/annex/objects/{name}")
    with pytest.raises(DataError, match=r"2 files are links that lead nowhere, such as .*1.jpg; fetch .*git annex get"):
        tried(root)


# ---------------------------------------------------------------------------------------- shards, folds and copies


OF_IMG2DATASET = [
    (("00000", "00001"), ("00000.parquet", "00000_stats.json")),
    (("00000", "00001", "00002"), ("00001_stats.json",)),
    (("00000",), ("00000.tar",)),
    (("train/00000", "train/00001", "test/00000"), ("train/00000.parquet",)),
    (("00000", "00001"), tuple(f"{place}/{i}.json" for place in ("00000", "00001") for i in range(4))),
    (("shard_0", "shard_1"), tuple(f"shard_{place}/{i}.json" for place in (0, 1) for i in range(4))),
]


def test_img2datasets_folders_are_no_classes(root: Path) -> None:
    def read(given: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
        places, beside = given
        anew(root, *places)
        for name in beside:
            (root / name).write_bytes(b"{}")
        used(root)

    line = re.compile("are shards as of img2dataset and not classes, since .*; write a list")
    assert unsaid([(given, line) for given in OF_IMG2DATASET], read) == []


def test_numbers_and_shards_that_a_file_names_are_classes(root: Path) -> None:
    fill(root, *map(str, range(12)))
    assert len(tried(root).names) == 12, "as ImageNetV2"
    (root / "0.parquet").touch()
    Path("names.txt").write_text("".join(f"{i}\tclass {i}\n" for i in range(12)))
    assert len(tried(root, classes="names.txt").names) == 12


FOLDS = [
    ("fold_0/dog", "fold_0/guitar", "fold_1/dog", "fold_1/guitar"),
    ("original/dog", "original/guitar", "augmented/dog", "augmented/guitar"),
    ("color/a", "color/b", "grayscale/a", "grayscale/b", "segmented/a", "segmented/b"),
    ("fold_0/dog", "fold_0/guitar", "fold_0/cat", "fold_1/dog", "fold_1/guitar"),
    ("1/Dog", "1/Guitar", "2/dog", "2/guitar"),
    ("orig/images/dog", "orig/images/cat", "aug/images/dog", "aug/images/cat"),
    ("train/a/dog", "train/a/cat", "train/b/dog", "train/b/cat", "test/a/dog", "test/a/cat", "test/b/dog"),
]


BOTH_READINGS = (
    r"if '\w+' is a class: ls photos.* > classes.txt, and give --classes classes.txt; "
    r"if '\w+' is one: \(cd photos && .*\), and name photos/list.csv$"
)


def test_folds_and_copies_of_a_dataset_are_no_classes(root: Path) -> None:
    line = "hold the same folders, such as .*, so it is not clear which folders are the classes; .*" + BOTH_READINGS
    assert unsaid([(places, re.compile(line)) for places in FOLDS], lambda places: used(anew(root, *places))) == []


CROSSED = [
    # The folders, the outer and the inner names, and whether one of the outer ones is enough.
    ("dog/site_A dog/site_B cat/site_A cat/site_B", ["cat", "dog"], ["site A", "site B"], False),
    ("site_A/dog site_A/cat site_B/dog site_B/cat", ["site A", "site B"], ["cat", "dog"], True),
    ("berlin/dog berlin/cat paris/dog paris/cat", ["berlin", "paris"], ["cat", "dog"], False),
    ("fold1/dog fold1/cat fold2/dog fold2/cat", ["fold1", "fold2"], ["cat", "dog"], True),
    ("cat/day cat/night dog/day dog/night", ["cat", "dog"], ["day", "night"], False),
    ("a/images/cat a/images/dog b/images/cat b/images/dog", ["a", "b"], ["cat", "dog"], False),
    ("train/dog/s train/dog/t train/cat/s train/cat/t test/dog/s test/cat/t", ["cat", "dog"], ["s", "t"], False),
    ("Train/1/e Train/1/f Train/2/e Train/2/f valid/1/e valid/2/f", ["1", "2"], ["e", "f"], True),
]


@pytest.mark.parametrize(("places", "outer", "inner", "is_one_enough"), CROSSED)
def test_both_readings_of_folders_that_hold_the_same_ones_have_a_command(
    root: Path, places: str, outer: list[str], inner: list[str], is_one_enough: bool
) -> None:
    fill(root, *places.split())
    with pytest.raises(DataError, match=BOTH_READINGS) as caught:
        used(root)
    assert ("name one of them" in str(caught.value)) == is_one_enough
    as_outer, as_inner = re.findall(r" is a class: (.*), and give .* is one: (.*), and name", str(caught.value))[0]
    subprocess.run(["bash", "-c", as_outer], check=True)
    assert sorted(tried(root, classes="classes.txt").names) == sorted(name.replace(" ", "_") for name in outer)
    subprocess.run(["bash", "-c", as_inner], check=True)
    photos = tried(root / "list.csv")
    assert photos.class_names == inner
    assert len(photos.paths) == 4 * len(places.split())


def test_a_command_is_whole_or_not_there(root: Path) -> None:
    """Messages have 500 characters, and a long path stands in one four times."""
    for length in range(1, 160, 3):
        place = anew(root, *below("x", "y")).rename(f"{root}{length * 'p'}")
        with pytest.raises(DataError, match="if 'cat' is one: ") as caught:
            tried(place)
        said = str(caught.value)
        assert len(said) <= LONGEST
        assert said.endswith(("photos" + length * "p" + "/list.csv", "(docs/datasets.md)"))


@pytest.mark.parametrize("names", [("site_A", "site_B"), ("cam1", "cam2", "cam3"), ("Patient 1", "Patient 2")])
def test_places_within_a_class_are_never_taken_without_a_line(root: Path, names: tuple[str, ...]) -> None:
    fill(root / "dog", *names)
    notes = tried(root / "dog").notes
    assert any("taken for classes, though they are called like places, times or parts" in note for note in notes)


UNEVEN = "photos lie two folders deep, as in .*, so it is not clear which folders are the classes; put each class's"
NAMED_TWICE = (
    r"are named for a split and a class; put each class into a folder of its split \(mkdir -p test && mv {} {},"
)
FLAT = "hold photos and no class folders, so that nothing says which class a photo is of; expected .*/<class>/<image>"


NO_CLASSES = [
    # By when, where or by whom photos were taken, and unevenly so.
    ("2019/dog 2019/cat 2020/dog", UNEVEN),
    ("2019/dog 2020/dog", UNEVEN),
    ("2019/01 2019/02 2020/01", UNEVEN),
    ("2019/01/dog 2019/02/cat 2020/01/dog", UNEVEN),
    ("2019-01-31/dog 2019-02-01/cat 2019-02-01/dog", UNEVEN),
    ("20190131 20190201", "its folders are dates and not classes, '20190131', '20190201'"),
    ("2019-07_Rome 2020-08_Oslo", "its folders are dates and not classes"),
    ("31.01.2019 01.02.2019", "its folders are dates and not classes"),
    ("set1/dog set2/dog", UNEVEN),
    ("set_a/dog set_a/cat set_b/dog", UNEVEN),
    ("batch_1/dog batch_1/cat batch_2/dog", UNEVEN),
    ("batch_1 batch_2", "its folders are parts of a dataset and not classes, 'batch_1', 'batch_2'"),
    ("images_part_1 images_part_2", "its folders are parts of a dataset and not classes"),
    ("images_001/images images_002/images", "its folders are parts of a dataset and not classes"),
    ("cam1/dog cam2/dog cam2/cat", UNEVEN),
    ("siteA/dog siteA/cat siteB/dog", UNEVEN),
    ("user_01/dog user_02/cat user_02/dog", UNEVEN),
    ("1/dog 2/dog", UNEVEN),
    ("original/class1 original/class2 augmented/class1", UNEVEN),
    ("berlin/dog paris/cat paris/dog", UNEVEN),
    ("a/images/dog a/images/cat b/images/dog", UNEVEN),
    ("dog/train dog/test cat/train", UNEVEN),
    # Split and class in one name.
    ("train_dog train_cat test_dog test_cat", NAMED_TWICE.format("test_cat", "test/cat")),
    ("trainA trainB testA testB", NAMED_TWICE.format("testA", "test/a")),
    ("trainA trainB testA", NAMED_TWICE.format("testA", "test/a")),
    ("dog_train cat_train dog_test cat_test", NAMED_TWICE.format("cat_test", "test/cat")),
    ("dog-Training dog-Testing", NAMED_TWICE.format("dog-Testing", "test/dog")),
    ("train_hot_dog test_hot_dog cat", NAMED_TWICE.format("test_hot_dog", "test/hot_dog")),
    # Splits of photos alone.
    ("train valid test", FLAT),
    ("train2017 val2017", FLAT),
    ("train_images test_images", FLAT),
    ("train_images test_images unlabeled_images", FLAT),
    ("fog/1/dog fog/1/cat fog/2/dog snow/1/dog", UNEVEN),
    ("fog/1/n01440764 fog/1/n01443537 fog/2/n01440764 snow/1/n01443537", UNEVEN),
]


def test_folders_that_say_when_where_or_what_for_are_no_classes(root: Path) -> None:
    table = [(places, re.compile(line)) for places, line in NO_CLASSES]
    assert unsaid(table, lambda places: used(anew(root, *places.split()))) == []


def test_the_way_out_for_such_folders_is_to_name_the_classes(root: Path) -> None:
    for places, _ in NO_CLASSES:
        anew(root, *places.split())
        names = sorted({place.partition("/")[0] for place in places.split()})
        Path("names.txt").write_text("".join(f"{name}\tclass {i}\n" for i, name in enumerate(names)))
        assert list(tried(root, classes="names.txt").names) == names


A_LITTLE_LIKE_THESE = [
    "2019 2020",  # as photos to be dated
    "user_01 user_02",  # as handwriting
    "type_1 type_2",
    "dog/s1 dog/s2 cat/s1",
    "dog/front cat/front cat/Back",
    "0/s1 0/s2 1/s1",
    "train_dog train_cat",
    "steam_train train_station test_tube",
    "dog/images cat/images",
    "testudo valley training",
]


def test_names_a_little_like_these_are_classes(root: Path) -> None:
    for places in A_LITTLE_LIKE_THESE:
        photos = tried(anew(root, *places.split()))
        assert list(photos.names) == sorted({place.partition("/")[0] for place in places.split()})


@pytest.mark.parametrize(
    "copy", ["cat (1)", "cat - Copy", "cat - Copy (2)", "cat copy", "cat_backup", "cat-bak", "cat - Kopie"]
)
def test_a_copy_of_a_class_folder_is_refused_beside_it(root: Path, copy: str) -> None:
    fill(root, "cat", "dog", copy)
    with pytest.raises(
        DataError, match=rf"photos/{re.escape(copy)}' has the name of a copy of 'cat', so that both may"
    ):
        tried(root)
    (root / "cat").rename(root / "fox")
    assert list(tried(root).names) == sorted([copy, "dog", "fox"])


@pytest.mark.parametrize("name", ["unlabeled", "Unsorted", "New Folder", "tmp", "to_sort", "images"])
def test_a_folder_that_often_lies_beside_classes_is_taken_with_a_line(root: Path, name: str) -> None:
    photos = tried(fill(root, "cat", "dog", name))
    assert name in photos.names
    assert f"taken for classes, move them elsewhere if they are none: {name!r}" in photos.notes


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("dog.zip", "it holds 1 of .zip; unpack these"),
        (
            "beans/0.1.0/beans-train.tfrecord-00000-of-00002",
            "it holds 1 of .tfrecord; they are not read: .* WebDataset",
        ),
        ("pathmnist.npz", "it holds 1 of .npz; they are not read: write their pictures into class folders, or give"),
        ("train/data.h5", "it holds 1 of .h5; they are not read"),
        ("dog/clip.mp4", "it holds 1 of .mp4; write the videos' frames into class folders"),
    ],
)
def test_what_may_hold_the_photos_is_named_where_there_are_none(root: Path, file: str, message: str) -> None:
    (root / file).parent.mkdir(parents=True)
    (root / file).write_bytes(b"x")
    for refused in (lambda: tried(root), lambda: find_photos([str(root)])):
        with pytest.raises(DataError, match=message):
            refused()


def test_the_command_for_inner_folders_writes_a_list_of_every_photo(root: Path) -> None:
    fill(root, "2019/dog", "2019/it's a cat", "2020/dog")
    fill(root, "2020/emu", ending=".PNG")
    with pytest.raises(DataError, match=r"; if 'dog' is one: \(cd .* and name photos/list.csv$") as caught:
        tried(root.resolve())
    command = str(caught.value).partition(" is one: ")[2].rpartition(", and name")[0]
    subprocess.run(["bash", "-c", command], check=True)
    photos = tried(root / "list.csv")
    assert photos.class_names == ["dog", "emu", "it's a cat"]
    assert len(photos.paths) == 16


def test_folds_that_a_file_names_are_classes(root: Path) -> None:
    fill(root, "cat/day", "cat/night", "dog/day", "dog/night")
    Path("names.txt").write_text("cat\tcat\ndog\tdog\n")
    assert tried(root, classes="names.txt").class_names == ["cat", "dog"]


def test_stanford_dogs_says_which_folder_to_name(root: Path) -> None:
    fill(root, "images/Images/n01-pug", "images/Images/n02-whippet")
    (root / "annotations/Annotation/n01-pug").mkdir(parents=True)
    (root / "annotations/Annotation/n01-pug/n01_7").write_text("<annotation>")
    with pytest.raises(DataError, match=r"images/ and annotations/ are parts .*; name photos/images/Images$"):
        tried(root)


# ------------------------------------------------------------------------------------------------------------ names


COMPOSED = "caf\u00e9"
DECOMPOSED = "cafe\u0301"


def test_unicode_forms_of_a_name_are_one_class(root: Path) -> None:
    line = f"read as one class though written in two Unicode forms, composed and decomposed: {COMPOSED!r}"
    table = [
        (f"train/{COMPOSED}", "train/bar", f"test/{DECOMPOSED}", "test/bar"),
        (f"train/{DECOMPOSED}", "train/bar", f"test/{COMPOSED}", "test/bar"),
        (COMPOSED, DECOMPOSED, "bar"),
        (f"train/{COMPOSED}", f"train/{DECOMPOSED}", "train/bar", f"test/{COMPOSED}", "test/bar"),
    ]
    for places in table:
        photos = tried(anew(root, *places))
        assert photos.class_names == ["bar", COMPOSED]
        assert line in photos.notes
        assert len(photos.paths) == 4 * len(places)


def test_one_form_alone_is_no_news(root: Path) -> None:
    photos = tried(fill(root, DECOMPOSED, "bar"))
    assert photos.class_names == ["bar", COMPOSED]
    assert not any("Unicode" in note for note in photos.notes)
    Path("names.txt").write_text(f"{COMPOSED}\tcoffee house\nbar\tbar\n")
    assert tried(root, classes="names.txt").class_names == ["bar", "coffee house"]


ALIKE = [
    ("Dog", "dog"),
    ("dog", "dog "),
    ("golden retriever", "golden_retriever"),
    ("golden-retriever", "golden_retriever"),
    ("GoldenRetriever", "golden retriever"),
    ("hot  dog", "hot dog"),
    ("hot\u00a0dog", "hot dog"),
    ("do\u200bg", "dog"),
]


def test_names_that_no_reader_tells_apart_are_refused_with_both(root: Path) -> None:
    line = "{} and {} differ in case, separators or blanks alone"
    table = []
    for both in ALIKE:
        first, second = sorted(both)
        table.append((both, line.format(repr(f"photos/{first}"), repr(f"photos/{second}"))))
    assert unsaid(table, lambda both: used(anew(root, *both, "cat"))) == []


def test_such_names_in_two_splits_are_refused_too(root: Path) -> None:
    fill(root, "train/Dog", "train/cat", "test/dog", "test/cat")
    with pytest.raises(DataError, match=r"'photos/train/Dog' and 'photos/test/dog' differ"):
        tried(root)


def test_letters_and_signs_are_told_apart(root: Path) -> None:
    fill(root, "A", "a", "+", "-", "-1", "1", "Maße")
    assert len(tried(root).names) == 7


def test_folders_that_systems_make_are_hidden(root: Path) -> None:
    for name in ("@eaDir", "__MACOSX", "#recycle", "@Recycle", "$RECYCLE.BIN", "lost+found", ".thumbs"):
        photos = tried(anew(root, "cat", "dog", name, f"cat/{name}", f"dog/{name}/1.jpg"))
        assert photos.class_names == ["cat", "dog"]
        assert len(photos.paths) == 8
        assert not any(name in note for note in photos.notes)
        assert len(find_photos([str(root)])[0]) == 8
        fill(root / "train", "cat", "dog", name)
        assert shape_of(root).splits == {"train": root / "train"}


def test_targets_are_read_by_the_same_rules(root: Path) -> None:
    fill(root, *below("mine/Train", "mine/Test"), *below("other/Testing", classes=("one", "two")))
    fill(root, "other/Testing/@eaDir")
    profile = own.own("photos", encoder={"pretrained": "openai"})
    listing = folder.read("photos/other", wanted=["test"])
    assert listing.splits["test"].paths[0] == "Testing/one/0.jpg"
    assert listing.class_names == ["one", "two"]
    assert "mine:" in profile.text
    assert division.sides("photos/mine").test_fraction is None
