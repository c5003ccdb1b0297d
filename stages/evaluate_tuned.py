"""The finetuned models of one method, all seeds, on every dataset: counts as Parquet."""

from __future__ import annotations

import pyarrow as pa
from pydantic import TypeAdapter

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.encoder import EmbedParams, EncoderParams
from wsoup.core.params.section import Name, Sections, Seeds, load
from wsoup.evaluate.classifiers import class_rows, load_material, tuned_rows
from wsoup.evaluate.counts import evaluate
from wsoup.evaluate.encoded import encode_rows
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import table
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.training import during_training, seen_by, some_images, trained_row
from wsoup.finetune.params import TuneParams
from wsoup.finetune.tuned import load_tuned, members_divergence_log
from wsoup.finetune.tuners import check_templates
from wsoup.pipeline import stage
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    embed: EmbedParams
    evaluate: EvaluateParams


def main(owner: Owner, method: str) -> None:
    """Evaluate METHOD, a name under finetune.methods.

    Image features of the pretrained model are used where a method leaves the image tower alone; else the test images
    are read again.
    """
    params, artifacts = load(Wanted), Artifacts()
    encoder = load_encoder(params.encoder)
    evaluated = store.read_object(artifacts.evaluated)
    tests = load_tests(artifacts, datasets=evaluated["datasets"], encoder=encoder)
    soups = [soup["name"] for soup in evaluated["soups"]]
    material = load_material(
        artifacts, source=params.source, seeds=params.seeds, soups=soups, encoder=encoder.id, tests=tests
    )
    tuned = {seed: load_tuned(artifacts.tuned(method, seed=seed), encoder=encoder) for seed in params.seeds}
    folders = [artifacts.tuned(method, seed=seed) for seed in params.seeds]
    config = store.read_object(folders[0] / "config.json")
    tune, templates = TypeAdapter(TuneParams).validate_python(config["tune"]), {t.name: t.template for t in tests}
    check_templates(tune, templates, source=params.source, tokenizer=encoder.tokenizer)
    # Asked for also where nothing is read again: as one part of an array job the stage ends in there.
    again = tests if any(model.model.tunes_images for model in tuned.values()) else []
    reread = seen_by(tuned, tests=again, artifacts=artifacts, batch_size=params.embed.batch_size, owner=owner)
    seen = reread if again else dict.fromkeys(params.seeds, tests)
    trained = config["params"]
    few = some_images(tests, images=(trained["snapshots"] or {"images": 0})["images"])
    in_tables = [row for row in table(soups) if row.tuned]
    tables, training = [], []
    for seed, model in tuned.items():
        members = (trained["soup"], trained["members"]) if trained["members"] else None
        rows = tuned_rows(material, params=params.evaluate, seed=seed, trained=members)
        classifiers = encode_rows(
            rows,
            class_rows=class_rows(seen[seed], rows=in_tables, seeds=[seed], templates=[]),
            tests=seen[seed],
            encoder=model,
            texts=PromptEncoder.of(model),
            owner=owner,
            label=f"evaluate {method} seed {seed}",
        )
        tables.append(evaluate(classifiers, tests=seen[seed], tokenizer=model.tokenizer, variant=method))
        training += during_training(
            method,
            seed=seed,
            row=trained_row(rows, soup=trained["soup"]),
            encoder=encoder,
            tests=few,
            artifacts=artifacts,
            batch_size=params.embed.batch_size,
            owner=owner,
        )
    attributes = {
        "encoder": encoder.id,
        "method": method,
        "parameters": config["parameters"],
        "members_kl": [members_divergence_log(folder) for folder in folders],
        "training": training,
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / f"{method}.parquet"
    store.write_table(out, pa.concat_tables(tables), attributes=attributes)
    print(f"{out}: {method}, seeds {', '.join(map(str, params.seeds))}")


if __name__ == "__main__":
    stage.run(main)
