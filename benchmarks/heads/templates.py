"""Selected templates beside all of them, templates that are weighed, and words, on photographs.

    python -m benchmarks.heads.templates PHOTOS... --model M --pretrained P --cache FOLDER

Each folder in turn is the source of the shots, and all others are its targets. docs/notes/evidence.md has figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch import Tensor

from benchmarks.heads.photos import TEMPLATE, PhotoSet, photo_set
from wsoup.api.encoders import EncoderOptions
from wsoup.api.hub import DEFAULTS
from wsoup.api.soups import common_words
from wsoup.cli import common
from wsoup.core.class_texts import ClassTexts
from wsoup.core.draws import named_generator
from wsoup.core.scoring import Scores
from wsoup.search.candidates.pools import openai80
from wsoup.search.candidates.templates import SEVEN, templates_of
from wsoup.search.grow.greedy import greedy_soup
from wsoup.search.grow.measures import right_on
from wsoup.search.grow.top import standardised
from wsoup.search.rank.image_set import ImageSet
from wsoup.search.rank.ranking import rank
from wsoup.search.rank.statistics import statistics
from wsoup.statistics.noise import compare_images
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import encode_members

SHOTS = 16
M = 8
RIVAL = "80 templates"
WORDS = 1000
"""Common words that Algorithm 1 selects from."""
MANY_WORDS = 64


@dataclass(frozen=True)
class Texts:
    """Texts with the classes of every folder.

    Attributes:
        pools: texts by pool, the 80 templates first.
        encoder: encodes them.
    """

    pools: Mapping[str, Sequence[str]]
    encoder: PromptEncoder

    @cached_property
    def of_sets(self) -> dict[tuple[str, str], Tensor]:
        """Features by folder and pool, filled by `of`."""
        return {}

    def of(self, photos: PhotoSet, pool: str) -> Tensor:
        """(P, C, D)."""
        key = (photos.name, pool)
        if key not in self.of_sets:
            self.of_sets[key] = encode_members(
                self.encoder, self.pools[pool], template=TEMPLATE, class_names=photos.class_names
            )
        return self.of_sets[key]


def shots_of(photos: PhotoSet, *, draw: int) -> Tensor:
    """Positions of `SHOTS` photos of each class, or of half of those there are."""
    generator = named_generator(f"templates {photos.name} {draw}")
    labels = photos.labels.numpy()
    chosen = []
    for label in range(len(photos.class_names)):
        of_class = generator.permutation(np.flatnonzero(labels == label))
        chosen.append(of_class[: min(SHOTS, max(1, len(of_class) // 2))])
    return torch.from_numpy(np.sort(np.concatenate(chosen)))


Weights = dict[str, tuple[str, np.ndarray]]
"""Row -> its pool and the weight of each text of it."""


def rows_of(source: PhotoSet, *, texts: Texts, draw: int) -> Weights:
    """What is selected, weighed or drawn for the shots of one draw."""
    shots = shots_of(source, draw=draw)
    images, labels = source.features[shots], source.labels[shots]
    rows: Weights = {"class name": ("name", np.ones(1))}
    generator = named_generator(f"words {source.name} {draw}")
    drawn = generator.permutation(len(texts.pools["words"]))
    for m in (M, MANY_WORDS):
        rows[f"{m} random words"] = ("words", _equal(drawn[:m], size=len(drawn)))
    for pool in ("80", "published", "words"):
        features = texts.of(source, pool)
        measured = statistics(
            ImageSet(images, labels=labels, n_classes=len(source.class_names), subsets=[torch.arange(len(shots))]),
            features,
            baseline_right=torch.zeros(len(shots), dtype=torch.bool),
        )
        n_correct, k2 = measured["n_correct"][0].numpy(), measured["k2"][0].numpy()
        order = rank(n_correct)
        grown = greedy_soup(
            [str(i) for i in order], features=_blocks(features, order), measure=right_on(images, labels), m=M
        )
        chosen = [int(member.text) for member in grown]
        rows[f"{M} of {pool}, Algorithm 1"] = (pool, _equal(chosen, size=len(order)))
        by_both = np.argsort(-(standardised(n_correct) + standardised(k2)), kind="stable")
        rows[f"{M} of {pool}, count and k2"] = (pool, _equal(by_both[:M], size=len(order)))
        if pool != "words":
            rows[f"all of {pool}"] = (pool, np.full(len(order), 1 / len(order)))
            weights = np.exp(standardised(k2))
            rows[f"all of {pool}, weighed by k2"] = (pool, weights / weights.sum())
    seven = [list(texts.pools["80"]).index(text) for text in SEVEN]
    rows["OpenAI's 7"] = ("80", _equal(seven, size=len(texts.pools["80"])))
    return rows


def _equal(chosen: Sequence[int] | np.ndarray, *, size: int) -> np.ndarray:
    weights = np.zeros(size)
    weights[np.asarray(chosen)] = 1 / len(chosen)
    return weights


def _blocks(features: Tensor, order: np.ndarray):  # type: ignore[no-untyped-def]
    def blocks(ranked: Sequence[str]) -> Iterator[Tensor]:
        yield features[torch.from_numpy(order)]

    return blocks


def right_of(rows: Weights, *, target: PhotoSet, texts: Texts, images: Tensor) -> dict[str, np.ndarray]:
    """Which photos of the target the centroid of each row gets right: (N,) bool."""
    right = {}
    for row, (pool, weights) in rows.items():
        members = texts.of(target, pool)
        centroids = ClassTexts.of_members(members, weights=torch.from_numpy(weights).float()).centroids
        right[row] = Scores(target.features[images], centroids[None]).right(target.labels[images])[0].numpy()
    return right


def compared(sets: Sequence[PhotoSet], *, texts: Texts, draws: int) -> list[str]:
    """A line of a table for each row: its mean accuracy on targets, and points over the 80 templates."""
    by_row: dict[str, dict[str, list[np.ndarray]]] = {}
    own: dict[str, dict[str, list[np.ndarray]]] = {}
    for source in sets:
        for draw in range(draws):
            rows = rows_of(source, texts=texts, draw=draw)
            shots = set(shots_of(source, draw=draw).tolist())
            left = torch.tensor([i for i in range(len(source.labels)) if i not in shots])
            for target in sets:
                is_own = target is source
                images = left if is_own else torch.arange(len(target.labels))
                for row, right in right_of(rows, target=target, texts=texts, images=images).items():
                    (own if is_own else by_row).setdefault(row, {}).setdefault(target.name, []).append(right)
    lines = []
    rival = {name: np.stack(rights) for name, rights in by_row["all of 80"].items()}
    for row, by_target in by_row.items():
        stacked = {name: np.stack(rights) for name, rights in by_target.items()}
        accuracy = 100 * np.mean([right.mean() for right in stacked.values()])
        comparison = compare_images(stacked, rival)
        fixed, resampled = comparison.fixed, comparison.resampled
        assert resampled is not None
        low, high = fixed.interval(0.95)
        low_resampled, high_resampled = resampled.interval(0.95)
        gains = []
        for name, rights in own[row].items():
            gains.append(
                100 * np.mean([a.mean() - b.mean() for a, b in zip(rights, own["all of 80"][name], strict=True)])
            )
        lines.append(
            f"| {row} | {accuracy:.1f} | {fixed.mean:+.2f} [{low:+.2f}, {high:+.2f}] | "
            f"[{low_resampled:+.2f}, {high_resampled:+.2f}] | {np.mean(gains):+.2f} |"
        )
    return lines


def main(
    photos: Annotated[list[str], typer.Argument(help="Folders of <class>/<image>, or with train/ and test/ of such.")],
    cache: Annotated[Path, typer.Option(help="Where features are kept, outside the repository.")],
    published: Annotated[str, typer.Option(help="A file of more templates.")],
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    draws: Annotated[int, typer.Option(min=2, help="Draws of shots.")] = 4,
) -> None:
    """Compare selections of templates and words on photographs."""
    torch.set_num_threads(1)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = options.load(device="cpu", origin="benchmarks.heads.templates", defaults=DEFAULTS)
    sets = [photo_set(root, encoder=encoder, cache=cache) for root in photos]
    pools = {"80": openai80(), "published": templates_of(published), "words": common_words(WORDS), "name": [""]}
    print(f"{len(pools['published'])} published templates, {len(sets)} sources x {draws} draws")
    print("| texts | accuracy on targets | over all of 80 | ... targets resampled | own photos |")
    print("|---|---|---|---|---|")
    print("\n".join(compared(sets, texts=Texts(pools, PromptEncoder.of(encoder)), draws=draws)))


if __name__ == "__main__":
    typer.run(main)
