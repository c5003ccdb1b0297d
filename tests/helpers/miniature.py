"""Write miniature datasets in every layout: CoOp's 15 folders, Arrow files."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from wsoup.datasets.paper import PAPER

WNIDS = {"n01440764": "tench", "n01443537": "goldfish", "n01484850": "great_white shark"}
VARIANTS = ("707-320", "A330-200", "Boeing 717")


def draw(path: Path, *, size: int = 8) -> Path:
    """A small PNG or JPEG whose colour depends on its name alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shade = zlib.crc32(path.name.encode())
    Image.new("RGB", (size, size), (shade & 255, shade >> 8 & 255, shade >> 16 & 255)).save(path)
    return path


def build_coop(root: Path, *, train: int = 3, test: int = 2) -> Path:
    """All 15 datasets under `root`, three classes each, with `train` and `test` images per class."""
    for name, paper in PAPER.items():
        if paper.splits:
            _json_set(root, name=name, train=train, test=test)
    _imagenet(root / "imagenet", train=train, test=test)
    _aircraft(root / "fgvc_aircraft", train=train, test=test)
    for name in ("imagenetv2", "imagenet_sketch", "imagenet_a", "imagenet_r"):
        place = root / PAPER[name].folder
        for label, wnid in enumerate(WNIDS):
            folder = str(label) if name == "imagenetv2" else wnid
            for i in range(test):
                draw(place / PAPER[name].images / folder / f"{i}.jpeg")
        class_names_file(place)
    return root


def write_pickles(
    folder: Path,
    *,
    shots: int,
    seeds: tuple[int, ...],
    written: Callable[[int], object] = int,
    reverse: bool = False,
) -> None:
    """CoOp's own draws of ImageNet, by their names: lists of Dassl's Datum with paths of another machine.

    Labels are `written` as CoOp writes them, or in another way; images by label and path, or in `reverse`.
    """
    folder.mkdir()
    dassl = types.ModuleType("dassl.data.datasets")
    dassl.Datum = type("Datum", (), {"__module__": dassl.__name__})
    with mock.patch.dict(sys.modules, dict.fromkeys(("dassl", "dassl.data", dassl.__name__), dassl)):
        for seed in seeds:
            train = []
            for label, wnid in enumerate(WNIDS):
                for i in range(seed, seed + shots):
                    train.append(dassl.Datum())
                    about = {
                        "_impath": f"/theirs/imagenet/images/train/{wnid}/{wnid}_{i}.JPEG",
                        "_label": written(label),
                    }
                    vars(train[-1]).update(about, _domain=0, _classname=WNIDS[wnid])
            if reverse:
                train.reverse()
            (folder / f"shot_{shots}-seed_{seed}.pkl").write_bytes(pickle.dumps({"train": train, "val": []}))


def class_names_file(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "classnames.txt").write_text("".join(f"{wnid} {name}\n" for wnid, name in WNIDS.items()))


def _json_set(root: Path, *, name: str, train: int, test: int) -> None:
    place, paper = root / PAPER[name].folder, PAPER[name]
    splits: dict[str, list[list[object]]] = {"train": [], "val": [], "test": []}
    for label in range(3):
        for split, count in (("train", train), ("val", 1), ("test", test)):
            for i in range(count):
                path = f"{split}_{label}/image {i}.jpg"
                draw(place / paper.images / path)
                splits[split].append([path, label, f"{name}_class {label}"])
    (place / paper.splits).write_text(json.dumps(splits))


def _imagenet(place: Path, *, train: int, test: int) -> None:
    for wnid in WNIDS:
        for i in range(train):
            draw(place / "images/train" / wnid / f"{wnid}_{i}.JPEG")
        for i in range(test):
            draw(place / "images/val" / wnid / f"val_{wnid}_{i}.JPEG")
    class_names_file(place)


def _aircraft(place: Path, *, train: int, test: int) -> None:
    place.mkdir(parents=True)
    (place / "variants.txt").write_text("".join(f"{name}\n" for name in VARIANTS))
    number = 1000
    for split, count in (("train", train), ("val", 1), ("test", test)):
        lines = []
        for variant in VARIANTS:
            for _ in range(count):
                number += 1
                draw(place / "images" / f"{number}.jpg")
                lines.append(f"{number} {variant}\n")
        (place / f"images_variant_{split}.txt").write_text("".join(lines))


def png(shade: int) -> bytes:
    """A grey 4 x 4 image."""
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, shade, shade)).save(buffer, "PNG")
    return buffer.getvalue()


def write_huggingface(root: Path) -> Path:
    """The output of `DatasetDict.save_to_disk`: three images in train and in validation, two classes."""
    features = {"image": {"_type": "Image"}, "label": {"names": ["ant", "red_fox"], "_type": "ClassLabel"}}
    for split in ("train", "validation"):
        folder = root / split
        folder.mkdir(parents=True)
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        images = pa.array([{"bytes": png(i), "path": None} for i in range(3)], type=kind)
        table = pa.table({"image": images, "label": pa.array([1, 0, 1], type=pa.int64())})
        file = folder / "data-00000-of-00001.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        state = {"_data_files": [{"filename": file.name}], "_split": split}
        (folder / "state.json").write_text(json.dumps(state))
        (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return root


HUB_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write_hub(
    file: Path,
    *,
    labels: list[int] | list[str],
    names: list[str] | None = None,
    image: str = "image",
    label: str = "label",
    rows_together: int = 2,
    **columns: object,
) -> Path:
    """A Parquet file as the hub serves it: row i holds a grey image of shade i."""
    pictures = pa.array([{"bytes": png(i), "path": f"{i}.png"} for i in range(len(labels))], HUB_IMAGE)
    table = pa.table({image: pictures, label: pa.array(labels), **columns})
    if names is not None:
        features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, row_group_size=rows_together)
    return file
