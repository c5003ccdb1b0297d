"""What docs/evidence.py measures on: the encoder, folders of images, rankings and soups, kept in a cache folder.

Soups are searched by the library's functions, seed by seed; each is a file of the cache, so several processes may share
the work: `python docs/evidence.py --only LABEL` does the soups of one kind.
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

from wsoup.core import prompts
from wsoup.core.scoring import correct, normalize
from wsoup.datasets.fewshot import draw
from wsoup.datasets.listing import Split
from wsoup.disk.store import fingerprint
from wsoup.images.decode import batches
from wsoup.params.base.encoder import EncoderParams
from wsoup.search.grow import soups
from wsoup.search.grow.chains import random_length_chain
from wsoup.search.grow.params import GreedySoup, JointSoup, RandomLengthsSoup, SoupParams
from wsoup.search.rank.params import RacingRound
from wsoup.search.rank.pools import common_words, descriptors
from wsoup.search.rank.racing import Round, part_of, race, racing_cost, rounds_of
from wsoup.search.rank.ranking import Ranked, ranked
from wsoup.search.rank.scores import right_by_name
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import statistics
from wsoup.soup.member import NOTHING, Cost, Member
from wsoup.towers.encoder import Encoder, load_encoder

SEEDS, SHOTS, WORDS = (1, 2, 3), 16, 10_000
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
RACES = {"words, raced": (RacingRound(classes=0.05, keep=3000), RacingRound(classes=0.15, keep=1000))}
"""A ranking of the words at 20 % of the cost, of which as many stay as Algorithm 2 wants."""
STATISTICS = ("n_correct", "k2", "gain_se")


@dataclass(frozen=True)
class Images:
    """Features (N, D), labels (N,), class names and paths of one folder."""

    features: Tensor
    labels: Tensor
    class_names: list[str]
    template: str
    paths: list[str]


@dataclass(frozen=True)
class Found:
    """One seed's soup: texts, their weights, and what ranking and search encoded."""

    texts: list[str]
    weights: list[float]
    tokens: int


def options_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """A script's own options and those of what it measures on; `pools` of them is read already."""
    parser.add_argument("--data", type=Path, required=True, help="folder of the encoder and the images")
    parser.add_argument("--descriptors", type=Path, help="a file of descriptors, one a line; without it, no such soups")
    parser.add_argument("--cache", type=Path, default=Path(".cache/evidence"))
    options = parser.parse_args()
    options.pools = {"words": common_words(WORDS)}
    if options.descriptors:
        known = set(options.pools["words"])
        options.pools["descriptors"] = [text for text in descriptors([options.descriptors]) if text not in known]
    return options


def put(made: Sequence[str], *, script: Path) -> None:
    """Write paragraphs into the page beside a script, between the marks that say which script makes them."""
    page, begin, end = script.with_suffix(".md"), f"<!-- made by docs/{script.name} -->", "<!-- end -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    page.write_text("\n\n".join([before + begin, *made, end + after]), encoding="utf-8")


