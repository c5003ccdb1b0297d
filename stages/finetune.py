"""One finetuned method, all seeds: few-shot images and a soup per seed -> finetuned/<method>/seed<k>/."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.finetune.params import FinetuneParams
from wsoup.finetune.starts import check_templates
from wsoup.finetune.train import Trainer
from wsoup.finetune.training_set import read_training_sets
from wsoup.finetune.tuned import pack_student, save_tuned
from wsoup.params.inputs import EncoderParams
from wsoup.params.reading import read_yaml
from wsoup.params.section import Name, Sections, Seeds, load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.peak import DevicePeak
from wsoup.runtime.work import finish_shards, save_seconds
from wsoup.towers.encoder import load_encoder


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    finetune: FinetuneParams


def main(owner: Owner, method: str) -> None:
    """Train METHOD, a name under finetune.methods, for every seed, and keep the averaged weights."""
    params = load(Wanted)
    artifacts = Artifacts()
    shared = params.finetune
    definition = one_of("finetune.methods", shared.methods, method)
    encoder = load_encoder(params.encoder)
    # Templates of targets do not affect training; a bad one is refused before hours of it.
    templates = {name: dataset["template"] for name, dataset in read_yaml("params.yaml")["datasets"].items()}
    check_templates(definition.tune, templates, source=params.source, tokenizer=encoder.tokenizer)
    sources = read_training_sets(
        artifacts, source=params.source, method=definition, seeds=params.seeds, encoder_id=encoder.id
    )
    # The other methods are left out: an edit of one of them must not train this one again.
    shared_params = shared.meant(exclude={"methods"})
    about = {
        "encoder": encoder.id,
        "method": method,
        "tune": definition.tune.meant(),
        "params": definition.meant() | {"shared": shared_params},
        "source": params.source,
        "made_with": dict(owner.packages),
    }
    configs = {seed: about | {"seed": seed} | source.about for seed, source in sources.items()}
    shards = []
    for seed, source in sources.items():
        key = [configs[seed], list(source.paths), list(source.class_names), encoder.preprocessing]
        # Made where it trains: a seed that is finished needs no student, and a worker of Ray makes its own.
        make = partial(Trainer, encoder, source=source, method=definition, shared=shared, seed=seed)
        state = owner.path(key, suffix=".running")
        iterations = definition.iterations or shared.iterations
        shards.append(Shard(owner, key, partial(train, make, state, save_seconds()), size=iterations))
    trained = finish_shards(shards, label=method, unit="iteration", ticks=True)
    with store.replacing(artifacts.tuned(method, seed=0).parent) as folder:
        for seed, payload in zip(sources, trained, strict=True):
            packed = store.unpack_arrays(payload, origin=folder)
            save_tuned(folder / f"seed{seed}", packed=packed, config=configs[seed])


def train(make: Callable[[], Trainer], running: Path, saved_every: float) -> bytes:
    """Train one seed, from its state in `running` if there is one, which is saved every so many seconds."""
    trainer = make()
    peak = DevicePeak(trainer.encoder.device)
    student = trainer.run(resume=running, save_seconds=saved_every)
    packed = pack_student(student, log=trainer.log, snapshots=trainer.snapshots, peak_device_mib=peak.mib())
    return store.pack_arrays(packed)


if __name__ == "__main__":
    stage.run(main)
