"""The finetuned models of one method, all seeds, on every dataset: counts as Parquet."""

from dataclasses import replace

import pyarrow as pa
from pydantic import TypeAdapter

from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows, load_material, tuned_rows
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.training import during_training, encode_and_evaluate, sample_images, seen_by, trained_row
from wsoup.finetune.params import TuneParams
from wsoup.finetune.tuned import load_tuned, members_divergence_log
from wsoup.finetune.tuners import check_templates
from wsoup.params.inputs import EmbedParams
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.search.rank.source import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    embed: EmbedParams
    evaluate: EvaluateParams


def main(owner: Owner, method: str) -> None:
    """Evaluate METHOD, a name under finetune.methods; test images are read again if the image tower was tuned."""
    params = load(Wanted)
    run = Run.of(owner, params)
    tests, size = load_tests(run.artifacts, encoder=run.encoder), params.embed.batch_size
    material = load_material(run, tests)
    folders = {seed: run.artifacts.tuned(method, seed=seed) for seed in run.seeds}
    tuned = {seed: load_tuned(folder, encoder=run.encoder) for seed, folder in folders.items()}
    config = store.read_object(folders[run.seeds[0]] / "config.json")
    tune, trained = TypeAdapter(TuneParams).validate_python(config["tune"]), config["params"]
    templates = {test.name: test.template for test in tests}
    check_templates(tune, templates, source=run.source, tokenizer=run.encoder.tokenizer)
    seen = seen_by(run, tuned, tests=tests, batch_size=size)
    sample = sample_images(tests, size=(trained["snapshots"] or {"images": 0})["images"])
    members = (trained["soup"], trained["members"]) if trained["members"] else None
    tables, training = [], []
    for seed, model in tuned.items():
        rows = tuned_rows(material, params=params.evaluate, seed=seed, trained=members)
        by_class, label = class_rows(replace(material, seeds=(seed,)), seen[seed]), f"evaluate {method} seed {seed}"
        tables.append(
            encode_and_evaluate(run, model, rows=[*rows, *by_class], tests=seen[seed], label=label, variant=method)
        )
        row = trained_row(rows, soup=trained["soup"])
        training += during_training(run, method, seed=seed, row=row, tests=sample, batch_size=size)
    about = run.about | {
        "method": method,
        "parameters": config["parameters"],
        "members_kl": [members_divergence_log(folder) for folder in folders.values()],
        "training": training,
    }
    out = run.artifacts.results / f"{method}.parquet"
    store.write_table(out, pa.concat_tables(tables), attributes=about)
    print(f"{out}: {method}, seeds {', '.join(map(str, run.seeds))}")


if __name__ == "__main__":
    stage.run(main)
