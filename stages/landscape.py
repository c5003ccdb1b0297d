"""The loss landscape of one method with a trained prompt, first seed: counts over a plane. A shard is a row of it.

At the paper's scale (ViT-B-16, some 2,500 class prompts, 13 x 13 points) that is about two hours of one CPU core.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from wsoup import store
from wsoup.errors import ParamsError
from wsoup.evaluate import landscape
from wsoup.evaluate.testsets import load_tests, soup_texts
from wsoup.finetune.tuned import load_tuned
from wsoup.params.finetune import PromptTune
from wsoup.params.whole import load_params
from wsoup.runtime import stage
from wsoup.runtime.shards import Shards
from wsoup.towers import load_encoder

Option = Annotated[Path, typer.Option()]


def main(method: str, finetuned: Option, embeddings: Option, soups: Option, out: Option) -> None:
    """Count correct test images over the plane of METHOD, tuned in FINETUNED, with members of SOUPS; Parquet to OUT."""
    params = load_params()
    wanted, seed = params.landscape, params.seeds[0]
    if method not in wanted.methods:
        known = ", ".join(wanted.methods) or "none"
        raise ParamsError(f"landscape.methods has no {method!r} (it has {known}); add it there in params.yaml")
    tune = params.finetune.methods[method].tune
    assert isinstance(tune, PromptTune)  # as params were checked
    encoder = load_encoder(params.encoder)
    tests = load_tests(embeddings, params=params, encoder=encoder)
    soup = soup_texts(soups / f"seed{seed}.json", encoder=encoder.id)
    pair = landscape.choose_pair(soup, tokenizer=encoder.tokenizer)
    tuned = load_tuned(finetuned / f"seed{seed}", encoder=encoder)
    template = next(test.template for test in tests if test.role == "source")
    start = landscape.starting_prompt(encoder, tune=tune, template=template)
    plane = landscape.Plane(tuned, start=start, pair=pair, stems=landscape.class_prompts(tests))
    axis = landscape.axis(steps=wanted.steps, margin=wanted.margin)
    counts = landscape.Landscape(plane, tests=tests, axis=axis)
    shards = Shards("landscape", inputs=[tuned.id, template, pair, axis, landscape.identity(tests)], n=len(axis))

    def task(_: int, row: int) -> dict[str, np.ndarray]:
        return {"n_correct": counts.row(row)}

    stage.finish_shards([shards], task=task, label=f"landscape {method}", unit="row")
    attributes = {
        "encoder": encoder.id,
        "method": method,
        "members": pair,
        "cut": any(text not in soup for text in pair),
    }
    store.write_table(
        out, counts.table([part["n_correct"] for part in shards.load()], seed=seed), attributes=attributes
    )
    print(f"{out}: {method}, seed {seed}, {len(axis)} x {len(axis)} points; A: {pair[0]!r}, B: {pair[1]!r}")


if __name__ == "__main__":
    stage.run(main)
