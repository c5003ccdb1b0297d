"""Lists as people, spreadsheets and pandas write them: read with the right value, or refused in one line."""

from __future__ import annotations

import io
import random
import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from miniature import HUB_IMAGE as IMAGE
from miniature import png, write_hub
from said import unlike, unsaid

from wsoup.base.errors import DataError, WsoupError
from wsoup.datasets import manifest, tables
from wsoup.datasets.listing import Listing, validated
from wsoup.disk import parquet_images
from wsoup.disk.files import read_bytes
from wsoup.images.decode import load_rgb
from wsoup.params.inputs import DatasetParams
from wsoup.photos.files import find_photos
from wsoup.photos.labels import labelled

BOTH = ("train", "test")
USUAL = [("a.png", "cat"), ("b.png", "dog"), ("c.png", "cat")]


def listing_of(root: Path, text: str | bytes, *, file: str = "list.csv", names: str | None = None) -> Listing:
    """The listing of a file that holds `text`, with a file of class names."""
    (root / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    where = None
    if names is not None:
        (root / "names.txt").write_text(names)
        where = str(root / "names.txt")
    return validated(tables.read(file, root=str(root), wanted=BOTH, class_names=where))


def pairs(listing: Listing, split: str = "test") -> list[tuple[str, str]]:
    """Path and class name of each image of a split."""
    images = listing.splits[split]
    return [(path, listing.class_names[label]) for path, label in zip(images.paths, images.labels, strict=True)]


# ------------------------------------------------------------------------------------------------------- as written

SAME = {
    "commas": "path,label\na.png,cat\nb.png,dog\nc.png,cat\n",
    "no line end": "path,label\na.png,cat\nb.png,dog\nc.png,cat",
    "semicolons": "path;label\na.png;cat\nb.png;dog\nc.png;cat\n",
    "tabs in a csv": "path\tlabel\na.png\tcat\nb.png\tdog\nc.png\tcat\n",
    "bars": "path|label\na.png|cat\nb.png|dog\nc.png|cat\n",
    "a mark": b"\xef\xbb\xbfpath,label\na.png,cat\nb.png,dog\nc.png,cat\n",
    "a mark and quotes": b'\xef\xbb\xbf"path","label"\n"a.png","cat"\n"b.png","dog"\n"c.png","cat"\n',
    "lines of windows": "path,label\r\na.png,cat\r\nb.png,dog\r\nc.png,cat\r\n",
    "lines of old macs": "path,label\ra.png,cat\rb.png,dog\rc.png,cat\r",
    "mark, semicolons, windows": b"\xef\xbb\xbfpath;label\r\na.png;cat\r\nb.png;dog\r\nc.png;cat\r\n",
    "excel's hint": "sep=;\r\npath;label\r\na.png;cat\r\nb.png;dog\r\nc.png;cat\r\n",
    "quotes after a space": 'path, label\n"a.png", "cat"\n"b.png", "dog"\n"c.png", "cat"\n',
    "spaces around": " path , label \n a.png , cat \n b.png , dog \nc.png,cat\n",
    "blank lines": "path,label\n\na.png,cat\n\n\nb.png,dog\nc.png,cat\n\n",
    "pandas' index": ",path,label\n0,a.png,cat\n1,b.png,dog\n2,c.png,cat\n",
    "more columns": "id,label,width,path\n9,cat,32,a.png\n8,dog,32,b.png\n7,cat,32,c.png\n",
    "a comma in a cell": 'path,label,note\na.png,cat,"one, two"\nb.png,dog,\nc.png,cat,x\n',
    "semicolons and decimal commas": "path;label;score\na.png;cat;0,5\nb.png;dog;0,25\nc.png;cat;1,0\n",
    "a line end in a cell": 'path,label,note\na.png,cat,"one\ntwo"\nb.png,dog,\nc.png,cat,x\n',
    "short rows": "path,label,note\na.png,cat\nb.png,dog\nc.png,cat\n",
    "PATH and LABEL": "PATH,LABEL\na.png,cat\nb.png,dog\nc.png,cat\n",
    "file": "file,label\na.png,cat\nb.png,dog\nc.png,cat\n",
    "Filename": "Filename,Class\na.png,cat\nb.png,dog\nc.png,cat\n",
    "file_name": "file_name,label\na.png,cat\nb.png,dog\nc.png,cat\n",
    "File Name": "File Name,Class Name\na.png,cat\nb.png,dog\nc.png,cat\n",
    "image": "image,class\na.png,cat\nb.png,dog\nc.png,cat\n",
    "Image Path": "Image Path;Label\na.png;cat\nb.png;dog\nc.png;cat\n",
    "class_name": "path,class_name\na.png,cat\nb.png,dog\nc.png,cat\n",
    "numbers and class": "path,label,class\na.png,0,cat\nb.png,1,dog\nc.png,0,cat\n",
    "numbers with points": "path,label,class_name\na.png,0.0,cat\nb.png,1.0,dog\nc.png,0.0,cat\n",
    "label and class_name alike": "path,label,class_name\na.png,cat,cat\nb.png,dog,dog\nc.png,cat,cat\n",
    "path and file": "file,path,label\nx,a.png,cat\ny,b.png,dog\nz,c.png,cat\n",
    "Test": "path,label,split\na.png,cat,Test\nb.png,dog,TEST\nc.png,cat,testing\n",
    "a step": "path,label\n./a.png,cat\n.\\b.png,dog\nc.png,cat\n",
}  # fmt: skip


def test_the_same_list_in_other_words(in_tmp: Path) -> None:
    """As a dataset, and as photos to classify."""
    for name in "abc":
        Path(f"{name}.png").write_bytes(png(1))

    def read(kind: str) -> tuple[object, ...]:
        listing = listing_of(in_tmp, SAME[kind])
        photos, _ = find_photos(["list.csv"])
        assert all(Path(photo.path).is_file() for photo in photos)
        photos, lines = labelled(photos, class_names=["dog", "cat"], folders={})
        said = [(Path(photo.path).name, photo.label) for photo in photos]
        return pairs(listing), listing.class_names, listing.notes, said, lines

    assert unlike([(kind, (USUAL, ["cat", "dog"], [], USUAL, [])) for kind in SAME], read) == []


def test_a_tsv_may_have_any_separator(tmp_path: Path) -> None:
    for kind in ("commas", "tabs in a csv", "lines of windows", "semicolons"):
        assert pairs(listing_of(tmp_path, SAME[kind], file="list.TSV")) == USUAL, kind


def test_steps_of_windows(in_tmp: Path) -> None:
    text = "path,label\ncat\\a.png,cat\ndog\\b.png,dog\n"
    assert pairs(listing_of(in_tmp, text)) == [("cat/a.png", "cat"), ("dog/b.png", "dog")]
    for name in ("cat/a.png", "dog/b.png"):
        Path(name).parent.mkdir()
        Path(name).write_bytes(png(1))
    assert [photo.path for photo in find_photos(["list.csv"])[0]] == ["cat/a.png", "dog/b.png"]


REFUSED = {
    "name,label\na.png,cat\n": "list.csv: column path is missing beside 'name', 'label'; expected columns path, label",
    "url;klasse\na.png;cat\n": "column path is missing beside",
    "a.png,cat\nb.png,dog\n": "column path is missing beside 'a.png', 'cat'",
    "file,image,label\na.png,b.png,cat\n": "columns 'file', 'image' may all be the images' files; call the right one",
    "path,Path,label\na.png,b.png,cat\n": "has the columns 'path' and 'Path', which mean the same; rename one",
    "path,label,Label\na.png,cat,dog\n": "has the columns 'label' and 'Label', which mean the same; rename one",
    "path,class_name,classname\na.png,cat,dog\n": "columns 'class_name', 'classname' may both be class names",
    "path,split,Split\na.png,cat,dog\n": "has the columns 'split' and 'Split', which mean the same",
    "path,mood\na.png,cat\n": "has no class names beside the columns 'path', 'mood'; add a column class_name",
    "path,label\na.png,cat\nb.png\n": "list.csv, row 2 ('b.png') has no label; fill it in, or remove the row",
    "path,label\na.png,cat\nb.png,  \n": "list.csv, row 2 ('b.png') has no label",
    "path,class_name\na.png,cat\nb.png,\n": "list.csv, row 2 ('b.png') has no class_name",
    "path,label\na.png,cat,x\n": "list.csv, row 1 has 3 cells, its header 2; quote cells that hold ','",
    'path,label\na.png,"cat\nb.png,dog\n': "list.csv cannot be read as a list of images (unexpected end of data)",
    "path,label,class_name\na.png,cat,dog\n": "row 1 ('a.png'): label is 'cat', but class_name is 'dog'; correct one",
    "path,label,class\na.png,cat,cat\nb.png,dog,cat\n": "row 2 ('b.png'): label is 'dog', but class is 'cat'",
    "path,label,class_name\na.png,0,cat\nb.png,1,dog\nc.png,1,cat\n": "row 3 ('c.png'): label 1 has two class names",
    "path,label\na.png,-1\nb.png,1\n": "row 1 ('a.png'): label '-1' is not valid: it must be a whole number from 0",
    "path,label\na.png,0.5\nb.png,1\n": "row 1 ('a.png'): label '0.5' is not valid",
    "path,label\na.png,red_fox\nb.png,red fox\n": "(rows 2 and 1) differ in case, separators or blanks alone; spell it",
    "path,label,set\na.png,cat,train\nb.png,cat,test\n": "column 'set' holds splits ('test', 'train'); rename it to",
    "path,label,Subset\na.png,cat,Training\n": "column 'Subset' holds splits ('Training'); rename it to split",
    "path,label,split\na.png,cat,foo\nb.png,cat,bar\n": "has no rows of split 'test' or 'train'; its splits are 'foo'",
    "path,label,split\na.png,cat,\nb.png,cat,\n": "has no rows of split 'test' or 'train'; its splits are '' (2)",
    "path,label\nC:\\photos\\a.png,cat\n": "path 'C:\\\\photos\\\\a.png' is absolute; list paths relative",
    "path,label\nd:/a.png,cat\n": "is absolute",
    "\n\n": "list.csv is empty; expected columns",
    " , \na.png,cat\n": "list.csv is empty; expected columns",
    "path,label\n": "list.csv lists no images; expected a row for each, below the header",
}


def test_a_list_that_cannot_be_meant(tmp_path: Path) -> None:
    assert unsaid(REFUSED.items(), lambda text: listing_of(tmp_path, text), file="list.csv") == []


def test_another_encoding_is_named(tmp_path: Path) -> None:
    line = re.compile("list.csv is not UTF-8 text|list.csv: column path is missing")
    texts = ["path,label\nä.png,cat\n".encode(encoding) for encoding in ("utf-16", "utf-16-le", "cp1252")]
    assert unsaid([(text, line) for text in texts], lambda text: listing_of(tmp_path, text)) == []


# ---------------------------------------------------------------------------------------------------------- splits


def test_splits_in_any_case(tmp_path: Path) -> None:
    def read(train: str, test: str) -> tuple[object, ...]:
        listing = listing_of(tmp_path, f"path,label,Split\na.png,cat,{train}\nb.png,dog,{test}\nc.png,cat,{train}\n")
        return pairs(listing, "train"), pairs(listing, "test"), listing.notes

    expected = ([("a.png", "cat"), ("c.png", "cat")], [("b.png", "dog")], [])
    spellings = ["train,test", "Train,Test", "TRAINING,TESTING", " train ,test ", "Training,test"]
    assert unlike([(both, expected) for both in spellings], lambda both: read(*both.split(","))) == []


def test_validation_is_not_read_and_is_no_surprise(tmp_path: Path) -> None:
    for split in ("val", "Valid", "VALIDATION", "dev", "Dev"):
        listing = listing_of(tmp_path, f"path,label,split\na.png,cat,train\nb.png,cat,test\nc.png,cat,{split}\n")
        assert sum(len(images.paths) for images in listing.splits.values()) == 2
        assert not listing.notes
        assert tables.read("list.csv", root=str(tmp_path), wanted=["val"]).splits["val"].paths == ["c.png"], split


def test_rows_of_other_splits_are_counted_and_named(tmp_path: Path) -> None:
    table = [
        (["extra", "extra", ""], "3 of 5 rows of the list, whose split is not train, val or test: 'extra' (2), '' (1)"),
        (["", "", ""], "3 of 5 rows of the list, whose split is not train, val or test: '' (3)"),
        (["holdout", "tst", "Query"], "'holdout' (1), 'tst' (1), 'Query' (1)"),
        (["0", "1", "val"], "2 of 5 rows of the list"),
    ]
    for splits, line in table:
        rows = "".join(f"{i}.png,cat,{split}\n" for i, split in enumerate(splits))
        (note,) = listing_of(tmp_path, f"path,label,split\na.png,cat,train\nb.png,cat,test\n{rows}").notes
        assert line in note


def test_a_split_of_ones_own_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path,label,split\na.png,cat,Query\nb.png,cat,gallery\nc.png,cat,test\n")
    params = {"role": "xd", "layout": "manifest:list.csv", "root": str(tmp_path), "watch": str(tmp_path)}
    listing = manifest.read_listing("x", params=DatasetParams(template="a {}.", test_split="query", **params))
    assert listing.splits["query"].paths == ["a.png"]
    assert "'gallery' (1)" in listing.notes[0]


def test_unlabelled_rows_of_a_split_that_is_not_read_do_not_matter(tmp_path: Path) -> None:
    listing = listing_of(tmp_path, "path,label,split\na.png,cat,train\nb.png,cat,test\nc.png,,unlabelled\n")
    assert listing.class_names == ["cat"]
    assert "'unlabelled' (1)" in listing.notes[0]


# --------------------------------------------------------------------------------------------- files of class names

TWO = "path,label\na.png,{}\nb.png,{}\n"


CLASS_NAMES = [
    ("dog\ncat\n", "cat", "dog", ["cat", "dog"]),
    ("dog\ncat\n", "1", "0", ["cat", "dog"]),
    ("dog\r\ncat\r\n", "1.0", "0.0", ["cat", "dog"]),
    ("\ufeffdog\n\n cat \n", "1", "0", ["cat", "dog"]),
    ("n02\tdog\nn01\tcat\n", "n01", "n02", ["cat", "dog"]),
    ("n02\tdog\nn01\tcat\n", "cat", "dog", ["cat", "dog"]),
    ("n02\tdog\nn01\tcat\n", "1", "0", ["cat", "dog"]),
    ("dog\ncat\n", "01", "00", ["cat", "dog"]),
    ("1\tcat\n2\tdog\n", "1", "2", ["cat", "dog"]),  # labels from 1, as the file says itself
    ("1\tcat\n2\tdog\n", "1.0", "2.0", ["cat", "dog"]),
    ("1\tcat\n0\tdog\n", "1.0", "0.0", ["cat", "dog"]),
    ("1\tcat\n2\tdog\n", "01", "02", ["cat", "dog"]),
    ("001\tcat\n002\tdog\n", "1", "2.", ["cat", "dog"]),
    ("1\tcat\n01\tdog\n", "1", "01", ["cat", "dog"]),
    ("99999999999\tcat\n2\tdog\n", "99999999999.0", "2.0", ["cat", "dog"]),
    ("1990\n1991\n", "0.0", "1.0", ["1990", "1991"]),  # names that are numbers, and places
    ("red fox\nhot dog\n", "hot dog", "red fox", ["hot dog", "red fox"]),
    ("red_fox\nhot_dog\n", "hot dog", "red_fox", ["hot dog", "red fox"]),
]
"""The file of class names, the labels of two rows, and their class names."""


def test_a_file_of_class_names_names_numbers_folders_and_names(tmp_path: Path) -> None:
    for names, first, second, expected in CLASS_NAMES:
        listing = listing_of(tmp_path, TWO.format(first, second), names=names)
        assert [name for _, name in pairs(listing)] == expected, (names, first, second)
        in_order = [line.split("\t")[-1].strip("\ufeff \r").replace("_", " ") for line in names.split("\n")]
        assert listing.class_names == [name for name in in_order if name]


DISAGREEING = {
    ("path,label,class_name\na.png,0,cat\nb.png,1,dog\n", "dog\ncat\n"): (
        "row 1 ('a.png'): label '0' means 'dog' in NAMES, but class_name is 'cat'; correct one of them"
    ),
    ("path,label,class_name\na.png,0,dog\nb.png,0,cat\n", "dog\ncat\n"): (
        "row 2 ('b.png'): label '0' means 'dog' in NAMES, but class_name is 'cat'"
    ),
    ("path,label,class_name\na.png,cat,dog\nb.png,dog,dog\n", "dog\ncat\n"): (
        "row 1 ('a.png'): label 'cat' means 'cat' in NAMES, but class_name is 'dog'"
    ),
    ("path,label,class\na.png,1,cat\nb.png,0,cat\n", "dog\ncat\n"): (
        "row 2 ('b.png'): label '0' means 'dog' in NAMES, but class is 'cat'"
    ),
    ("path,label\na.png,1\nb.png,2\n", "dog\ncat\n"): "row 2 ('b.png') has label 2, out of range for 2 classes (0 to",
    ("path,label\na.png,cat\nb.png,Dog\n", "dog\ncat\n"): "row 2 ('b.png'): class 'Dog' is not in the list of classes",
    ("path,class_name\na.png,cat\nb.png,cow\n", "dog\ncat\n"): "class 'cow' is not in the list of classes, NAMES; add",
    ("path,label\na.png,0\nb.png,1\n", "1\n0\n"): (
        "label 0 may be the class of that name or the one at that place in NAMES; write the names into a column"
    ),
    ("path,label\na.png,0.0\nb.png,1.0\n", "1\n0\n"): "label 0.0 may be the class of that name or the one at that",
    ("path,label\na.png,00\nb.png,01\n", "1\n0\n"): "label 00 may be the class of that name or the one at that place",
    ("path,label\na.png,1.0\nb.png,2.0\n", "1\t2\n2\t1\n"): "class '1' is both label 0 and label 1 in NAMES; give",
    ("path,label\na.png,cat\nb.png,dog\n", "cat\ndog\ncat\n"): (
        "row 1 ('a.png'): class 'cat' is both label 0 and label 2 in NAMES; give labels as numbers"
    ),
    ("path,label\na.png,0\nb.png,3\n", "1\tcat\n3\tdog\n"): "class '0' is not in the list of classes",
    ("path,label\na.png,0.0\nb.png,3\n", "1\tcat\n3\tdog\n"): "class '0.0' is not in the list of classes",
    ("path,label\na.png,0\n", "a\tcat\na\tdog\n"): "names.txt, lines 1 and 2: folder 'a' is named twice; keep one",
    ("path,label\na.png,0\n", "a\t\nb\tdog\n"): "names.txt, line 1: 'a\\t' should be: folder, a tab, class name",
    ("path,label\na.png,0\n", "\n \n"): "names.txt has no class names; expected one class name per line",
    ("path,label\na.png,n01\nb.png,n02\n", "n01 cat\nn02 dog\n"): "class 'n01' is not in the list of classes",
}


def test_labels_class_names_and_their_file_belong_together(tmp_path: Path) -> None:
    names_file = str(tmp_path / "names.txt")
    table = [(given, line.replace("NAMES", names_file)) for given, line in DISAGREEING.items()]
    assert unsaid(table, lambda given: listing_of(tmp_path, given[0], names=given[1])) == []


def test_equal_names_are_two_classes_where_labels_are_numbers(tmp_path: Path) -> None:
    """As ImageNet's "missile"."""
    listing = listing_of(tmp_path, "path,label\na.png,0\nb.png,1\nc.png,2\n", names="missile\ncat\nmissile\n")
    assert listing.class_names == ["missile", "cat", "missile"]
    assert listing.splits["test"].labels.tolist() == [0, 1, 2]


def test_a_list_of_shuffled_rows_is_the_same_list(tmp_path: Path) -> None:
    """Order of rows and of columns says nothing."""
    rows = [(f"{i}.png", f"class {i % 7}", ["train", "test"][i % 2]) for i in range(70)]
    draw = random.Random(1)
    whole = []
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        draw.shuffle(rows)
        header = [["path", "label", "split"][column] for column in order]
        lines = [",".join(header)] + [",".join(row[column] for column in order) for row in rows]
        listing = listing_of(tmp_path, "\n".join(lines))
        whole.append({split: sorted(pairs(listing, split)) for split in BOTH})
    assert whole[0] == whole[1] == whole[2]


# ------------------------------------------------------------------------------------------------ Parquet of the hub


def shades(root: Path, listing: Listing, split: str = "test") -> list[tuple[int, str]]:
    """The shade that each listed image has, and its class."""
    return [(load_rgb(f"{root}/{path}").getpixel((0, 0))[0], name) for path, name in pairs(listing, split)]


EXPECTED = [(0, "dog"), (1, "cat"), (2, "dog"), (3, "dog"), (4, "cat")]


HUB = [
    {"labels": [0, 1, 0, 0, 1], "names": ["dog", "cat"]},
    {"labels": [0, 1, 0, 0, 1]},
    {"labels": ["dog", "cat", "dog", "dog", "cat"]},
    {"labels": [0, 1, 0, 0, 1], "names": ["dog", "cat"], "image": "img"},
    {"labels": [0, 1, 0, 0, 1], "names": ["dog", "cat"], "label": "fine_label"},
    {"labels": [0, 1, 0, 0, 1], "names": ["dog", "cat"], "rows_together": 100},
    {"labels": [0, 1, 0, 0, 1], "names": ["dog", "cat"], "file_name": list("vwxyz")},
    {"labels": [0, 1, 0, 0, 1], "class_name": ["dog", "cat", "dog", "dog", "cat"]},
]
"""The second has its class names in a file."""


def test_pictures_in_parquet_are_read(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("dog\ncat\n")
    for number, about in enumerate(HUB):
        file = write_hub(tmp_path / f"data/{number}.parquet", **about)
        where = str(tmp_path / "names.txt") if [*about] == ["labels"] and about["labels"][0] == 0 else None
        listing = validated(tables.read(f"data/{number}.parquet", root=str(tmp_path), wanted=BOTH, class_names=where))
        assert shades(tmp_path, listing) == EXPECTED, about
        assert sorted(listing.class_names) == ["cat", "dog"]
        photos, _ = find_photos([str(file)])
        photos, lines = labelled(photos, class_names=["dog", "cat"], folders={})
        assert [(load_rgb(photo.path).getpixel((0, 0))[0], photo.label) for photo in photos] == EXPECTED, about
        assert not lines


def test_the_hub_names_a_file_by_its_split(tmp_path: Path) -> None:
    splits = {
        "train-00000-of-00001": "train",
        "test-00000-of-00001": "test",
        "Train": "train",
        "validation-00001-of-00002": "val",
        "cats": "test",
    }

    def read(name: str) -> list[str]:
        write_hub(tmp_path / f"{name}.parquet", labels=[0, 1], names=["dog", "cat"])
        return [*tables.read(f"{name}.parquet", root=str(tmp_path), wanted=("train", "val", "test")).splits]

    assert unlike([(name, [split]) for name, split in splits.items()], read) == []


def test_a_column_of_splits_beside_pictures(tmp_path: Path) -> None:
    write_hub(tmp_path / "all.parquet", labels=[0, 1, 0], names=["dog", "cat"], split=["Train", "test", "train"])
    listing = tables.read("all.parquet", root=str(tmp_path), wanted=BOTH)
    assert shades(tmp_path, listing, "train") == [(0, "dog"), (2, "dog")]
    assert shades(tmp_path, listing) == [(1, "cat")]


UNCLEAR: list[tuple[dict[str, object], str]] = [
    ({"labels": [0, 1]}, "has no class names beside the columns 'label'; add a column class_name"),
    ({"labels": [0, 2], "names": ["dog", "cat"]}, "has label 2, out of range for 2 classes (0 to 1) in the"),
    ({"labels": [-1, 0], "names": ["dog", "cat"]}, "label '-1' is not valid: it must be a whole number from 0"),
    ({"labels": [0, None], "names": ["dog", "cat"]}, "list.parquet/image/1') has no label; fill it in"),
    ({"labels": [0, 1], "class_name": ["a", "b"], "names": ["a", "c"]}, "class 'b' is not in the list of"),
    ({"labels": [0, 1], "names": ["a", "b"], "other": pa.array([{"bytes": b""}] * 2, IMAGE)}, "all hold pictures"),
]


def test_pictures_that_cannot_be_told_apart(tmp_path: Path) -> None:
    def read(about: dict[str, object]) -> Listing:
        write_hub(tmp_path / "list.parquet", **about)
        return validated(tables.read("list.parquet", root=str(tmp_path), wanted=BOTH))

    assert unsaid(UNCLEAR, read) == []


def test_a_picture_outside_of_the_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png(9))
    pictures = pa.array([{"bytes": None, "path": str(tmp_path / "secret.png")}], IMAGE)
    pq.write_table(pa.table({"image": pictures, "label": ["cat"]}), tmp_path / "list.parquet")
    listing = tables.read("list.parquet", root=str(tmp_path), wanted=BOTH)
    (path,) = listing.splits["test"].paths
    with pytest.raises(DataError, match=r"list.parquet has no image 'image/0'"):
        read_bytes(f"{tmp_path}/{path}")


def test_a_cell_that_is_not_there(tmp_path: Path) -> None:
    file = write_hub(tmp_path / "list.parquet", labels=[0, 1, 0, 0, 1])
    cells = ["image/5", "image/-1", "image/x", "label/0", "no/0", "image", "image/" + "9" * 5000]
    table = [(cell, "list.parquet has no image") for cell in cells]
    assert unsaid(table, lambda cell: read_bytes(f"{file}/{cell}")) == []


def test_rows_are_read_in_any_order_with_little_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_images, "MOST_KEPT", 1)
    file = write_hub(tmp_path / "list.parquet", labels=[0, 1] * 20, rows_together=3)
    order = [*range(40)]
    random.Random(1).shuffle(order)
    assert [load_rgb(f"{file}/image/{row:02}").getpixel((0, 0))[0] for row in order] == order
    assert len(parquet_images._kept) == 1


