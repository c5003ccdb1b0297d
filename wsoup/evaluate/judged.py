"""What the verdict of a run is computed from (`wsoup.report.judgement`): which images each judged row gets right.

Judged are the class name, the 80 templates, every soup at its full size, and beside each soup as many random texts from
its own pool, of the same numbers of words; and the soup that the run is about with all seeds together, which is what is
handed out. All but the templates are also counted on the images that the soups were selected on: accuracy there minus
accuracy on held-out source images is the selection's own optimism.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
from torch import Tensor

from wsoup.core.scoring import correct_per_candidate, normalize
from wsoup.evaluate.baselines import random_chains, random_descriptors
from wsoup.evaluate.bits import pack_right
from wsoup.evaluate.classifiers import Row
from wsoup.evaluate.counts import MODES, Classifiers
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, Material, all_seeds, random_beside
from wsoup.evaluate.testsets import COUNTS, WHERE, TestSet

_ROW = (("method", pa.string()), ("mode", pa.string()), ("seed", pa.int64()))
RIGHT = pa.schema([*_ROW, *WHERE, ("n_images", pa.int64()), ("right", pa.binary())])
SELECTION = pa.schema([*_ROW, *COUNTS])


def random_rows(material: Material, *, pools: Mapping[str, str]) -> list[Row]:
    """Random texts beside each soup: of its pool, as many, each of as many words; other ones for each seed.

    Args:
        material: pools and soups.
        pools: words, descriptors or mixed, by the name of each judged soup.
    """
    rows = []
    for name, pool in pools.items():
        for seed, texts in material.soups[name].items():
            if pool == "words":
                drawn = random_chains(material.words, lengths=[len(text.split()) for text in texts], seed=seed)
            else:
                whole = material.descriptors if pool == "descriptors" else material.words + material.descriptors
                drawn = random_descriptors(whole, m=len(texts), seed=seed)
            rows.append(Row(random_beside(name), (seed,), tuple(drawn)))
    return rows


def together_rows(name: str, *, material: Material) -> tuple[Row, Row]:
    """The class name alone, and a soup with all its seeds together (`wsoup.soup.seeds`)."""
    of_seeds, weight = material.soups[name].values(), material.class_name_weights.get(name, 0.0)
    texts = tuple(text for texts in of_seeds for text in texts)
    soup = Row(all_seeds(name), material.seeds, texts, class_name_weight=weight * len(material.seeds))
    return Row("", material.seeds, ("",)), soup


def judged(classifiers: Classifiers, *, soups: Sequence[str]) -> Iterator[tuple[Row, Tensor]]:
    """Rows that the verdict is about, at their full size, each with its mean text features (S, D)."""
    of_soup = ((f"{name}_soup", random_beside(name), all_seeds(name)) for name in soups)
    wanted = {CLASS_NAME.name, *chain.from_iterable(of_soup)}
    largest: dict[tuple[str, tuple[int, ...]], tuple[Row, Tensor]] = {}
    for row, means in zip(classifiers.rows, classifiers.means, strict=True):
        if row.method in wanted and row.text is None and row.offsets == (0,):
            key = row.method, row.seeds
            if key not in largest or len(row.texts) > len(largest[key][0].texts):
                largest[key] = row, means
    yield from largest.values()


def right_images(classifiers: Classifiers, *, soups: Sequence[str], tests: Sequence[TestSet]) -> pa.Table:
    """Which test images each judged row gets right with each seed, in both modes: columns of `RIGHT`."""
    lines: list[dict[str, object]] = []
    for test in tests:
        shared = ((row, means[classifiers.prompts.of(test)]) for row, means in judged(classifiers, soups=soups))
        templates = (pair for pair in classifiers.further.get(test.name, ()) if pair[0].method == ENSEMBLE.name)
        for row, means in chain[tuple[Row, Tensor]](shared, templates):
            for mode, right in _right(test.image_features, test.labels, means):
                about = {"method": row.method, "mode": mode, **test.where, "n_images": len(right)}
                lines += [{**about, "seed": seed, "right": pack_right(right)} for seed in row.seeds]
    return pa.Table.from_pylist(lines, schema=RIGHT)


def selection_counts(
    classifiers: Classifiers, *, soups: Sequence[str], source: TestSet, images: Callable[[int], tuple[Tensor, Tensor]]
) -> pa.Table:
    """What each judged row gets right of the images that selection saw: columns of `SELECTION`.

    Args:
        classifiers: rows and their text features.
        soups: names in params.yaml.
        source: the source, for its classes.
        images: seed -> features (N, D) and labels (N,) of its few-shot images.
    """
    lines = [
        {
            "method": row.method,
            "mode": mode,
            "seed": seed,
            "n_correct": int(right.sum()),
            "n_images": len(right),
        }
        for row, means in judged(classifiers, soups=soups)
        for seed in row.seeds
        for mode, right in _right(*images(seed), means[classifiers.prompts.of(source)])
    ]
    return pa.Table.from_pylist(lines, schema=SELECTION)


def _right(image_features: Tensor, labels: Tensor, means: Tensor) -> Iterator[tuple[str, np.ndarray]]:
    """Modes and the images that are right with mean text features (C, D): (N,) bool each."""
    for mode in MODES:
        classes = normalize(means) if mode == "centroid" else means
        yield mode, correct_per_candidate(image_features, labels, classes[None])[0].cpu().numpy()
