"""What the run's soup gets wrong and what it changed, for the page: its most frequent errors, and pictures."""

import base64
import io
from collections import Counter
from typing import NamedTuple

from PIL import Image

from wsoup.base import remote
from wsoup.base.errors import DataError
from wsoup.disk import store
from wsoup.disk.artifacts import PRETRAINED, Artifacts
from wsoup.images.decode import load_rgb
from wsoup.report.plots import evenly
from wsoup.report.run import RunParams
from wsoup.report.tables import Table

THUMBNAIL = 72
"""Maximum side of a gallery image, in pixels."""
ERRORS = 6
"""Errors that are listed."""


class Picture(NamedTuple):
    """An image whose answer the soup changed: its class, the answers before and after, and a data URI."""

    label: str
    before: str
    after: str
    image: str


class Group(NamedTuple):
    """Images of one dataset that the soup turned right, or wrong."""

    title: str
    n_images: int
    pictures: list[Picture]


def worst_errors(artifacts: Artifacts, *, params: RunParams) -> Table:
    """Classes that the run's soup most often takes for another, over all datasets, by share of their images."""
    table = store.read_table(artifacts.results / PRETRAINED / "confusion.parquet").to_pylist()
    images, wrong, before = Counter[tuple[str, int]](), Counter[tuple[str, int, int]](), Counter[tuple[str, int, int]]()
    for line in table:
        name, label, n = line["dataset"], line["label"], line["n_images"]
        images[name, label] += n
        wrong[name, label, line["after"]] += n
        before[name, label, line["before"]] += n
    names = {name: class_names(artifacts, name) for name in params.datasets}
    errors = [(name, label, other) for name, label, other in wrong if label != other]
    errors.sort(key=lambda error: -wrong[error] / images[error[:2]])
    rows = [
        {
            "class": names[name][label],
            "taken for": names[name][other],
            "dataset": name,
            "with the soup": wrong[name, label, other],
            "class name only": before[name, label, other],
            "images": images[name, label],
        }
        for name, label, other in errors[:ERRORS]
        if names[name]
    ]
    columns = ["class", "taken for", "dataset", "with the soup", "class name only", "images"]
    return Table("errors", "The worst errors", columns, rows)


def class_names(artifacts: Artifacts, dataset: str) -> list[str]:
    """Class names of a dataset; none if its manifest is not there."""
    manifest = artifacts.manifest(dataset)
    return list(store.table_attributes(manifest)["class_names"]) if manifest.exists() else []


def gallery(artifacts: Artifacts, *, params: RunParams) -> dict[str, list[Group]]:
    """For each dataset, images that the run's soup turned right and wrong."""
    flips = store.read_table(artifacts.results / PRETRAINED / "flips.parquet").to_pylist()
    datasets: dict[str, list[Group]] = {}
    for name, dataset in params.datasets.items():
        lines, names = [line for line in flips if line["dataset"] == name], class_names(artifacts, name)
        if not lines or not names:
            continue
        paths = store.read_table(artifacts.manifest(name), columns=["path"])["path"]
        root = dataset.root if remote.is_remote(dataset.root) else artifacts.root / dataset.root
        for title, prediction in (("now right", "after"), ("now wrong", "before")):
            flipped = [line for line in lines if line[prediction] == line["label"]]
            pictures = [
                Picture(names[line["label"]], names[line["before"]], names[line["after"]], image)
                for line in (flipped[i] for i in evenly(len(flipped), at_most=params.report.gallery))
                if (image := _data_uri(remote.joined(root, paths[line["row"]].as_py())))
            ]
            datasets.setdefault(name, []).append(Group(title, len(flipped), pictures))
    return datasets


def _data_uri(path: str) -> str | None:
    """A small PNG or JPEG of an image file; None if it can no longer be read."""
    try:
        image = load_rgb(path)
    except DataError:
        return None
    kind = "png" if max(image.size) <= THUMBNAIL else "jpeg"
    image.thumbnail((2 * THUMBNAIL, 2 * THUMBNAIL), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    image.save(data, format=kind, **({"quality": 80} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"
