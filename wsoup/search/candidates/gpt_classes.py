"""Which key of a GPT-descriptor file belongs to which class: by normalised name, never by position."""

import difflib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from wsoup.base.errors import PoolError

_ALIASES = ({"newt", "eft", "smoothnewt"}, {"tights", "maillot"}, {"missile", "projectile"}, {"sunglasses", "sunglass"})
"""Names for the same ImageNet class in different lists of its 1,000 names, normalised."""


def matched(
    descriptors: Mapping[str, list[str]],
    *,
    class_names: Sequence[str],
    origin: str,
    gpt_names: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, list[str]]:
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
    by_class: dict[str, list[str]] = {}
    unmatched = []
    for name in class_names:
        key = _key_of(normalised(gpt_names.get(name, name)), keys=keys)
        if key is None:
            unmatched.append(name)
        else:
            by_class[name] = descriptors[key]
    if unmatched:
        near = difflib.get_close_matches(normalised(unmatched[0]), list(keys), n=3, cutoff=0.4)
        hint = "no key is near"
        if near:
            near_keys = [repr(keys[name]) for name in near]
            hint = f"nearest keys: {', '.join(near_keys)}"
        raise PoolError(
            f"{origin} has no descriptors for class {unmatched[0]!r} ({len(unmatched)} of {len(class_names)} classes "
            f"unmatched; {hint}); rename the key, or the class in the dataset's list of class names"
        )
    return by_class


def _key_of(name: str, *, keys: Mapping[str, str]) -> str | None:
    """The file's key of a normalised class name, or of its first alias that the file has."""
    if name in keys:
        return keys[name]
    for group in _ALIASES:
        if name in group:
            # Sorted, because a set has another order in every process.
            for alias in sorted(group):
                if alias in keys:
                    return keys[alias]
    return None


def normalised(name: str) -> str:
    """Letters and digits only, in lower case: "Apply_Eye Makeup" and "applyeyemakeup" are the same name."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
