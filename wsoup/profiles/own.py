"""params.yaml for a folder of one's own images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.check.whole import parse_params
from wsoup.core.errors import DataError, MissingError, ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import parse_yaml
from wsoup.datasets import folder
from wsoup.datasets.listing import Listing
from wsoup.profiles import common

OWN_DESCRIPTORS = "data/photo_descriptors.txt"
"""A few hundred descriptors of things in photographs, for those who bring none; the toy world has its own."""
ENCODER_KEYS = ("model", "pretrained", "config", "image_mean", "image_std", "interpolation")


def own(
    *,
    images: str,
    encoder: Mapping[str, Any],
    template: str = "a photo of a {}.",
    shots: int | None = None,
    descriptors: str | None = None,
    test_fraction: float | None = None,
) -> str:
    """params.yaml for a folder of one's own images.

    Args:
        images: a folder with train/<class>/ and test/<class>/; or a folder of such folders, of which exactly one has
            train/ and is the source, and the others are targets (the same classes: role dg, else xd).
        encoder: model and pretrained, and what else of section ``encoder`` is not as the model says.
        template: prompt template with one ``{}``.
        shots: training images per class and seed; None: 16, or as many as the smallest class has.
        descriptors: a text file or GPT-descriptor JSON file as pool; None: a few hundred of wsoup's own.
        test_fraction: share of the source's images that are for testing, where it has no train/: see
            `wsoup.datasets.folder.divided`. With it a folder of class folders is a source.

    Raises:
        MissingError, DataError: no such folder, no training images, or more than one source.
        ParamsError: a value that params.yaml would refuse.
    """
    for option, file in (("--descriptors", descriptors), ("--config", encoder.get("config"))):
        if file is not None and not Path(file).is_file():
            raise MissingError(f"{option} {file} is not a file; correct the path")
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ParamsError(f"--test-fraction is {test_fraction:g}, expected a share between 0 and 1, for example 0.3")
    roots = _image_roots(images) if test_fraction is None else _undivided(images)
    divided = test_fraction is not None
    listings = {_name(root, divided=divided): folder.read(str(root)) for root in map(Path.resolve, roots)}
    source = next(iter(listings))
    if test_fraction is not None:
        listings[source] = folder.divided(listings[source], fraction=test_fraction, test_split="test")
    pool = _absolute(descriptors) or OWN_DESCRIPTORS
    values = {
        "source": common.one_line(source),
        "encoder": _encoder(encoder),
        "datasets": common.block(_own_datasets(listings, template=template, test_fraction=test_fraction)),
        "fewshot.shots": common.one_line(_shots(listings[source]) if shots is None else shots),
        **common.descriptors(pool, watch=pool),
    }
    text = common.filled(common.template("own"), values)
    parse_params(parse_yaml(text, origin="wsoup profile own"), origin="wsoup profile own")
    return text


def _own_datasets(
    listings: Mapping[str, Listing], *, template: str, test_fraction: float | None
) -> dict[str, dict[str, Any]]:
    """Section datasets; the first one is the source. DVC watches the folders themselves."""
    source, *_ = listings
    same = listings[source].class_names
    return {
        name: {
            "role": "source" if name == source else "dg" if listing.class_names == same else "xd",
            "layout": "imagefolder",
            "root": listing.root,
            "watch": listing.root,
            "template": template,
            **({"test_fraction": test_fraction} if name == source and test_fraction is not None else {}),
            "verify": True,
        }
        for name, listing in listings.items()
    }


def _shots(source: Listing) -> int:
    """16, or as many training images as the smallest class has."""
    fewest = int(np.bincount(source.split("train").labels, minlength=len(source.class_names)).min())
    return max(1, min(16, fewest))


def _image_roots(images: str) -> list[Path]:
    """The folders of datasets: first the source, which has train/."""
    base = folder.require_folder(images)
    if (base / "train").is_dir():
        return [base]
    inner = [base / name for name in folder.subfolders(base)]
    sources = [path for path in inner if (path / "train").is_dir()]
    if len(sources) != 1:
        names = f"{len(sources)}: {', '.join(path.name for path in sources)}" if sources else "none"
        raise DataError(
            f"{images} must hold train/<class>/<image> and test/<class>/<image>, or folders of which exactly one has "
            f"train/ (found {names}); the source needs training images of its own: --test-fraction 0.3 takes them from "
            "a folder of <class>/<image>"
        )
    return sources + [path for path in inner if path != sources[0] and folder.subfolders(path)]


def _undivided(images: str) -> list[Path]:
    """The folder of <class>/<image> that is to be divided: this one, or the only one in it."""
    base = folder.require_folder(images)
    inner = [base / name for name in folder.subfolders(base)]
    if inner and not any(folder.subfolders(path) for path in inner):
        return [base]
    if len(inner) != 1:
        raise DataError(
            f"{images} must hold <class>/<image> with --test-fraction; found folders of folders "
            f"({', '.join(path.name for path in inner) or 'none'}). Several datasets: give the one that is to be the "
            "source train/<class>/ and test/<class>/, and leave out --test-fraction"
        )
    return inner


def _name(root: Path, *, divided: bool) -> str:
    """A folder's name as a dataset's name: letters, digits, dash and underscore."""
    folder_name = root.parent.name if divided and root.name in folder.SPLIT_FOLDERS else root.name
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in folder_name).lstrip("-_")
    return name or "images"


def _encoder(encoder: Mapping[str, Any]) -> str:
    """Section encoder, every key with its value; what is not given is as the model says."""
    values = dict.fromkeys(ENCODER_KEYS) | dict(encoder)
    values |= {key: _absolute(values[key]) for key in ("pretrained", "config")}
    given = EncoderParams.model_construct(**values)  # checked with all else, in the end
    if given.comes_with_weights:
        given, values["pretrained"] = given.model_copy(update={"pretrained": None}), None
    elif not given.pretrained:
        raise ParamsError("--pretrained is empty, which would mean random weights: give a tag of open_clip or a file")
    weights = given.weights_file
    if weights is not None and not weights.is_file():
        raise MissingError(f"weights file {weights} does not exist; give --pretrained a tag of open_clip or a file")
    files = [Path(file) for file in (weights, given.config) if file is not None]
    watch = str(files[0]) if files else common.NOTHING_TO_WATCH
    if len(files) > 1 and files[0].parent == files[1].parent:
        watch = str(files[0].parent)  # a folder of its own: config and weights
    return common.lines({**values, "precision": "fp32", "watch": watch}, indent=2)


def _absolute(name: str | None) -> str | None:
    """A file's whole path, so that a copy of the folder (an experiment of DVC) finds it, too; a tag as it is."""
    return str(Path(name).resolve()) if name and Path(name).exists() else name
