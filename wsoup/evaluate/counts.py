"""From texts to counts: every classifier on every dataset, each prompt encoded once.

A classifier (a row of the paper's tables) is a set of texts for each class. Both ways of using it need only the mean
text feature of each class: the score mean is the cosine with that mean, the centroid its normalised direction
(`wsoup.core.scoring`). So all rows are collected first, every unique text is encoded once with every unique class
prompt of all datasets, and each block of features is added to the rows that hold its texts and dropped.

The token offset trick puts t null tokens before the descriptor, as the paper's example has them: "a photo of a dog, ! !
! ! ! which may be large or small." The authors' code (Chris210634/word_soups, source/models.py) leaves the period and
the end-of-text token of the bare prompt in front of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.scoring import MODES, class_sums, correct_per_candidate, mean_cosines, normalize, weighted_mean
from wsoup.evaluate.classifiers import Row, check_rows
from wsoup.evaluate.testsets import COSINES, COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tokens import Tokenizer, token_lengths

SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("variant", pa.string()),
        ("mode", pa.string()),
        ("m", pa.int64()),  # null where it differs by class
        ("offsets", pa.int64()),  # copies of each member at other token offsets
        ("texts", pa.float64()),  # texts of a class, the mean over classes: the paper's column m
        ("text", pa.string()),  # null but for single texts
        ("stored", pa.int64()),  # integers that the members take to store, one a token; null for prompts by class
        ("seed", pa.int64()),
        *WHERE,
        *COUNTS,
        *COSINES,
    ]
)
FLIPS = pa.schema(
    [
        ("dataset", pa.string()),
        ("row", pa.int64()),  # of the dataset's manifest
        ("label", pa.int64()),
        ("before", pa.int64()),  # the class predicted
        ("after", pa.int64()),
    ]
)
CONFUSION = pa.schema(
    [
        ("dataset", pa.string()),
        ("label", pa.int64()),
        ("before", pa.int64()),  # the class predicted
        ("after", pa.int64()),
        ("n_images", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Classifiers:
    """Rows with shared texts, and the mean text feature of each with every class prompt.

    Attributes:
        rows: R rows.
        prompts: S class prompts.
        means: (R, S, D) float32.
        further: by dataset, rows with prompts of their own for each class, and their mean text features (C, D).
    """

    rows: Sequence[Row]
    prompts: ClassPrompts
    means: Tensor
    further: Mapping[str, Sequence[tuple[Row, Tensor]]]

    def of(self, test: TestSet) -> Tensor:
        """Mean text features of every row for the classes of one dataset: (R, C, D)."""
        return self.means[:, self.prompts.of(test)]


def mean_texts(
    rows: Sequence[Row],
    *,
    class_rows: Mapping[str, Sequence[Row]],
    tests: Sequence[TestSet],
    encoder: PromptEncoder,
) -> Classifiers:
    """Encode every unique text of `rows` once, with every unique class prompt of `tests`, and the texts of class rows.

    In one go; `wsoup.evaluate.encoded` does the same in shards.

    Raises:
        PoolError: a text does not fit the model's context behind a class, see `check_rows`.
    """
    check_rows(rows, class_rows=class_rows, tests=tests, tokenizer=encoder.tokenizer)
    classes = ClassPrompts(tests)
    further = {name: [(row, mean_prompts(row, encoder=encoder)) for row in own] for name, own in class_rows.items()}
    return Classifiers(rows, classes, mean_of_stems(rows, stems=classes.stems, encoder=encoder), further)


def mean_of_stems(rows: Sequence[Row], *, stems: Sequence[str], encoder: PromptEncoder) -> Tensor:
    """The mean text feature of R rows with each of S class prompts: (R, S, D).

    A row with a `class_name_weight` needs the row of the class name alone beside it.
    """
    means: Tensor | None = None
    for offset in sorted({offset for row in rows for offset in row.offsets}):
        users = [r for r, row in enumerate(rows) if offset in row.offsets]
        # Sorted, because texts next to each other share beginnings and are then encoded once.
        texts = sorted({text for r in users for text in rows[r].texts})
        weights = mean_weights([rows[r].texts for r in users], texts=texts)  # (users, P)
        weights /= torch.tensor([[float(len(rows[r].offsets))] for r in users])
        starts, endings = list(stems), [prompts.ending(text, period=True) for text in texts]
        if offset:  # null tokens stand after the comma
            starts, endings = prompts.with_comma(stems), [prompts.after_comma(text, period=True) for text in texts]
        formula = rows[users[0]].offset_formula
        for where, block in encoder.grid_blocks(starts, endings, token_offset=offset, offset_formula=formula):
            if means is None:
                means = block.new_zeros(len(rows), *block.shape[1:])
            share = weights[:, where].to(block.device) @ block.flatten(1)  # (users, S * D)
            means[users] += share.view(len(users), *block.shape[1:])
    if means is None:
        means = torch.zeros(0, len(stems), 0)
    for r, row in enumerate(rows):
        if row.class_name_weight:
            plain = means[next(i for i, other in enumerate(rows) if other.texts == ("",))]
            means[r] = weighted_mean(torch.stack([means[r], plain]), [float(len(row.texts)), row.class_name_weight])
    return means


def mean_weights(groups: Sequence[Sequence[str]], *, texts: Sequence[str]) -> Tensor:
    """Weights (G, P) that take the features of P texts to the mean of each group; a text named twice counts twice."""
    position = {text: i for i, text in enumerate(texts)}
    weights = torch.zeros(len(groups), len(texts))
    for g, group in enumerate(groups):
        for text in group:
            weights[g, position[text]] += 1.0 / len(group)
    return weights


def mean_prompts(row: Row, *, encoder: PromptEncoder) -> Tensor:
    """Mean text feature of each class of a row with prompts of its own: (C, D)."""
    unique = sorted({prompt for class_prompts in row.prompts for prompt in class_prompts})
    features = encoder.encode(unique)  # (P, D)
    return mean_weights(row.prompts, texts=unique).to(features.device) @ features


def evaluate(classifiers: Classifiers, *, tests: Sequence[TestSet], tokenizer: Tokenizer, variant: str) -> pa.Table:
    """Count the correct images of every row on every dataset, in both modes; single texts in one, they have no other.

    Args:
        classifiers: all rows, encoded by the model that made the image features.
        tests: the datasets.
        tokenizer: the model's tokenizer, to say what a soup takes to store.
        variant: ``pretrained`` or the name of a finetuned method.

    Returns:
        One line per dataset, row, mode and seed, with the columns of `SCHEMA`.
    """
    lines: list[dict[str, object]] = []
    stored = tokens_stored(classifiers.rows, tokenizer=tokenizer)
    for test in tests:
        further = classifiers.further.get(test.name, ())
        rows: list[Row] = [*classifiers.rows, *(row for row, _ in further)]
        means = classifiers.of(test)
        if further:
            means = torch.cat([means, torch.stack([mean for _, mean in further])])  # (R, C, D)
        lines += count(rows, means=means, stored=stored, test=test, variant=variant)
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def count(
    rows: Sequence[Row], *, means: Tensor, stored: Sequence[int], test: TestSet, variant: str
) -> Iterator[dict[str, object]]:
    """The lines of R rows on one dataset, from their mean text features (R, C, D); `stored` is of the first rows."""
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
    """Tokens of all members of each row: (R,). A soup is stored as one integer a token."""
    texts = sorted({text for row in rows for text in row.texts})
    empty, *lengths = token_lengths(["", *texts], tokenizer=tokenizer).tolist()
    size = {text: length - empty for text, length in zip(texts, lengths, strict=True)}
    return [sum(size[text] for text in row.texts) for row in rows]


def flips(classifiers: Classifiers, *, pair: tuple[Row, Row], mode: str, tests: Sequence[TestSet]) -> pa.Table:
    """Images that exactly one of two rows gets right, with what each predicts; columns of `FLIPS`."""
    lines = [
        {
            "dataset": test.name,
            "row": int(test.rows[i]),
            "label": int(labels[i]),
            "before": int(before[i]),
            "after": int(after[i]),
        }
        for test, labels, (before, after) in _predicted(classifiers, pair=pair, mode=mode, tests=tests)
        for i in np.flatnonzero((before == labels) != (after == labels)).tolist()
    ]
    return pa.Table.from_pylist(lines, schema=FLIPS)


def confusion(classifiers: Classifiers, *, pair: tuple[Row, Row], mode: str, tests: Sequence[TestSet]) -> pa.Table:
    """How many images of each class two rows take for which class; columns of `CONFUSION`, sorted."""
    lines = []
    for test, labels, predicted in _predicted(classifiers, pair=pair, mode=mode, tests=tests):
        kinds, counts = np.unique(np.stack([labels, *predicted], axis=1), axis=0, return_counts=True)  # (kinds, 3)
        lines += [
            {"dataset": test.name, "label": label, "before": before, "after": after, "n_images": count}
            for (label, before, after), count in zip(kinds.tolist(), counts.tolist(), strict=True)
        ]
    return pa.Table.from_pylist(lines, schema=CONFUSION)


def _predicted(
    classifiers: Classifiers, *, pair: tuple[Row, Row], mode: str, tests: Sequence[TestSet]
) -> Iterator[tuple[TestSet, np.ndarray, np.ndarray]]:
    """Labels (N,) of each dataset, and the classes (2, N) that two rows predict."""
    places = [list(classifiers.rows).index(row) for row in pair]
    for test in tests:
        means = classifiers.of(test)[places]
        classes = normalize(means) if mode == "centroid" else means  # (2, C, D)
        predicted = (test.image_features @ classes.transpose(1, 2)).argmax(dim=2)  # (2, N)
        yield test, test.labels.cpu().numpy(), predicted.cpu().numpy()
