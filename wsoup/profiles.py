"""params.yaml for the paper's datasets, a dataset in halves, or a folder of own images: what `wsoup profile` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from wsoup import project
from wsoup.datasets import folder
from wsoup.datasets.listing import Listing
from wsoup.datasets.paper import PAPER
from wsoup.errors import DataError, MissingError, ParamsError
from wsoup.params.encoder import EncoderParams
from wsoup.params.whole import parse_params

FOLDER = project.file("data/profiles")
NOTHING_TO_WATCH = "data/nothing_to_watch.txt"
TOY = "shapes"
HALVES = """\
# yaml-language-server: $schema=data/params.schema.json
# Base-to-new generalisation on @DATASET@ (`wsoup profile base_to_new --help`), the protocol of CoCoOp: the first half
# of the classes is the source that soups are selected and models finetuned on, the other half is a target.
# reports/tables/base_to_new.md has both and their harmonic mean. All else is as in profile @PROFILE@.
"""
"""What stands above params.yaml of a base-to-new run."""
OWN_DESCRIPTORS = "data/toy/descriptors.txt"
"""A few hundred descriptors of everyday things, for those who bring none."""


def paper(*, data_root: str, gpt_descriptors: str | None = None) -> str:
    """params.yaml of the paper: all 15 datasets under one data root; no file needs to be there yet.

    Args:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of classification-by-description's ``descriptors_*.json``, for the GPT baselines and
            the pool of descriptors; None leaves the baselines out and takes `OWN_DESCRIPTORS` as pool.
    """
    datasets = {name: _paper_dataset(name, data_root=data_root, gpt=gpt_descriptors) for name in PAPER}
    pool = f"{gpt_descriptors}/descriptors_imagenet.json" if gpt_descriptors else OWN_DESCRIPTORS
    text = (FOLDER / "paper.yaml").read_text(encoding="utf-8")
    return _filled(text, DATASETS=_block(datasets), DESCRIPTORS=_descriptors(pool, watch=gpt_descriptors or pool))


def _paper_dataset(name: str, *, data_root: str, gpt: str | None) -> dict[str, Any]:
    found = PAPER[name]
    listed = "variants.txt" if name == "fgvc_aircraft" else found.splits or "classnames.txt"
    section = {
        "role": found.role,
        "layout": f"coop:{name}",
        "root": data_root,
        "watch": f"{data_root}/{found.folder}/{listed}",
        "template": found.template,
    }
    return section | ({"gpt_descriptors": f"{gpt}/descriptors_{found.gpt}.json"} if gpt else {})


def base_to_new(dataset: str | None = None, *, data_root: str | None = None, gpt_descriptors: str | None = None) -> str:
    """params.yaml of base-to-new generalisation: one dataset's first half of classes is the source, the rest a target.

    All else is as in `paper`, or for the toy world as in the demo profile.

    Args:
        dataset: one of the paper's that has training images; None: the toy world's shapes.
        data_root, gpt_descriptors: as in `paper`; only with `dataset`.

    Raises:
        ParamsError: no such dataset, one without training images, or `dataset` and `data_root` not together.
    """
    if dataset is None:
        if data_root is not None or gpt_descriptors is not None:
            raise ParamsError("--data-root and --gpt-descriptors need --dataset, for example --dataset dtd")
        dataset, profile, text = TOY, "demo", (FOLDER / "demo.yaml").read_text(encoding="utf-8")
        section = yaml.safe_load(text)["datasets"][TOY]
    else:
        section = _halved_section(dataset, data_root=data_root, gpt=gpt_descriptors)
        profile, text = "paper", paper(data_root=str(data_root), gpt_descriptors=gpt_descriptors)
    halves = {
        f"{dataset}_{half}": section | {"role": role, "classes": half}
        for half, role in (("base", "source"), ("new", "xd"))
    }
    text = re.sub(r"\A(#.*\n)+", lambda _: _filled(HALVES, DATASET=dataset, PROFILE=profile), text)
    text = re.sub(r"(?m)^source: \w+ *", lambda _: f"{f'source: {dataset}_base':<26} ", text, count=1)
    return re.sub(r"(?ms)(^datasets:[^\n]*\n).*?(?=^\w)", lambda head: f"{head[1]}{_block(halves)}\n", text, count=1)


def _halved_section(dataset: str, *, data_root: str | None, gpt: str | None) -> dict[str, Any]:
    """The section of one of the paper's datasets, if it can be a source."""
    sources = [name for name, found in PAPER.items() if found.role != "dg"]  # the shifts have test images only
    if dataset not in sources:
        raise ParamsError(
            f"--dataset {dataset!r} is none of the paper's datasets with training images: {', '.join(sources)}"
        )
    if data_root is None:
        raise ParamsError(f"--dataset {dataset} needs --data-root, the folder that holds CoOp's folders")
    return _paper_dataset(dataset, data_root=data_root, gpt=gpt)


