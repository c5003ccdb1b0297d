"""Named random generators: every draw has its own, so none depends on what was drawn before it."""

import hashlib

import numpy as np


def member_generator(*, purpose: str, seed: int, member: int) -> np.random.Generator:
    """The generator of one soup member or one random text, independent of all others."""
    return np.random.default_rng([*purpose.encode(), seed, member])


def named_seed(*names: object) -> int:
    """A 63-bit seed from names, for example (seed, "classes", round)."""
    text = "/".join(str(name) for name in names)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def named_generator(*names: object) -> np.random.Generator:
    """The generator of `named_seed`, for example for training's batches, crops and initial values."""
    return np.random.default_rng(named_seed(*names))
