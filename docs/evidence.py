"""All kinds of soups and their controls on real photographs: makes the tables of docs/evidence.md.

    python docs/evidence.py --data FOLDER [--descriptors FILE] [--cache FOLDER]

FOLDER holds `encoder/` (an open_clip config and weights) and folders of images `<dataset>/<split>/<class>/`, named in
SOURCES. The text around the tables is written by hand. The library's functions are called directly; features, scores and soups are kept in the cache folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor

from wsoup import prompts
from wsoup.datasets.fewshot import draw
from wsoup.datasets.listing import Split
from wsoup.draws import named_generator
from wsoup.images.decode import batches
from wsoup.params.encoder import EncoderParams
from wsoup.params.search import SoupParams
from wsoup.report.verdict import Comparison, Estimate, compare, holm
from wsoup.scoring import correct, normalize, rank
from wsoup.search import soups
from wsoup.search.cost import cost_of
from wsoup.search.pools import common_words, descriptors
from wsoup.search.ranking import Ranked
from wsoup.search.singles import top
from wsoup.search.source import Source
from wsoup.search.statistics import statistics
from wsoup.soup import NOTHING, Cost
from wsoup.towers import Encoder, load_encoder

SEEDS, SHOTS, WORDS = (1, 2, 3), 16, 10_000
CONFIDENCE = 0.95
CLEANED = {
    "Faces": "face",
    "Leopards": "leopard",
    "Motorbikes": "motorbike",
    "airplanes": "airplane",
    "car_side": "car",
    "water_lilly": "water lily",
}
"""Class names of Caltech-101 that their folders spell otherwise; Faces_easy is left out, as CoOp does."""
TEMPLATES = {"flowers17/test": "a photo of a {}, a type of flower."}
STYLES = ("pacs/photo/test", "pacs/art_painting/test", "pacs/cartoon/test", "pacs/sketch/test")
OTHERS = ("cifar10/test", "flowers17/test")
SOURCES = {
    "caltech101/train": ("caltech101/test", (*STYLES, *OTHERS)),
    "pacs/photo/train": ("pacs/photo/test", (*STYLES[1:], "caltech101/test", *OTHERS)),
}
"""Source -> its held-out images, and the targets."""
GROWTH = {"k0": 250, "k1": 1000, "patience": 250, "max_words": 10}
KINDS: dict[str, dict[str, Any]] = {
    "Algorithm 2 (chains)": {"kind": "chains", **GROWTH},
    "Algorithm 1 on descriptors (greedy)": {"kind": "greedy", "pool": "descriptors"},
    "sample of the pool": {"kind": "sample", "k1": None},
    "sample of the top 1,000": {"kind": "sample", "k1": 1000},
    "first_words": {"kind": "first_words", "k0": 250},
    "random_lengths": {"kind": "random_lengths", **GROWTH},
    "top, count": {"kind": "top", "k1": 1000, "rank_by": "count"},
    "top, count_k2": {"kind": "top", "k1": 1000, "rank_by": "count_k2"},
    "top, count_k2, mixed pool": {"kind": "top", "k1": 1000, "rank_by": "count_k2", "pool": "mixed"},
    "joint": {"kind": "joint", **GROWTH},
    "joint, max_words 2": {"kind": "joint", **GROWTH, "max_words": 2},
    "Algorithm 2, class name x 2": {"kind": "chains", **GROWTH, "class_name_weight": 2},
    "top, count_k2, class name x 2": {"kind": "top", "k1": 1000, "rank_by": "count_k2", "class_name_weight": 2},
}
REFERENCE = "Algorithm 2 (chains)"
ROUNDS = ((0.10, 2000), (0.30, 400), (1.00, None))
"""Racing: shares of the classes, nested, and how many candidates stay after each."""
HEADER = (
    "| soup (m = 8) | gain over the class name | ... datasets resampled | minus Algorithm 2 | ... datasets resampled "
    "| p (Holm) | gain, held-out source | optimism | million tokens |"
)
BEGIN, END = "<!-- made by docs/evidence.py -->", "<!-- end -->"
Right = Mapping[str, np.ndarray]
"""Dataset -> (seeds, images) bool."""


@dataclass(frozen=True)
class Images:
    """Features (N, D), labels (N,), class names and paths of one folder."""

    features: Tensor
    labels: Tensor
    class_names: list[str]
    template: str
    paths: list[str]


class World:
    """The encoder, and everything that is kept in the cache folder.

    Args:
        data: see the module.
        cache: where features, scores and soups are kept.
        pools: words, and descriptors where there are some.
    """

    def __init__(self, data: Path, *, cache: Path, pools: Mapping[str, Sequence[str]]) -> None:
        self.data, self.cache, self.pools = data, cache, pools
        cache.mkdir(parents=True, exist_ok=True)

    @cached_property
    def encoder(self) -> Encoder:
        """The one model of the folder."""
        config = next((self.data / "encoder").glob("*.json"))
        half = (0.5, 0.5, 0.5)
        params = EncoderParams(
            model=config.stem,
            pretrained=str(config.with_suffix(".safetensors")),
            config=str(config),
            image_mean=half,
            image_std=half,
            interpolation="bicubic",
            precision="fp32",
            watch=str(config),
        )
        return load_encoder(params)

    def images(self, name: str) -> Images:
        """One folder of images, embedded once."""
        folder, kept = self.data / name, self._kept(name, "npy")
        classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name != "Faces_easy")
        files = [(file, label) for label, c in enumerate(classes) for file in sorted((folder / c).iterdir())]
        if not kept.exists():
            found = batches([str(file) for file, _ in files], transform=self.encoder.preprocess, batch_size=32)
            np.save(kept, torch.cat([self.encoder.encode_images(batch.pixels) for batch in found]).cpu().numpy())
        return Images(
            features=torch.from_numpy(np.load(kept)),
            labels=torch.tensor([label for _, label in files]),
            class_names=[CLEANED.get(c, prompts.clean_class_name(c)) for c in classes],
            template=TEMPLATES.get(name, "a photo of a {}."),
            paths=[str(file.relative_to(self.data)) for file, _ in files],
        )

    def source(self, name: str) -> Source:
        """What selection may see of one folder: the few-shot images of every seed, as stage fewshot draws them."""
        images = self.images(name)
        split = Split(images.paths, images.labels.numpy())
        subsets = {
            seed: torch.from_numpy(draw(split, class_names=images.class_names, shots=SHOTS, seed=seed, origin=name))
            for seed in SEEDS
        }
        return Source(self.encoder, images.features, images.labels, subsets, images.template, list(images.class_names))

    def ranked(self, name: str) -> dict[str, dict[int, Ranked]]:
        """Every pool scored on one source, by its name and seed; mixed is all of them, words first."""
        source = self.source(name)
        found, columns = {}, {}
        for pool, texts in self.pools.items():
            kept = self._kept(f"{name}-{pool}", "npz")
            if not kept.exists():
                np.savez(kept, **score(source, texts))
            columns[pool] = dict(np.load(kept))
            found[pool] = arrange(texts, columns[pool], cost=ranking_cost(source, texts))
        if "descriptors" in found:
            both = [text for texts in self.pools.values() for text in texts]
            joined = {
                key: np.concatenate([part[key] for part in columns.values()], axis=1) for key in ("n_correct", "k2")
            }
            found["mixed"] = arrange(both, joined, cost=sum((found[p][1].cost for p in self.pools), NOTHING))
        return found

    def soup(self, name: str, *, label: str, source: Source, ranked: Mapping[int, Ranked]) -> dict[str, Any]:
        """The texts of one kind for every seed, its search's cost, and its correct images of those it was found on."""
        definition = define(KINDS[label])
        kept = self._kept(f"{name}-{label}", "json")
        if not kept.exists():
            texts, cost = {}, NOTHING
            for seed in SEEDS:
                cut = soups.candidates(definition, ranked[seed])
                parts = [
                    soups.members(definition, ranked=cut, source=source, seed=seed, part=part)
                    for part in range(soups.parts(definition))
                ]
                texts[seed] = [member.text for members, _ in parts for member in members]
                cost = sum((found for _, found in parts), cost)
            kept.write_text(json.dumps({"texts": texts, "search": cost.as_json()}))
        value = json.loads(kept.read_text())
        return {
            "texts": {int(seed): texts for seed, texts in value["texts"].items()},
            "weight": definition.class_name_weight,
            "cost": soups.ranking_cost(definition, ranked[SEEDS[0]]).tokens + value["search"]["tokens"] / len(SEEDS),
        }

    def right(self, name: str, texts: Mapping[int, Sequence[str]], *, weight: float, source: Source) -> np.ndarray:
        """Which images of a folder the soups' centroids get right: (seeds, N) bool."""
        images = self.images(name)
        stems = prompts.stems(images.template, images.class_names)
        return np.stack(
            [
                correct(images.features, images.labels, self._centroids(stems, texts[seed], weight, source)).numpy()
                for seed in SEEDS
            ]
        )

    def _centroids(self, stems: list[str], texts: Sequence[str], weight: float, source: Source) -> Tensor:
        total = source.texts.encode_grid(stems, [prompts.ending(text, period=True) for text in texts]).sum(dim=0)
        return normalize(total + weight * source.texts.encode_grid(stems, ["."])[0] if weight else total)

    def _kept(self, name: str, suffix: str) -> Path:
        plain = "".join(c if c.isalnum() else "-" for c in name)
        return self.cache / f"{plain}.{suffix}"


