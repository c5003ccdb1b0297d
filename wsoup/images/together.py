"""Shards of the same images by models of several methods: each image is decoded once for all of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wsoup.disk.store import fingerprint
from wsoup.images.features import Encoded
from wsoup.images.shard import EncodeImages, ImageList


def alone(shard: EncodeImages) -> EncodeImages:
    """The same shard with a list of its own images only, to be sent to another process."""
    images = ImageList(shard.images.root, shard.images.files.take(shard.rows))
    return replace(shard, images=images, rows=np.arange(len(shard.rows)))


def which_images(shard: EncodeImages) -> str:
    """What shards that can be encoded together have in common: images and how they become pixels."""
    own = alone(shard).images
    first = next(iter(shard.encoders.values()))
    named = [own.root, own.files["path"].to_pylist(), own.files["digest"].to_pylist()]
    return fingerprint([*named, first.preprocessing, shard.batch_size, shard.on_bad_image])


def encode_together(shards: Sequence[EncodeImages]) -> list[bytes]:
    """The bytes of each shard, which all have the same images (`which_images`); the bytes are those of each alone."""
    encoders = {}
    for i, shard in enumerate(shards):
        for name, encoder in shard.encoders.items():
            encoders[f"{i} {name}"] = encoder
    encoded = shards[0].encoded(encoders)
    payloads = []
    for i, shard in enumerate(shards):
        own = {name: encoded.features[f"{i} {name}"] for name in shard.encoders if f"{i} {name}" in encoded.features}
        payloads.append(shard.packed(Encoded(own, encoded.positions, encoded.skipped)))
    return payloads
