"""Image features that were made by different versions of the packages that decide them.

Decoders and resizing differ a little from one minor version to the next: counts of such features can differ in the last
images, and a table over them compares more than its rows.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import TypeVar

DECIDING = ("torchvision", "pillow", "open_clip_torch")
"""Distributions that decide the pixels that a model sees."""
MINOR = re.compile(r"(\d+)\.(\d+)")

Name = TypeVar("Name", bound=Hashable)


def differing(made_with: Mapping[Name, Mapping[str, str]]) -> dict[Name, str]:
    """Which features were made by an older major.minor version than others, and how it differs.

    Args:
        made_with: name of some features -> distribution -> version; what is not there is not compared.

    >>> differing({"dtd": {"pillow": "10.4.0"}, "sun": {"pillow": "11.1.0"}, "pets": {"pillow": "11.1.2"}})
    {'dtd': 'were made with pillow 10.4.0, others with 11.1.0'}
    """
    reasons: dict[Name, list[str]] = {}
    for package in DECIDING:
        minors = {name: _minor(packages[package]) for name, packages in made_with.items() if package in packages}
        newest = max(minors, key=lambda name: minors[name], default=None)
        for name, minor in minors.items():
            if newest is not None and minor != minors[newest]:
                said = f"{package} {made_with[name][package]}, others with {made_with[newest][package]}"
                reasons.setdefault(name, []).append(said)
    return {name: f"were made with {' and '.join(said)}" for name, said in reasons.items()}


def _minor(version: str) -> tuple[int, int]:
    """Major and minor number; (0, 0) where a version has none."""
    match = MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
