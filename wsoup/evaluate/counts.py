"""From texts to counts: every classifier on every dataset, each prompt encoded once.

A classifier (a row of the paper's tables) is a set of texts for each class. Both ways of using it need only the mean
text feature of each class: the score mean is the cosine with that mean, the centroid its normalised direction
(`wsoup.core.scoring`). So all rows are collected first, each distinct text is encoded once with each distinct class
prompt of all datasets, and every block of features is added to the rows that use its texts, then dropped.

The token offset trick puts t null tokens before the descriptor, as in the paper's example: "a photo of a dog, ! ! ! ! !
which may be large or small." The authors' code (Chris210634/word_soups, source/models.py) keeps the period and the
end-of-text token of the bare prompt before them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.flops import FlopCounter
from wsoup.core.scoring import MODES, class_sums, correct_per_candidate, mean_cosines, normalize
from wsoup.disk import store
from wsoup.disk.shards import Owner, Shard
from wsoup.evaluate.classifiers import Row, check_rows
from wsoup.evaluate.testsets import COSINES, COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.runtime import process
from wsoup.runtime.work import finish_shards
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tokens import Tokenizer, token_lengths
from wsoup.towers.encoder import Encoder

CLASS_PROMPTS = 1024
"""Class prompts in one shard; each is encoded with every text of every row."""
SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("variant", pa.string()),
        ("mode", pa.string()),
        ("m", pa.int64()),  # null if it differs by class
        ("offsets", pa.int64()),  # token offsets at which each member is repeated
        ("texts", pa.float64()),  # texts per class, averaged over classes: the paper's column m
        ("text", pa.string()),  # null except for single texts
        ("stored", pa.int64()),  # integers needed to store the members, one per token; null for prompts by class
        ("seed", pa.int64()),
        *WHERE,
        *COUNTS,
        *COSINES,
    ]
)


@dataclass(frozen=True)
class Classifiers:
    """Rows with their mean text features.

    Attributes:
        rows: R rows with shared texts.
        prompts: S class prompts.
        means: (R, S, D) float32.
        by_class: rows with prompts by class, and their mean text features (C, D), by dataset.
    """

    rows: Sequence[Row]
    prompts: ClassPrompts
    means: Tensor
    by_class: Mapping[str, Sequence[tuple[Row, Tensor]]]

    def of(self, test: TestSet) -> Tensor:
        """Mean text features of every row for the classes of one dataset: (R, C, D)."""
        return self.means[:, self.prompts.of(test)]


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
    """Compute the mean text features of all rows, resumably.

    Shards are blocks of class prompts, and single rows with prompts by class.

    Args:
        rows: rows with shared texts.
        class_rows: rows with prompts by class, by dataset.
        tests: the datasets.
        encoder: the model, whose id is part of the resume key.
        texts: the model's text side.
        owner: owner of the resume state.
        label: label of the progress bar.

    Raises:
        PoolError: a text exceeds the model's context, see `check_rows`.
    """
    check_rows(rows, class_rows=class_rows, tests=tests, tokenizer=encoder.tokenizer)
    classes = ClassPrompts(tests)
    stems, by_class = classes.stems, [(name, row) for name, own in class_rows.items() for row in own]
    blocks = [stems[start : start + CLASS_PROMPTS] for start in range(0, len(stems), CLASS_PROMPTS)]

    def packed(mean: Callable[[], Tensor]) -> bytes:
        flops = TextFlops(texts, encoder=encoder, prompt=f"{stems[0]}.")
        with process.timed(process.TEXTS):
            means = mean()
        process.add_flops(process.TEXTS, flops.done())
        return store.pack_arrays({"means": means.cpu().numpy()})

    tasks: list[tuple[list[Any], Callable[[], Tensor]]] = [
        *(([_deciding(rows), block], partial(mean_of_stems, rows, stems=block, encoder=texts)) for block in blocks),
        *((list(row.prompts), partial(mean_prompts, row, encoder=texts)) for _, row in by_class),
    ]
    shards = [Shard(owner, [encoder.id, *about], partial(packed, mean)) for about, mean in tasks]
    arrays = [store.unpack_arrays(made, origin=label) for made in finish_shards(shards, label=label, unit="block")]
    means = [torch.from_numpy(each["means"]).to(encoder.device) for each in arrays]
    shared, own = means[: len(blocks)], means[len(blocks) :]
    by_dataset = {
        test.name: [(row, means) for (name, row), means in zip(by_class, own, strict=True) if name == test.name]
        for test in tests
    }
    return Classifiers(rows, classes, torch.cat(shared, dim=1), by_dataset)


def _deciding(rows: Sequence[Row]) -> list[list[Any]]:
    """The fields of rows that determine their mean texts, for the resume key."""
    return [[row.texts, row.offsets, row.offset_formula] for row in rows]


def mean_texts(
    rows: Sequence[Row],
    *,
    class_rows: Mapping[str, Sequence[Row]],
    tests: Sequence[TestSet],
    encoder: PromptEncoder,
) -> Classifiers:
    """`encode_rows` in one go, without resume state."""
    check_rows(rows, class_rows=class_rows, tests=tests, tokenizer=encoder.tokenizer)
    classes = ClassPrompts(tests)
    by_class = {name: [(row, mean_prompts(row, encoder=encoder)) for row in own] for name, own in class_rows.items()}
    return Classifiers(rows, classes, mean_of_stems(rows, stems=classes.stems, encoder=encoder), by_class)


def mean_of_stems(rows: Sequence[Row], *, stems: Sequence[str], encoder: PromptEncoder) -> Tensor:
    """Mean text features of R rows with each of S class prompts: (R, S, D)."""
    means: Tensor | None = None
    for offset in sorted({offset for row in rows for offset in row.offsets}):
        users = [r for r, row in enumerate(rows) if offset in row.offsets]
        # Sorted, so that neighbouring texts share prefixes, which are encoded once.
        texts = sorted({text for r in users for text in rows[r].texts})
        weights = mean_weights([rows[r].texts for r in users], texts=texts)  # (users, P)
        weights /= torch.tensor([[float(len(rows[r].offsets))] for r in users])
        starts, endings = list(stems), [prompts.ending(text, period=True) for text in texts]
        if offset:  # null tokens follow the comma
            starts, endings = prompts.with_comma(stems), [prompts.after_comma(text, period=True) for text in texts]
        formula = rows[users[0]].offset_formula
        for where, block in encoder.grid_blocks(starts, endings, token_offset=offset, offset_formula=formula):
            if means is None:
                means = block.new_zeros(len(rows), *block.shape[1:])
            share = weights[:, where].to(block.device) @ block.flatten(1)  # (users, S * D)
            means[users] += share.view(len(users), *block.shape[1:])
    return torch.zeros(0, len(stems), 0) if means is None else means


def mean_weights(groups: Sequence[Sequence[str]], *, texts: Sequence[str]) -> Tensor:
    """Weights (G, P) that average P text features within each of G groups; a repeated text counts repeatedly."""
    position = {text: i for i, text in enumerate(texts)}
    weights = torch.zeros(len(groups), len(texts))
    for g, group in enumerate(groups):
        for text in group:
            weights[g, position[text]] += 1.0 / len(group)
    return weights


def mean_prompts(row: Row, *, encoder: PromptEncoder) -> Tensor:
    """Mean text feature of each class, for a row with prompts by class: (C, D)."""
    unique = sorted({prompt for class_prompts in row.prompts for prompt in class_prompts})
    features = encoder.encode(unique)  # (P, D)
    return mean_weights(row.prompts, texts=unique).to(features.device) @ features


def encode_and_evaluate(
    rows: Sequence[Row],
    *,
    class_rows: Mapping[str, Sequence[Row]],
    tests: Sequence[TestSet],
    encoder: Encoder,
    owner: Owner,
    label: str,
    variant: str,
) -> pa.Table:
    """`encode_rows` with a new `PromptEncoder`, then `evaluate`."""
    texts = PromptEncoder.of(encoder)
    classifiers = encode_rows(
        rows, class_rows=class_rows, tests=tests, encoder=encoder, texts=texts, owner=owner, label=label
    )
    return evaluate(classifiers, tests=tests, tokenizer=encoder.tokenizer, variant=variant)


def evaluate(classifiers: Classifiers, *, tests: Sequence[TestSet], tokenizer: Tokenizer, variant: str) -> pa.Table:
    """Count the correct images of every row on every dataset, in both modes (single texts in the only one they have).

    Args:
        classifiers: all rows, encoded by the model that made the image features.
        tests: the datasets.
        tokenizer: the model's tokenizer, which determines what a soup takes to store.
        variant: ``pretrained`` or the name of a finetuned method.

    Returns:
        One line per dataset, row, mode and seed, with the columns of `SCHEMA`.
    """
    lines: list[dict[str, object]] = []
    stored = tokens_stored(classifiers.rows, tokenizer=tokenizer)
    for test in tests:
        by_class = classifiers.by_class.get(test.name, ())
        rows: list[Row] = [*classifiers.rows, *(row for row, _ in by_class)]
        means = classifiers.of(test)
        if by_class:
            means = torch.cat([means, torch.stack([mean for _, mean in by_class])])  # (R, C, D)
        lines += count(rows, means=means, stored=stored, test=test, variant=variant)
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def count(
    rows: Sequence[Row], *, means: Tensor, stored: Sequence[int], test: TestSet, variant: str
) -> Iterator[dict[str, object]]:
    """Lines of R rows on one dataset, given mean text features (R, C, D) and `stored` of the rows with shared texts."""
    n_images = len(test.labels)
    sums = class_sums(test.image_features, test.labels, n_classes=len(test.class_names))
    by_mode = {"centroid": normalize(means), "score_mean": means}
    right = {
        mode: correct_per_candidate(test.image_features, test.labels, classes).sum(dim=1).tolist()
        for mode, classes in by_mode.items()
    }
    for r, row in enumerate(rows):
        for mode in MODES if row.text is None else MODES[:1]:
            alignment, uniformity = mean_cosines(by_mode[mode][r][None], sums=sums, n_images=n_images)
            for seed in row.seeds:
                yield {
                    "method": row.method,
                    "variant": variant,
                    "mode": mode,
                    "m": row.m,
                    "offsets": len(row.offsets),
                    "texts": row.texts_per_class,
                    "text": row.text,
                    "stored": stored[r] if r < len(stored) else None,
                    "seed": seed,
                    **test.where,
                    "n_correct": right[mode][r],
                    "n_images": n_images,
                    "alignment": float(alignment),
                    "uniformity": float(uniformity),
                }


def tokens_stored(rows: Sequence[Row], *, tokenizer: Tokenizer) -> list[int]:
    """Total tokens of the members of each row: (R,). A soup is stored as one integer per token."""
    texts = sorted({text for row in rows for text in row.texts})
    empty, *lengths = token_lengths(["", *texts], tokenizer=tokenizer).tolist()
    size = {text: length - empty for text, length in zip(texts, lengths, strict=True)}
    return [sum(size[text] for text in row.texts) for row in rows]


class TextFlops:
    """FLOPs of a `PromptEncoder` from now on: counted by the encoder if it shares prefixes, else estimated by tokens.

    Args:
        texts: the encoder, which counts its tokens and, if it can, its FLOPs.
        encoder: its model.
        prompt: any prompt; a learnt prompt replaces its first tokens.
    """

    def __init__(self, texts: PromptEncoder, *, encoder: Encoder, prompt: str) -> None:
        self.texts, self.encoder, self.prompt = texts, encoder, prompt
        self._flops, self._tokens = texts.flops, texts.tokens_encoded

    def done(self) -> float:
        """Multiplications and additions in matrix products so far."""
        if self.texts.way == "fast":
            return float(self.texts.flops - self._flops)
        probe = PromptEncoder.of(self.encoder)  # measuring must not add to the counters of `texts`
        return float(flops_per_token(probe, prompt=self.prompt) * (self.texts.tokens_encoded - self._tokens))


def flops_per_token(texts: PromptEncoder, *, prompt: str) -> int:
    """FLOPs per token for towers that share no prefixes; 0 for the others, which count their own."""
    if texts.way == "fast":
        return 0
    before = texts.tokens_encoded
    with FlopCounter() as counter, torch.no_grad():
        texts.encode([prompt])
    return counter.flops // max(1, texts.tokens_encoded - before)