def define(kind: Mapping[str, Any]) -> SoupParams:
    """A definition as in params.yaml."""
    return TypeAdapter(SoupParams).validate_python({"pool": "words", "m": 8, **kind})


def score(source: Source, pool: Sequence[str]) -> dict[str, np.ndarray]:
    """Counts and statistics of a pool for every seed: (seeds, P) each."""
    images = source.images()
    (alone,) = source.text_blocks([""], period=False)
    named = correct(images.image_features, images.labels, alone[0])
    parts = [statistics(images, block, named=named) for block in source.text_blocks(pool, period=False)]
    return {
        name: np.stack([np.concatenate([getattr(part[k], name) for part in parts]) for k in range(len(SEEDS))])
        for name in ("n_correct", "k2", "gain_se")
    }


def arrange(pool: Sequence[str], columns: Mapping[str, np.ndarray], *, cost: Cost) -> dict[int, Ranked]:
    """The ranking of every seed."""
    found = {}
    for k, seed in enumerate(SEEDS):
        order = rank(columns["n_correct"][k])
        texts = [pool[i] for i in order]
        found[seed] = Ranked(texts, columns["n_correct"][k][order], columns["k2"][k][order], False, cost)
    return found


def ranking_cost(source: Source, pool: Sequence[str]) -> Cost:
    """What scoring a pool takes, for all seeds together."""
    endings = [prompts.ending(text, period=False) for text in pool]
    return cost_of(endings, classes=len(source.class_names), encoder=source.texts)