class World:
    """The encoder, and everything that is kept in the cache folder.

    Args:
        data: a folder with `encoder/` (an open_clip config and weights) and images `<dataset>/<split>/<class>/`.
        cache: where features, scores and soups are kept.
        pools: words, and descriptors where there are some.
    """

    def __init__(self, data: Path, *, cache: Path, pools: Mapping[str, Sequence[str]]) -> None:
        self.data, self.cache, self.pools = data, cache, pools
        self._sources: dict[str, Source] = {}
        self._rankings: dict[tuple[str, str], dict[int, Ranked]] = {}
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
        folder, kept = self.data / name, self.kept(name, "npy")
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
        if name not in self._sources:
            images = self.images(name)
            split = Split(images.paths, images.labels.numpy())
            subsets = {
                seed: torch.from_numpy(draw(split, class_names=images.class_names, shots=SHOTS, seed=seed, origin=name))
                for seed in SEEDS
            }
            names = list(images.class_names)
            self._sources[name] = Source(self.encoder, images.features, images.labels, subsets, images.template, names)
        return self._sources[name]

    # ----------------------------------------------------------------------------------------------------- rankings

    def ranked(self, name: str, ranking: str) -> dict[int, Ranked]:
        """A pool ranked on one source, by seed: words, descriptors, mixed (words first), or one of `RACES`."""
        if (name, ranking) not in self._rankings:
            if ranking == "mixed":
                parts = [self._scored(name, pool) for pool in ("words", "descriptors")]
                texts = [text for pool in ("words", "descriptors") for text in self.pools[pool]]
                columns = {key: np.concatenate([part[key] for part in parts], axis=1) for key in STATISTICS}
                cost = sum((self._cost(name, pool) for pool in ("words", "descriptors")), NOTHING)
                found = arranged(texts, columns, costs=[cost] * len(SEEDS))
            elif ranking in RACES:
                found = self._raced(name, ranking)
            else:
                costs = [self._cost(name, ranking)] * len(SEEDS)
                found = arranged(self.pools[ranking], self._scored(name, ranking), costs=costs)
            self._rankings[name, ranking] = found
        return self._rankings[name, ranking]

    def _scored(self, name: str, pool: str) -> dict[str, np.ndarray]:
        """`STATISTICS` of a whole pool: (seeds, P) each."""
        kept = self.kept(f"{name}-{pool}", "npz")
        if not kept.exists():
            np.savez(kept, **scored(self.source(name), self.pools[pool]))
        return dict(np.load(kept))

    def _raced(self, name: str, ranking: str) -> dict[int, Ranked]:
        source, words, kept = self.source(name), self.pools["words"], self.kept(f"{name}-{ranking}", "npz")
        heats = rounds_of(RACES[ranking], n_classes=len(source.class_names))
        if not kept.exists():
            np.savez(kept, **race(words, heats, n_seeds=len(SEEDS), score=self._score_of(name, heats)))
        columns = dict(np.load(kept))
        _, costs = racing_cost(source, words, heats, n_classes=columns["n_classes"], period=False)
        return arranged(words, columns, costs=costs)

    def _score_of(self, name: str, heats: Sequence[Round]) -> Any:
        whole, places = self._scored(name, "words"), {text: i for i, text in enumerate(self.pools["words"])}

        def score(number: int, texts: Sequence[str]) -> dict[str, np.ndarray]:
            if heats[number].keep is None:  # the last round has the columns of the whole ranking, which is there
                found = {key: values[:, [places[text] for text in texts]] for key, values in whole.items()}
            else:
                found = scored(part_of(self.source(name), heats[number].classes), texts)
            nothing = np.zeros((len(SEEDS), len(texts)))
            return {"alignment": nothing, "uniformity": nothing, "near_ties": nothing, **found}

        return score

    def _cost(self, name: str, pool: str) -> Cost:
        """What scoring a whole pool takes."""
        source, texts = self.source(name), self.pools[pool]
        everything = np.full((1, len(texts)), len(source.class_names))
        return racing_cost(
            source, texts, rounds_of([], n_classes=everything[0, 0]), n_classes=everything, period=False
        )[0]

    # -------------------------------------------------------------------------------------------------------- soups

    def soup(self, name: str, kind: Mapping[str, Any], *, seed: int) -> Found:
        """One kind of soup for one seed; `ranking` is what it begins with, its pool where none is named."""
        definition = define({key: value for key, value in kind.items() if key != "ranking"})
        source, pool = self.source(name), self.ranked(name, kind.get("ranking", definition.pool))[seed]
        chosen = soups.candidates(definition, pool)
        found, cost = self._searched(name, definition, chosen=chosen, source=source, seed=seed, kind=kind)
        tokens = soups.ranking_cost(definition, pool).tokens + cost
        return Found([member.text for member in found], [1.0] * len(found), tokens)

    def _searched(
        self,
        name: str,
        definition: SoupParams,
        *,
        chosen: Ranked,
        source: Source,
        seed: int,
        kind: Mapping[str, Any],
    ) -> tuple[list[Member], int]:
        """Members and the search's tokens; the class name's weight decides a search of a whole soup alone."""
        if isinstance(definition, RandomLengthsSoup):  # the chains whose lengths it takes are those of Algorithm 2
            chains = define({**definition.model_dump(exclude={"class_name_weight"}), "kind": "chains"})
            grown, tokens = self._searched(name, chains, chosen=chosen, source=source, seed=seed, kind=kind)
            texts = [
                random_length_chain(chain, ranked=chosen.texts, member=i, seed=seed, k1=definition.k1)
                for i, chain in enumerate(grown)
            ]
            return [Member(text) for text in texts], tokens
        whole = isinstance(definition, GreedySoup | JointSoup)
        about = definition.model_dump(exclude=None if whole else {"class_name_weight"})
        kept = self.kept(f"{name}-{definition.kind}-{seed}-{fingerprint([about, kind.get('ranking')])[:8]}", "json")
        if not kept.exists():
            parts = [
                soups.members(definition, ranked=chosen, source=source, seed=seed, part=part)
                for part in range(definition.parts)
            ]
            members = [member.as_json() for found, _ in parts for member in found]
            cost = sum((found for _, found in parts), NOTHING)
            kept.write_text(json.dumps({"members": members, "tokens": cost.tokens}))
        value = json.loads(kept.read_text())
        return [Member.from_json(member) for member in value["members"]], value["tokens"]

    def right(
        self, name: str, soups_by_seed: Mapping[int, Found], *, source: Source, class_name_weight: float
    ) -> np.ndarray:
        """Which images of a folder the soups' centroids get right: (seeds, N) bool."""
        rows = []
        for seed in SEEDS:
            found = soups_by_seed[seed]
            about = [name, source.template, found.texts, found.weights, class_name_weight]
            kept = self.kept(f"right-{fingerprint(about)[:16]}", "npy")
            if not kept.exists():
                np.save(kept, self._right(name, found, source=source, class_name_weight=class_name_weight))
            rows.append(np.load(kept))
        return np.stack(rows)

    def _right(self, name: str, found: Found, *, source: Source, class_name_weight: float) -> np.ndarray:
        images = self.images(name)
        stems = prompts.stems(images.template, images.class_names)
        texts = source.texts.encode_grid(stems, [prompts.ending(text, period=True) for text in found.texts])
        total = torch.einsum("m,mcd->cd", torch.tensor(found.weights), texts)
        if class_name_weight:
            total = total + class_name_weight * source.texts.encode_grid(stems, ["."])[0]
        return correct(images.features, images.labels, normalize(total)).numpy()

    def kept(self, name: str, suffix: str) -> Path:
        """A file of the cache."""
        return self.cache / f"{''.join(c if c.isalnum() else '-' for c in name)}.{suffix}"


def define(kind: Mapping[str, Any]) -> SoupParams:
    """A definition as in params.yaml."""
    return TypeAdapter(SoupParams).validate_python({"pool": "words", "m": 8, **kind})


def scored(source: Source, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """`STATISTICS` of some texts for every seed: (seeds, P) each."""
    images = source.images()
    named = right_by_name(source, images=images, period=False)
    parts = [statistics(images, block, baseline_right=named) for block in source.text_blocks(texts, period=False)]
    return {
        name: np.stack([np.concatenate([part[k].column(name) for part in parts]) for k in range(len(SEEDS))])
        for name in STATISTICS
    }


def arranged(texts: Sequence[str], columns: Mapping[str, np.ndarray], *, costs: Sequence[Cost]) -> dict[int, Ranked]:
    """The ranking of every seed."""
    return {
        seed: ranked(
            list(texts),
            n_correct=columns["n_correct"][k],
            log_likelihood=columns["k2"][k],
            period=False,
            cost=costs[k],
            n_classes=columns["n_classes"][k] if "n_classes" in columns else None,
        )
        for k, seed in enumerate(SEEDS)
    }
