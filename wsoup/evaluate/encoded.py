"""`wsoup.evaluate.counts.mean_texts` in shards: blocks of class prompts, and the rows with prompts by class one by one.

So a long evaluation goes on after a kill, and several workers share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from wsoup.core.disk.shards import Owner, Shards
from wsoup.core.flops import FlopCounter
from wsoup.evaluate.classifiers import Row, check_rows
from wsoup.evaluate.counts import Classifiers, mean_of_stems, mean_prompts
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.runtime import process
from wsoup.runtime.work import finish_shards
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

CLASS_PROMPTS = 1024
"""Class prompts in one shard; each is encoded with every text of every row."""
DECIDING = ("texts", "offsets", "offset_formula", "class_name_weight")
"""What of a row decides its mean texts."""


def encode_rows(
    rows: Sequence[Row],
    *,
    class_rows: Mapping[str, Sequence[Row]],
    tests: Sequence[TestSet],
    encoder: Encoder,
    texts: PromptEncoder,
    owner: Owner,
    label: str,
) -> Classifiers:
    """All rows with their mean text features.

    Args:
        rows: rows with shared texts.
        class_rows: rows with prompts by class, by dataset.
        tests: the datasets.
        encoder: the model; its id names the resume state.
        texts: its text side.
        owner: whose resume state finished shards are.
        label: for the progress bar.

    Raises:
        PoolError: a text does not fit the model's context behind a class, see `check_rows`.
    """
    check_rows(rows, class_rows=class_rows, tests=tests, tokenizer=encoder.tokenizer)
    classes = ClassPrompts(tests)
    stems, further = classes.stems, [(name, row) for name, own in class_rows.items() for row in own]
    about = {"encoder": encoder.id, "kind": "rows"}
    prompts = {"encoder": encoder.id, "kind": "prompts by class"}
    work = [
        Shards(owner, inputs={**about, "rows": _texts_of(rows), "stems": stems}, n=-(-len(stems) // CLASS_PROMPTS)),
        Shards(owner, inputs={**prompts, "rows": [list(row.prompts) for _, row in further]}, n=len(further)),
    ]

    def task(number: int, shard: int) -> dict[str, np.ndarray]:
        flops = TextFlops(texts, encoder=encoder, prompt=f"{stems[0]}.")
        with process.timed(process.TEXTS):
            if number:
                means = mean_prompts(further[shard][1], encoder=texts)
            else:
                some = stems[shard * CLASS_PROMPTS : (shard + 1) * CLASS_PROMPTS]
                means = mean_of_stems(rows, stems=some, encoder=texts)
        process.add_flops(process.TEXTS, flops.done())
        return {"means": means.cpu().numpy()}

    finish_shards(work, task=task, label=label, unit="block")
    shared, own = ([torch.from_numpy(part["means"]).to(encoder.device) for part in shards.load()] for shards in work)
    by_dataset = {
        test.name: [(row, means) for (name, row), means in zip(further, own, strict=True) if name == test.name]
        for test in tests
    }
    return Classifiers(rows, classes, torch.cat(shared, dim=1), by_dataset)


def _texts_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What of rows decides their mean texts, as JSON values."""
    return [{name: getattr(row, name) for name in DECIDING} for row in rows]


class TextFlops:
    """FLOPs of what a `PromptEncoder` encoded since this was made: counted where it shares beginnings, else by tokens.

    Args:
        texts: counts its tokens, and where it can its FLOPs.
        encoder: its model.
        prompt: one that the model encodes; a learnt prompt takes the place of its first tokens.
    """

    def __init__(self, texts: PromptEncoder, *, encoder: Encoder, prompt: str) -> None:
        self.texts, self.encoder, self.prompt = texts, encoder, prompt
        self._flops, self._tokens = texts.flops, texts.tokens_encoded

    def done(self) -> float:
        """Multiplications and additions in matrix products."""
        if self.texts.way == "fast":
            return float(self.texts.flops - self._flops)
        apart = PromptEncoder.of(self.encoder)  # `texts` goes on counting what the stage encodes
        return float(flops_per_token(apart, prompt=self.prompt) * (self.texts.tokens_encoded - self._tokens))


def flops_per_token(texts: PromptEncoder, *, prompt: str) -> int:
    """Of one token of a prompt, for towers that share no beginnings; 0 for the others, which count themselves."""
    if texts.way == "fast":
        return 0
    before = texts.tokens_encoded
    with FlopCounter() as counter, torch.no_grad():
        texts.encode([prompt])
    return counter.flops // max(1, texts.tokens_encoded - before)
