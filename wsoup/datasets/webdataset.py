"""WebDataset, as CLIP_benchmark and img2dataset write it: tar archives whose files belong together by their names.

``train/0.tar`` and ``test/0.tar`` hold ``KEY.jpg`` with ``KEY.cls``, a number or a name, or with ``KEY.json`` or
``KEY.txt``; ``classnames.txt`` beside them names the numbers, one class a line. Shards without such folders are divided
by words in their names, or else one split. They are read by offset and never unpacked (`wsoup.disk.tar_files`).
"""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wsoup.base.errors import DataError
from wsoup.core.prompts import clean_class_name
from wsoup.datasets.cells import CLASS_NAMES, Cells, Roles, has_numbers
from wsoup.datasets.class_lines import stripped_lines
from wsoup.datasets.left_out import in_words
from wsoup.datasets.list_classes import classes_of
from wsoup.datasets.listing import Listing, some
from wsoup.datasets.names_file import read_names
from wsoup.datasets.photo_files import IMAGE_SUFFIXES, ending, is_hidden
from wsoup.datasets.shape import named_like_splits
from wsoup.datasets.tables import listing_of
from wsoup.datasets.walk import SPLIT_FOLDERS, has_photos, require_folder, subfolders
from wsoup.disk.files import shown
from wsoup.disk.tar_files import Entry, entries, place_of

LABELS = (".cls", ".json", ".txt")
"""What says the class of an image, the first that is there and does."""
IN_JSON = ("label", "cls", "class", *CLASS_NAMES)
"""Keys of a JSON label, the first that is there."""
LARGEST_LABEL = 1 << 20
"""Bytes of a label; a caption has fewer."""
NAMES = "classnames.txt"
TEMPLATES = "zeroshot_classification_templates.txt"
BESIDE = ".txt"
"""What may name the class once more beside another label, or be a caption."""
KEY = re.compile(r"^(?P<key>(?:.*/)?[^/.][^/.]*)\.(?P<kind>[^/]+)$", re.DOTALL)
"""What belongs together has a key in common: all up to the first period of the name."""
NUMBER = re.compile(r"(\d+)")
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def shards(base: Path) -> dict[str, list[Path]]:
    """The shards of each split, by our names, in the order of their numbers; none if this is no such folder.

    Shards that name no split are "test", as a folder of classes alone is.

    Raises:
        DataError: compressed shards, two folders of one split, or another number of shards than nshards.txt says.
    """
    found: dict[str, list[Path]] = {}
    folders_of = named_like_splits(subfolders(base))
    for split, names in folders_of.items():
        for name in names:
            of_folder = _shards_in(base / name)
            if of_folder and split in found:
                raise DataError(f"{found[split][0].parent} and {base / name} would both be split {split!r}; move one")
            if of_folder:
                found[split] = of_folder
    if found:
        for names in folders_of.values():
            for name in names:
                _check_plain(base / name)
        return {split: found[split] for split in SPLIT_FOLDERS if split in found}
    here = _shards_in(base)
    by_stem: dict[str, list[Path]] = {}
    for path in here:
        by_stem.setdefault(NUMBER.sub("", path.stem), []).append(path)
    named = {}
    for split, stems in named_like_splits([*by_stem]).items():
        named[split] = [path for stem in stems for path in by_stem[stem]]
    if here and sum(map(len, named.values())) < len(here):
        return {"test": here}
    return named


def _shards_in(folder: Path) -> list[Path]:
    """The shards in one folder; archives beside folders of photos are none."""
    if any(has_photos(folder / name) for name in subfolders(folder)):
        return []
    if (folder / "nshards.txt").is_file():
        _check_plain(folder)
    plain = [path for path in folder.glob("*.tar") if path.is_file() and not is_hidden(path.name)]
    number_of_shards = folder / "nshards.txt"
    if plain and number_of_shards.is_file():
        said = stripped_lines(number_of_shards, hint="")
        if said != [str(len(plain))]:
            raise DataError(
                f"{number_of_shards} says {' '.join(said)[:40]!r}, and {folder} holds {len(plain)} shards; download "
                "those that are missing"
            )
    return sorted(plain, key=lambda path: [part.zfill(12) for part in NUMBER.split(path.name)])


