"""What the verdict of a run is computed from (`wsoup.report.verdict`): which images each judged row gets right.

Judged rows are the class name, the 80 templates, GPT descriptors, drawn texts as tables show them, every soup at full
size, for each soup a control of as many random texts from the same pool with the same numbers of words, and the run's
main soup with all seeds combined, as it is exported.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from wsoup.core.modes import MODES, Mode
from wsoup.evaluate.answers import Answers
from wsoup.evaluate.baselines import random_chains, random_descriptors
from wsoup.evaluate.evaluation import answers_of, mean_texts
from wsoup.evaluate.right import all_seeds, random_beside
from wsoup.evaluate.rows import Material, Row, judged_soups
from wsoup.evaluate.testsets import WHERE, TestSet
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.run import Run

RIGHT = pa.schema(
    [
        ("method", pa.string()),
        ("mode", pa.string()),
        ("seed", pa.int64()),
        *WHERE,
        ("n_images", pa.int64()),
        ("right", pa.binary()),
    ]
)
_PREDICTED = (("label", pa.int64()), ("before", pa.int64()), ("after", pa.int64()))
FLIPS = pa.schema([("dataset", pa.string()), ("row", pa.int64()), *_PREDICTED])  # row of the dataset's manifest
CONFUSION = pa.schema([("dataset", pa.string()), *_PREDICTED, ("n_images", pa.int64())])


def judged_tables(
    answers: Sequence[Answers],
    material: Material,
    *,
    soup: str,
    mode: Mode,
    text_encoder: PromptEncoder,
    run: Run | None = None,
) -> dict[str, pa.Table]:
    """Tables of the verdict: `RIGHT`, and `FLIPS` and `CONFUSION` of the run's main soup.

    Args:
        answers: of the rows of the tables, by dataset, with the right images of all `judged_soups`.
        material: pools and soups.
        soup: name of the main soup.
        mode: the mode in which it is judged.
        text_encoder: encodes the random controls and the main soup.
        run: as for `mean_texts`.
    """
    tests = [of_dataset.test for of_dataset in answers]
    names = judged_soups(list(material.soups))
    pair = together_rows(soup, material=material)
    # Encoded apart from the tables' rows, whose features stay the same to the last bit.
    rows = [*pair, *random_rows(material, soups=names)]
    encoded = mean_texts(rows, tests=tests, text_encoder=text_encoder, run=run, label="evaluate controls")
    controls = answers_of(encoded, tests=tests, soups=names, shown=pair)
    right = [right_images(answers), right_images(controls)]
    changes = [predictions(of_dataset, pair=pair, mode=mode) for of_dataset in controls]
    return {"right": pa.concat_tables(right), "flips": flips(changes), "confusion": confusion(changes)}


def random_rows(material: Material, *, soups: Sequence[str]) -> list[Row]:
    """The random control of each soup and seed: as many texts from its pool, with the same numbers of words."""
    rows = []
    for name in soups:
        for seed, texts in material.soups[name].items():
            if material.pools[name] == "words":
                lengths = [len(text.split()) for text in texts]
                drawn = random_chains(material.words, lengths=lengths, seed=seed)
            else:
                pool = material.texts_of_pools[material.pools[name]]
                drawn = random_descriptors(pool, m=len(texts), seed=seed)
            rows.append(Row(random_beside(name), (seed,), tuple(drawn)))
    return rows


def together_rows(name: str, *, material: Material) -> tuple[Row, Row]:
    """The bare class name, and a soup with all seeds combined (`wsoup.core.soup.load_seeds`)."""
    # An empty method name, so that this row is not the class name of the tables, which `RIGHT` has already.
    class_name = Row("", material.seeds, ("",))
    texts = tuple(chain.from_iterable(material.soups[name].values()))
    return class_name, Row(all_seeds(name), material.seeds, texts)


def right_images(answers: Sequence[Answers]) -> pa.Table:
    """Which test images each judged row gets right, by seed and mode; columns of `RIGHT`."""
    lines: list[dict[str, object]] = []
    for of_dataset in answers:
        test = of_dataset.test
        for r in of_dataset.judged:
            row = of_dataset.rows[r]
            for mode, in_mode in of_dataset.by_mode.items():
                about = {"method": row.method, "mode": mode, **test.where, "n_images": len(test.labels)}
                packed = in_mode.right[r]
                for seed in row.seeds:
                    lines.append({**about, "seed": seed, "right": packed})
    return pa.Table.from_pylist(lines, schema=RIGHT)


def with_right_images(counts: pa.Table, answers: Sequence[Answers]) -> pa.Table:
    """Counts of a finetuned model of one seed, with a column `right`: which images judged rows get right, else null.

    Args:
        counts: `wsoup.evaluate.counts.evaluate` of the answers.
        answers: of the model's rows, by dataset.
    """
    kept: dict[tuple[str, str, str, int | None, int], bytes] = {}
    for of_dataset in answers:
        for mode in MODES:
            for r, right in of_dataset.by_mode[mode].right.items():
                row = of_dataset.rows[r]
                key = (of_dataset.test.name, row.method, mode, row.m, row.n_offsets)
                kept[key] = right
    packed = []
    # The keys of `kept`: in this table they name a line, since the model has one seed.
    columns = counts.select(["dataset", "method", "mode", "m", "offsets"])
    for line in columns.to_pylist():
        packed.append(kept.get(tuple(line.values())))
    return counts.append_column("right", pa.array(packed, type=pa.binary()))


Predictions = tuple[TestSet, np.ndarray, Sequence[np.ndarray]]
"""A dataset, its labels (N,), and the classes that two rows predict, (N,) each."""


def predictions(answers: Answers, *, pair: tuple[Row, Row], mode: Mode) -> Predictions:
    """What two rows, which must be among the shown ones, predict on one dataset."""
    predicted = answers.by_mode[mode].predicted
    of_pair = [predicted[answers.rows.index(row)] for row in pair]
    return answers.test, answers.test.labels.cpu().numpy(), of_pair


def flips(changes: Sequence[Predictions]) -> pa.Table:
    """Images that exactly one of two rows gets right; columns of `FLIPS`."""
    parts = [FLIPS.empty_table()]
    for test, labels, (before, after) in changes:
        right_before = before == labels
        right_after = after == labels
        turned = np.flatnonzero(right_before != right_after)
        # By columns: a dictionary for each of a million images would take more memory than all the rest.
        columns = {
            "dataset": pa.repeat(test.name, len(turned)),
            "row": test.rows[turned],
            "label": labels[turned],
            "before": before[turned],
            "after": after[turned],
        }
        parts.append(pa.table(columns).cast(FLIPS))
    return pa.concat_tables(parts).combine_chunks()


def confusion(changes: Sequence[Predictions]) -> pa.Table:
    """Number of images by label and the predictions of two rows; columns of `CONFUSION`, sorted."""
    lines = []
    for test, labels, (before, after) in changes:
        # A number for each kind of image, in which labels count most and the second prediction least.
        n_classes = len(test.class_names)
        each = (labels * n_classes + before) * n_classes + after  # (N,)
        kinds, counts = np.unique(each, return_counts=True)
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            first_two, after_kind = divmod(kind, n_classes)
            label, before_kind = divmod(first_two, n_classes)
            line = {"dataset": test.name, "label": label, "before": before_kind, "after": after_kind}
            lines.append({**line, "n_images": count})
    return pa.Table.from_pylist(lines, schema=CONFUSION)
