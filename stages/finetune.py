"""One finetuned method, all seeds: few-shot images and a soup per seed -> finetuned/<method>/seed<k>/."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from wsoup import store
from wsoup.errors import MissingError, ParamsError
from wsoup.finetune.train import SAVE_SECONDS, Trainer, TrainingSet
from wsoup.finetune.tuned import save_tuned
from wsoup.finetune.tuners import check_templates
from wsoup.params.whole import Params, load_params
from wsoup.runtime import stage
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(
    method: Annotated[str, typer.Argument(help="a name under finetune.methods")],
    splits: Option,
    manifest: Option,
    soups: Option,
    out: Option,
    save_memory: Annotated[bool, typer.Option(help="recompute activations instead of keeping them")] = False,
    save_seconds: Annotated[float, typer.Option(help="how often a running training is saved")] = SAVE_SECONDS,
) -> None:
    """Train METHOD for every seed on the few-shot SPLITS of MANIFEST with SOUPS; the averaged weights go to OUT."""
    params = load_params()
    if method not in params.finetune.methods:
        raise ParamsError(f"finetune.methods has no {method!r}; it has {', '.join(params.finetune.methods)}")
    wanted, shared = params.finetune.methods[method], params.finetune
    attributes = store.table_attributes(store.require(manifest, made_by="prepare"))
    encoder = load_encoder(params.encoder)
    check_templates(wanted.tune, params.datasets, source=params.source, tokenizer=encoder.tokenizer)
    with store.replacing(out) as folder:
        for seed in params.seeds:
            source = read_source(
                params, splits=splits, soups=soups, seed=seed, encoder=encoder.id, attributes=attributes
            )
            config = {
                "encoder": encoder.id,
                "method": method,
                "seed": seed,
                "tune": wanted.tune.model_dump(),
                "template": source.template,
                "params": {**wanted.model_dump(by_alias=True), "shared": shared.model_dump(exclude={"methods"})},
                "source": params.source,
                "split": store.fingerprint([list(source.paths), source.labels.tolist()]),
                "soup": list(source.soup),
            }
            trainer = Trainer(encoder, source=source, method=wanted, shared=shared, seed=seed, save_memory=save_memory)
            digest = store.fingerprint([config, attributes, encoder.preprocessing, list(source.class_names)])
            resume = store.cache_dir() / "finetune" / f"{digest}.safetensors"
            progress = partial(stage.progress, label=f"{method} seed {seed}")
            student = trainer.run(resume=resume, save_seconds=save_seconds, progress=progress)
            save_tuned(folder / f"seed{seed}", student=student, config=config, log=trainer.log)


def read_source(
    params: Params, *, splits: Path, soups: Path, seed: int, encoder: dict[str, Any], attributes: dict[str, Any]
) -> TrainingSet:
    """The few-shot images of one seed and the texts of its soup."""
    split = store.read_table(splits / f"seed{seed}.parquet")
    root = Path(params.datasets[params.source].root)
    soup = store.read_soup(soups / f"seed{seed}.json", encoder=encoder)
    paths = [str(root / path) for path in split["path"].to_pylist()]
    if not root.exists():
        raise MissingError(f"datasets.{params.source}.root: folder {root} does not exist")
    return TrainingSet(
        paths=paths,
        labels=np.asarray(split["label"].to_numpy(), dtype=np.int64),
        class_names=attributes["class_names"],
        template=attributes["template"],
        soup=[member["text"] for member in soup["members"]],
    )


if __name__ == "__main__":
    stage.run(main)
