"""The same photos in each form in which datasets are distributed: as class folders, shards, lists."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Photos = Mapping[str, Sequence[tuple[str, bytes]]]
"""By split, the class and the bytes of each photo, a class after the other."""


def names_of(photos: Photos) -> list[str]:
    return sorted({name for of_split in photos.values() for name, _ in of_split})


def folders(root: Path, photos: Photos) -> Path:
    for split, of_split in photos.items():
        for i, (name, data) in enumerate(of_split):
            place = root / split / name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{i:03d}.png").write_bytes(data)
    return root


def put(tar: tarfile.TarFile, name: str, data: bytes, **about: object) -> None:
    """Add a file to an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in about.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def webdataset(root: Path, photos: Photos, *, per_shard: int = 5, form: int = tarfile.PAX_FORMAT) -> Path:
    """Shards as CLIP_benchmark has them; modification times with fractions need extended headers."""
    names = names_of(photos)
    for split, of_split in photos.items():
        folder = root / split
        folder.mkdir(parents=True)
        starts = range(0, len(of_split), per_shard)
        for number, start in enumerate(starts):
            with tarfile.open(folder / f"{number}.tar", "w", format=form) as tar:
                for i, (name, data) in enumerate(of_split[start : start + per_shard], start=start):
                    put(tar, f"s{i:07d}.png", data, mtime=1.5)
                    put(tar, f"s{i:07d}.cls", f"{names.index(name)}".encode())
        (folder / "nshards.txt").write_text(f"{len(starts)}\n")
    (root / "classnames.txt").write_text("\n".join(names))
    return root


def flat(folder: Path, of_split: Sequence[tuple[str, bytes]]) -> list[tuple[str, str]]:
    """Photos in one folder, with names that say nothing; file and class of each."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for i, (name, data) in enumerate(of_split):
        (folder / f"x{i:03d}-{folder.name}.png").write_bytes(data)
        rows.append((f"x{i:03d}-{folder.name}.png", name))
    return rows


def write_csv(file: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([header, *rows])


def hugging_face(root: Path, photos: Photos, *, kind: str) -> Path:
    for split, of_split in photos.items():
        rows = flat(root / split, of_split)
        paths, names = zip(*rows, strict=True)
        file = root / split / f"metadata.{kind}"
        if kind == "csv":
            write_csv(file, ("file_name", "label"), rows)
        elif kind == "jsonl":
            lines = [json.dumps({"file_name": path, "label": name, "box": [1]}) for path, name in rows]
            file.write_text("\n".join(lines))
        else:
            pq.write_table(pa.table({"file_name": paths, "label": names}), file)
    return root


def split_lists(root: Path, photos: Photos, *, first: int = 1) -> Path:
    """Lists of domain generalisation."""
    names = names_of(photos)
    for split, of_split in photos.items():
        lines = []
        for i, (name, data) in enumerate(of_split):
            place = root / "photo" / name
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{split}{i:03d}.png").write_bytes(data)
            lines.append(f"photo/{name}/{split}{i:03d}.png {names.index(name) + first}\n")
        (root / f"photo_{split}_kfold.txt").write_text("".join(lines))
    return root


def one_hot(root: Path, photos: Photos) -> Path:
    names = names_of(photos)
    for split, of_split in photos.items():
        rows = [(path, *(int(name == each) for each in names)) for path, name in flat(root / split, of_split)]
        write_csv(root / split / "_classes.csv", ("filename", *names), rows)
    return root


def kaggle(root: Path, photos: Photos) -> Path:
    rows = []
    for split, of_split in photos.items():
        rows += [(path.removesuffix(".png"), name, split) for path, name in flat(root / f"{split}_images", of_split)]
    write_csv(root / "labels.csv", ("id", "breed", "split"), rows)
    write_csv(root / "sample_submission.csv", ("id", *names_of(photos)), [(rows[0][0], 0.5, 0.5)])
    return root


def coco(root: Path, photos: Photos) -> Path:
    names = names_of(photos)
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(names)]
    for split, of_split in photos.items():
        rows = flat(root / split, of_split)
        images = [{"id": i, "file_name": path} for i, (path, _) in enumerate(rows)]
        boxes = [{"image_id": i, "category_id": names.index(name) + 1} for i, (_, name) in enumerate(rows)]
        held = {"images": images, "annotations": boxes + boxes[:2], "categories": categories}
        (root / split / "_annotations.coco.json").write_text(json.dumps(held))
    return root


def cub(root: Path, photos: Photos) -> Path:
    """The lists of CUB-200-2011, beside the folder of class folders and that of attributes."""
    names = names_of(photos)
    lines: dict[str, list[str]] = {"images": [], "image_class_labels": [], "train_test_split": []}
    for split, of_split in photos.items():
        for i, (name, data) in enumerate(of_split):
            number = len(lines["images"]) + 1
            path = root / "images" / name / f"{split}{i:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            lines["images"].append(f"{number} {name}/{path.name}")
            lines["image_class_labels"].append(f"{number} {names.index(name) + 1}")
            lines["train_test_split"].append(f"{number} {int(split == 'train')}")
    lines["classes"] = [f"{number} {name}" for number, name in enumerate(names, start=1)]
    lines["bounding_boxes"] = [f"{number} 60.0 27.0 325.0 304.0" for number in range(1, len(lines["images"]) + 1)]
    (root / "attributes").mkdir()
    for file, of_file in lines.items():
        (root / f"{file}.txt").write_text("\n".join(of_file) + "\n")
    return root


FORMS = {
    "webdataset": webdataset,
    "webdataset, GNU": lambda root, photos: webdataset(root, photos, form=tarfile.GNU_FORMAT),
    "webdataset, ustar": lambda root, photos: webdataset(root, photos, form=tarfile.USTAR_FORMAT),
    "metadata.csv": lambda root, photos: hugging_face(root, photos, kind="csv"),
    "metadata.jsonl": lambda root, photos: hugging_face(root, photos, kind="jsonl"),
    "metadata.parquet": lambda root, photos: hugging_face(root, photos, kind="parquet"),
    "lists from 1": split_lists,
    "lists from 0": lambda root, photos: split_lists(root, photos, first=0),
    "_classes.csv": one_hot,
    "labels.csv": kaggle,
    "coco": coco,
    "cub": cub,
}


def aircraft(root: Path, photos: Photos, *, what: str = "variant") -> Path:
    """FGVC-Aircraft's data/: a list of each split, and of the training images with those for validation."""
    (root / "images").mkdir(parents=True)
    for split, of_split in photos.items():
        lines = []
        for i, (name, data) in enumerate(of_split):
            number = f"{len(split)}{i:06d}"
            (root / f"images/{number}.jpg").write_bytes(data)
            lines.append(f"{number} {name}\n")
        for file in (split, "trainval" if split == "train" else "test"):
            (root / f"images_{what}_{file}.txt").write_text("".join(lines))
    return root / f"images_{what}_train.txt"


