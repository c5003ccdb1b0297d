"""From params to a listing: the one place that knows which layouts there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from wsoup.core.disk import remote
from wsoup.core.errors import DataError, ParamsError
from wsoup.core.params.datasets import DatasetParams
from wsoup.datasets import coop, folder, huggingface, laion, tables, torchvision, webdataset
from wsoup.datasets.listing import Listing, validated

LAYOUTS = {
    "imagefolder": "{train,val,test}/<class>/<image>, or <class>/<image> for a test set; classnames.txt may rename",
    "coop:NAME": "one of the paper's 15 datasets in CoOp's folders under one data root; plain `coop` goes by the name",
    "laion:IMAGES": "ImageNet in CoOp's folders for testing, trained on images of LAION below IMAGES by ImageNet class",
    "manifest:FILE": "a CSV, TSV, Parquet or JSON list: path, label and/or class_name, split",
    "webdataset": "{train,test}/{0..n}.tar with .cls labels, and classnames.txt (CLIP_benchmark)",
    "huggingface": "a dataset saved with `save_to_disk`: one Image and one ClassLabel column",
    "torchvision:NAME": "torchvision.datasets by name, for example torchvision:CIFAR100; download: true fetches it",
}
"""Values of ``datasets.<name>.layout``, and what each expects under root."""


def listing(name: str, *, params: DatasetParams, imagenet_names: Callable[[], list[str]]) -> Listing:
    """List the images of one dataset of params.yaml: the splits that its role needs, and that DVC sees them.

    Args:
        name: the dataset's name in params.yaml.
        params: its section.
        imagenet_names: ImageNet's class names, called only where a layout needs them.

    Raises:
        ParamsError: no such layout, `verify` without a folder to watch, or `test_fraction` of what has a split.
        MissingError, DataError: as the layout's module says; a folder that DVC passes over.
    """
    listed = _listed(name, params=params, imagenet_names=imagenet_names)
    _check_seen(listed, watch=params.watch)
    return listed


def _listed(name: str, *, params: DatasetParams, imagenet_names: Callable[[], list[str]]) -> Listing:
    if params.verify and not Path(params.watch).is_dir():
        raise ParamsError(
            f"datasets.{name}: verify: true needs `watch` to be the folder of the images, not {params.watch}: "
            f"DVC notices changed images only there; set watch: {params.root}"
        )
    wanted = {params.test_split, "train"} if params.role == "source" else {params.test_split}
    kind, _, argument = params.layout.partition(":")
    if kind != "imagefolder" and params.test_fraction is not None:
        raise ParamsError(
            f"datasets.{name}: test_fraction divides an imagefolder without a split; layout {params.layout!r} has its "
            "own: remove test_fraction"
        )
    if kind == "imagefolder":
        listed = folder.read(params.root, wanted=wanted, class_names=params.class_names)
        if params.test_fraction is None:
            return listed
        return folder.divided(listed, fraction=params.test_fraction, test_split=params.test_split)
    if kind == "coop":
        which = argument or coop.name_of(name, root=params.root)
        return coop.read(which, root=params.root, wanted=wanted, imagenet_names=imagenet_names)
    if kind == "laion":
        return laion.read(argument, root=params.root, imagenet_names=imagenet_names)
    if kind == "manifest" and argument:
        return tables.read(argument, root=params.root, wanted=wanted, class_names=params.class_names)
    if kind == "webdataset":
        return webdataset.read(params.root, wanted=wanted, class_names=params.class_names)
    if kind == "huggingface":
        return huggingface.read(params.root, wanted=wanted)
    if kind == "torchvision" and argument:
        return torchvision.read(
            argument, root=params.root, wanted=wanted, download=params.download, class_names=params.class_names
        )
    raise ParamsError(f"datasets.{name}.layout: {params.layout!r} is not a layout; expected {', '.join(LAYOUTS)}")


def _check_seen(listing: Listing, *, watch: str) -> None:
    """Refuse images that are below `watch` only through a link to a folder elsewhere: DVC follows no such link."""
    if remote.is_remote(listing.root) or not Path(watch).is_dir():
        return
    top, root = os.path.realpath(watch) + os.sep, os.path.realpath(listing.root)
    for name in sorted({path.rpartition("/")[0] for split in listing.splits.values() for path in split.paths}):
        place = os.path.join(root, name, "")
        real = os.path.join(os.path.realpath(place), "")
        if place.startswith(top) and not real.startswith(top) and os.path.isdir(place):
            raise DataError(
                f"{listing.root}/{name} is, or lies below, a link to a folder outside of {watch} ({real[:-1]}): DVC "
                "would not notice what changes there; move the folder into the link's place"
            )


def read(name: str, *, params: DatasetParams, imagenet_names: Callable[[], list[str]]) -> Listing:
    """The same, checked."""
    return validated(listing(name, params=params, imagenet_names=imagenet_names))