def _check_plain(folder: Path) -> None:
    """Refuse compressed shards, which would be passed over."""
    if any(path.name.endswith(COMPRESSED) for path in folder.glob("*.t*")):
        raise DataError(f"{folder} holds compressed shards, and shards are read by offset; uncompress them (gunzip)")


def read(root: str, *, wanted: Collection[str], class_names: str | None = None) -> Listing:
    """List the images of a folder of shards.

    Args:
        root: the folder.
        wanted: the splits to list; if there is none of them, all, so that the caller's error can name them.
        class_names: a file of class names in label order; None: classnames.txt, if it is there.

    Raises:
        DataError: a shard that is damaged or cut off; an image without a label; numbers without names, or outside of
            them; captions; no images.
    """
    found = shards(require_folder(root))
    listed = {split: files for split, files in found.items() if split in wanted} or found
    cells, splits = read_shards(listed, origin=root)
    names = class_names or names_file(Path(root), found=found)
    labels = cells.of(cells.roles.label)
    if names is None and has_numbers(labels):
        raise DataError(
            f"{root}: labels are numbers, such as {labels[0]!r}, and no {NAMES} names them; put one there, one class a "
            "line, or give it as class_names"
        )
    _check_texts(cells, names=names)
    return listing_of(cells, splits, root=root, wanted={*listed}, class_names=names)


def _check_texts(cells: Cells, *, names: str | None) -> None:
    """Refuse an image whose KEY.txt is another class than its label; a caption is none."""
    texts = cells.columns[BESIDE]
    if not any(texts):
        return
    named = None if names is None else read_names(names)
    classes = classes_of(cells, named=named, named_in=names or "", read_rows=range(len(texts)))
    labels = cells.of(cells.roles.label)
    class_of = {name: name for name in classes.names}
    class_of |= {label: classes.names[position] for label, position in zip(labels, classes.labels, strict=True)}
    for i, (label, text) in enumerate(zip(labels, texts, strict=True)):
        name = class_of.get(text) or class_of.get(clean_class_name(text), class_of[label])
        if text and name != class_of[label]:
            raise DataError(
                f"{cells.row(i)}: its label {label!r} means {class_of[label]!r}, but its {BESIDE} is {text!r}; correct "
                "one of them"
            )


def names_file(root: Path, *, found: Mapping[str, Sequence[Path]]) -> str | None:
    """The file of class names in a folder of shards, or beside its shards."""
    for folder in dict.fromkeys([root, *(files[0].parent for files in found.values())]):
        if (folder / NAMES).is_file():
            return str(folder / NAMES)
    return None


def templates_file(root: str) -> Path | None:
    """The file of the dataset's own templates, one a line with ``{c}`` for the class name; None without one."""
    file = Path(root) / TEMPLATES
    return file if file.is_file() else None


def read_shards(
    listed: Mapping[str, Sequence[Path]], *, origin: str, may_lack: bool = False
) -> tuple[Cells, list[str]]:
    """The images of some shards with their labels, and the split of each; raises as `read`.

    Args:
        listed: the shards of each split.
        origin: what holds them, for messages.
        may_lack: whether images may have no label, which is "" then, or a caption.
    """
    labels: list[str] = []
    beside: list[str] = []
    paths: list[str] = []
    splits: list[str] = []
    others: Counter[str] = Counter()
    for split, files in listed.items():
        for file in files:
            for image, label, text in _samples(file, others=others, may_lack=may_lack):
                paths.append(f"{file}/{place_of(image)}")
                labels.append(label)
                beside.append(text)
                splits.append(split)
    if not paths:
        raise DataError(f"{origin}: its shards hold no images that are decoded; expected KEY.jpg and KEY.cls")
    different = {*labels}
    if not may_lack and len(labels) > 3 and 2 * len(different) > len(labels) and not has_numbers(labels):
        raise DataError(
            f"{origin}: {len(labels):,} images have {len(different):,} texts, such as {some(sorted(different)[:1])}: "
            "these are captions and not classes; write the classes as KEY.cls"
        )
    n_files = ", ".join(f"{len(files)} of {split}" for split, files in listed.items())
    notes = [f"shards of WebDataset: {n_files}", *([in_words(others)] if others else [])]
    columns = {"label": labels, BESIDE: beside}
    return Cells(origin, columns, paths, Roles(None, "label", None, None), (), notes), splits


