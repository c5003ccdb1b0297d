"""The logs of the paper's authors as data: their searches, what they counted, and the soups behind it.

All are of Chris210634/word_soups, example_logs/: ViT-B-16 with OpenAI's weights, half precision, bilinear resizing
(data/paper/README.md).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wsoup.core.prompts import bare
from wsoup.datasets.paper import PAPER
from wsoup.paper import tables

Texts = Mapping[tuple[str, int], Sequence[str]]
"""(word or descriptor, seed) -> members, bare."""


class SearchLine(NamedTuple):
    """A line of their search log: a word chain, or a descriptor soup up to and including `text`, which is bare.

    Member 0 is the best single text; `theirs` is per cent of the seed's 16-shot images.
    """

    soup: str
    seed: int
    member: int
    text: str
    theirs: float


class Known(NamedTuple):
    """A line of their evaluation log; `dataset` by our name."""

    method: str
    seed: int
    dataset: str
    n_images: int
    n_correct: int


def read_searches() -> list[SearchLine]:
    """The authors' log of their searches."""
    steps = []
    for line in tables.table_rows("authors_search_log"):
        seed = int(line["seed"])
        member = int(line["member"])
        accuracy = float(line["accuracy"])
        steps.append(SearchLine(line["soup"], seed, member, bare(line["text"]), accuracy))
    return steps


def read_counts() -> list[Known]:
    """Their counts."""
    names = {paper.title.replace("-", ""): name for name, paper in PAPER.items()}
    counts = []
    for line in tables.table_rows("authors_evaluation_log"):
        dataset = names[line["dataset"]]
        seed = int(line["seed"])
        counts.append(Known(line["method"], seed, dataset, int(line["n_images"]), int(line["n_correct"])))
    return counts


def read_texts() -> Texts:
    """The soups that they evaluated."""
    texts: dict[tuple[str, int], list[str]] = {}
    for line in tables.table_rows("authors_evaluated_texts"):
        texts.setdefault((line["soup"], int(line["seed"])), []).append(bare(line["text"]))
    return texts
