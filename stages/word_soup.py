"""Algorithm 2 for every seed: ranked words -> soups/word/seed<k>.json. A shard is one chain of one seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from wsoup import store
from wsoup.errors import PoolError
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.runtime.shards import Shards
from wsoup.search.algorithms import Member, Step, word_soup_member
from wsoup.search.source import identity, load_source, ranked_texts
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(scores: Option, embeddings: Option, splits: Option, out: Option) -> None:
    """Build a word soup per seed from SCORES, the source's EMBEDDINGS and few-shot SPLITS into folder OUT."""
    params = load_params()
    search = params.word_soup
    encoder = load_encoder(params.encoder)
    source = load_source(embeddings, splits=splits, seeds=params.seeds, encoder=encoder)
    ranked = {seed: ranked_texts(scores, seed=seed, encoder=encoder.id)[: search.k1] for seed in params.seeds}
    if len(ranked[params.seeds[0]]) < search.k1:
        raise PoolError(
            f"word_soup.k1 is {search.k1} but {scores} holds {len(ranked[params.seeds[0]])} words; lower k1"
        )
    chain_params = search.model_dump(exclude={"m"})  # m only says how many chains there are
    work = [
        Shards("word_soup", inputs=[identity(source, encoder=encoder), ranked[seed], seed, chain_params], n=search.m)
        for seed in params.seeds
    ]

    def task(number: int, member: int) -> dict[str, np.ndarray]:
        seed = params.seeds[number]
        chain = word_soup_member(
            ranked[seed],
            member=member,
            seed=seed,
            k0=search.k0,
            k1=search.k1,
            patience=search.patience,
            max_words=search.max_words,
            count=lambda texts: source.count(texts, seed=seed, period=search.search_period),
        )
        finished = source.count([chain.text], seed=seed, period=True)
        words = np.array([ranked[seed].index(step.added) for step in chain.trace])
        return {"words": words, "n_correct": np.array([step.n_correct for step in chain.trace]), "finished": finished}

    stage.finish_shards(work, task=task, label="word soup", unit="chain")
    with store.replacing(out) as folder:
        for seed, shards in zip(params.seeds, work, strict=True):
            n_images = len(source.subsets[seed])
            members = [_member(part, ranked[seed], n_images=n_images) for part in shards.load()]
            store.write_soup(
                folder / f"seed{seed}.json",
                kind="word",
                seed=seed,
                template=source.template,
                encoder=encoder.id,
                members=members,
            )
            print(f"seed {seed}: {len(members)} chains, the first: {members[0]['text']!r}")


def _member(part: Mapping[str, np.ndarray], words: list[str], *, n_images: int) -> dict[str, object]:
    """A finished shard as a member; its count is that of the finished text, with its final period."""
    steps = [Step(words[w], int(n)) for w, n in zip(part["words"], part["n_correct"], strict=True)]
    member = Member(text=" ".join(step.added for step in steps), n_correct=steps[-1].n_correct, trace=tuple(steps))
    return member.as_json(n_images=n_images, n_correct=int(part["finished"][0]))


if __name__ == "__main__":
    stage.run(main)
