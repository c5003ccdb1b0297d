"""The shape of a folder of labelled photos: which of its folders are splits, which are classes, and which are neither.

Splits are folders of class folders with a usual name in any case, such as ``Train``, ``valid``, ``testing`` or
``test_set``; or two or more that differ by such a word, as ``seg_train`` and ``seg_test`` do. One that holds itself
once more (``seg_train/seg_train``) is looked into. A folder of that name with photos alone is a class, unless another
folder is a split: there are photographs of trains.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wsoup.base.errors import DataError
from wsoup.datasets.walk import (
    SPLIT_FOLDERS,
    broken_links,
    has_photos,
    holds_photos_itself,
    require_folder,
    subfolders,
)

WORDS = {
    "train": "train",
    "training": "train",
    "trainset": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "valset": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "testset": "test",
}
"""Words for a split, in lower case, and our name of it."""
NUMBERED_SPLIT = re.compile(r"(?P<word>[A-Za-z]+)[\s_.-]*\d+")
WITHOUT_MEANING = {"set", "data", "dataset", "split", "images", "image", "imgs", "img", "photos", "pictures"}
"""Words beside them that say nothing."""
OF_PHOTOS = {"images", "image", "imgs", "img", "jpegimages", "photos", "pictures", "jpg", "jpeg"}
"""Names, in lower case, of the one folder in which downloaded datasets keep all photos, or all of a class."""


@dataclass(frozen=True)
class Shape:
    """What a folder's folders are.

    Attributes:
        base: the folder.
        splits: by our names, the folders that hold class folders; empty if class folders lie in `base` itself.
        flat: by our names, folders named like a split that hold photos, but no class folders.
        beside: names of the other folders where there are splits.
    """

    base: Path
    splits: Mapping[str, Path]
    flat: Mapping[str, Path]
    beside: Sequence[str]

    @property
    def holders(self) -> Mapping[str, Path]:
        """The folders that hold class folders, by split; a folder without splits is one for testing."""
        return self.splits or {"test": self.base}

    def taken_for(self, test_split: str) -> str:
        """`taken` for a folder whose split `test_split` is tested on, as params.yaml says."""
        return self.taken(roles={"train": "to learn from", test_split: "to test on"})

    def taken(self, *, roles: Mapping[str, str]) -> str:
        """A line on what is taken for classes and what for splits.

        Args:
            roles: what each split that is read is for, such as ``to test on``.
        """
        if not self.splits:
            return f"{self.base}: its folders are the classes"
        parts = []
        for split, folder in self.splits.items():
            role = roles.get(split, "not read")
            parts.append(f"{folder.relative_to(self.base).as_posix()}/ is {role}")
        return f"{self.base}: {', '.join(parts)}; the folders in there are the classes"


def shape_of(root: str | Path) -> Shape:
    """The shape of a folder.

    Raises:
        MissingError: no such folder.
        DataError: two folders are the same split, or a split is a link that leads nowhere.
    """
    base = require_folder(root)
    top = subfolders(base)
    _check_links(base, top=top)
    named = named_like_splits(top)
    splits: dict[str, Path] = {}
    without_classes: dict[str, Path] = {}
    for split in SPLIT_FOLDERS:
        with_folders = [name for name in named.get(split, ()) if subfolders(base / name)]
        if len(with_folders) > 1:
            both = " and ".join(f"{base / name}" for name in with_folders[:2])
            raise DataError(f"{both} would both be split {split!r}; merge them, or move one elsewhere")
        for name in with_folders:
            splits[split] = _looked_into(base / name, split=split)
        for name in named.get(split, ()):
            if name not in with_folders and has_photos(base / name):
                without_classes[split] = base / name
    if _is_a_class(splits, base=base, top=top):
        splits = {}
    for split, folder in _without_own_classes(splits).items():
        without_classes[split] = folder
        del splits[split]
    if not splits:
        return Shape(base, {}, {}, ())
    used = {folder.relative_to(base).parts[0] for folder in [*splits.values(), *without_classes.values()]}
    beside = [name for name in top if name not in used]
    _check_numbered(base, beside=beside, splits=splits)
    return Shape(base, splits, without_classes, beside)


def _check_numbered(base: Path, *, beside: Sequence[str], splits: Mapping[str, Path]) -> None:
    """Refuse ``train_1/`` and ``train_2/`` beside ``test/``, which would be left out."""
    for name in beside:
        found = NUMBERED_SPLIT.fullmatch(name)
        split = WORDS.get(found["word"].casefold()) if found else None
        if split is not None and split not in splits and subfolders(base / name):
            raise DataError(
                f"{base / name} would be a part of split {split!r}, which has no folder of its own; merge its parts "
                f"into {base / split}"
            )


def _check_links(base: Path, *, top: Sequence[str]) -> None:
    """Refuse a folder that is a split by its name, and a link that leads nowhere: others would be tested on."""
    broken = broken_links(base)
    if not broken:
        return
    for names in named_like_splits([*top, *broken]).values():
        for name in names:
            if name in broken:
                raise DataError(f"{base / name} is a link that leads nowhere; repair or remove it")


def named_like_splits(names: Sequence[str]) -> dict[str, list[str]]:
    """Names of folders by the split that they seem to be."""
    plain: dict[str, list[str]] = {}
    by_others: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for name in names:
        words = [word for word in re.split(r"[\s_.-]+", name.casefold()) if word]
        telling = [word for word in words if word in WORDS]
        others = tuple(word for word in words if word not in WORDS and word not in WITHOUT_MEANING)
        if len(telling) != 1:
            continue
        group = by_others.setdefault(others, {}) if others else plain
        group.setdefault(WORDS[telling[0]], []).append(name)
    if plain:
        return plain
    # Alone, such a name is a word like another: "bullet train".
    return next((group for group in by_others.values() if len(group) > 1), {})


def _looked_into(folder: Path, *, split: str) -> Path:
    """The folder itself, or the only one in it that has its name once more."""
    inner = subfolders(folder)
    if len(inner) != 1 or holds_photos_itself(folder):
        return folder
    same_split = named_like_splits(inner).get(split) == inner
    same_name = inner[0].casefold() == folder.name.casefold()
    if (same_split or same_name) and subfolders(folder / inner[0]):
        return folder / inner[0]
    return folder


def _is_a_class(splits: Mapping[str, Path], *, base: Path, top: Sequence[str]) -> bool:
    """Whether the only folder that is named a little like a split lies among folders of photos, as ``Training`` may."""
    if len(splits) != 1:
        return False
    (folder,) = splits.values()
    if folder.name.casefold() in SPLIT_FOLDERS:
        return False
    return any(holds_photos_itself(base / name) for name in top if base / name != folder)


def _without_own_classes(splits: Mapping[str, Path]) -> dict[str, Path]:
    """Splits whose photos lie in one folder such as ``images``, which is no class of the training photos."""
    train = splits.get("train")
    if train is None:
        return {}
    classes = subfolders(train)
    flat = {}
    for split, folder in splits.items():
        inner = subfolders(folder)
        if split != "train" and len(inner) == 1 and inner[0].casefold() in OF_PHOTOS and inner[0] not in classes:
            flat[split] = folder
    return flat