def race(source: Source, *, pool: Sequence[str], seed: int) -> tuple[list[str], float]:
    """Successive halving over classes, for one seed: 8 members by count_k2, and the tokens of the ranking.

    Each round scores what is left of the pool on a larger share of the classes, drawn once, and on the images of these
    classes only; the best by z(count) + z(k2) stay. Every round is paid for in full, though its classes hold the last
    round's.
    """
    order = torch.from_numpy(named_generator(seed, "racing").permutation(len(source.class_names)))
    left, tokens = list(pool), 0.0
    index = source.subsets[seed]
    for share, keep in ROUNDS:
        chosen = order[: max(2, round(share * len(order)))].sort().values
        label = torch.full((len(order),), -1)
        label[chosen] = torch.arange(len(chosen))
        inside = index[label[source.labels[index]] >= 0]
        part = Source(
            source.encoder,
            source.image_features[inside],
            label[source.labels[inside]],
            dict.fromkeys(SEEDS, torch.arange(len(inside))),
            source.template,
            [source.class_names[i] for i in chosen.tolist()],
        )
        found = arrange(left, score(part, left), cost=ranking_cost(part, left))[SEEDS[0]]
        tokens += found.cost.tokens
        m = keep or 8
        left = top(
            found.texts, n_correct=found.n_correct, k2=found.k2, m=m, k1=len(left) if keep else 300, rank_by="count_k2"
        )
    return left, tokens


# ------------------------------------------------------------------------------------------------------- the report


def shown(estimate: Estimate) -> str:
    """A mean with its interval, in points."""
    low, high = estimate.interval(CONFIDENCE)
    return f"{estimate.mean:+.2f} [{low:+.2f}, {high:+.2f}]"


def line(label: str, gain: Comparison, against: Comparison | None, *, p: float | None, more: Sequence[str]) -> str:
    """One line of the table."""
    assert gain.resampled is not None
    cells = [label, shown(gain.fixed), shown(gain.resampled)]
    if against is None or against.resampled is None or p is None:
        cells += ["", "", ""]
    else:
        cells += [shown(against.fixed), shown(against.resampled), f"{p:.3f}"]
    return f"| {' | '.join([*cells, *more])} |"


