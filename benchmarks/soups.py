"""Soups on photographs that their search has not seen: other styles of its classes, and other classes.

python -m benchmarks.soups PHOTOS... --model M --pretrained P --cache FOLDER

Each folder in turn is the source of 16 shots a class, and the others are targets; one with the same classes is another
style of the source. docs/notes/evidence.md has figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer

from benchmarks.heads.photos import TEMPLATE, PhotoSet, photo_set
from wsoup.api.encoders import EncoderOptions
from wsoup.api.hub import DEFAULTS
from wsoup.api.soups import COMMON_WORDS, common_words
from wsoup.cli import common
from wsoup.core.draws import named_seed
from wsoup.core.member import NOTHING, Member
from wsoup.core.scoring import Scores
from wsoup.core.soup import Soup
from wsoup.disk import store
from wsoup.evaluate.right import Right
from wsoup.heads.zero_shot import class_texts
from wsoup.photos.trial import CLASS_NAME, TEMPLATES
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.held_out import HeldOutSoup
from wsoup.search.grow.kind import AnySoup
from wsoup.search.grow.sample import drawn_from
from wsoup.search.grow.search import Search
from wsoup.search.rank.meter import Meter
from wsoup.search.rank.ranking import ranked
from wsoup.search.rank.source import Source
from wsoup.statistics.noise import Estimate, compare_images
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

SHOTS = 16
CHAINS = ChainsSoup(kind="chains", pool="words", k0=250, k1=1000, patience=250, m=8, max_words=10)
HELD_OUT = HeldOutSoup(kind="held_out", pool="words", k1=None, m=64, per_split=8)
SEARCHED: Mapping[str, AnySoup] = {"Algorithm 2": CHAINS, "held_out": HELD_OUT}
RANDOM = {"8 random words": 8, "64 random words": 64}
RANDOM_DRAWS = 4
"""Draws of random words for each draw of shots: their mean is what a search is compared with."""
COMPARED = (
    ("held_out", "64 random words"),
    ("held_out", "80 templates"),
    ("Algorithm 2", "8 random words"),
    ("Algorithm 2", "80 templates"),
    ("Algorithm 2", "class name"),
    ("64 random words", "class name"),
    ("80 templates", "class name"),
)
Pairs = Callable[[str, str], bool]
"""Whether a source and a target count."""


class Searched(NamedTuple):
    """What one source has made with one draw of shots.

    Attributes:
        source, draw: which.
        right: row -> target -> (N,) share of draws with which each image is right.
        seconds: processor seconds by row: of Algorithm 2 with the ranking of the pool.
    """

    source: str
    draw: int
    right: Mapping[str, Mapping[str, np.ndarray]]
    seconds: Mapping[str, float]


def main(
    photos: Annotated[list[str], typer.Argument(help="Folders of <class>/<image>, or with train/ and test/ of such.")],
    cache: Annotated[Path, typer.Option(help="Where features and results are kept, outside the repository.")],
    targets: Annotated[list[str] | None, typer.Option("--target", help="More folders, only as targets.")] = None,
    model: common.Model = None,
    pretrained: common.Pretrained = None,
    config: common.Config = None,
    image_mean: common.ImageMean = None,
    image_std: common.ImageStd = None,
    interpolation: common.Interpolation = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of shots.")] = 2,
    words: Annotated[int, typer.Option(min=2, help="Words in the pool, the most common ones.")] = COMMON_WORDS,
    device: common.Device = "cpu",
) -> None:
    """Compare searched soups with as many random words on photographs that nobody has searched on."""
    torch.set_num_threads(1)
    options = EncoderOptions(model, pretrained, config, image_mean, image_std, interpolation)
    encoder = options.load(device=device, origin="benchmarks.soups", defaults=DEFAULTS)
    sources = [photo_set(root, encoder=encoder, cache=cache) for root in photos]
    sets = sources + [photo_set(root, encoder=encoder, cache=cache) for root in targets or []]
    pool = common_words(words)
    made = []
    for source in sources:
        for draw in range(draws):
            made.append(_kept(source, draw, sets=sets, pool=pool, encoder=encoder, cache=cache))
    classes = {each.name: each.class_names for each in sets}
    print("\n\n".join([*tables(made, classes=classes), costs(made)]))


def _kept(
    source: PhotoSet, draw: int, *, sets: Sequence[PhotoSet], pool: Sequence[str], encoder: Encoder, cache: Path
) -> Searched:
    """What a source makes with one draw, from `cache` if it is there."""
    key = named_seed(source.name, draw, [each.name for each in sets], list(pool), encoder.id, RANDOM_DRAWS)
    file = cache / f"soups-{key:016x}.safetensors"
    if not file.is_file():
        searched = _searched(source, draw, sets=sets, pool=pool, encoder=encoder)
        arrays = {f"seconds|{row}": np.array([value]) for row, value in searched.seconds.items()}
        for row, right in searched.right.items():
            arrays |= {f"{row}|{target}": shares for target, shares in right.items()}
        store.write_bytes(file, store.pack_arrays(arrays))
    kept: dict[str, dict[str, np.ndarray]] = {}
    for name, array in store.unpack_arrays(file.read_bytes(), origin=file).items():
        row, _, target = name.partition("|")
        kept.setdefault(row, {})[target] = array
    seconds = {row: value.item() for row, value in kept.pop("seconds").items()}
    return Searched(source.name, draw, kept, seconds)


def _searched(
    source: PhotoSet, draw: int, *, sets: Sequence[PhotoSet], pool: Sequence[str], encoder: Encoder
) -> Searched:
    """Search on some shots of a source, and answer all photos of the other folders."""
    images = Source(
        encoder, source.features, source.labels, {draw: shots(source, draw)}, TEMPLATE, list(source.class_names)
    )
    begun = time.process_time()
    counts = Meter(images, seed=draw, period=False).count(list(pool))
    unread = np.full(len(pool), np.nan)
    ranking = ranked(list(pool), n_correct=counts, log_likelihood=unread, period=False, cost=NOTHING)
    seconds = {"ranking": time.process_time() - begun}
    soups: dict[str, list[list[str]]] = {}
    for row, definition in SEARCHED.items():
        begun = time.process_time()
        search = Search(definition, ranking, images, draw)
        parts = [search.part(part) for part in range(definition.parts)]
        soups[row] = [search.soup(parts, made_with={}).texts]
        seconds[row] = time.process_time() - begun
    for row, m in RANDOM.items():
        seeds = range(draw * RANDOM_DRAWS, (draw + 1) * RANDOM_DRAWS)
        soups[row] = [[pool[i] for i in drawn_from(pool, m=m, seed=seed)] for seed in seeds]
    right: dict[str, dict[str, np.ndarray]] = {}
    for target in sets:
        if target.name != source.name:
            for row, hits in _answers(target, soups=soups, encoder=encoder).items():
                right.setdefault(row, {})[target.name] = hits
    return Searched(source.name, draw, right, seconds)


def shots(photos: PhotoSet, draw: int) -> torch.Tensor:
    """Indices of at most `SHOTS` photos of each class, drawn by a generator of the folder's and the draw's own."""
    generator = np.random.default_rng(named_seed("shots of soups", photos.name, draw))
    order = generator.permutation(len(photos.labels))
    labels = photos.labels.numpy()[order]
    chosen = [order[labels == label][:SHOTS] for label in range(len(photos.class_names))]
    return torch.from_numpy(np.concatenate(chosen))


def _answers(
    target: PhotoSet, *, soups: Mapping[str, Sequence[Sequence[str]]], encoder: Encoder
) -> dict[str, np.ndarray]:
    """Row -> (N,) how often each photo of a target is right: the mean over the soups of a row."""
    texts = {row: [target.texts[row]] for row in (CLASS_NAME, TEMPLATES)}
    prompts = PromptEncoder.of(encoder)
    names = target.class_names
    for row, of_row in soups.items():
        texts[row] = []
        for members in of_row:
            soup = Soup("sample", 0, TEMPLATE, encoder.id, tuple(map(Member, members)))
            texts[row].append(class_texts(soup, template=TEMPLATE, class_names=names, text_encoder=prompts))
    answers = {}
    for row, classifiers in texts.items():
        right = Scores(target.features, torch.stack(classifiers)).right(target.labels)
        answers[row] = right.float().mean(dim=0).numpy()
    return answers


def tables(made: Sequence[Searched], *, classes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Gains on all targets, on other styles and on other classes; `classes` of each folder."""

    def in_another_style(source: str, target: str) -> bool:
        return list(classes[source]) == list(classes[target])

    kinds: dict[str, Pairs] = {
        "all targets": lambda source, target: True,
        "other styles": in_another_style,
        "other classes": lambda source, target: not in_another_style(source, target),
    }
    for title, counts in kinds.items():
        lines = [f"| {title} | points | ... targets resampled |", "|---|---|---|"]
        for row, other in COMPARED:
            first = on_targets(made, row=row, counts=counts)
            if first:
                gain = compare_images(first, on_targets(made, row=other, counts=counts))
                again = _shown(gain.resampled) if gain.resampled else ""
                lines.append(f"| {row} minus {other} | {gain.fixed.mean:+.2f} {_shown(gain.fixed)} | {again} |")
        if len(lines) > 2:
            yield "\n".join(lines)


def on_targets(made: Sequence[Searched], *, row: str, counts: Pairs) -> Right:
    """Target -> (draws, N): the mean over the sources that count for it."""
    of_target: dict[str, dict[int, list[np.ndarray]]] = {}
    for each in made:
        for target, right in each.right[row].items():
            if counts(each.source, target):
                of_target.setdefault(target, {}).setdefault(each.draw, []).append(right)
    means = {}
    for target, by_draw in of_target.items():
        means[target] = np.stack([np.mean(of_draw, axis=0) for of_draw in by_draw.values()])
    return means


def _shown(estimate: Estimate) -> str:
    low, high = estimate.interval(0.95)
    return f"[{low:+.2f}, {high:+.2f}]"


def costs(made: Sequence[Searched]) -> str:
    """Processor seconds of ranking and of each search, the mean over sources and draws."""
    parts = []
    for row in made[0].seconds:
        seconds = np.mean([each.seconds[row] for each in made])
        parts.append(f"{row} {seconds:.0f}")
    return f"Processor seconds of one source: {', '.join(parts)}."


if __name__ == "__main__":
    typer.run(main)
