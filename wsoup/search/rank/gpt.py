"""GPT descriptors: ``{class: [descriptor, ...]}`` files, as classification-by-description published them.

Menon & Vondrick 2023; sachit-menon/classify_by_description_release, descriptors/. A class is found by its normalised
name, never by its place in the file. The wording is that code's own, first letters and all ("which is antennae", "which
candles"), because the paper's figures are of these texts: the 4,227 of ImageNet are the authors' pool to the letter.

Two things are otherwise unless a dataset's `gpt_wording` is ``code``: a descriptor's own final period is the prompt's
(1 of the 5,800 of ImageNet, 1 of Caltech's 732, 1 of Food's 499: "etc.", theirs "etc.."), and an empty descriptor or a
class without any (5 of Food) leaves the class name alone (theirs "..., which has .").
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from wsoup.core.disk.files import reason_of, regular_file
from wsoup.core.errors import MissingError, PoolError
from wsoup.core.prompts import bare

Descriptors = dict[str, list[str]]

_VERBS = ("has", "often", "typically", "may", "can")
_ALIASES = ({"newt", "eft", "smoothnewt"}, {"tights", "maillot"}, {"missile", "projectile"}, {"sunglasses", "sunglass"})
"""ImageNet classes that lists of its 1,000 names call differently, normalised."""


def sentence(descriptor: str, *, wording: str | None = None) -> str:
    """A descriptor as it follows a class name, by its first letters: load.py of the source; bare unless it is ``code``.

    >>> sentence("a long tail"), sentence("antennae"), sentence("can fly"), sentence("used in war"), sentence("wings")
    ('which is a long tail', 'which is antennae', 'which can fly', 'which is used in war', 'which has wings')
    """
    text = descriptor if wording == "code" else bare(descriptor)
    if text.startswith(("a", "used")):
        return f"which is {text}"
    return f"which {text}" if text.startswith(_VERBS) else f"which has {text}"


def read(path: str | Path, *, wording: str | None = None) -> Descriptors:
    """One GPT-descriptor file: class -> descriptors, each as a sentence, as often as it is there.

    Args:
        path: the file.
        wording: ``code`` as the authors have the ends; else sentences are bare, and empty ones left out.

    Raises:
        MissingError: no such file.
        PoolError: not a JSON object of class to list of texts.
    """
    try:
        regular_file(str(path))  # a FIFO would wait for ever
        raw = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        if not all(isinstance(texts, list) and all(isinstance(t, str) for t in texts) for texts in raw.values()):
            raise ValueError("a class does not hold a list of texts")
        json.dumps(raw, ensure_ascii=False).encode()  # half a character cannot be written
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
    called: Mapping[str, str] = MappingProxyType({}),
) -> Descriptors:
    """The descriptors of each class, found by normalised name or a known alias of ImageNet.

    Args:
        descriptors: by the file's own keys.
        class_names: C names in label order.
        origin: the file, for messages.
        called: classes that go by another key (``datasets.<name>.gpt_names``).

    Raises:
        PoolError: a class without a key, with the nearest keys.
    """
    keys = {normalised(key): key for key in descriptors}
    by_class: Descriptors = {}
    lost = []
    for name in class_names:
        plain = normalised(called.get(name, name))
        others = next((sorted(group - {plain}) for group in _ALIASES if plain in group), [])
        key = next((keys[other] for other in (plain, *others) if other in keys), None)
        if key is None:
            lost.append(name)
        else:
            by_class[name] = descriptors[key]
    if lost:
        near = difflib.get_close_matches(normalised(lost[0]), list(keys), n=3, cutoff=0.4)
        hint = f"nearest keys: {', '.join(repr(keys[k]) for k in near)}" if near else "no key is near"
        raise PoolError(
            f"{origin} has no descriptors for class {lost[0]!r} ({len(lost)} of {len(class_names)} classes unmatched; "
            f"{hint}); rename the key, or the class in the dataset's list of class names"
        )
    return by_class


def normalised(name: str) -> str:
    """Letters and digits alone, in lower case: "Apply_Eye Makeup" and "applyeyemakeup" are one name."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
