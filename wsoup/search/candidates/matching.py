"""Which key of a file of texts is probably which class: a proposal for people, written as a list of pairs.

A key that `gpt_classes.matched` finds by itself needs no pair. A pair is certain if both names have the same words,
whatever their order, number and case, without articles, and no other key or class has these words: "AM General Hummer
SUV 2000" is "2000 AM General Hummer SUV", "apartment building (outdoor)" is "outdoor apartment building". All else is
doubtful, and is left to whoever knows the classes.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from wsoup.search.candidates.gpt_classes import folded

LINKS = frozenset(("a", "an", "the", "of", "and"))
"""Words that tell no two classes apart."""
NEAREST = 3
Form = Callable[[str], object]
"""What is equal of two spellings of one name."""
_WORD = re.compile(r"[^\W_]+[+#]*")
HEAD = """# key, tab, class: which key of {file} is which class (datasets.<name>.names in params.yaml).
# Lines that begin with # are not read.
"""


class Doubt(NamedTuple):
    """A class whose key is not certain, and the nearest keys that no class has, the nearest first."""

    class_name: str
    nearest: list[str]


class Pairs(NamedTuple):
    """What is proposed.

    Attributes:
        by_itself: classes whose key needs no pair.
        certain: key of each class that has the same words.
        doubtful: the other classes.
    """

    by_itself: list[str]
    certain: dict[str, str]
    doubtful: list[Doubt]


def proposed_pairs(keys: Sequence[str], *, class_names: Sequence[str]) -> Pairs:
    """Pair the keys of a file with C classes."""
    by_itself = _unique_pairs(keys, class_names, form_of=folded)
    rest_of_keys = [key for key in keys if key not in by_itself.values()]
    rest = [name for name in class_names if name not in by_itself]
    certain = _unique_pairs(rest_of_keys, rest, form_of=words_of)
    free = [key for key in rest_of_keys if key not in certain.values()]
    doubtful = [Doubt(name, nearest_keys(name, keys=free)) for name in rest if name not in certain]
    return Pairs([*by_itself], certain, doubtful)


def _unique_pairs(keys: Iterable[str], class_names: Iterable[str], *, form_of: Form) -> dict[str, str]:
    """Class -> the only key of the same form, if it is the only such class."""
    keys_by_form = _grouped(keys, form_of=form_of)
    pairs = {}
    for form, names in _grouped(class_names, form_of=form_of).items():
        same = keys_by_form.get(form, [])
        if len(names) == len(same) == 1:
            pairs[names[0]] = same[0]
    return pairs


def _grouped(names: Iterable[str], *, form_of: Form) -> dict[object, list[str]]:
    groups: dict[object, list[str]] = {}
    for name in names:
        groups.setdefault(form_of(name), []).append(name)
    return groups


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in alphabetical order, in the singular, without articles.

    >>> words_of("Head of a Crocodile"), words_of("crocodile_heads"), words_of("pink and yellow dahlia")
    (('crocodile', 'head'), ('crocodile', 'head'), ('dahlia', 'pink', 'yellow'))
    """
    text = unicodedata.normalize("NFC", name).casefold()
    words = [_singular(word) for word in _WORD.findall(text)]
    return tuple(sorted(word for word in words if word not in LINKS))


def _singular(word: str) -> str:
    """A word without the ending of a plural.

    >>> [_singular(word) for word in ("cats", "cherries", "boxes", "glass", "bus")]
    ['cat', 'cherry', 'box', 'glass', 'bus']
    """
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ses", "xes", "ches", "shes")) and len(word) > 4:
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def nearest_keys(name: str, *, keys: Sequence[str]) -> list[str]:
    """The three keys that share most words with a name, or else look most like it."""
    own = set(words_of(name))

    def likeness(key: str) -> tuple[float, float]:
        words = set(words_of(key))
        shared = len(own & words) / max(1, len(own | words))
        return shared, difflib.SequenceMatcher(None, folded(name), folded(key)).ratio()

    return sorted(keys, key=likeness, reverse=True)[:NEAREST]


def as_text(pairs: Pairs, *, file: str) -> str:
    """The pairs as a file that `names_of_keys` reads: certain ones, then doubtful ones as comments."""
    lines = [HEAD.format(file=file)]
    lines += [f"{_written(key)}\t{name}\n" for name, key in pairs.certain.items()]
    if pairs.doubtful:
        lines.append("# Doubtful: of a line that is right, remove the #; of another, correct the key, too.\n")
    for doubt in pairs.doubtful:
        first, *others = map(_written, doubt.nearest or ["?"])
        or_else = f"\tor: {' | '.join(others)}" if others else ""
        lines.append(f"# {first}\t{doubt.class_name}{or_else}\n")
    return "".join(lines)


def _written(key: str) -> str:
    r"""A key as its line begins, which is a comment after ``#``.

    >>> print(_written("#1 shoe"), _written("shoe"))
    \#1 shoe shoe
    """
    return f"\\{key}" if key.lstrip("\\").startswith("#") else key


def in_words(pairs: Pairs) -> str:
    """What was found, in a line."""
    n_classes = len(pairs.by_itself) + len(pairs.certain) + len(pairs.doubtful)
    said = f"{len(pairs.by_itself)} of {n_classes} classes need no line, {len(pairs.certain)} have one"
    if not pairs.doubtful:
        return f"{said}; nothing is left to do"
    listed = ", ".join(repr(doubt.class_name) for doubt in pairs.doubtful[:NEAREST])
    more = ", ..." if len(pairs.doubtful) > NEAREST else ""
    verb = "is" if len(pairs.doubtful) == 1 else "are"
    return f"{said}, {len(pairs.doubtful)} {verb} doubtful ({listed}{more}): decide on them in the file"
