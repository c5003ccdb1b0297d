"""GPT descriptors: ``{class: [descriptor, ...]}`` files as published with classification by description.

Menon & Vondrick 2023; sachit-menon/classify_by_description_release, descriptors/. Classes are matched by normalised
name, never by position. The wording is that of their code, including its choice by first letters ("which is antennae",
"which candles"), because the paper's results are for these texts: the 4,227 of ImageNet are exactly the authors' pool.

There are two differences unless a dataset's `gpt_wording` is ``code``: a descriptor's final period becomes the prompt's
(1 of 5,800 in ImageNet, 1 of 732 in Caltech, 1 of 499 in Food: "etc.", theirs "etc.."), and an empty descriptor or a
class without descriptors (5 in Food) gives the bare class name (theirs "..., which has .").
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from wsoup.base.errors import MissingError, PoolError
from wsoup.core.prompts import bare
from wsoup.disk.files import read_text, reason_of, regular_file

Descriptors = dict[str, list[str]]

_VERBS = ("has", "often", "typically", "may", "can")
_ALIASES = ({"newt", "eft", "smoothnewt"}, {"tights", "maillot"}, {"missile", "projectile"}, {"sunglasses", "sunglass"})
"""Names for the same ImageNet class in different lists of its 1,000 names, normalised."""


def sentence(descriptor: str, *, wording: str | None = None) -> str:
    """A descriptor worded to follow a class name, as load.py of the source does; bare unless `wording` is ``code``.

    >>> sentence("a long tail"), sentence("antennae"), sentence("can fly"), sentence("used in war"), sentence("wings")
    ('which is a long tail', 'which is antennae', 'which can fly', 'which is used in war', 'which has wings')
    """
    text = descriptor if wording == "code" else bare(descriptor)
    if text.startswith(("a", "used")):
        return f"which is {text}"
    return f"which {text}" if text.startswith(_VERBS) else f"which has {text}"


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; ValueError for a key that appears twice, of which Python would take the last."""
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} appears twice")
    return dict(pairs)


def waffle_texts(path: str | Path) -> list[str]:
    """Waffle's texts as the authors' list has them, one a line: with a comma of their own, without the final period.

    Raises:
        MissingError, PoolError: no such file, or it is no text.
    """
    return [line.removesuffix(".") for line in lines_of(path)]


def lines_of(path: str | Path) -> list[str]:
    """The non-empty lines of a text file of candidates, without white space around them; raises as `waffle_texts`."""
    try:
        lines = read_text(path, kind=PoolError).splitlines()
    except MissingError:
        raise MissingError(f"{path} does not exist; correct its path under candidates in params.yaml") from None
    return [line.strip() for line in lines if line.strip()]


def read(path: str | Path, *, wording: str | None = None) -> Descriptors:
    """Read a GPT-descriptor file: class -> descriptors worded by `sentence`, including repetitions.

    Args:
        path: the file.
        wording: ``code`` for the authors' endings; else sentences are bare, and empty ones are left out.

    Raises:
        MissingError: no such file.
        PoolError: not a JSON object of class to list of texts.
    """
    try:
        regular_file(str(path))  # a FIFO would block
        raw = json.loads(Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=_each_once)
        if not all(isinstance(texts, list) and all(isinstance(t, str) for t in texts) for texts in raw.values()):
            raise ValueError("a class does not hold a list of texts")
        json.dumps(raw, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; correct the path of the GPT descriptors in params.yaml") from None
    except (ValueError, AttributeError, RecursionError, OSError) as error:
        raise PoolError(
            f"{path} is not a GPT-descriptor file ({reason_of(error)}); expected {{class: [descriptor, ...]}}"
        ) from None
    if wording == "code":
        return {name: [sentence(text, wording=wording) for text in texts or [""]] for name, texts in raw.items()}
    return {name: [sentence(text) for text in texts if bare(text)] for name, texts in raw.items()}


def matched(
    descriptors: Mapping[str, list[str]],
    *,
    class_names: Sequence[str],
    origin: str,
    gpt_names: Mapping[str, str] = MappingProxyType({}),
) -> Descriptors:
    """The descriptors of each class, matched by normalised name or a known alias in ImageNet.

    Args:
        descriptors: by the file's keys.
        class_names: C names in label order.
        origin: the file, for messages.
        gpt_names: the key of some classes, if it is not their name (``datasets.<name>.gpt_names``).

    Raises:
        PoolError: a class has no key; suggests the nearest keys.
    """
    keys = {normalised(key): key for key in descriptors}

    def key_of(name: str) -> str | None:
        plain = normalised(gpt_names.get(name, name))
        aliases = next((sorted(group - {plain}) for group in _ALIASES if plain in group), [])
        return next((keys[alias] for alias in (plain, *aliases) if alias in keys), None)

    matches = {name: key_of(name) for name in class_names}
    if unmatched := [name for name, key in matches.items() if key is None]:
        near = difflib.get_close_matches(normalised(unmatched[0]), list(keys), n=3, cutoff=0.4)
        hint = f"nearest keys: {', '.join(repr(keys[k]) for k in near)}" if near else "no key is near"
        raise PoolError(
            f"{origin} has no descriptors for class {unmatched[0]!r} ({len(unmatched)} of {len(class_names)} classes "
            f"unmatched; {hint}); rename the key, or the class in the dataset's list of class names"
        )
    return {name: descriptors[key] for name, key in matches.items() if key is not None}


def normalised(name: str) -> str:
    """Letters and digits only, in lower case: "Apply_Eye Makeup" and "applyeyemakeup" are the same name."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
