"""Every zero-shot row on every dataset with the pretrained encoder: counts as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow.compute as pc
import typer

from wsoup import store
from wsoup.evaluate.baselines import pretrained_rows
from wsoup.evaluate.counts import class_rows, evaluate, flips, mean_texts
from wsoup.evaluate.testsets import load_material, load_tests
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import ensemble_templates, load_encoder

Option = Annotated[Path, typer.Option()]


def main(embeddings: Option, soups: Option, pools: Option, out: Option) -> None:
    """Evaluate on the test features in EMBEDDINGS, with SOUPS and POOLS, into folder OUT.

    Writes results.parquet (the tables' rows), texts.parquet (single texts) and flips.parquet (images that the word
    soup of the first seed turned right or wrong).
    """
    params = load_params()
    encoder = load_encoder(params.encoder)
    tests = load_tests(embeddings, params=params, encoder=encoder)
    source = next(test for test in tests if test.role == "source")
    material = load_material(
        params, soups=soups, pools=pools, source_class_names=source.class_names, encoder=encoder.id
    )
    rows = pretrained_rows(material, params=params.evaluate)
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device, dtype=encoder.dtype)
    classifiers = mean_texts(rows, tests=tests, encoder=texts)
    further = class_rows(
        tests,
        seeds=params.seeds,
        templates=ensemble_templates() if params.evaluate.ensemble else [],
        gpt=store.read_json(pools / "gpt.json"),
    )
    lines = evaluate(
        classifiers, class_rows=further, tests=tests, encoder=texts, tokenizer=encoder.tokenizer, variant="pretrained"
    )
    single = pc.is_valid(lines["text"])
    attributes = {"encoder": encoder.id, "datasets": {test.name: test.facts for test in tests}}
    changed = flips(
        classifiers,
        before=next(row for row in rows if row.method == "class_name"),
        after=material.soup("word", seed=params.seeds[0]),
        tests=tests,
    )
    with store.replacing(out) as folder:
        store.write_table(folder / "results.parquet", lines.filter(pc.invert(single)), attributes=attributes)
        store.write_table(folder / "texts.parquet", lines.filter(single), attributes=attributes)
        store.write_table(folder / "flips.parquet", changed, attributes=attributes)
    print(f"{out}: {len(rows)} rows on {len(tests)} datasets, {texts.tokens_encoded} tokens encoded")


if __name__ == "__main__":
    stage.run(main)
