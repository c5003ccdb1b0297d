"""What the verdict of a run is computed from (`wsoup.report.verdict`): which images each judged row gets right.

Judged rows are the class name, the 80 templates, every soup at full size, for each soup a control of as many random
texts from the same pool with the same numbers of words, and the run's main soup with all seeds combined, as it is
exported.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from wsoup.core.scoring import MODES, correct, normalize
from wsoup.evaluate.baselines import random_chains, random_descriptors
from wsoup.evaluate.counts import Classifiers, mean_texts
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, Material, Row, all_seeds, judged_soups, pack_right, random_beside
from wsoup.evaluate.testsets import WHERE, TestSet
from wsoup.texts.encoder import PromptEncoder

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


def judge(
    classifiers: Classifiers,
    material: Material,
    *,
    soup: str,
    mode: str,
    tests: Sequence[TestSet],
    encoder: PromptEncoder,
) -> dict[str, pa.Table]:
    """Tables of the verdict: `RIGHT`, and `FLIPS` and `CONFUSION` of the run's main soup.

    Args:
        classifiers: the rows of the tables.
        material: pools and soups.
        soup: name of the main soup.
        mode: the mode in which it is judged.
        tests: the datasets.
        encoder: encodes the random controls and the main soup.
    """
    names = judged_soups(list(material.soups))
    pair = together_rows(soup, material=material)
    # Encoded apart from the tables' rows, whose features stay the same to the last bit.
    controls = mean_texts([*pair, *random_rows(material, soups=names)], tests=tests, encoder=encoder)
    answers = [(test, *_predicted(controls, pair=pair, mode=mode, test=test)) for test in tests]
    return {
        "right": pa.concat_tables(
            right_images(encoded, soups=names, tests=tests) for encoded in (classifiers, controls)
        ),
        "flips": flips(answers),
        "confusion": confusion(answers),
    }


def random_rows(material: Material, *, soups: Sequence[str]) -> list[Row]:
    """The random control of each soup and seed: as many texts from its pool, with the same numbers of words."""
    rows = []
    for name in soups:
        for seed, texts in material.soups[name].items():
            if material.pools[name] == "words":
                drawn = random_chains(material.words, lengths=[len(text.split()) for text in texts], seed=seed)
            else:
                drawn = random_descriptors(material.descriptors, m=len(texts), seed=seed)
            rows.append(Row(random_beside(name), (seed,), tuple(drawn)))
    return rows


def together_rows(name: str, *, material: Material) -> tuple[Row, Row]:
    """The bare class name, and a soup with all seeds combined (`wsoup.soup.soup.load_seeds`)."""
    texts = tuple(chain.from_iterable(material.soups[name].values()))
    return Row("", material.seeds, ("",)), Row(all_seeds(name), material.seeds, texts)


def judged_rows(rows: Sequence[tuple[Row, Tensor]], *, soups: Sequence[str]) -> list[tuple[Row, Tensor]]:
    """The judged ones of some rows and their mean texts: those of shared texts at full size, then the templates."""
    of_soups = ((f"{name}_soup", random_beside(name), all_seeds(name)) for name in soups)
    names = {CLASS_NAME.name, ENSEMBLE.name, *chain.from_iterable(of_soups)}
    largest: dict[tuple[str, tuple[int, ...]], tuple[Row, Tensor]] = {}
    for row, means in rows:
        if row.method in names and row.text is None and row.offsets == (0,):
            key = row.method, row.seeds
            if key not in largest or len(row.texts) > len(largest[key][0].texts):
                largest[key] = row, means
    return list(largest.values())


def right_images(classifiers: Classifiers, *, soups: Sequence[str], tests: Sequence[TestSet]) -> pa.Table:
    """Which test images each judged row gets right, by seed and mode; columns of `RIGHT`."""
    lines: list[dict[str, object]] = []
    for test in tests:
        for row, means in judged_rows(classifiers.of(test), soups=soups):
            for mode in MODES:
                classes = normalize(means) if mode == "centroid" else means
                right = correct(test.image_features, test.labels, classes).cpu().numpy()
                about = {"method": row.method, "mode": mode, **test.where, "n_images": len(right)}
                lines += [{**about, "seed": seed, "right": pack_right(right)} for seed in row.seeds]
    return pa.Table.from_pylist(lines, schema=RIGHT)


def _predicted(
    classifiers: Classifiers, *, pair: tuple[Row, Row], mode: str, test: TestSet
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (N,) of one dataset, and the classes (2, N) that two rows predict."""
    by_row = classifiers.of(test)
    means = torch.stack([next(mean for row, mean in by_row if row == wanted) for wanted in pair])
    classes = normalize(means) if mode == "centroid" else means  # (2, C, D)
    predicted = (test.image_features @ classes.transpose(1, 2)).argmax(dim=2)
    return test.labels.cpu().numpy(), predicted.cpu().numpy()


def flips(answers: Sequence[tuple[TestSet, np.ndarray, np.ndarray]]) -> pa.Table:
    """Images that exactly one of two rows gets right; columns of `FLIPS`.

    Args:
        answers: datasets with their labels (N,) and the two rows' predictions (2, N).
    """
    lines = [
        {
            "dataset": test.name,
            "row": int(test.rows[i]),
            "label": int(labels[i]),
            "before": int(before[i]),
            "after": int(after[i]),
        }
        for test, labels, (before, after) in answers
        for i in np.flatnonzero((before == labels) != (after == labels)).tolist()
    ]
    return pa.Table.from_pylist(lines, schema=FLIPS)


def confusion(answers: Sequence[tuple[TestSet, np.ndarray, np.ndarray]]) -> pa.Table:
    """Number of images by label and the predictions of two rows, as for `flips`; columns of `CONFUSION`, sorted."""
    lines = []
    for test, labels, predicted in answers:
        kinds, counts = np.unique(np.stack([labels, *predicted], axis=1), axis=0, return_counts=True)  # (kinds, 3)
        lines += [
            {"dataset": test.name, "label": label, "before": before, "after": after, "n_images": count}
            for (label, before, after), count in zip(kinds.tolist(), counts.tolist(), strict=True)
        ]
    return pa.Table.from_pylist(lines, schema=CONFUSION)