def test_too_large_a_row_group_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_images, "LARGEST_GROUP", 10)
    file = write_hub(tmp_path / "list.parquet", labels=[0, 1])
    with pytest.raises(DataError, match=r"bytes of pictures in one row group, more than 10; save it with smaller row"):
        read_bytes(f"{file}/image/0")


def test_a_damaged_file_of_pictures(tmp_path: Path) -> None:
    """Each image is read, or gives one line."""
    problems = []
    for seed in range(8):
        file = write_hub(tmp_path / f"{seed}.parquet", labels=[0, 1, 0, 1], names=["dog", "cat"])
        content = bytearray(file.read_bytes())
        draw = random.Random(seed)
        for _ in range(20):
            content[draw.randrange(len(content))] = draw.randrange(256)
        file.write_bytes(content)
        try:
            listing = tables.read(file.name, root=str(tmp_path), wanted=BOTH)
        except WsoupError as error:
            problems.append(str(error))
            continue
        for path in listing.splits["test"].paths:
            try:
                assert isinstance(read_bytes(f"{tmp_path}/{path}"), bytes)
            except WsoupError as error:
                problems.append(str(error))
    assert not any("\n" in problem for problem in problems)


def test_pandas_writes_what_is_read(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"path": ["a.png", "b.png", "c.png"], "label": ["cat", "dog", "cat"]})
    text = io.StringIO()
    frame.to_csv(text)
    assert pairs(listing_of(tmp_path, text.getvalue())) == USUAL


