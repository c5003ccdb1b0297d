"""One head for every seed: few-shot images and class texts of a soup -> heads/<name>/seed<k>.safetensors."""

import numpy as np

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner, Shards
from wsoup.heads import fewshot
from wsoup.heads.choose import ANY
from wsoup.heads.head import best_head
from wsoup.heads.params import Heads
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards
from wsoup.search.rank.source import SourceParams, identity, load_source
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    heads: Heads


def main(owner: Owner, name: str) -> None:
    """Make NAME, a head of section `heads`, for every seed; a shard is a seed."""
    params, artifacts = load(Wanted), Artifacts()
    if name not in params.heads:
        raise ParamsError(f"heads has no {name!r}; it has {', '.join(params.heads) or 'none'}")
    definition = params.heads[name]
    encoder = load_encoder(params.encoder)
    source = load_source(artifacts, source=params.source, seeds=params.seeds, encoder=encoder)
    soups = [Soup.load(artifacts.soup(definition.soup, seed=seed), encoder=encoder.id) for seed in params.seeds]
    inputs = [identity(source), definition.kind]
    work = [Shards(owner, inputs=[*inputs, soup.seed, soup.as_json()], n=1) for soup in soups]

    def task(number: int, _: int) -> dict[str, np.ndarray]:
        seed, soup = params.seeds[number], soups[number]
        classes = {"template": source.template, "class_names": source.class_names}
        shots, note = fewshot.checked(
            *source.images_of(seed),
            texts=class_texts(soup, encoder=PromptEncoder.of(encoder), **classes).T,
            logit_scale=logit_scale_of(encoder.model),
            names=source.class_names,
        )
        kinds = ANY if definition.kind == "chosen" else (definition.kind,)
        head = best_head(shots, kinds=kinds, soup=soup, encoder=encoder.id, note=note, **classes)
        result = f"{head.kind}, {head.n_correct} of {head.n_images} left-out images right"
        print(f"seed {seed}: {'; '.join(filter(None, (result, head.note)))}")
        return {"file": np.frombuffer(head.as_bytes(), dtype=np.uint8)}

    finish_shards(work, task=task, label=f"head {name}", unit="seed")
    with store.replacing(artifacts.head(name, seed=0).parent) as folder:
        folder.mkdir()
        for seed, shards in zip(params.seeds, work, strict=True):
            (folder / f"seed{seed}.safetensors").write_bytes(shards.load()[0]["file"].tobytes())


if __name__ == "__main__":
    stage.run(main)
