"""From a dataset's section of params.yaml to its listing: the one place that knows which layouts there are."""

import os
from collections.abc import Callable
from pathlib import Path

from wsoup.base import remote
from wsoup.base.errors import DataError, ParamsError
from wsoup.datasets import containers, coop, folder, tables
from wsoup.datasets.listing import Listing, validated
from wsoup.params.inputs import DatasetParams

LAYOUTS = {
    "imagefolder": "{train,val,test}/<class>/<image>, or <class>/<image> for a test set; classnames.txt may rename",
    "coop:NAME": "one of the paper's 15 datasets in CoOp's folders under one data root; plain `coop` goes by the name",
    "laion:IMAGES": "ImageNet in CoOp's folders for testing, trained on images of LAION below IMAGES by ImageNet class",
    "manifest:FILE": "a CSV, TSV, Parquet or JSON list: path, label and/or class_name, split",
    "webdataset": "{train,test}/{0..n}.tar with .cls labels, and classnames.txt (CLIP_benchmark)",
    "huggingface": "a dataset saved with `save_to_disk`: one Image and one ClassLabel column",
}
"""Values of ``datasets.<name>.layout``, and what each expects under root."""


def read(name: str, *, params: DatasetParams, imagenet_names: Callable[[], list[str]]) -> Listing:
    """`listing`, or DataError with the first problem of what it lists."""
    return validated(listing(name, params=params, imagenet_names=imagenet_names))


def listing(name: str, *, params: DatasetParams, imagenet_names: Callable[[], list[str]]) -> Listing:
    """List the splits of a dataset that its role needs.

    Args:
        name: the dataset's name in params.yaml.
        params: its section.
        imagenet_names: ImageNet's class names, called only where a layout needs them.

    Raises:
        ParamsError: unknown layout, `verify` without a folder to watch, `test_fraction` for data that has splits.
        MissingError, DataError: as the layout's module says; a folder of images that DVC would not watch.
    """
    if params.verify and not Path(params.watch).is_dir():
        raise ParamsError(
            f"datasets.{name}: verify: true needs `watch` to be the folder of the images, not {params.watch}: "
            f"DVC notices changed images only there; set watch: {params.root}"
        )
    if params.test_fraction is not None and params.layout != "imagefolder":
        raise ParamsError(
            f"datasets.{name}: test_fraction divides an imagefolder without a split; layout {params.layout!r} has its "
            "own: remove test_fraction"
        )
    listed = _listed(name, params=params, imagenet_names=imagenet_names)
    if params.test_fraction is not None:
        listed = folder.divided(listed, fraction=params.test_fraction, test_split=params.test_split)
    _check_watched(listed, watch=params.watch)
    return listed


def _listed(name: str, *, params: DatasetParams, imagenet_names: Callable[[], list[str]]) -> Listing:
    wanted = {params.test_split, "train"} if params.role == "source" else {params.test_split}
    kind, _, argument = params.layout.partition(":")
    if kind == "imagefolder":
        return folder.read(params.root, wanted=wanted, class_names=params.class_names)
    if kind == "coop":
        dataset = argument or coop.name_of(name, root=params.root)
        return coop.read(dataset, root=params.root, wanted=wanted, imagenet_names=imagenet_names)
    if kind == "laion":
        return coop.read_laion(argument, root=params.root, imagenet_names=imagenet_names)
    if kind == "manifest" and argument:
        return tables.read(argument, root=params.root, wanted=wanted, class_names=params.class_names)
    if kind == "webdataset":
        return containers.read_webdataset(params.root, wanted=wanted, class_names=params.class_names)
    if kind == "huggingface":
        return containers.read_huggingface(params.root, wanted=wanted)
    raise ParamsError(f"datasets.{name}.layout: {params.layout!r} is not a layout; expected {', '.join(LAYOUTS)}")


def _check_watched(listing: Listing, *, watch: str) -> None:
    """Refuse images that are below `watch` only through a link to a folder elsewhere, which DVC does not follow."""
    if remote.is_remote(listing.root) or not Path(watch).is_dir():
        return
    top, root = os.path.realpath(watch) + os.sep, os.path.realpath(listing.root)
    folders = {path.rpartition("/")[0] for split in listing.splits.values() for path in split.paths}
    for name in sorted(folders):
        place = os.path.join(root, name, "")
        target = os.path.join(os.path.realpath(place), "")
        if place.startswith(top) and not target.startswith(top) and os.path.isdir(place):
            raise DataError(
                f"{listing.root}/{name} is, or lies below, a link to a folder outside of {watch} ({target[:-1]}): DVC "
                "would not notice changes there; move the folder to the link's place"
            )
