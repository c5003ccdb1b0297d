"""The finetuned models of one method, all seeds, on every dataset: counts as Parquet."""

from dataclasses import replace

import pyarrow as pa

from wsoup.disk import store
from wsoup.disk.shards import Owner
from wsoup.evaluate.classifiers import class_rows, load_material, tuned_rows
from wsoup.evaluate.evaluation import answers_of, evaluate
from wsoup.evaluate.judged import with_right_images
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.row_key import file_of_method
from wsoup.evaluate.seen import plan_seen
from wsoup.evaluate.testsets import load_tests
from wsoup.evaluate.text_plan import plan_texts
from wsoup.evaluate.training_curve import during_training, trained_row
from wsoup.finetune.starts import check_templates
from wsoup.finetune.tuned import load_tuned, members_divergence_log, read_tuned_config
from wsoup.params.inputs import EmbedParams
from wsoup.params.section import load
from wsoup.pipeline import stage
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.run import Run, SourceParams


class Wanted(SourceParams):
    """The sections of params.yaml that this stage reads."""

    embed: EmbedParams
    evaluate: EvaluateParams


def main(owner: Owner, method: str) -> None:
    """Evaluate METHOD, a name under finetune.methods; test images are read again if the image tower was tuned."""
    params = load(Wanted)
    run = Run.of(owner, params)
    batch_size = params.embed.batch_size
    encoder = run.encoder
    tests = load_tests(run.artifacts, encoder=encoder)
    material = load_material(run, tests)
    folders = {seed: run.artifacts.tuned(method, seed=seed) for seed in run.seeds}
    tuned = {seed: load_tuned(folder, encoder=encoder) for seed, folder in folders.items()}
    config, tune = read_tuned_config(folders[run.seeds[0]])
    # Checked before training, too; a template of a target may have changed since, for which no training runs again.
    check_templates(tune, {test.name: test.template for test in tests}, source=run.source, tokenizer=encoder.tokenizer)
    trained = config["params"]
    if not tune.keeps_texts:
        material = material.without_templates()
    seeing = plan_seen(run, tuned, tests=tests, batch_size=batch_size)
    # The id of its encoder is in the keys of resume state, so each seed has its own.
    runs = {seed: replace(run, encoder=model) for seed, model in tuned.items()}
    rows = {seed: tuned_rows(material, params=params.evaluate, seed=seed, trained=trained) for seed in tuned}
    texts = {}
    for seed, model in tuned.items():
        every = [*rows[seed], *class_rows(replace(material, seeds=(seed,)), tests)]
        texts[seed] = plan_texts(every, tests=tests, text_encoder=PromptEncoder.of(model))
    seen = seeing.seen()
    tables = []
    training = []
    for seed, model in tuned.items():
        classifiers = texts[seed].finished(runs[seed], label=f"evaluate {method} seed {seed}")
        if tune.trains_classes:
            own_row = trained_row(rows[seed], soup=trained["soup"])
            classifiers = classifiers.with_class_weights(own_row, model.model.class_directions())
        answers = answers_of(classifiers, tests=seen[seed], soups=list(material.soups))
        counts = evaluate(answers, tokenizer=model.tokenizer, variant=method)
        tables.append(with_right_images(counts, answers))
        training += during_training(
            run, method, seed=seed, rows=rows[seed], trained=trained, tests=tests, batch_size=batch_size
        )
    about = run.about | {
        "method": method,
        "parameters": config["parameters"],
        "peak_device_mib": config["peak_device_mib"],
        "members_kl": [members_divergence_log(folder) for folder in folders.values()],
        "training": training,
    }
    if "selected" in config:
        about["selected"] = config["selected"]
    out = file_of_method(run.artifacts.results, method)
    store.write_table(out, pa.concat_tables(tables), attributes=about)
    print(f"{out}: {method}, seeds {', '.join(map(str, run.seeds))}")


if __name__ == "__main__":
    stage.run(main)
