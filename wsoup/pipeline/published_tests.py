"""Test images that have published figures: those that a run has embedded, or those below a data root."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wsoup.datasets import division, folder, manifest
from wsoup.datasets.listing import Listing
from wsoup.datasets.paper import PAPER
from wsoup.datasets.walk import subfolders
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.evaluate.testsets import TestSet, held_if_small, load_tests
from wsoup.images.features import encode_files
from wsoup.paper.published import PublishedDataset, dataset_of
from wsoup.params.inputs import DatasetParams, EncoderParams
from wsoup.params.section import parse
from wsoup.runtime.progress import counting
from wsoup.towers.encoder import Encoder

BATCH = 256
TEMPLATE = "a photo of a {}."
NOT_LOADED: Mapping[str, Any] = {"baseline_template": None, "gpt_names": {}, "gpt": None}
"""What texts of other rows would need."""
Tests = dict[str, tuple[TestSet, PublishedDataset]]


def of_run(datasets: Mapping[str, DatasetParams], *, artifacts: Artifacts, encoder: Encoder) -> tuple[Tests, list[str]]:
    """The test sets of a run that have figures, and the names of those that are not embedded yet."""
    tests: Tests = {}
    missing = []
    for name, section in datasets.items():
        known = dataset_of(name, layout=section.layout)
        if known is None or section.classes is not None:
            continue
        if not artifacts.features(name, split="test").exists():
            missing.append(name)
            continue
        listed = [{"name": name, "role": section.role, **NOT_LOADED}]
        (test,) = load_tests(artifacts, datasets=listed, encoder=encoder)
        tests[name] = (test, known)
    return tests, missing


def below(data_root: str, *, encoder: Encoder) -> tuple[Tests, list[str]]:
    """Encode the test images below a data root that have figures, and say which are other images.

    Args:
        data_root: a folder with CoOp's dataset folders, or folders of test images by class, or with test/ of such,
            that are called as a dataset with figures.
        encoder: the model.
    """
    tests: Tests = {}
    others = []
    for name, section in _sections(data_root).items():
        known = dataset_of(name, layout=section.layout)
        assert known is not None
        listing = manifest.read_listing(name, params=section)
        labels = listing.split(section.test_split).labels
        differs = known.differs(n_images=len(labels), n_classes=len(listing.class_names))
        if differs:
            others.append(f"{name}: {differs}")
        else:
            tests[name] = (_encoded(name, listing, section=section, encoder=encoder), known)
    return tests, others


def _sections(data_root: str) -> dict[str, DatasetParams]:
    """Each folder with figures as a section of params.yaml."""
    sections: dict[str, dict[str, object]] = {}
    by_folder = {known.folder: name for name, known in PAPER.items()}
    for place in subfolders(Path(data_root)):
        name = by_folder.get(place, place)
        root = str(Path(data_root, place))
        if place in by_folder and dataset_of(name, layout=f"coop:{name}") is not None:
            sections[name] = {"layout": f"coop:{name}", "root": data_root, "template": PAPER[name].template}
        elif dataset_of(name, layout="imagefolder") is not None:
            split = division.of_target(folder.splits_with_images(root))
            sections[name] = {"root": root, "template": TEMPLATE, "test_split": split}
    made = {}
    for name, section in sections.items():
        # No training image is listed.
        made[name] = parse(DatasetParams, {"role": "xd", "watch": data_root, **section}, origin=data_root)
    return made


def _encoded(name: str, listing: Listing, *, section: DatasetParams, encoder: Encoder) -> TestSet:
    split = listing.split(section.test_split)
    paths = [str(Path(listing.root, path)) for path in split.paths]
    with counting(label=f"images of {name}", total=len(paths), initial=0, unit="image"):
        encoded = encode_files({PRETRAINED: encoder}, paths=paths, digests=None, batch_size=BATCH, on_bad_image="stop")
    return TestSet(
        name=name,
        role=section.role,
        template=section.template,
        class_names=listing.class_names,
        image_features=held_if_small(encoded.features[PRETRAINED], device=encoder.device),
        labels=torch.from_numpy(np.asarray(split.labels, dtype=np.int64)).to(encoder.device),
        rows=np.arange(len(paths)),
        attributes={},
    )


def changed(params: EncoderParams) -> list[str]:
    """Keys that make other images, or rougher features, than the model's own preprocessing in float32, in words."""
    keys = []
    for key in ("image_mean", "image_std", "interpolation"):
        value = getattr(params, key)
        if value is not None:
            keys.append(f"encoder.{key}: {value}")
    if params.decoding != "upright":
        keys.append(f"encoder.decoding: {params.decoding}")
    if params.precision in ("bf16", "fp16"):
        keys.append(f"encoder.precision: {params.precision}")
    return keys
