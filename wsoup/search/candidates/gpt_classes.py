"""Which key of a GPT-descriptor file belongs to which class: by its name, never by position.

A key that is exactly the class's name is taken first. Otherwise a key is taken that differs from it only in case, in
Unicode form and in what stands between words (`folded`), if it is the only one, and no other class takes it.
"""

import difflib
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from wsoup.base.errors import PoolError, shown_value
from wsoup.base.validation import nearest
from wsoup.params.inputs import ClassTextFile
from wsoup.search.candidates.gpt import read_descriptors
from wsoup.search.pools.lists import numbered

NAMED = "gpt_descriptors"
"""The key of a dataset whose file may have other keys for some classes, which `gpt_names` names."""
_ALIASES = ({"newt", "eft", "smoothnewt"}, {"tights", "maillot"}, {"missile", "projectile"}, {"sunglasses", "sunglass"})
"""Names for the same ImageNet class in different lists of its 1,000 names, folded."""
_ESCAPED = re.compile(r"\\+#")
"""How a key of a file of pairs begins that begins with ``#``, or with backslashes and one, itself."""
_BETWEEN_WORDS = re.compile(r"(?<=\w)[\s_-]+(?=\w)|[\s_.,:;'’\"/()\[\]&]+")
"""What tells no two names apart. A sign at the end of a name does, as in ``c++`` or ``A-``."""


def texts_of(given: ClassTextFile, *, class_names: Sequence[str]) -> dict[str, list[str]]:
    """Read a dataset's file of texts: those of each class.

    Raises:
        MissingError, PoolError: as `read_descriptors` and `matched`.
    """
    texts = read_descriptors(given.path, wording=given.wording)
    names = {**given.names}
    if given.pairs is not None:
        names = {**keys_in(given.pairs, class_names=class_names, keys=texts), **names}
    return matched(texts, class_names=class_names, origin=given.path, gpt_names=names, key_of_file=given.key)


def keys_in(path: str, *, class_names: Collection[str], keys: Collection[str]) -> dict[str, str]:
    r"""The key of each class that a file of pairs names (key, tab, class; lines with # are not read).

    A key that begins with ``#`` has a backslash before it, as `wsoup texts match` writes it.
    Pairs of another file's keys are left out: descriptors and sentences may share the file of pairs.

    Raises:
        MissingError: no such file.
        PoolError: a line without a tab, an unknown class, or a class with two keys.
    """
    pairs: dict[str, str] = {}
    for number, line in numbered(path).items():
        if line.startswith("#"):
            continue
        written, tab, rest = line.partition("\t")
        key = written[1:] if _ESCAPED.match(written) else written
        name = rest.partition("\t")[0].strip()
        if not tab or not name:
            raise PoolError(f"{path}, line {number}: {shown_value(line)} must be a key, a tab and a class")
        if name not in class_names:
            hint = nearest(name, known=list(class_names))
            raise PoolError(f"{path}, line {number}: {name!r} is no class of this dataset; {hint}")
        if key in keys and pairs.setdefault(name, key) != key:
            raise PoolError(f"{path}, line {number}: class {name!r} has the key {pairs[name]!r} already; keep one")
    return pairs