def pets(root: Path, photos: Photos) -> Path:
    """Oxford-IIIT Pets' images/ and annotations/, with masks of the same names."""
    for folder in ("images", "annotations/trimaps"):
        (root / folder).mkdir(parents=True)
    names = names_of(photos)
    for split, of_split in photos.items():
        lines = []
        for i, (name, data) in enumerate(of_split):
            image = f"{name}_{len(split)}{i:03d}"
            (root / f"images/{image}.jpg").write_bytes(data)
            (root / f"annotations/trimaps/{image}.png").write_bytes(data)
            lines.append(f"{image} {names.index(name) + 1} 1 1\n")
        (root / f"annotations/{'trainval' if split == 'train' else split}.txt").write_text("".join(lines))
    return root / "annotations/trainval.txt"


def places(root: Path, photos: Photos) -> Path:
    """Places365's lists, with the folders of its small images."""
    names = names_of(photos)
    for split, of_split in photos.items():
        lines = []
        for i, (name, data) in enumerate(of_split):
            path = (
                f"/{name[0]}/{name.replace('_', '/')}/{i:08d}.jpg" if split == "train" else f"Places365_val_{i:08d}.jpg"
            )
            file = root / ("data_256" if split == "train" else "val_256") / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            lines.append(f"{path} {names.index(name)}\n")
        (root / f"places365_{'train_standard' if split == 'train' else 'val'}.txt").write_text("".join(lines))
    categories = [f"/{name[0]}/{name.replace('_', '/')} {i}\n" for i, name in enumerate(names)]
    (root / "categories_places365.txt").write_text("".join(categories))
    return root / "places365_train_standard.txt"


def split_file(root: Path, photos: Photos) -> Path:
    """CoOp's split file, beside the folder of the images."""
    names = names_of(photos)
    held = {}
    for split, of_split in photos.items():
        held[split] = [(path, names.index(name), name) for path, name in flat(root / "images", of_split)]
        for path, _, _ in held[split]:
            (root / "images" / path).rename(root / "images" / f"{split}{path}")
        held[split] = [(f"{split}{path}", label, name) for path, label, name in held[split]]
    (root / "split_zhou_Mine.json").write_text(json.dumps(held))
    return root / "split_zhou_Mine.json"


LISTS = {"FGVC-Aircraft": aircraft, "Oxford-IIIT Pets": pets, "Places365": places, "CoOp's splits": split_file}
"""Forms whose list is named itself."""
