"""One finetuned method, all seeds: few-shot images and a soup per seed -> finetuned/<method>/seed<k>/."""

import os
from functools import partial
from pathlib import Path

from wsoup.base.errors import ParamsError
from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.finetune.data import TrainingSet, read_training_set
from wsoup.finetune.params import FinetuneParams
from wsoup.finetune.train import Trainer
from wsoup.finetune.tuned import pack_student, save_tuned
from wsoup.finetune.tuners import check_templates
from wsoup.params.inputs import EmbedParams, EncoderParams
from wsoup.params.section import Name, Sections, Seeds, load, read_yaml
from wsoup.pipeline import stage
from wsoup.runtime.work import finish_shards, save_seconds
from wsoup.towers.encoder import load_encoder


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    embed: EmbedParams
    finetune: FinetuneParams


def main(owner: Owner, method: str) -> None:
    """Train METHOD, a name under finetune.methods, for every seed, and keep the averaged weights."""
    params, artifacts = load(Wanted), Artifacts()
    if method not in params.finetune.methods:
        raise ParamsError(f"finetune.methods has no {method!r}; it has {', '.join(params.finetune.methods)}")
    definition, shared = params.finetune.methods[method], params.finetune
    save_memory = bool(os.environ.get("WSOUP_SAVE_MEMORY"))  # recompute activations instead of keeping them
    saved_every = save_seconds()
    encoder = load_encoder(params.encoder)
    # Templates of targets do not affect training; a bad one is refused before hours of it.
    templates = {name: dataset["template"] for name, dataset in read_yaml("params.yaml")["datasets"].items()}
    check_templates(definition.tune, templates, source=params.source, tokenizer=encoder.tokenizer)
    sources = [
        read_training_set(
            artifacts,
            source=params.source,
            soup=definition.soup,
            seed=seed,
            encoder=encoder.id,
            on_bad_image=params.embed.on_bad_image,
        )
        for seed in params.seeds
    ]
    for text in dict.fromkeys(text for source in sources for text in source.skipped):
        print(f"skipped: {text}")
    configs = [
        {
            "encoder": encoder.id,
            "method": method,
            "seed": seed,
            "tune": definition.tune.model_dump(),
            "template": source.template,
            "params": {**definition.model_dump(by_alias=True), "shared": shared.model_dump(exclude={"methods"})},
            "source": params.source,
            "images": store.fingerprint([list(source.digests), source.labels.tolist()]),
            "soup": list(source.soup),
            "made_with": dict(owner.packages),
        }
        for seed, source in zip(params.seeds, sources, strict=True)
    ]
    inputs = [
        [config, list(source.paths), list(source.class_names), encoder.preprocessing]
        for config, source in zip(configs, sources, strict=True)
    ]

    def train(source: TrainingSet, seed: int, running: Path) -> bytes:
        trainer = Trainer(encoder, source=source, method=definition, shared=shared, seed=seed, save_memory=save_memory)
        student = trainer.run(resume=running, save_seconds=saved_every)
        return store.pack_arrays(pack_student(student, log=trainer.log, snapshots=trainer.snapshots))

    iterations = definition.iterations or shared.iterations
    shards = [
        Shard(owner, key, partial(train, source, seed, owner.path(key, suffix=".running")), size=iterations)
        for key, source, seed in zip(inputs, sources, params.seeds, strict=True)
    ]
    trained = finish_shards(shards, label=method, unit="iteration", ticks=True)
    with store.replacing(artifacts.tuned(method, seed=0).parent) as folder:
        for seed, config, payload in zip(params.seeds, configs, trained, strict=True):
            packed = store.unpack_arrays(payload, origin=folder)
            save_tuned(folder / f"seed{seed}", packed=packed, config=config)


if __name__ == "__main__":
    stage.run(main)
