"""One head for every seed, from few-shot images and a soup's texts, and its counts where the classes are the source's.

Heads are fitted and written before any test image is read.
"""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from wsoup.check.soups import HeadParams, Heads
from wsoup.disk import store
from wsoup.disk.code import Owner, Shard
from wsoup.disk.features import ImageFeatures, read_features
from wsoup.evaluate.rows import pack_right, row_name
from wsoup.heads.head import Head, best_head
from wsoup.heads.kinds import checked
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import Run, Source, SourceParams, identity, load_source
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of

ROLES = ("source", "dg")
"""Roles of datasets that may share the classes of a head."""


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    heads: Heads


def main(owner: Owner, name: str) -> None:
    """Make and evaluate NAME, a head of section `heads`."""
    params = load(Wanted)
    definition, run = one_of("heads", params.heads, name), Run.of(owner, params)
    artifacts, encoder, source = run.artifacts, run.encoder.id, load_source(run)
    soups = [Soup.load(artifacts.soup(definition.soup, seed=seed), encoder=encoder) for seed in run.seeds]
    with store.replacing(artifacts.head(name, seed=0).parent) as folder:
        folder.mkdir()
        for soup, file in zip(soups, fit(owner, definition, source=source, soups=soups), strict=True):
            (folder / f"seed{soup.seed}.safetensors").write_bytes(file)
    heads = [Head.load(artifacts.head(name, seed=seed)) for seed in run.seeds]
    lines = []
    for dataset in sorted(each["name"] for each in store.read_object(artifacts.evaluated)["datasets"]):
        test = read_features(artifacts.features(dataset, split="test"), encoder=encoder)
        if test.attributes["role"] in ROLES and {*test.class_names} <= {*source.class_names}:
            lines += [counted(head, name=name, soup=definition.soup, test=test) for head in heads]
    attributes = run.about | {
        "parameters": heads[0].classifier.numel(),
        "members_kl": [],
        "soup": definition.soup,
        "left_out": [[head.kind, head.n_correct, head.n_images] for head in heads],
    }
    out = artifacts.results / "heads" / f"{name}.parquet"
    store.write_table(out, pa.Table.from_pylist(lines), attributes=attributes)
    left_out = ", ".join(f"{head.n_correct} of {head.n_images}{head.note and f' ({head.note})'}" for head in heads)
    print(f"{out}: {len(lines)} lines; left-out images right, by seed: {left_out}")


def fit(owner: Owner, definition: HeadParams, *, source: Source, soups: list[Soup]) -> Iterator[bytes]:
    """The head file of each seed's soup, from the few-shot images alone; a shard is a seed."""

    def fitted(soup: Soup, seed: int) -> bytes:
        template, names, scale = source.template, source.class_names, logit_scale_of(source.encoder.model)
        texts = class_texts(soup, encoder=source.texts, template=template, class_names=names).T
        shots, note = checked(*source.images_of(seed), texts=texts, logit_scale=scale, names=names)
        encoder = source.encoder.id
        return best_head(
            shots, kind=definition.kind, soup=soup, template=template, class_names=names, encoder=encoder, note=note
        ).as_bytes()

    shards = [
        Shard(owner, [identity(source, seed=seed), definition.kind, soup.as_json()], partial(fitted, soup, seed))
        for soup, seed in zip(soups, source.subsets, strict=True)
    ]
    return finish_shards(shards, label="head", unit="seed")


def counted(head: Head, *, name: str, soup: str, test: ImageFeatures) -> dict[str, object]:
    """A line of `wsoup.evaluate.counts.SCHEMA` for variant `name` on the row of `soup`, and which images are right.

    Predictions are among the classes of the dataset, which may be only some of the head's.
    """
    columns = [head.class_names.index(class_name) for class_name in test.class_names]
    right: np.ndarray = head.logits(test.features)[:, columns].argmax(dim=1).numpy() == test.labels
    m = len(head.soup.members)
    return {
        "method": row_name(soup),
        "variant": name,
        "mode": "centroid",
        "m": m,
        "offsets": 1,
        "texts": float(m),
        "stored": 0,  # the head's parameters replace the texts
        "seed": head.soup.seed,
        "dataset": test.attributes["dataset"],
        "role": test.attributes["role"],
        "n_correct": int(right.sum()),
        "n_images": len(right),
        "alignment": math.nan,
        "uniformity": math.nan,
        "right": pack_right(right),
    }


if __name__ == "__main__":
    stage.run(main)