# ----------------------------------------------------------------------------------------------- folders of the hub


def of_hub(root: Path, *, class_names: str | None = None, test_split: str = "test") -> Listing:
    params = {"role": "source", "layout": "huggingface", "root": str(root), "watch": str(root), "template": "a {}."}
    return manifest.read_listing("x", params=DatasetParams(class_names=class_names, test_split=test_split, **params))


def test_a_folder_of_the_hub(tmp_path: Path) -> None:
    table = [
        ("data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"),
        ("train-00000-of-00001.parquet", "test.parquet"),
        ("default/train/0000.parquet", "default/test/0000.parquet"),
        ("train/0000.parquet", "test/0000.parquet"),
        ("default/train-00000-of-00001.parquet", "default/test-00000-of-00001.parquet"),
    ]
    for number, (train, test) in enumerate(table):
        root = tmp_path / str(number)
        write_hub(root / train, labels=[0, 1, 1], names=["dog", "cat"])
        write_hub(root / test, labels=[1, 0], names=["dog", "cat"])
        (root / "README.md").write_text("x")
        listing = of_hub(root)
        assert shades(root, listing, "train") == [(0, "dog"), (1, "cat"), (2, "cat")], train
        assert shades(root, listing) == [(0, "cat"), (1, "dog")], test
        assert listing.class_names == ["dog", "cat"]


