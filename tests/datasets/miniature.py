"""Miniatures of CoOp's 15 folders: a few classes, a few tiny images, every file where DATASETS.md puts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from wsoup.datasets.paper import PAPER

Draw = Callable[..., Path]

WNIDS = {"n01440764": "tench", "n01443537": "goldfish", "n01484850": "great_white shark"}
VARIANTS = ("707-320", "A330-200", "Boeing 717")


def build_coop(root: Path, draw: Draw, *, train: int = 3, test: int = 2) -> Path:
    """All 15 under `root`, three classes each (V2 too), `train` and `test` images a class."""
    for name, paper in PAPER.items():
        if paper.splits:
            _json_set(root, draw, name=name, train=train, test=test)
    _imagenet(root / "imagenet", draw, train=train, test=test)
    _aircraft(root / "fgvc_aircraft", draw, train=train, test=test)
    for name in ("imagenetv2", "imagenet_sketch", "imagenet_a", "imagenet_r"):
        place = root / PAPER[name].folder
        for label, wnid in enumerate(WNIDS):
            folder = str(label) if name == "imagenetv2" else wnid
            for i in range(test):
                draw(place / PAPER[name].images / folder / f"{i}.jpeg")
        class_names_file(place)
    return root


def class_names_file(place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "classnames.txt").write_text("".join(f"{wnid} {name}\n" for wnid, name in WNIDS.items()))


def _json_set(root: Path, draw: Draw, *, name: str, train: int, test: int) -> None:
    place, paper = root / PAPER[name].folder, PAPER[name]
    splits: dict[str, list[list[object]]] = {"train": [], "val": [], "test": []}
    for label in range(3):
        for split, count in (("train", train), ("val", 1), ("test", test)):
            for i in range(count):
                path = f"{split}_{label}/image {i}.jpg"
                draw(place / paper.images / path)
                splits[split].append([path, label, f"{name}_class {label}"])
    (place / paper.splits).write_text(json.dumps(splits))


def _imagenet(place: Path, draw: Draw, *, train: int, test: int) -> None:
    for wnid in WNIDS:
        for i in range(train):
            draw(place / "images/train" / wnid / f"{wnid}_{i}.JPEG")
        for i in range(test):
            draw(place / "images/val" / wnid / f"val_{wnid}_{i}.JPEG")
    class_names_file(place)


def _aircraft(place: Path, draw: Draw, *, train: int, test: int) -> None:
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
