"""The finetuned models of one method, all seeds, on every dataset: counts as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from wsoup import store
from wsoup.evaluate.baselines import tuned_rows
from wsoup.evaluate.counts import class_rows, evaluate, mean_texts
from wsoup.evaluate.testsets import load_material, load_tests
from wsoup.evaluate.tuned import retest
from wsoup.finetune.tuned import load_tuned, members_divergence_log
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(
    method: str, finetuned: Option, embeddings: Option, manifests: Option, soups: Option, pools: Option, out: Option
) -> None:
    """Evaluate METHOD, whose models are in FINETUNED, into the Parquet file OUT.

    Image features of the pretrained model in EMBEDDINGS are used where a method leaves the image tower alone; else the
    test images listed in MANIFESTS are read again.
    """
    params = load_params()
    encoder = load_encoder(params.encoder)
    tests = load_tests(embeddings, params=params, encoder=encoder)
    source = next(test for test in tests if test.role == "source")
    material = load_material(
        params, soups=soups, pools=pools, source_class_names=source.class_names, encoder=encoder.id
    )
    encoders = {seed: load_tuned(finetuned / f"seed{seed}", encoder=encoder) for seed in params.seeds}
    seen = dict.fromkeys(params.seeds, tests)
    if any(tuned.model.tunes_images for tuned in encoders.values()):
        roots = {name: dataset.root for name, dataset in params.datasets.items()}
        seen = retest(tests, encoders=encoders, manifests=manifests, roots=roots, batch_size=params.embed.batch_size)
    gpt = store.read_json(pools / "gpt.json")
    tables = []
    for seed in stage.progress(params.seeds, label=f"evaluate {method}", unit="seed"):
        tuned = encoders[seed]
        texts = PromptEncoder(tuned.model, tuned.tokenizer, device=tuned.device, dtype=tuned.dtype)
        classifiers = mean_texts(
            tuned_rows(material, params=params.evaluate, seed=seed), tests=seen[seed], encoder=texts
        )
        further = class_rows(seen[seed], seeds=[seed], templates=[], gpt=gpt)
        tables.append(
            evaluate(
                classifiers,
                class_rows=further,
                tests=seen[seed],
                encoder=texts,
                tokenizer=tuned.tokenizer,
                variant=method,
            )
        )
    config = store.read_json(finetuned / f"seed{params.seeds[0]}" / "config.json")
    attributes = {
        "encoder": encoder.id,
        "method": method,
        "parameters": config["parameters"],
        "members_kl": [members_divergence_log(finetuned / f"seed{seed}") for seed in params.seeds],
    }
    store.write_table(out, pa.concat_tables(tables), attributes=attributes)
    print(f"{out}: {method}, seeds {', '.join(map(str, params.seeds))}")


if __name__ == "__main__":
    stage.run(main)
