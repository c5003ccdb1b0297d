"""params.yaml for a folder of your own images."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wsoup.base.errors import DataError, MissingError, ParamsError
from wsoup.base.names import changes, proposed
from wsoup.check.whole import parse_params
from wsoup.core.prompts import clean_class_name
from wsoup.datasets import folder
from wsoup.datasets.listing import Listing
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse_yaml
from wsoup.profiles import files

OWN_DESCRIPTORS = "data/photo_descriptors.txt"
"""A few hundred descriptors of things in photographs, for those who bring none; the toy world has its own."""


def own(
    *,
    images: str,
    encoder: Mapping[str, Any],
    template: str = "a photo of a {}.",
    shots: int | None = None,
    descriptors: str | None = None,
    test_fraction: float | None = None,
    classes: str | None = None,
) -> str:
    """params.yaml for a folder of your own images.

    Args:
        images: a folder with train/<class>/ and test/<class>/; or a folder of such folders, exactly one of which has
            train/ and is the source. The others are targets, with role dg if they have the same classes, else xd.
        encoder: model and pretrained, and any other keys of section ``encoder`` that differ from the model's defaults.
        template: prompt template with one ``{}``.
        shots: training images per class and seed; None: 16, or as many as the smallest class has.
        descriptors: a text file or GPT-descriptor JSON file as pool; None: a few hundred of wsoup's own.
        test_fraction: share of the source's images kept for testing if there is no train/: see
            `wsoup.datasets.folder.divided`. With it, a folder of class folders can be the source.
        classes: a file of class names by folder, for the source and the targets with its classes.

    Raises:
        MissingError, DataError: no such folder, no training images, or more than one source.
        ParamsError: a value that params.yaml would refuse.
    """
    for option, file in (("--descriptors", descriptors), ("--config", encoder.get("config")), ("--classes", classes)):
        if file is not None and not Path(file).is_file():
            raise MissingError(f"{option} {file} is not a file; correct the path")
    divided = test_fraction is not None
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ParamsError(f"--test-fraction is {test_fraction:g}, expected a share between 0 and 1, for example 0.3")
    roots = _undivided(images) if divided else _image_roots(images)
    listings = {_name(root, divided=divided): folder.read(str(root)) for root in map(Path.resolve, roots)}
    source = next(iter(listings))
    if classes is not None:
        folder.read(listings[source].root, class_names=classes)  # raises if a class has no line
    if test_fraction is not None:
        listings[source] = folder.divided(listings[source], fraction=test_fraction, test_split="test")
    pool = OWN_DESCRIPTORS if descriptors is None else _absolute(descriptors)
    values = {
        "source": source,
        "encoder": _encoder(encoder),
        "datasets": _own_datasets(
            listings, template=template, test_fraction=test_fraction, classes=classes and _absolute(classes)
        ),
        "fewshot.shots": _shots(listings[source]) if shots is None else shots,
        **files.descriptor_pool(pool, watch=pool),
    }
    text = files.filled(files.template("own"), values)
    parse_params(parse_yaml(text, origin="wsoup profile own"), origin="wsoup profile own")
    return text


def _own_datasets(
    listings: Mapping[str, Listing], *, template: str, test_fraction: float | None, classes: str | None
) -> dict[str, dict[str, Any]]:
    """Section datasets; the first one is the source."""
    source, *_ = listings
    same = {name for name, listing in listings.items() if listing.class_names == listings[source].class_names}
    sections = {
        name: _section("dg" if name in same else "xd", root=listing.root, template=template)
        for name, listing in listings.items()
    }
    division = {} if test_fraction is None else {"test_fraction": test_fraction}
    sections[source] = _section("source", root=listings[source].root, template=template, **division)
    for name in same if classes is not None else ():
        sections[name]["class_names"] = classes
    return sections


def better_names(text: str) -> str:
    """A line about class folders of a profile's source whose names may read better; "" if there are none."""
    params = parse_yaml(text, origin="wsoup profile own")
    section = params["datasets"][params["source"]]
    root = Path(section["watch"])
    if "class_names" in section or (root / "classnames.txt").is_file():
        return ""
    folders = folder.subfolders(root / "train" if (root / "train").is_dir() else root)
    pairs = zip(folders, proposed(folders), strict=True)
    changed = changes({name: better for name, better in pairs if better != clean_class_name(name)})
    line = f"class names that may read better: {changed}; put them into a file for --classes, such as try's classes.txt"
    return line if changed else ""


def _section(role: str, *, root: str, template: str, **division: float) -> dict[str, Any]:
    """One dataset; DVC watches the folder of images itself."""
    return {"role": role, "watch": root, "template": template, **division, "verify": True}


def _shots(source: Listing) -> int:
    """16, or as many training images as the smallest class has."""
    fewest = int(np.bincount(source.split("train").labels, minlength=len(source.class_names)).min())
    return max(1, min(16, fewest))


def _image_roots(images: str) -> list[Path]:
    """The folders of datasets; the source, which has train/, comes first."""
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
    """The folder of <class>/<image> to divide: this one, or the only one in it."""
    base = folder.require_folder(images)
    inner = [base / name for name in folder.subfolders(base)]
    if inner and not any(folder.subfolders(path) for path in inner):
        return [base]
    if len(inner) != 1:
        raise DataError(
            f"{images} must hold <class>/<image> with --test-fraction; found folders of folders "
            f"({', '.join(path.name for path in inner) or 'none'}). With several datasets, give the source "
            "train/<class>/ and test/<class>/, and leave out --test-fraction"
        )
    return inner


def _name(root: Path, *, divided: bool) -> str:
    """A dataset's name, made from a folder's: letters, digits, dash and underscore."""
    folder_name = root.parent.name if divided and root.name in folder.SPLIT_FOLDERS else root.name
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in folder_name).lstrip("-_")
    return name or "images"


def _encoder(encoder: Mapping[str, Any]) -> dict[str, Any]:
    """Section encoder; a key that is missing means the model's default."""
    values = {key: value for key, value in encoder.items() if value is not None}
    if str(values.get("model")).startswith(("hf-hub:", "local-dir:")):  # which come with their weights
        values.pop("pretrained", None)
    elif not values.get("pretrained"):
        raise ParamsError("--pretrained is empty, which would mean random weights: give a tag of open_clip or a file")
    values |= {key: _absolute(values[key]) for key in ("pretrained", "config") if key in values}
    params = EncoderParams.model_construct(**values)  # the whole params.yaml is checked at the end
    weights = params.weights_file
    if weights is not None and not weights.is_file():
        raise MissingError(f"weights file {weights} does not exist; give --pretrained a tag of open_clip or a file")
    local = [Path(file) for file in (weights, params.config) if file is not None]
    watch = str(local[0]) if local else files.NOTHING_TO_WATCH
    if len(local) > 1 and local[0].parent == local[1].parent:
        watch = str(local[0].parent)
    return {**values, "precision": "fp32", "watch": watch}


def _absolute(name: str) -> str:
    """The absolute path of a file, so that copies of the folder (DVC experiments) find it too; a tag as it is."""
    return str(Path(name).resolve()) if Path(name).exists() else name
