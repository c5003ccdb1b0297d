"""One finetuned method, all seeds: few-shot images and a soup per seed -> finetuned/<method>/seed<k>/."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner, Shard
from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.rates import Tried, best_rate
from wsoup.finetune.selection import count_right, divided
from wsoup.finetune.starts import check_templates
from wsoup.finetune.train import Trainer
from wsoup.finetune.training_set import TrainingSet, read_training_sets
from wsoup.finetune.tuned import pack_student, save_tuned
from wsoup.params.inputs import EncoderParams
from wsoup.params.reading import read_yaml
from wsoup.params.section import Name, Sections, Seeds, load, one_of
from wsoup.pipeline import stage
from wsoup.runtime.peak import DevicePeak
from wsoup.runtime.progress import counting, showing
from wsoup.runtime.work import finish_by_group, finish_shards, save_seconds
from wsoup.towers.encoder import Encoder, load_encoder


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
    if definition.select is not None:
        tried = tried_rates(owner, encoder, method=definition, shared=shared, about=about, sources=sources)
        definition = definition.model_copy(update={"learning_rate": best_rate(tried)})
        about["params"] = definition.meant() | {"shared": shared_params}
        about["selected"] = [asdict(each) for each in tried]
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


def tried_rates(
    owner: Owner,
    encoder: Encoder,
    *,
    method: MethodParams,
    shared: FinetuneParams,
    about: Mapping[str, object],
    sources: Mapping[int, TrainingSet],
) -> list[Tried]:
    """Train with each rate of `select` on half of every seed's images, and count what is right of the other half."""
    assert method.select is not None
    rates = sorted(set(method.select.learning_rate))
    groups: dict[float, list[Shard]] = {rate: [] for rate in rates}
    n_images = 0
    for seed, source in sources.items():
        shown, held = divided(source, seed=seed)
        n_images += len(held.labels)
        for rate in rates:
            with_rate = method.model_copy(update={"learning_rate": rate})
            key = ["held out", about, seed, source.about, rate, list(source.class_names), encoder.preprocessing]
            make = partial(Trainer, encoder, source=shown, method=with_rate, shared=shared, seed=seed)
            groups[rate].append(Shard(owner, key, partial(judge, make, held)))
    counts = finish_by_group(groups, label=f"{about['method']}: learning rates", unit="training")
    return [Tried(rate, sum(map(int, payloads)), n_images) for rate, payloads in counts.items()]


def judge(make: Callable[[], Trainer], held: TrainingSet) -> bytes:
    """Train, and count the held-out images that are right, as decimal digits."""
    trainer = make()
    # The bar counts trainings.
    with showing(bars=False), counting(label="", total=None, initial=0, unit="iteration"):
        student = trainer.run()
    is_soft = student.soft_descriptors is not None
    soup = [""] if is_soft else held.soup[: trainer.method.members]
    return str(count_right(student, trainer.encoder, held=held, soup=soup)).encode()


def train(make: Callable[[], Trainer], running: Path, saved_every: float) -> bytes:
    """Train one seed, from its state in `running` if there is one, which is saved every so many seconds."""
    trainer = make()
    peak = DevicePeak(trainer.encoder.device)
    student = trainer.run(resume=running, save_seconds=saved_every)
    packed = pack_student(student, log=trainer.log, snapshots=trainer.snapshots, peak_device_mib=peak.mib())
    return store.pack_arrays(packed)


if __name__ == "__main__":
    stage.run(main)
