"""Class names as people write them in names of folders, and as words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

SHOWN = 5
"""Changed names that are listed in a message."""
CAMEL = re.compile(r"(?<=[^\W\d_A-Z]{2})(?=[A-Z])|(?<=[A-Z]{2})(?=[A-Z][a-z])")
"""Between two words of ``AnnualCrop`` or ``XMLFile``, but not in ``iPhone`` or ``TVmonitor``."""
WNID = re.compile(r"^n\d{8}[_ .-]+")
"""WordNet's number of an ImageNet class."""
GRADE = re.compile(r"[_ ]easy$")
"""Caltech-101's ``Faces_easy``."""
FIRST_NUMBER = re.compile(r"^(\d+[_ .]+|0\d*-+|\[\d+\]|\(\d+\))[_ .-]*")
"""CUB's ``001.Albatross``, ``01-cat``, ``(1) cat``; but ``7-up`` is a word."""
LAST_NUMBER = re.compile(r"[_ .-]*(\[\d+\]|\(\d+\)|(?<=[_ .-])\d+)$")
"""A copy's number: ``cat (1)``, ``cat-2``."""


BETWEEN_WORDS = re.compile(r"(?<=\w)[-\u2010-\u2015](?=\w)")
"""A hyphen or a dash inside a name; ``-1`` begins with a sign."""


def key(name: str) -> str:
    """What two spellings of a class name have in common that a reader can hardly tell apart.

    Unicode form, case, separators, blanks, invisible characters and camel case are left aside. A name without letters
    and digits is its own key, and so is a single letter, whose case is all that it says.

    >>> key("AnnualCrop") == key("annual_crop"), key("cafe" + chr(0x301)) == key("café"), key("type 1") == key("type_2")
    (True, True, False)
    >>> key("T-shirt ") == key("t shirt"), key("-1") == key("1"), key("a") == key("A"), key(".") == key("_")
    (True, False, False, False)
    """
    visible = "".join(letter for letter in composed(name) if unicodedata.category(letter) != "Cf")
    words = " ".join(BETWEEN_WORDS.sub(" ", _words(visible)).split())
    if len(words) < 2:
        return words or composed(name)
    return words.casefold()


def composed(name: str) -> str:
    """A name in the Unicode form that most systems write (NFC); macOS's archives have another."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def forms_line(names: Iterable[str]) -> str:
    """A line about names that are there composed and decomposed, which are read as one; "" if there are none.

    >>> forms_line(["cafe" + chr(0x301), "caf" + chr(0xe9), "bar"])
    "read as one class though written in two Unicode forms, composed and decomposed: 'café'"
    """
    different = {*names}
    twice = sorted({composed(name) for name in different if composed(name) != name and composed(name) in different})
    if not twice:
        return ""
    shown = ", ".join(map(repr, twice[:SHOWN]))
    if len(twice) > SHOWN:
        shown += f" and {len(twice) - SHOWN} more"
    return f"read as one class though written in two Unicode forms, composed and decomposed: {shown}"


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that differ, though their `key` is one; None if there are none.

    >>> alike(["dog", "cat", "Dog "])
    ('dog', 'Dog ')
    """
    first_of: dict[str, str] = {}
    for name in names:
        first = first_of.setdefault(key(name), name)
        if first != name:
            return first, name
    return None


def tidy(name: str) -> str:
    """One folder's name in words, unless no word would be left.

    >>> tidy("AnnualCrop"), tidy("001.Black_footed_Albatross"), tidy("Faces_easy"), tidy("42")
    ('annual crop', 'Black footed Albatross', 'Faces', '42')
    >>> tidy("n01440763_tench"), tidy("cat (1)"), tidy("cat-2"), tidy("7-up"), tidy("TVmonitor"), tidy("iPhone")
    ('tench', 'cat', 'cat', '7-up', 'TVmonitor', 'iPhone')
    >>> tidy("01-cat"), tidy("(2) cat"), tidy("cat [3]"), tidy("F-16"), tidy("86_bus"), tidy("n01440763")
    ('cat', 'cat', 'cat', 'F-16', 'bus', 'n01440763')
    """
    bare = name
    for noise in (WNID, GRADE, FIRST_NUMBER, LAST_NUMBER):
        bare = noise.sub("", bare)
    letters = [letter for letter in bare if letter.isalpha()]
    # ``F-16`` would leave one letter, which is a word only in Chinese and the like.
    is_word = len(letters) > 1 or not bare.isascii()
    if letters and is_word:
        return _words(bare)
    return _words(name)


def _words(name: str) -> str:
    name = composed(name)
    split = CAMEL.sub(" ", name)
    # In a name without spaces, capitals only mark where words begin.
    if split != name and " " not in name:
        split = split.lower()
    return " ".join(re.sub(r"[_.]+", " ", split).split())


def proposed(folders: Sequence[str]) -> list[str]:
    """A class name for each folder; where two folders would get the same one, they keep their words.

    >>> proposed(["Faces", "Faces_easy", "car_side"])
    ['Faces', 'Faces easy', 'car side']
    """
    tidied = [tidy(folder) for folder in folders]
    count = Counter(name.casefold() for name in tidied)
    names = []
    for folder, name in zip(folders, tidied, strict=True):
        if count[name.casefold()] > 1:
            name = " ".join(folder.replace("_", " ").split())
        names.append(name)
    return names


def changes(names: Mapping[str, str]) -> str:
    """What is named otherwise than it was (folder -> name), for a message; empty if nothing is."""
    changed = [f"{folder} -> {name}" for folder, name in names.items() if name != folder]
    listed_changes = ", ".join(changed[:SHOWN])
    if len(changed) > SHOWN:
        listed_changes += f" and {len(changed) - SHOWN} more"
    return listed_changes
