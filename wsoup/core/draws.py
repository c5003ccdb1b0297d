"""Named generators: every draw of the project has one of its own, so nothing depends on what was drawn before it."""

from __future__ import annotations

import hashlib

import numpy as np


def member_generator(*, purpose: str, seed: int, member: int) -> np.random.Generator:
    """The generator of one soup member or one drawn text, independent of all others."""
    return np.random.default_rng([*purpose.encode(), seed, member])


def named_seed(*names: object) -> int:
    """A 63-bit seed from names, for example (seed, "classes", round)."""
    text = "/".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def named_generator(*names: object) -> np.random.Generator:
    """The generator of any purpose that has names; training's batches, crops and starting values."""
    return np.random.default_rng(named_seed(*names))
