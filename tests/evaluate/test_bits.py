"""Packing and unpacking which images are right."""

from __future__ import annotations

import numpy as np

from wsoup.evaluate.bits import pack_right, unpack_right


def test_right_images_survive_packing_into_bits():
    right = np.random.default_rng(0).random(77) < 0.5
    assert len(pack_right(right)) == 10
    assert np.array_equal(unpack_right(pack_right(right), n_images=77), right)
