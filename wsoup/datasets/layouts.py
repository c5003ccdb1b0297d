"""All layouts: the module that lists each. No other module knows them all."""

from wsoup.base.errors import ParamsError
from wsoup.datasets import coop, folder, hub, listed_folder, tables, webdataset
from wsoup.datasets.listing import Listing
from wsoup.datasets.walk import SPLIT_FOLDERS, require_folder
from wsoup.params.inputs import DatasetParams

LAYOUTS = {
    "imagefolder": "{train,val,test}/<class>/<image>, or <class>/<image> for a test set; classnames.txt may rename",
    "coop:NAME": "one of the paper's 15 datasets in CoOp's folders under one data root",
    "laion:IMAGES": "ImageNet in CoOp's folders for testing, trained on images of LAION in IMAGES/<wnid>",
    "manifest:FILE": "a list (CSV, TSV, JSON, Parquet): path (or file, image), label or class_name, split; or pictures",
    "listed": "a folder with a list in it or in each split: metadata.csv, _classes.csv, labels.csv, photo_train.txt",
    "webdataset": "train/0.tar and test/0.tar with KEY.jpg and KEY.cls, and classnames.txt",
    "huggingface": "a dataset saved with `save_to_disk`, or the hub's Parquet files; one Image, one ClassLabel column",
}
"""Values of ``datasets.<name>.layout``, and what each expects under root."""
DIVIDED = ("coop", "laion")
"""Layouts that always have splits of their own."""


def listed_by_layout(name: str, *, params: DatasetParams) -> Listing:
    """List the splits of a dataset that its role needs, as its layout says.

    Raises:
        ParamsError: unknown layout.
        MissingError, DataError: as the layout's module says.
    """
    root = params.root
    wanted = {params.test_split}
    if params.test_fraction is not None:
        # All of them, so that a folder which is divided already is noticed.
        wanted |= {*SPLIT_FOLDERS}
        if params.layout == "imagefolder":
            wanted = {*(folder.splits_with_images(root) or SPLIT_FOLDERS)}
    if params.role == "source" or params.classes is not None:
        # Training images of a target are never used, so no result can depend on them. Half of the classes is half of
        # all: a class without test images must not move the border.
        wanted.add("train")
    kind, _, argument = params.layout.partition(":")
    if kind == "imagefolder":
        return folder.read(root, wanted=wanted, class_names=params.class_names)
    if kind == "coop":
        return coop.read(argument or name, root=root, wanted=wanted)
    if kind == "laion" and argument:
        return coop.read_laion(argument, root=root, wanted=wanted)
    if kind == "manifest" and argument:
        return tables.read(argument, root=root, wanted=wanted, class_names=params.class_names)
    if kind == "huggingface":
        if hub.shards(require_folder(root)):
            return hub.read(root, wanted=wanted, class_names=params.class_names)
        # Imported here, since only this needs pyarrow, which `wsoup try` can do without.
        from wsoup.datasets.saved import read_saved

        return read_saved(root, wanted=wanted)
    if kind == "listed":
        return listed_folder.read(root, wanted=wanted, class_names=params.class_names)
    if kind == "webdataset":
        return webdataset.read(root, wanted=wanted, class_names=params.class_names)
    raise ParamsError(f"datasets.{name}.layout: {params.layout!r} is not a layout; expected {', '.join(LAYOUTS)}")
