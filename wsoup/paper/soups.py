"""The soups that the paper's authors evaluated, by name, with what they counted.

``paper:word`` and ``paper:descriptor`` are those of seed 1, whose counts are known: what is judged is what is handed
out. ``-seed2`` and ``-seed3`` are the other seeds'. ``-all`` has the members of all seeds together, which nobody has
counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np

from wsoup.base.errors import MissingError
from wsoup.core.member import Member
from wsoup.core.soup import Soup, together
from wsoup.datasets.paper import PAPER
from wsoup.paper import tables
from wsoup.paper.logs import read_counts, read_texts
from wsoup.statistics.noise import over_datasets

START = "paper:"
KINDS = {"word": "chains", "descriptor": "greedy"}
"""Soups of the paper -> their kind in params.yaml."""
SEEDS = (1, 2, 3)
NAMES = (
    "paper:word",
    "paper:word-seed2",
    "paper:word-seed3",
    "paper:word-all",
    "paper:descriptor",
    "paper:descriptor-seed2",
    "paper:descriptor-seed3",
    "paper:descriptor-all",
)
NAME = re.compile(r"paper:(?P<soup>word|descriptor)(-seed(?P<seed>[123])|(?P<all>-all))?")
SOURCE = "imagenet"
LOG = (
    "example_logs/example_run_pt_eval_ViT-B-16_openai_output.txt of github.com/Chris210634/word_soups, the code of "
    "Liao, Tsiligkaridis and Kulis, CVPR 2024 (arXiv 2311.13612)"
)
LICENCE = (
    "quoted as facts with their source named; wsoup's MIT licence does not cover them, and the authors' repository "
    "names none"
)
UNCOUNTED = "nobody has counted the members of all seeds together; those of each seed alone are counted"
CONFIDENCE = 0.95
PLACES = {"source": "ImageNet", "xd": "10 others", "dg": "4 shifts"}
"""Roles of the paper's datasets -> their place in a line of means."""


class Counted(NamedTuple):
    """How many test images of a dataset the authors' soup, the class name alone and the 80 templates get right."""

    title: str
    role: str
    n_images: int
    class_name: int
    templates: int
    soup: int


def is_named(name: str | Path) -> bool:
    """Whether a soup is asked for by a name of the paper's.

    >>> is_named("paper:word"), is_named("./paper:word"), is_named("papers/word.json")
    (True, False, False)
    """
    return str(name).startswith(START)


def named(name: str) -> Soup:
    """A soup of the paper by one of `NAMES`; MissingError for any other name."""
    soup, seed = _asked(name)
    texts = read_texts()
    if seed is not None:
        return _of_seed(soup, seed, texts[soup, seed])
    joined = together([_of_seed(soup, each, texts[soup, each]) for each in SEEDS], origin=name)
    return replace(joined, about=_about("all seeds together", UNCOUNTED))


def counts(name: str) -> list[Counted]:
    """What the authors counted, for each of the paper's datasets; empty for all seeds together."""
    soup, seed = _asked(name)
    if seed is None:
        return []
    n_correct = {}
    n_images = {}
    for line in read_counts():
        if line.seed == seed:
            n_correct[line.method, line.dataset] = line.n_correct
            n_images[line.dataset] = line.n_images
    rows = []
    for dataset, known in PAPER.items():
        class_name = n_correct["ZS", dataset]
        templates = n_correct["ensemble", dataset]
        of_soup = n_correct[f"{soup}-soup", dataset]
        rows.append(Counted(known.title, known.role, n_images[dataset], class_name, templates, of_soup))
    return rows


def means(rows: Sequence[Counted]) -> dict[str, tuple[float, float, float]]:
    """Per cent by place: the mean over its datasets of class name, templates and soup."""
    by_place = {}
    for role, place in PLACES.items():
        here = [row for row in rows if row.role == role]
        class_name = mean(100 * row.class_name / row.n_images for row in here)
        templates = mean(100 * row.templates / row.n_images for row in here)
        soup = mean(100 * row.soup / row.n_images for row in here)
        by_place[place] = (class_name, templates, soup)
    return by_place


def gains(rows: Sequence[Counted]) -> list[str]:
    """A line for each place of several datasets: the soup over the class name and over the 80 templates, in points.

    The intervals are of datasets resampled: what other datasets of this kind would give.
    """
    lines = []
    for role, place in PLACES.items():
        here = [row for row in rows if row.role == role]
        over_class_name = [100 * (row.soup - row.class_name) / row.n_images for row in here]
        over_templates = [100 * (row.soup - row.templates) / row.n_images for row in here]
        if len(here) > 1:
            over = f"over the class name {_gain(over_class_name)}, over the 80 templates {_gain(over_templates)}"
            lines.append(f"{place}, with datasets resampled: {over}")
    return lines


def _gain(points: Sequence[float]) -> str:
    """``+1.52 [-0.44, +3.49]``."""
    estimate = over_datasets(np.array(points)[:, None])
    assert estimate is not None, "several datasets"
    low, high = estimate.interval(CONFIDENCE)
    return f"{estimate.mean:+.2f} [{low:+.2f}, {high:+.2f}]"


def _asked(name: str) -> tuple[str, int | None]:
    """``word`` or ``descriptor``, and the seed; None for all of them."""
    match = NAME.fullmatch(name)
    if match is None:
        raise MissingError(f"{name!r} is not a soup of the paper; they are {', '.join(NAMES)}")
    if match["all"]:
        return match["soup"], None
    return match["soup"], int(match["seed"] or SEEDS[0])


def _of_seed(soup: str, seed: int, texts: Sequence[str]) -> Soup:
    model, pretrained = tables.ENCODER
    return Soup(
        KINDS[soup],
        seed,
        PAPER[SOURCE].template,
        {"model": model, "pretrained": pretrained, "quick_gelu": True},
        tuple(Member(text) for text in texts),
        preprocessing={"interpolation": "bilinear"},
        about=_about(f"seed {seed}", _counted(means(counts(f"{START}{soup}-seed{seed}")))),
    )


def _about(seeds: str, counted: str) -> Mapping[str, str]:
    """What a file of such a soup says about itself."""
    return {
        "selected on": f"{PAPER[SOURCE].title}, 16 images per class, {seeds}",
        "texts": LOG,
        "counts": counted,
        "licence": LICENCE,
    }


def _counted(by_place: Mapping[str, tuple[float, float, float]]) -> str:
    """Their counts in a sentence."""
    class_name, templates, soup = zip(*by_place.values(), strict=True)
    return (
        f"{', '.join(PLACES.values())}, mean of datasets: {_listed(soup)}; class name alone: {_listed(class_name)}; "
        f"80 templates: {_listed(templates)}; by the authors, in the log that has the texts, in half precision with "
        "bilinear resizing, with each dataset's own template"
    )


def _listed(shares: Sequence[float]) -> str:
    """``69.39 %, 66.83 %, 59.80 %``."""
    return ", ".join(f"{share:.2f} %" for share in shares)
