"""One head for every seed: few-shot images and a soup's class texts -> heads/<name>/seed<k>.safetensors."""

from __future__ import annotations

import numpy as np

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.errors import ParamsError
from wsoup.core.params.encoder import EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.heads import fewshot
from wsoup.heads.choose import ANY
from wsoup.heads.head import made
from wsoup.heads.params import Heads
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import identity, load_source
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    heads: Heads


def main(owner: Owner, name: str) -> None:
    """Make NAME, a head of section `heads`, for every seed; a shard is a seed."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.heads:
        raise ParamsError(f"heads has no {name!r}; it has {', '.join(params.heads) or 'none'}")
    wanted = params.heads[name]
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    soups = [Soup.load(artifacts.soup(wanted.soup, seed=seed), encoder=encoder.id) for seed in params.seeds]
    about = [identity(source, encoder=encoder), wanted.kind]
    work = [Shards(owner, inputs=[*about, seed, s.as_json()], n=1) for seed, s in zip(params.seeds, soups, strict=True)]

    def task(number: int, _: int) -> dict[str, np.ndarray]:
        of = {"template": source.template, "class_names": source.class_names}
        shots, note = fewshot.checked(
            *source.images_of(params.seeds[number]),
            texts=class_texts(soups[number], encoder=PromptEncoder.of(encoder), **of).T,
            logit_scale=logit_scale_of(encoder.model),
            names=source.class_names,
        )
        kinds = ANY if wanted.kind == "chosen" else (wanted.kind,)
        head = made(shots, kinds=kinds, soup=soups[number], encoder=encoder.id, note=note, **of)
        said = f"{head.kind}, {head.n_correct} of {head.n_images} left-out images right"
        print(f"seed {params.seeds[number]}: {'; '.join(filter(None, (said, head.note)))}")
        return {"file": np.frombuffer(head.as_bytes(), dtype=np.uint8)}

    finish_shards(work, task=task, label=f"head {name}", unit="seed")
    with store.replacing(artifacts.head(name, seed=0).parent) as folder:
        folder.mkdir()
        for seed, shards in zip(params.seeds, work, strict=True):
            (folder / f"seed{seed}.safetensors").write_bytes(shards.load()[0]["file"].tobytes())


if __name__ == "__main__":
    stage.run(main)
