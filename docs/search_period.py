"""Ranking and search with or without the prompt's final period: makes the table of docs/search_period.md.

    python docs/search_period.py --data FOLDER [--descriptors FILE] [--cache FOLDER]

The data, the sources and the targets are those of docs/evidence.py. What is evaluated always ends in a period; only
`candidates.<pool>.period` differs between the two sides of a line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from evidence import CONFIDENCE, SOURCES, shown
from evidence_trials import GROWTH
from evidence_world import SEEDS, Found, World, define, options_of, put

from wsoup.core.scoring import correct
from wsoup.core.statistics import compare_images
from wsoup.search.grow import soups
from wsoup.search.rank.ranking import Ranked, ranked
from wsoup.search.rank.source import Source
from wsoup.search.rank.statistics import statistics
from wsoup.soup.member import NOTHING

KINDS: dict[str, dict[str, Any]] = {
    "word (chains)": {"kind": "chains", **GROWTH},
    "first_words": {"kind": "first_words", "k0": 250},
    "top, count_k2": {"kind": "top", "k1": 1000, "rank_by": "count_k2"},
    "descriptor (greedy)": {"kind": "greedy", "pool": "descriptors", "m": 16},
}
SIDES = ("bare", "period")
HEADER = (
    "| source | soup | XD mean, period false | XD mean, period true | true minus false | ... datasets resampled "
    "| held-out source, true minus false |"
)


def rankings(world: World, name: str, *, pool: str, source: Source, period: bool) -> dict[int, Ranked]:
    """One pool ranked on one source, by seed."""
    texts = list(world.pools[pool])
    kept = world.kept(f"{name}-{pool}-{SIDES[period]}", "npz")
    if not kept.exists():
        images = source.images()
        (alone,) = source.text_blocks([""], period=period)
        named = correct(images.image_features, images.labels, alone[0])
        parts = [statistics(images, block, baseline_right=named) for block in source.text_blocks(texts, period=period)]
        columns = {
            column: np.stack([np.concatenate([part[k].column(column) for part in parts]) for k in range(len(SEEDS))])
            for column in ("n_correct", "k2")
        }
        np.savez(kept, **columns)
    found = dict(np.load(kept))
    return {
        seed: ranked(texts, n_correct=found["n_correct"][k], log_likelihood=found["k2"][k], period=period, cost=NOTHING)
        for k, seed in enumerate(SEEDS)
    }


def soup(world: World, name: str, *, label: str, source: Source, period: bool) -> dict[int, list[str]]:
    """The texts of one kind for every seed."""
    definition = define(KINDS[label])
    kept = world.kept(f"{name} {label}-{SIDES[period]}", "json")
    if not kept.exists():
        by_seed = rankings(world, name, pool=definition.pool, source=source, period=period)
        texts = {}
        for seed in SEEDS:
            cut = soups.candidates(definition, by_seed[seed])
            parts = [
                soups.members(definition, ranked=cut, source=source, seed=seed, part=part)
                for part in range(definition.parts)
            ]
            texts[seed] = [member.text for members, _ in parts for member in members]
        kept.write_text(json.dumps(texts))
    return {int(seed): texts for seed, texts in json.loads(kept.read_text()).items()}


def measured(world: World, name: str, *, label: str) -> str:
    """The line of one source and kind."""
    held_out, targets = SOURCES[name]
    source = world.source(name)
    sides: dict[bool, Mapping[str, np.ndarray]] = {}
    for period in (False, True):
        texts = soup(world, name, label=label, source=source, period=period)
        found = {seed: Found(chosen, [1.0] * len(chosen), 0) for seed, chosen in texts.items()}
        sides[period] = {f: world.right(f, found, source=source, class_name_weight=0.0) for f in (held_out, *targets)}
        print(name, label, period, texts[SEEDS[0]], flush=True)
    gain = compare_images(*({f: sides[period][f] for f in targets} for period in (True, False)))
    home = compare_images(*({held_out: sides[period][held_out]} for period in (True, False)))
    assert gain.resampled is not None
    means = [f"{100 * np.mean([sides[p][f].mean() for f in targets]):.2f}" for p in (False, True)]
    cells = [name.split("/train")[0], label, *means, shown(gain.fixed), shown(gain.resampled), shown(home.fixed)]
    print(f"| {' | '.join(cells)} |", flush=True)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    options = options_of(argparse.ArgumentParser(description="Make docs/search_period.md."))
    world = World(options.data, cache=options.cache, pools=options.pools)
    labels = [label for label, kind in KINDS.items() if kind.get("pool", "words") in world.pools]
    lines = [measured(world, name, label=label) for label in labels for name in SOURCES]
    about = f"{len(SEEDS)} seeds, intervals of {100 * CONFIDENCE:.0f} %."
    table = "\n".join([HEADER, "|---" * 7 + "|", *lines])
    put([table, about], script=Path(__file__))


if __name__ == "__main__":
    main()