def matched(
    descriptors: Mapping[str, list[str]],
    *,
    class_names: Sequence[str],
    origin: str,
    gpt_names: Mapping[str, str] = MappingProxyType({}),
    key_of_file: str = NAMED,
) -> dict[str, list[str]]:
    """The descriptors of each class: of the key with its exact name, its folded name, or a known alias in ImageNet.

    Args:
        descriptors: by the file's keys.
        class_names: C names in label order.
        origin: the file, for messages.
        gpt_names: the key of some classes, if it is not their name (``datasets.<name>.gpt_names``).
        key_of_file: the dataset's key that names the file, for messages: only with `NAMED` do `gpt_names` help.

    Raises:
        PoolError: a class has no key, and the nearest keys are suggested; two keys are a class's name, folded; or two
            classes have one key.
    """
    keys_by_fold: dict[str, list[str]] = {}
    for key in descriptors:
        keys_by_fold.setdefault(folded(key), []).append(key)
    by_class: dict[str, list[str]] = {}
    class_of_key: dict[str, str] = {}
    unmatched = []
    for name in class_names:
        wanted = gpt_names.get(name, name)
        key = wanted
        if wanted not in descriptors:
            key = _folded_key(wanted, keys_by_fold=keys_by_fold, origin=origin, key_of_file=key_of_file)
        if key and name not in gpt_names:
            other = class_of_key.setdefault(key, name)
            if other != name:
                raise PoolError(
                    f"{origin}: classes {other!r} and {name!r} would both get the {_texts(key_of_file)} of key "
                    f"{key!r}; give each class a key that is exactly its name{_or_named('their keys', key_of_file)}"
                )
        key = key or _alias(folded(wanted), keys_by_fold=keys_by_fold)
        if not key:
            unmatched.append(name)
        else:
            by_class[name] = descriptors[key]
    if unmatched:
        raise _unmatched(
            unmatched, n_classes=len(class_names), keys=descriptors, origin=origin, key_of_file=key_of_file
        )
    return by_class


def _folded_key(name: str, *, keys_by_fold: Mapping[str, Sequence[str]], origin: str, key_of_file: str) -> str:
    """The file's one key that folds to the same as a class name; "" if there is none."""
    fold = folded(name)
    keys = keys_by_fold.get(fold, ())
    if not fold or not keys:
        return ""
    if len(keys) > 1:
        raise PoolError(
            f"{origin}: keys {keys[0]!r} and {keys[1]!r} may both be class {name!r}; "
            f"rename one{_or_named('the key of this class', key_of_file)}"
        )
    return keys[0]


def _alias(fold: str, *, keys_by_fold: Mapping[str, Sequence[str]]) -> str:
    """The file's key of the first alias of a class in ImageNet that the file has; "" if there is none."""
    for group in _ALIASES:
        if fold in group:
            # Sorted, because a set has another order in every process.
            for alias in sorted(group):
                if alias in keys_by_fold:
                    return keys_by_fold[alias][0]
    return ""


def _texts(key_of_file: str) -> str:
    """What the texts of a file are called."""
    return "descriptors" if key_of_file == NAMED else key_of_file


def _or_named(which: str, key_of_file: str) -> str:
    """The way out that a file of GPT descriptors has besides other names; "" for another file."""
    return f", or name {which} in the dataset's gpt_names" if key_of_file == NAMED else ""


def _unmatched(
    names: Sequence[str], *, n_classes: int, keys: Mapping[str, object], origin: str, key_of_file: str
) -> PoolError:
    """The error for classes without a key."""
    key_by_fold = {folded(key): key for key in keys}
    near = difflib.get_close_matches(folded(names[0]), list(key_by_fold), n=3, cutoff=0.4)
    hint = "no key is near"
    if near:
        near_keys = [repr(key_by_fold[fold]) for fold in near]
        hint = f"nearest keys: {', '.join(near_keys)}"
    return PoolError(
        f"{origin} has no {_texts(key_of_file)} for class {names[0]!r} ({len(names)} of {n_classes} classes "
        f"unmatched; {hint}); `wsoup texts match` writes a file of pairs for datasets.<name>.names, or rename the key "
        f"or the class{_or_named('the key', key_of_file)}"
    )


def folded(name: str) -> str:
    """What spellings of one name have in common: no case, no Unicode form, nothing between words.

    Letters of every script count, and so does a sign at the end. Between two numbers something stays.

    >>> folded("Apply_Eye Makeup") == folded("applyeyemakeup"), folded("747-200") == folded("747 200")
    (True, True)
    >>> folded("1.5") == folded("15"), folded("c++") == folded("c"), folded("A-") == folded("A")
    (False, False, False)
    """
    text = unicodedata.normalize("NFC", name).casefold()
    joined = ""
    for word in _BETWEEN_WORDS.split(text):
        if joined[-1:].isdigit() and word[:1].isdigit():
            joined += " "
        joined += word
    return joined
