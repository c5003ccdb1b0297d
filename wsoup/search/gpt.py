"""GPT descriptors: ``{class: [descriptor, ...]}`` files, as classification-by-description published them.

Menon & Vondrick 2023; sachit-menon/classify_by_description_release, descriptors/. A class is found by its normalised
name, never by its place in the file. "which is" or "which has" is prefixed by whole words: where that code looks at
first letters, "antennae" becomes "which is antennae" and "candles" "which candles" (27 of the 4,227 of ImageNet).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from wsoup.errors import MissingError, PoolError
from wsoup.files import reason_of, regular_file
from wsoup.prompts import bare

Descriptors = dict[str, list[str]]

_WORDS = {
    "follows which": """
        has have is are was can cannot may might must will often typically
        comes attaches lives grows consists resembles looks contains includes""",
    "adverb": "usually generally commonly sometimes frequently",
    "state": """
        made worn found known seen held built sold grown shown drawn hung cut set kept born eaten spun woven
        able available capable similar native common related suitable due""",
    "preposition": """
        of to in on with for by from at as into onto around between over under across along through up together""",
}
_KIND = {word: kind for kind, words in _WORDS.items() for word in words.split()}
"""What a descriptor's first words are; "often brown" becomes "which often brown", as published."""
_ALIASES = ({"newt", "eft", "smoothnewt"}, {"tights", "maillot"}, {"missile", "projectile"}, {"sunglasses", "sunglass"})
"""ImageNet classes that lists of its 1,000 names call differently, normalised."""


def sentence(descriptor: str) -> str:
    """A descriptor as it follows a class name: "which is ...", "which has ..." or "which may ...", bare.

    >>> sentence("a long tail"), sentence("antennae"), sentence("can fly"), sentence("made of wood")
    ('which is a long tail', 'which has antennae', 'which can fly', 'which is made of wood')
    """
    text = bare(descriptor)
    first, *rest = re.findall(r"[\w'-]+", text.lower())[:2] or [""]
    if first in ("which", "that"):
        return text
    kinds = _KIND.get(first), _KIND.get(rest[0]) if rest else None
    state = kinds[0] == "state" or (first.endswith("ed") and first != "red")
    if kinds[0] == "follows which" or kinds == ("adverb", "follows which"):
        return f"which {text}"
    if first in ("a", "an", "used") or kinds[0] == "adverb" or (state and kinds[1] == "preposition"):
        return f"which is {text}"
    return f"which has {text}"


def read(path: str | Path) -> Descriptors:
    """One GPT-descriptor file: class -> descriptors, each as a bare sentence and once.

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
            f"{path} is no GPT-descriptor file ({reason_of(error)}); expected {{class: [descriptor, ...]}}"
        ) from None
    return {name: list(dict.fromkeys(sentence(text) for text in texts if bare(text))) for name, texts in raw.items()}


def matched(descriptors: Mapping[str, list[str]], *, class_names: Sequence[str], origin: str) -> Descriptors:
    """The descriptors of each class, found by normalised name or a known alias of ImageNet.

    Args:
        descriptors: by the file's own keys.
        class_names: C names in label order.
        origin: the file, for messages.

    Raises:
        PoolError: a class without a key, with the nearest keys.
    """
    keys = {normalised(key): key for key in descriptors}
    found: Descriptors = {}
    lost = []
    for name in class_names:
        plain = normalised(name)
        others = next((sorted(group - {plain}) for group in _ALIASES if plain in group), [])
        key = next((keys[other] for other in (plain, *others) if other in keys), None)
        if key is None:
            lost.append(name)
        else:
            found[name] = descriptors[key]
    if lost:
        near = difflib.get_close_matches(normalised(lost[0]), list(keys), n=3, cutoff=0.4)
        hint = f"nearest keys: {', '.join(repr(keys[k]) for k in near)}" if near else "no key is near"
        raise PoolError(
            f"{origin} has no descriptors for class {lost[0]!r} ({len(lost)} of {len(class_names)} classes unmatched; "
            f"{hint}); rename the key, or the class in the dataset's list of class names"
        )
    return found


def normalised(name: str) -> str:
    """Letters and digits alone, in lower case: "Apply_Eye Makeup" and "applyeyemakeup" are one name."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