def measured(world: World, name: str) -> list[str]:
    """The section of one source."""
    held_out, targets = SOURCES[name]
    source, ranked = world.source(name), world.ranked(name)
    labels = [label for label, kind in KINDS.items() if kind.get("pool", "words") in ranked]
    found: dict[str, Right] = {}
    about: dict[str, dict[str, Any]] = {}
    base_texts = {seed: [""] for seed in SEEDS}
    folders = (held_out, *targets)
    base = {f: world.right(f, base_texts, weight=0.0, source=source) for f in folders}
    for label in labels:
        soup = world.soup(name, label=label, source=source, ranked=ranked[KINDS[label].get("pool", "words")])
        found[label] = {f: world.right(f, soup["texts"], weight=soup["weight"], source=source) for f in folders}
        about[label] = soup
        print(name, label, soup["texts"][SEEDS[0]], flush=True)
    raced = {seed: race(source, pool=world.pools["words"], seed=seed) for seed in SEEDS}
    winners = {seed: texts for seed, (texts, _) in raced.items()}
    label = "top, count_k2, after racing"
    found[label] = {f: world.right(f, winners, weight=0.0, source=source) for f in folders}
    about[label] = {"texts": winners, "weight": 0.0, "cost": float(np.mean([t for _, t in raced.values()]))}

    def on(right: Right, names: Sequence[str] = targets) -> Right:
        return {f: right[f] for f in names}

    gains = {label: compare(on(right), on(base)) for label, right in found.items()}
    against = {label: compare(on(right), on(found[REFERENCE])) for label, right in found.items() if label != REFERENCE}
    corrected = dict(zip(against, holm([c.fixed.p_value for c in against.values()]), strict=True))
    table = [HEADER, "|---" * 9 + "|"]
    for label, right in found.items():
        soup = about[label]
        chosen = chosen_accuracy(world, name, soup, source=source) - 100 * float(right[held_out].mean())
        more = [
            shown(compare(on(right, [held_out]), on(base, [held_out])).fixed),
            f"{chosen:+.1f}",
            f"{soup['cost'] / 1e6:.2f}",
        ]
        table.append(line(label, gains[label], against.get(label), p=corrected.get(label), more=more))
    visible = max(c.fixed.smallest_visible(CONFIDENCE) for c in against.values())
    full, less = ("top, count_k2", "top, count_k2, after racing")
    racing = compare(on(found[less]), on(found[full]))
    share = about[less]["cost"] / about[full]["cost"]
    by_target = ", ".join(f"{f.removesuffix('/test')} {100 * float(base[f].mean()):.1f}" for f in targets)
    limit = f"{visible:.1f} points (80 % power, the widest of the comparisons shown)"
    return [
        f"## Source {name.split('/train')[0]}: {len(source.class_names)} classes, {SHOTS} shots, {len(SEEDS)} seeds",
        f"The class name alone, per cent: {by_target}; held-out source {100 * float(base[held_out].mean()):.1f}.",
        "\n".join(table),
        f"A difference from Algorithm 2 of less than {limit} could escape this run. Racing at {100 * share:.0f} % of "
        f"the ranking's tokens, minus the whole ranking: {shown(racing.fixed)}.",
    ]


def chosen_accuracy(world: World, name: str, soup: Mapping[str, Any], *, source: Source) -> float:
    """Per cent of the few-shot images that the soups get right which were selected on them."""
    right = world.right(name, soup["texts"], weight=soup["weight"], source=source)
    return 100 * float(np.mean([right[k][source.subsets[seed].numpy()].mean() for k, seed in enumerate(SEEDS)]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make docs/evidence.md.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the encoder and the images")
    parser.add_argument("--descriptors", type=Path, help="a file of descriptors, one a line; without it, no such soups")
    parser.add_argument("--cache", type=Path, default=Path(".cache/evidence"))
    options = parser.parse_args()
    pools = {"words": common_words(WORDS)}
    if options.descriptors:
        known = set(pools["words"])
        pools["descriptors"] = [text for text in descriptors([options.descriptors]) if text not in known]
    world = World(options.data, cache=options.cache, pools=pools)
    sections = [section for name in SOURCES for section in measured(world, name)]
    page = Path(__file__).with_suffix(".md")
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text("\n\n".join([before + BEGIN, *sections, END + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