def test_a_split_in_two_files(tmp_path: Path) -> None:
    for number, labels in enumerate([[0, 1], [1]]):
        write_hub(tmp_path / f"data/train-0000{number}-of-00002.parquet", labels=labels, names=["dog", "cat"])
    write_hub(tmp_path / "data/validation-00000-of-00001.parquet", labels=[1, 0], names=["dog", "cat"])
    listing = of_hub(tmp_path, test_split="val")
    assert shades(tmp_path, listing, "train") == [(0, "dog"), (1, "cat"), (0, "cat")]
    assert shades(tmp_path, listing, "val") == [(0, "cat"), (1, "dog")]


FOLDERS_OF_THE_HUB = [
    ({"data/train-0-of-1": ["dog", "cat"], "data/test-0-of-1": ["cat", "dog"]}, "has other class names than"),
    ({"a/train/0000": ["dog", "cat"], "b/train/0000": ["dog", "cat"]}, "several datasets of Parquet files: 'a', 'b'"),
    ({"data/val-0-of-1": ["dog", "cat"]}, "has Parquet files of 'val' alone; name one of these in test_split"),
    ({"data/train-0-of-1": ["dog", "cat"]}, "has no split 'test', only train"),
    ({"data/cats": ["dog", "cat"]}, "holds no dataset saved by `save_to_disk`"),
]


