"""params.yaml for a folder of one's own images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from wsoup.check.whole import parse_params
from wsoup.core.errors import DataError, MissingError, ParamsError
from wsoup.datasets import folder, fraction
from wsoup.datasets.listing import Listing
from wsoup.params.base.encoder import EncoderParams
from wsoup.profiles.common import (
    NOTHING_TO_WATCH,
    OWN_DESCRIPTORS,
    block,
    filled,
    one_line,
)
from wsoup.profiles.common import descriptors as descriptors_lines
from wsoup.profiles.common import (
    template as text_of,
)


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
            `wsoup.datasets.fraction`. With it a folder of class folders is a source.

    Raises:
        MissingError, DataError: no such folder, no training images, or more than one source.
        ParamsError: a value that params.yaml would refuse.
    """
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ParamsError(f"--test-fraction is {test_fraction:g}, expected a share between 0 and 1, for example 0.3")
    roots = {name: root.resolve() for name, root in _image_roots(images, divide=test_fraction is not None).items()}
    listings = {name: folder.read(str(root)) for name, root in roots.items()}
    source = next(iter(roots))
    if test_fraction is not None:
        listings[source] = fraction.divided(listings[source], fraction=test_fraction, test_split="test")
    fewest = _smallest_class(listings[source])
    chosen = max(1, min(16, fewest)) if shots is None else shots
    why = "" if chosen >= 16 else f"; the smallest class has {fewest}"
    for option, file in (("--descriptors", descriptors), ("--config", encoder.get("config"))):
        if file is not None and not Path(file).is_file():
            raise MissingError(f"{option} {file} is no file; correct its path")
    pool = _absolute(descriptors) or OWN_DESCRIPTORS
    text = filled(
        text_of("own"),
        SOURCE=one_line(source),
        ENCODER=_encoder(encoder),
        DATASETS=block(_own_datasets(listings, template=template, test_fraction=test_fraction)),
        SHOTS=str(chosen),
        SHOTS_COMMENT=f"                # training images per class and seed{why}",
        DESCRIPTORS=descriptors_lines([pool], watch=pool),
    )
    parse_params(yaml.safe_load(text), origin="wsoup profile own")
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


def _smallest_class(source: Listing) -> int:
    """Training images of the class that has the fewest."""
    return int(np.bincount(source.split("train").labels, minlength=len(source.class_names)).min())


def _image_roots(images: str, *, divide: bool) -> dict[str, Path]:
    """Dataset name -> root, the source first; `divide`: the source has no train/ of its own."""
    base = folder.require_folder(images)
    if not divide and (base / "train").is_dir():
        return {_name(base.resolve().name): base}
    inner = [base / name for name in folder.subfolders(base)]
    if divide and inner and not any(folder.subfolders(path) for path in inner):
        whole = base.resolve()
        return {_name((whole.parent if whole.name in folder.SPLIT_FOLDERS else whole).name): base}
    sources = [path for path in inner if (divide and len(inner) == 1) or (not divide and (path / "train").is_dir())]
    if len(sources) != 1 and divide:
        raise DataError(
            f"{images} must hold <class>/<image> with --test-fraction; found folders of folders "
            f"({', '.join(path.name for path in inner) or 'none'}). Several datasets: give the one that is to be the "
            "source train/<class>/ and test/<class>/, and leave --test-fraction out"
        )
    if len(sources) != 1:
        found = f"found {len(sources)}: {', '.join(path.name for path in sources)}" if sources else "found none"
        raise DataError(
            f"{images} must hold train/<class>/<image> and test/<class>/<image>, or folders of which exactly one has "
            f"train/ ({found}); the source needs training images of its own: --test-fraction 0.3 takes them from a "
            "folder of <class>/<image>"
        )
    targets = [path for path in inner if path != sources[0] and folder.subfolders(path)]
    return {_name(path.name): path for path in (*sources, *targets)}


def _name(text: str) -> str:
    """A folder's name as a dataset's name: letters, digits, dash and underscore."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in text).lstrip("-_")
    return name or "images"


def _encoder(encoder: Mapping[str, Any]) -> str:
    """Section encoder, every key with its value; what is not given is as the model says."""
    keys = ("model", "pretrained", "config", "image_mean", "image_std", "interpolation", "quick_gelu")
    unknown = sorted(set(encoder) - set(keys))
    if unknown:
        raise ParamsError(f"encoder has no {unknown[0]!r}; known are {', '.join(keys)}")
    values = {key: encoder.get(key) for key in keys if key != "quick_gelu" or encoder.get(key)}
    values |= {key: _absolute(values[key]) for key in ("pretrained", "config")}
    found = EncoderParams.model_construct(**values)  # checked with all else, in the end
    if found.comes_with_weights:
        found = found.model_copy(update={"pretrained": None})
        values["pretrained"] = None
    elif not found.pretrained:
        raise ParamsError("--pretrained is empty, which would mean random weights: give a tag of open_clip or a file")
    weights, config = found.weights_file, found.config
    if weights is not None and not weights.is_file():
        raise MissingError(f"weights file {weights} does not exist; give --pretrained a tag of open_clip or a file")
    files = [Path(file) for file in (weights, config) if file is not None]
    folders = {file.resolve().parent for file in files}
    watch = str(files[0]) if files else NOTHING_TO_WATCH
    if len(files) > 1 and len(folders) == 1:
        watch = str(files[0].parent)  # a folder of its own: config and weights
    values |= {"precision": "fp32", "watch": watch}
    return "\n".join(f"  {key}: {one_line(value)}" for key, value in values.items()) + "\n"


def _absolute(name: str | None) -> str | None:
    """A file's whole path, so that a copy of the folder (an experiment of DVC) finds it, too; a tag as it is."""
    return str(Path(name).resolve()) if name and Path(name).exists() else name
