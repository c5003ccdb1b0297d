"""What the page shows of images: the worst errors of the run's soup, and pictures that it turned right or wrong."""

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from PIL import Image

from wsoup.base import remote
from wsoup.base.errors import DataError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.images.decode import load_rgb
from wsoup.report.load import RunParams
from wsoup.report.plots import evenly
from wsoup.report.tables import Table, TableCells

THUMBNAIL = 72
"""Maximum side of a gallery image, in pixels."""
ERRORS = 6
"""Errors that are listed."""
ERROR_COLUMNS = ("class", "predicted as", "dataset", "with the soup", "class name only", "images")


def worst_errors(artifacts: Artifacts, *, params: RunParams) -> Table:
    """The classes that the run's soup most often confuses with another, over all datasets, by share of their images."""
    images = Counter[tuple[str, int]]()
    after = Counter[tuple[str, int, int]]()
    before = Counter[tuple[str, int, int]]()
    for line in store.read_table(artifacts.results / PRETRAINED / "confusion.parquet").to_pylist():
        dataset = line["dataset"]
        label = line["label"]
        images[dataset, label] += line["n_images"]
        after[dataset, label, line["after"]] += line["n_images"]
        before[dataset, label, line["before"]] += line["n_images"]
    errors = [(dataset, label, other) for dataset, label, other in after if label != other]
    # They are ranked by share, because a dataset with many images would fill the list otherwise.
    errors.sort(key=lambda error: -after[error] / images[error[:2]])
    rows: list[TableCells] = []
    for dataset, label, other in errors[:ERRORS]:
        names = []
        if dataset in params.datasets:
            names = class_names(artifacts, dataset)
        # Without its manifest a dataset has no class names, and an error between numbers tells nobody anything.
        if not names:
            continue
        row: dict[str, object] = {
            "class": names[label],
            "predicted as": names[other],
            "dataset": dataset,
            "with the soup": after[dataset, label, other],
            "class name only": before[dataset, label, other],
            "images": images[dataset, label],
        }
        rows.append(row)
    return Table("errors", "The worst errors", ERROR_COLUMNS, rows)


def class_names(artifacts: Artifacts, dataset: str) -> list[str]:
    """Class names of a dataset; none if its manifest is not there."""
    manifest = artifacts.manifest(dataset)
    if not manifest.exists():
        return []
    return list(store.table_attributes(manifest)["class_names"])


def gallery(artifacts: Artifacts, *, params: RunParams) -> dict[str, list[dict[str, object]]]:
    """For each dataset, images that the run's soup turned right and wrong: how many, and some of them as data URIs."""
    flips = store.read_table(artifacts.results / PRETRAINED / "flips.parquet").to_pylist()
    datasets: dict[str, list[dict[str, object]]] = {}
    # A record has its params sorted by name; the source, which a soup is made for, comes first all the same.
    in_order = sorted(params.datasets, key=lambda name: params.datasets[name].role != "source")
    for name in in_order:
        dataset = params.datasets[name]
        lines = [line for line in flips if line["dataset"] == name]
        names = class_names(artifacts, name)
        if not lines or not names:
            continue
        paths = store.read_table(artifacts.manifest(name), columns=["path"])["path"]
        root = dataset.root
        if not remote.is_remote(root):
            root = str(artifacts.root / root)
        groups = []
        for title, prediction in (("now right", "after"), ("now wrong", "before")):
            flipped = [line for line in lines if line[prediction] == line["label"]]
            shown = [flipped[i] for i in evenly(len(flipped), at_most=params.report.gallery)]
            pictures = _pictures(shown, root=root, paths=paths, names=names)
            groups.append({"title": title, "n_images": len(flipped), "pictures": pictures})
        datasets[name] = groups
    return datasets


def _pictures(
    lines: Sequence[Mapping[str, Any]], *, root: str, paths: pa.ChunkedArray, names: Sequence[str]
) -> list[dict[str, str]]:
    """Images with their class, and the classes predicted for it; without those that can no longer be read."""
    pictures = []
    for line in lines:
        image = _data_uri(remote.joined(root, paths[line["row"]].as_py()))
        if image is not None:
            answers = {key: names[line[key]] for key in ("label", "before", "after")}
            pictures.append({"image": image, **answers})
    return pictures


def _data_uri(path: str) -> str | None:
    """A small PNG or JPEG of an image file; None if it can no longer be read."""
    try:
        image = load_rgb(path)
    except DataError:
        return None
    # JPEG would blur an icon; PNG would make a photograph large.
    is_icon = max(image.size) <= THUMBNAIL
    image.thumbnail((2 * THUMBNAIL, 2 * THUMBNAIL), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    if is_icon:
        image.save(data, format="png")
    else:
        image.save(data, format="jpeg", quality=80)
    kind = "png" if is_icon else "jpeg"
    encoded = base64.b64encode(data.getvalue()).decode()
    return f"data:image/{kind};base64,{encoded}"
