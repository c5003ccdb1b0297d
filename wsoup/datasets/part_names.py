"""What the name of a folder says if it is no class: that it is a date, a part of a dataset, a split, or a detail."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from wsoup.base.folder_names import CAMEL, WNID
from wsoup.datasets.shape import OF_PHOTOS, WITHOUT_MEANING, WORDS

YEAR = r"(19|20)\d\d"
DATE = re.compile(
    rf"({YEAR}[-_. ](0?[1-9]|1[0-2])([-_. ](0?[1-9]|[12]\d|3[01]))?|{YEAR}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
    rf"|(0?[1-9]|[12]\d|3[01])[-_. ](0?[1-9]|1[0-2])[-_. ]{YEAR})([T _-].*)?"
)
"""``2019-01``, ``2019_01_31``, ``20190131``, ``31.01.2019``, and any of these before a time of day or an event."""
OF_PARTS = {
    *("set", "subset", "part", "batch", "chunk", "shard", "bucket", "fold", "split", "group", "folder", "dir", "data"),
    *("session", "seq", "sequence", "scene", "clip", "video", "take", "run", "round", "trip", "visit", "day", "week"),
    *("cam", "camera", "sensor", "device", "phone", "drone", "robot", "site", "location", "loc", "station", "plot"),
    *("user", "subject", "person", "participant", "annotator", "patient", "client", "domain", "env"),
    *WORDS,
    *OF_PHOTOS,
}
"""Words before the number or the letter of a part, as in ``batch_1``, ``camera 2``, ``siteA``."""
NO_CLASSES = re.compile(
    r"(part|images|imgs|photos|batch|chunk|shard|fold|data)[_ .-]*\d+|(.*[_ .-])?images[_ .-]+part[_ .-]*\d+",
    re.IGNORECASE,
)
"""Parts that are no classes even where they hold photos alone; a person or a camera may be one."""
OF_COPIES = {"original", "originals", "orig", "raw", "augmented", "augmentation", "aug", "processed", "cropped",
    "crops", "resized", "synthetic", "grayscale", "greyscale", "segmented", "color", "colour"}  # fmt: skip
"""Copies of one dataset."""
DETAILS = {*OF_PHOTOS, *OF_COPIES, "front", "back", "rear", "left", "right", "top", "bottom", "side", "above", "below",
    "day", "night", "dawn", "dusk", "morning", "noon", "evening", "indoor", "indoors", "outdoor", "outdoors", "inside",
    "outside", "near", "far", "close", "closeup", "wide", "new", "old", "more", "extra", "other", "others", "misc",
    "various", "unsorted", "spring", "summer", "autumn", "fall", "winter", "monday", "tuesday", "wednesday",
    "thursday", "friday", "saturday", "sunday", "january", "february", "march", "april", "may", "june", "july",
    "august", "september", "october", "november", "december", "rgb", "depth", "ir"}  # fmt: skip
"""Words for photos of one class: how and when these were taken."""
COPY = re.compile(
    r"(?P<first>.+?)[ _-]*(\(\d+\)|[ _-](copy|copies|copie|kopie|copia|backup|bak)([ _-]*\(?\d+\)?)?)", re.IGNORECASE
)
"""``cat (1)``, ``cat - Copy``, ``cat_backup``, as file managers and people call copies."""
NO_CLASS = {"unlabeled", "unlabelled", "unlabeled data", "unsup", "unsorted", "untagged", "to sort", "todo", "tmp",
    "temp", "trash", "new folder", "untitled folder", "neuer ordner", "nouveau dossier", "nueva carpeta", "backup",
    "output", "outputs", "results", "checkpoints", "logs", "cache"}  # fmt: skip
"""Names, in lower case and with blanks, of folders that lie beside those of classes now and then."""
ENDS_IN_A_NUMBER = re.compile(r"\D*\d+")
WORD = re.compile(r"[^\W\d_]+|\d+")


class OfSplit(NamedTuple):
    """A name of two parts, such as ``train_dog`` and ``trainA``: the split, by our name, and the other words."""

    split: str
    rest: Sequence[str]


def is_date(name: str) -> bool:
    """Whether a name is a date; a year alone may be a class.

    >>> [is_date(name) for name in ("2019-01-31", "20190131", "31.1.2019", "2019-07 Rome", "2019", "201", "2012 Tesla")]
    [True, True, True, True, False, False, False]
    """
    return DATE.fullmatch(name) is not None


def is_part(name: str) -> bool:
    """Whether a folder of folders has the name of a part of a dataset.

    >>> [is_part(name) for name in ("2019", "batch_1", "siteA", "Camera 2", "train2017", "original", "dog", "type_1")]
    [True, True, True, True, True, True, False, False]
    """
    if is_date(name) or re.fullmatch(YEAR, name):
        return True
    words = [word.casefold() for word in _words(name)]
    is_numbered = len(words) == 2 and (words[1].isdigit() or len(words[1]) == 1)
    return (len(words) == 1 and words[0] in OF_COPIES) or (is_numbered and words[0] in OF_PARTS)


def is_detail(name: str) -> bool:
    """Whether a folder in a class has a name that is no class: a number at its end, a date, a season, a view.

    >>> [is_detail(name) for name in ("s1", "001", "Front", "2019-01-31", "monday", "images", "dog", "n01440764")]
    [True, True, True, True, True, True, False, False]
    """
    if WNID.match(f"{name}_"):
        return False
    return is_date(name) or ENDS_IN_A_NUMBER.fullmatch(name) is not None or name.casefold() in DETAILS


def copied_from(name: str) -> str | None:
    """The name of which another is a copy's; None if it is none.

    >>> copied_from("cat (1)"), copied_from("cat - Copy (2)"), copied_from("cat_backup"), copied_from("copycat")
    ('cat', 'cat', 'cat', None)
    """
    found = COPY.fullmatch(name)
    return None if found is None else found["first"].rstrip(" _-")


def seems_no_class(name: str) -> bool:
    """Whether a folder has the name of what lies beside classes: ``unlabeled``, ``New folder``."""
    words = " ".join(_words(name)).casefold()
    told = " ".join(word for word in words.split() if word not in WITHOUT_MEANING)
    return words in NO_CLASS or told in NO_CLASS or words in OF_PHOTOS


def in_split(name: str) -> OfSplit | None:
    """The split that a name begins or ends with, and its other words; None if it has none, or two.

    >>> in_split("train_dog"), in_split("testA"), in_split("valley")
    (OfSplit(split='train', rest=['dog']), OfSplit(split='test', rest=['A']), None)
    """
    words = _words(name)
    splits = [word for word in words if word.casefold() in WORDS]
    if len(splits) != 1 or splits[0] not in (words[0], words[-1]):
        return None
    return OfSplit(WORDS[splits[0].casefold()], [word for word in words if word != splits[0]])


def without_meaning(words: Sequence[str]) -> bool:
    """Whether what stands beside a split's word names no class: nothing, a number, or ``images``.

    >>> without_meaning(["2017"]), without_meaning(["images"]), without_meaning(["dog"])
    (True, True, False)
    """
    return all(word.isdigit() or word.casefold() in WITHOUT_MEANING for word in words)


def are_parts(names: Sequence[str], *, inner: Sequence[str]) -> bool:
    """Whether folders that hold folders are parts: by their names, or as numbers around names that are classes."""
    around_names = not all(map(is_detail, inner))
    return all(is_part(name) or (around_names and name.isdigit()) for name in names)


def _words(name: str) -> list[str]:
    """The words and numbers of a name: ``trainA`` has two."""
    return WORD.findall(CAMEL.sub(" ", name))