def test_a_folder_of_the_hub_that_does_not_fit(tmp_path: Path) -> None:
    def read(files: dict[str, list[str]]) -> object:
        root = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, classes in files.items():
            write_hub(root / f"{name}.parquet", labels=[0, 1], names=classes)
        return of_hub(root).split("test")

    assert unsaid(FOLDERS_OF_THE_HUB, read) == []


# --------------------------------------------------------------------------------------------- lists without splits


def test_a_list_without_splits_may_be_divided(tmp_path: Path) -> None:
    lines = ["path,label"]
    for i in range(20):
        (tmp_path / f"{i}.png").write_bytes(png(i))
        lines.append(f"{i}.png,{['cat', 'dog'][i % 2]}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    params = {"role": "source", "layout": "manifest:list.csv", "root": str(tmp_path), "watch": str(tmp_path)}
    listing = manifest.read_listing("x", params=DatasetParams(template="a {}.", test_fraction=0.5, **params))
    train, test = (set(listing.splits[split].paths) for split in BOTH)
    assert len(train) + len(test) == 20
    assert not train & test
    assert min(len(train), len(test)) > 1


def test_a_list_with_splits_is_not_divided_again(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path,label,split\na.png,cat,train\nb.png,cat,test\n")
    params = {"role": "source", "layout": "manifest:list.csv", "root": str(tmp_path), "watch": str(tmp_path)}
    with pytest.raises(DataError, match=r"is divided into train, test already"):
        manifest.read_listing("x", params=DatasetParams(template="a {}.", test_fraction=0.5, **params))