def _samples(shard: Path, *, others: Counter[str], may_lack: bool) -> Iterator[tuple[Entry, str, str]]:
    """Each image of a shard, its label and the text of its .txt; the endings under a key without one are counted."""
    with open(shard, "rb") as opened:
        yield from _labelled(shard, opened.fileno(), others=others, may_lack=may_lack)


def _labelled(shard: Path, opened: int, *, others: Counter[str], may_lack: bool) -> Iterator[tuple[Entry, str, str]]:
    done: set[str] = set()
    for key, files in _by_whole_key(shard):
        images = [kind for kind in files if kind in IMAGE_SUFFIXES]
        if len(images) > 1:
            raise DataError(f"{shard}: {shown(key)!r} has two images, {' and '.join(images)}; keep one")
        if key in done:
            raise DataError(
                f"{shard}: {shown(key)!r} is there twice, with others between; keep one, or put its files side by side"
            )
        if not images:
            others.update([*files])
            continue
        done.add(key)
        said = (_label(opened, files[kind], kind=kind, shard=shard) for kind in LABELS if kind in files)
        label = next(filter(None, said), "")
        if not label and not may_lack:
            raise DataError(f"{shard}: image {shown(key)!r} has no label; expected {shown(key)}.cls beside it")
        text = _label(opened, files[BESIDE], kind=BESIDE, shard=shard) if BESIDE in files else ""
        yield files[images[0]], label, text


def _by_key(shard: Path) -> Iterator[tuple[str, dict[str, Entry]]]:
    """The files of each key, which lie side by side, by their ending."""
    key = ""
    files: dict[str, Entry] = {}
    for entry in entries(str(shard)):
        found = KEY.match(entry.name.removeprefix("./"))
        if found is None or is_hidden(found["key"].rpartition("/")[2]):
            continue
        if found["key"] != key:
            if files:
                yield key, files
            key = found["key"]
            files = {}
        kind = f".{found['kind'].lower()}"
        if kind in files:
            raise DataError(f"{shard}: {shown(key + kind)!r} is there twice; keep one of them")
        files[kind] = entry
    if files:
        yield key, files


def _by_whole_key(shard: Path) -> Iterator[tuple[str, dict[str, Entry]]]:
    """The same, with keys up to the last period where these alone show an image: ``v1.2.jpg`` and ``v1.2.cls``."""
    for key, files in _by_key(shard):
        if not {*files} & IMAGE_SUFFIXES and any(ending(kind) in IMAGE_SUFFIXES for kind in files):
            by_stem: dict[str, dict[str, Entry]] = {}
            for kind, entry in files.items():
                stem, last = os.path.splitext(key + kind)
                by_stem.setdefault(stem, {})[last] = entry
            yield from by_stem.items()
        else:
            yield key, files


def _label(opened: int, entry: Entry, *, kind: str, shard: Path) -> str:
    """What a file says of the class; "" if it says nothing."""
    data = os.pread(opened, min(entry.size, LARGEST_LABEL), entry.offset)
    try:
        text = data.decode("utf-8-sig").strip()
        if kind != ".json":
            return text
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{shard}: {shown(entry.name)!r} is no label ({error}); write it again") from None
    if isinstance(value, dict):
        value = next((value[name] for name in IN_JSON if name in value), None)
    # A number as a table with gaps has it.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
