"""The image features of one split of a manifest, as stages embed and embed_train write them."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wsoup.base.errors import DataError
from wsoup.disk import store
from wsoup.disk.files import PRETRAINED, Artifacts
from wsoup.disk.shards import Owner
from wsoup.images.embed import plan_images
from wsoup.images.shard import ImageList
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.towers.encoder import load_encoder
from wsoup.towers.features import ImageFeatures, write_features

if TYPE_CHECKING:
    import pyarrow as pa

DIGESTS_AT_ONCE = 1 << 14


def embed_split(dataset: str, *, split: str, encoder: EncoderParams, params: EmbedParams, owner: Owner) -> None:
    """Write the image features of one split of a manifest.

    Raises:
        MissingError: there is no manifest.
        DataError: it lists no image of the split, or see `ImagePlan.embedded`.
    """
    artifacts = Artifacts()
    manifest = store.require(artifacts.manifest(dataset), made_by=f"prepare@{dataset}")
    attributes = store.table_attributes(manifest)
    images, labels, rows = _listed(manifest, split, root=attributes["root"])
    if not len(rows):
        raise DataError(f"{manifest} lists no {split} images of {dataset}; check datasets.{dataset} in params.yaml")
    model = load_encoder(encoder)
    plan = plan_images(
        {PRETRAINED: model},
        lists=[images],
        batch_size=params.batch_size,
        on_bad_image=params.on_bad_image,
        label=f"embed {dataset} {split}",
        owner=owner,
    )
    (embedded,) = plan.embedded()
    features = embedded.features[PRETRAINED]
    kept = embedded.positions
    skipped = [text for _, text in sorted(embedded.skipped.items())]
    attributes = {
        **attributes,
        "split": split,
        "encoder": model.id,
        "preprocessing": model.preprocessing,
        "made_with": dict(owner.packages),
        "skipped": skipped,
        "images": _fingerprint(images.files["digest"].take(kept)),  # in their order
    }
    out = artifacts.features(dataset, split=split)
    write_features(out, ImageFeatures(features, labels[kept], rows[kept], attributes))
    for text in skipped:
        print(f"skipped: {text}")
    reused = ""
    if embedded.n_known:
        reused = f"; {embedded.n_known} reused from an earlier run"
    print(f"{out}: {len(kept)} images, {features.shape[1]} dimensions, {model.id['model']}{reused}")


def _listed(manifest: Path, split: str, *, root: str) -> tuple[ImageList, np.ndarray, np.ndarray]:
    """The images of one split of a manifest, their labels, and their rows: (N,) int64 each."""
    import pyarrow.compute as pc

    table = store.read_table(manifest, columns=["label", "split"])
    is_in_split = pc.equal(table["split"], split)
    rows = pc.indices_nonzero(is_in_split).to_numpy().astype(np.int64)
    labels = np.asarray(table["label"])[rows]
    files = store.read_table(manifest, columns=["path", "digest"])
    # Only where it leaves something out, because `take` copies.
    if len(rows) < len(files):
        files = files.take(rows)
    return ImageList(root, files), labels, rows


def _fingerprint(digests: "pa.ChunkedArray") -> str:
    """`store.fingerprint` of the list of all digests, of which only some are in memory at a time."""
    text = hashlib.sha256(b"[")
    for start in range(0, len(digests), DIGESTS_AT_ONCE):
        if start > 0:
            text.update(b", ")
        some = digests[start : start + DIGESTS_AT_ONCE].to_pylist()
        without_brackets = json.dumps(some)[1:-1]
        text.update(without_brackets.encode())
    text.update(b"]")
    return text.hexdigest()[:20]