def own(
    *,
    images: str,
    encoder: Mapping[str, Any],
    template: str = "a photo of a {}.",
    shots: int | None = None,
    descriptors: str | None = None,
) -> str:
    """params.yaml for a folder of one's own images.

    Args:
        images: a folder with train/<class>/ and test/<class>/; or a folder of such folders, of which exactly one has
            train/ and is the source, and the others are targets (the same classes: role dg, else xd).
        encoder: model and pretrained, and what else of section ``encoder`` is not as the model says.
        template: prompt template with one ``{}``.
        shots: training images per class and seed; None: 16, or as many as the smallest class has.
        descriptors: a text file or GPT-descriptor JSON file as pool; None: a few hundred of wsoup's own.

    Raises:
        MissingError, DataError: no such folder, no training images, or more than one source.
        ParamsError: a value that params.yaml would refuse.
    """
    roots = {name: root.resolve() for name, root in _image_roots(images).items()}
    listings = {name: folder.read(str(root)) for name, root in roots.items()}
    source = next(iter(roots))
    fewest = _smallest_class(listings[source])
    chosen = shots or max(1, min(16, fewest))
    why = "" if chosen >= 16 else f"; the smallest class has {fewest}"
    pool = _absolute(descriptors) or OWN_DESCRIPTORS
    text = _filled(
        (FOLDER / "own.yaml").read_text(encoding="utf-8"),
        SOURCE=source,
        ENCODER=_encoder(encoder),
        DATASETS=_block(_own_datasets(listings, template=template)),
        SHOTS=str(chosen),
        SHOTS_COMMENT=f"                # training images per class and seed{why}",
        DESCRIPTORS=_descriptors(pool, watch=pool),
    )
    parse_params(yaml.safe_load(text), origin="wsoup profile own")
    return text


def _own_datasets(listings: Mapping[str, Listing], *, template: str) -> dict[str, dict[str, Any]]:
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
            "verify": True,
        }
        for name, listing in listings.items()
    }


def _smallest_class(source: Listing) -> int:
    """Training images of the class that has the fewest."""
    return int(np.bincount(source.split("train").labels, minlength=len(source.class_names)).min())


def _image_roots(images: str) -> dict[str, Path]:
    """Dataset name -> root, the source first."""
    base = folder.require_folder(images)
    if (base / "train").is_dir():
        return {_name(base.resolve().name): base}
    inner = [base / name for name in folder.subfolders(base)]
    sources = [path for path in inner if (path / "train").is_dir()]
    if len(sources) != 1:
        found = f"found {len(sources)}: {', '.join(path.name for path in sources)}" if sources else "found none"
        raise DataError(
            f"{images} must hold train/<class>/<image> and test/<class>/<image>, or folders of which exactly one has "
            f"train/ ({found}); the source needs training images of its own"
        )
    targets = [path for path in inner if path != sources[0] and folder.subfolders(path)]
    return {_name(path.name): path for path in (*sources, *targets)}


def _name(text: str) -> str:
    """A folder's name as a dataset's name: letters, digits, dash and underscore."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in text).lstrip("-_")
    return name or "images"


def _encoder(encoder: Mapping[str, Any]) -> str:
    """Section encoder, every key with its value; what is not given is as the model says."""
    keys = ("model", "pretrained", "config", "image_mean", "image_std", "interpolation")
    unknown = sorted(set(encoder) - set(keys))
    if unknown:
        raise ParamsError(f"encoder has no {unknown[0]!r}; known are {', '.join(keys)}")
    values = {key: encoder.get(key) for key in keys}
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
    return "\n".join(f"  {key}: {_yaml(value)}" for key, value in values.items()) + "\n"


def _absolute(name: str | None) -> str | None:
    """A file's whole path, so that a copy of the folder (an experiment of DVC) finds it, too; a tag as it is."""
    return str(Path(name).resolve()) if name and Path(name).exists() else name


def _block(datasets: Mapping[str, Mapping[str, Any]]) -> str:
    """Section datasets, one key a line."""
    lines = []
    for name, section in datasets.items():
        lines += [f"  {name}:", *(f"    {key}: {_yaml(value)}" for key, value in section.items())]
    return "\n".join(lines) + "\n"


def _descriptors(pool: str, *, watch: str) -> str:
    return (
        f"  descriptors: {_yaml({'paths': [pool], 'period': False})}  # text files, or GPT JSON {{class: [...]}}\n"
        f"  watch: {_yaml(watch)}  # what DVC watches\n"
    )


def _yaml(value: Any) -> str:
    """A value in YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _filled(text: str, **parts: str) -> str:
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text
