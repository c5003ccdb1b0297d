"""Which package versions made image features.

Decoding and resizing change a little from one minor version to the next, so counts can differ in the last images, and a
table compares more than its rows.
"""

import re
from collections.abc import Hashable, Mapping
from typing import TypeVar

DECIDING = ("torchvision", "pillow", "open_clip_torch")
"""Distributions that decide the pixels a model sees."""

Name = TypeVar("Name", bound=Hashable)


def differing(made_with: Mapping[Name, Mapping[str, str]]) -> dict[Name, str]:
    """Features made with an older major.minor version than others, and what differs.

    Args:
        made_with: name of some features -> distribution -> version; missing distributions are not compared.

    >>> differing({"dtd": {"pillow": "10.4.0"}, "sun": {"pillow": "11.1.0"}, "pets": {"pillow": "11.1.2"}})
    {'dtd': 'were made with pillow 10.4.0, others with 11.1.0'}
    """
    differences: dict[Name, list[str]] = {}
    for package in DECIDING:
        versions = {name: packages[package] for name, packages in made_with.items() if package in packages}
        newest = max(versions.values(), key=_minor, default="")
        for name, version in versions.items():
            if _minor(version) != _minor(newest):
                differences.setdefault(name, []).append(f"{package} {version}, others with {newest}")
    return {name: f"were made with {' and '.join(texts)}" for name, texts in differences.items()}


def _minor(version: str) -> tuple[int, int]:
    """Major and minor number; (0, 0) where a version has none."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
