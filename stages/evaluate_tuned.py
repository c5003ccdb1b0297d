"""The finetuned models of one method, all seeds, on every dataset: counts as Parquet."""

import pyarrow as pa
from pydantic import TypeAdapter

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows, load_material, tuned_rows
from wsoup.evaluate.counts import encode_and_evaluate
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.training import during_training, sample_images, seen_by, trained_row
from wsoup.finetune.params import TuneParams
from wsoup.finetune.tuned import load_tuned, members_divergence_log
from wsoup.finetune.tuners import check_templates
from wsoup.params.inputs import EmbedParams
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.rank.source import SourceParams
from wsoup.towers.encoder import load_encoder


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    embed: EmbedParams
    evaluate: EvaluateParams


def main(owner: Owner, method: str) -> None:
    """Evaluate METHOD, a name under finetune.methods; test images are read again if the image tower was tuned."""
    params, artifacts = load(Wanted), Artifacts()
    encoder = load_encoder(params.encoder)
    tests = load_tests(artifacts, encoder=encoder)
    material = load_material(artifacts, source=params.source, seeds=params.seeds, encoder=encoder.id, tests=tests)
    folders = {seed: artifacts.tuned(method, seed=seed) for seed in params.seeds}
    tuned = {seed: load_tuned(folder, encoder=encoder) for seed, folder in folders.items()}
    config = store.read_object(folders[params.seeds[0]] / "config.json")
    tune, templates = TypeAdapter(TuneParams).validate_python(config["tune"]), {t.name: t.template for t in tests}
    check_templates(tune, templates, source=params.source, tokenizer=encoder.tokenizer)
    images = {"artifacts": artifacts, "batch_size": params.embed.batch_size, "owner": owner}
    seen = seen_by(tuned, tests=tests, **images)
    trained = config["params"]
    sample = sample_images(tests, size=(trained["snapshots"] or {"images": 0})["images"])
    tables, training = [], []
    for seed, model in tuned.items():
        members = (trained["soup"], trained["members"]) if trained["members"] else None
        rows = tuned_rows(material, params=params.evaluate, seed=seed, trained=members)
        by_class = class_rows(seen[seed], seeds=[seed], templates=[], tuned=True)
        label = f"evaluate {method} seed {seed}"
        tables.append(
            encode_and_evaluate(
                rows, class_rows=by_class, tests=seen[seed], encoder=model, owner=owner, label=label, variant=method
            )
        )
        row = trained_row(rows, soup=trained["soup"])
        training += during_training(method, seed=seed, row=row, encoder=encoder, tests=sample, **images)
    attributes = {
        "encoder": encoder.id,
        "method": method,
        "parameters": config["parameters"],
        "members_kl": [members_divergence_log(folder) for folder in folders.values()],
        "training": training,
        "made_with": dict(owner.packages),
    }
    out = artifacts.results / f"{method}.parquet"
    store.write_table(out, pa.concat_tables(tables), attributes=attributes)
    print(f"{out}: {method}, seeds {', '.join(map(str, params.seeds))}")


if __name__ == "__main__":
    stage.run(main)
