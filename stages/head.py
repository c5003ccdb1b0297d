"""One head for every seed, from few-shot images and a soup's texts, and its counts where the classes are the source's.

Heads are fitted and written before any test image is read.
"""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate.heads import head_line
from wsoup.heads.head import Head, best_head
from wsoup.heads.kinds import checked
from wsoup.heads.params import HeadParams, Heads
from wsoup.params.section import load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import Run, Source, SourceParams, identity, load_source
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    heads: Heads


def main(owner: Owner, name: str) -> None:
    """Make and evaluate NAME, a head of section `heads`."""
    params = load(Wanted)
    definition, run = one_of("heads", params.heads, name), Run.of(owner, params)
    artifacts, encoder, source = run.artifacts, run.encoder, load_source(run)
    soups = [Soup.load(artifacts.soup(definition.soup, seed=seed), encoder=encoder.id) for seed in params.seeds]
    files = fit(owner, definition, source=source, soups=soups, encoder=encoder)
    with store.replacing(artifacts.head(name, seed=0).parent) as folder:
        folder.mkdir()
        for soup, file in zip(soups, files, strict=True):
            (folder / f"seed{soup.seed}.safetensors").write_bytes(file)
    heads = {seed: Head.load(artifacts.head(name, seed=seed)) for seed in params.seeds}
    names = sorted(dataset["name"] for dataset in store.read_object(artifacts.evaluated)["datasets"])
    tests = [store.read_features(artifacts.features(each, split="test"), encoder=encoder.id) for each in names]
    pairs = [(test, seed, head) for test in tests for seed, head in heads.items()]
    lines = [head_line(head, name=name, soup=definition.soup, seed=seed, test=test) for test, seed, head in pairs]
    known = [line for line in lines if line is not None]
    attributes = {
        "encoder": encoder.id,
        "parameters": heads[params.seeds[0]].classifier.numel(),
        "members_kl": [],
        "soup": definition.soup,
        "left_out": [[head.kind, head.n_correct, head.n_images] for head in heads.values()],
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / "heads" / f"{name}.parquet"
    store.write_table(out, pa.Table.from_pylist(known), attributes=attributes)
    left_out = [f"{head.n_correct} of {head.n_images}{head.note and f' ({head.note})'}" for head in heads.values()]
    print(f"left-out images right, by seed: {', '.join(left_out)}")
    print(f"{out}: {name} on {', '.join(dict.fromkeys(str(line['dataset']) for line in known))}")


def fit(
    owner: Owner, definition: HeadParams, *, source: Source, soups: list[Soup], encoder: Encoder
) -> Iterator[bytes]:
    """The head file of each seed's soup, from the few-shot images alone; a shard is a seed."""

    def fitted(soup: Soup, seed: int) -> bytes:
        template, names = source.template, source.class_names
        texts = class_texts(soup, encoder=PromptEncoder.of(encoder), template=template, class_names=names).T
        scale = logit_scale_of(encoder.model)
        shots, note = checked(*source.images_of(seed), texts=texts, logit_scale=scale, names=names)
        return best_head(
            shots, kind=definition.kind, soup=soup, template=template, class_names=names, encoder=encoder.id, note=note
        ).as_bytes()

    shards = [
        Shard(owner, [identity(source, seed=seed), definition.kind, soup.as_json()], partial(fitted, soup, seed))
        for soup, seed in zip(soups, source.subsets, strict=True)
    ]
    return finish_shards(shards, label="head", unit="seed")


if __name__ == "__main__":
    stage.run(main)
