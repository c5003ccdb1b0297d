"""All kinds of soups, their controls and what else was tried, on real photographs: makes docs/evidence.md's tables.

    python docs/evidence.py --data FOLDER --descriptors FILE [--cache FOLDER]

FOLDER holds `encoder/` (an open_clip config and weights) and folders of images `<dataset>/<split>/<class>/`, named in
SOURCES. The text around the tables is written by hand. The library's functions are called directly; features, scores
and soups are kept in the cache folder, so that a run that was ended goes on. `--only LABEL` does the soups of one row
and writes no page: several processes may share the work.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from evidence_trials import GROWTH, TRIALS
from evidence_world import RACES, SEEDS, SHOTS, Found, World, options_of, put

from wsoup.core.statistics import Comparison, Estimate, compare_images, holm
from wsoup.disk.store import read_json, write_json

CONFIDENCE = 0.95
STYLES = ("pacs/photo/test", "pacs/art_painting/test", "pacs/cartoon/test", "pacs/sketch/test")
OTHERS = ("cifar10/test", "flowers17/test")
SOURCES = {
    "caltech101/train": ("caltech101/test", (*STYLES, *OTHERS)),
    "pacs/photo/train": ("pacs/photo/test", (*STYLES[1:], "caltech101/test", *OTHERS)),
}
"""Source -> its held-out images, and the targets."""
COUNT_K2 = {"kind": "top", "rank_by": "count_k2"}
(RACED,) = RACES
KINDS: dict[str, dict[str, Any]] = {
    "Algorithm 2 (chains)": {"kind": "chains", **GROWTH},
    "Algorithm 1 on descriptors (greedy)": {"kind": "greedy", "pool": "descriptors"},
    "sample of the pool": {"kind": "sample", "k1": None},
    "sample of the top 1,000": {"kind": "sample", "k1": 1000},
    "first_words": {"kind": "first_words", "k0": 250},
    "random_lengths": {"kind": "random_lengths", **GROWTH},
    "top, count": {"kind": "top", "k1": 1000, "rank_by": "count"},
    "top, count_k2": {**COUNT_K2, "k1": 1000},
    "top, count_k2, mixed pool": {**COUNT_K2, "k1": 1000, "pool": "mixed"},
    "joint": {"kind": "joint", **GROWTH},
    "joint, max_words 3": {"kind": "joint", **GROWTH, "max_words": 3},
    "joint, max_words 2": {"kind": "joint", **GROWTH, "max_words": 2},
    "joint, class name x 2": {"kind": "joint", **GROWTH, "class_name_weight": 2},
    "Algorithm 2, class name x 2": {"kind": "chains", **GROWTH, "class_name_weight": 2},
    "top, count_k2, class name x 2": {**COUNT_K2, "k1": 1000, "class_name_weight": 2},
    "top, count_k2, raced": {**COUNT_K2, "k1": 1000, "ranking": RACED},
    "sample of the top 1,000, raced": {"kind": "sample", "k1": 1000, "ranking": RACED},
    "first_words, raced": {"kind": "first_words", "k0": 250, "ranking": RACED},
}
REFERENCE = "Algorithm 2 (chains)"
RACES_AGAINST = {f"{whole}, raced": whole for whole in ("top, count_k2", "sample of the top 1,000", "first_words")}
HEADER = (
    "| soup (m = 8) | gain over the class name | ... datasets resampled | minus Algorithm 2 | ... datasets resampled "
    "| p (Holm) | gain, held-out source | optimism | million tokens |"
)
Right = Mapping[str, np.ndarray]
"""Dataset -> (seeds, images) bool."""


def soup(world: World, name: str, label: str, *, seed: int) -> Found:
    """One seed's soup of a row or a trial, searched or read from the cache."""
    if label in KINDS:
        return world.soup(name, KINDS[label], seed=seed)
    kept = world.kept(f"{name}-trial-{label}-{seed}", "json")
    if not kept.exists():
        write_json(kept, vars(TRIALS[label][0](world, name, seed)))
    return Found(**read_json(kept))


class Section:
    """Every row of one source: which images are right, and what it cost.

    Args:
        world: see `World`.
        name: of the source's folder of training images.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.source = world, name, world.source(name)
        self.held_out, self.targets = SOURCES[name]
        self.folders = (self.held_out, *self.targets, name)
        nothing = {seed: Found([""], [1.0], 0) for seed in SEEDS}
        self.base = {f: world.right(f, nothing, source=self.source, class_name_weight=0.0) for f in self.folders}
        self.found: dict[str, Right] = {}
        self.tokens: dict[str, float] = {}

    def add(self, label: str) -> None:
        """Search, or read from the cache, the soups of one row or trial; and what they get right."""
        soups = {seed: soup(self.world, self.name, label, seed=seed) for seed in SEEDS}
        weight = KINDS[label].get("class_name_weight", 0.0) if label in KINDS else 0.0
        self.found[label] = {
            f: self.world.right(f, soups, source=self.source, class_name_weight=weight) for f in self.folders
        }
        self.tokens[label] = float(np.mean([found.tokens for found in soups.values()]))
        print(self.name, label, soups[SEEDS[0]].texts, flush=True)

    def on_targets(self, label: str | None = None, *, only: Sequence[str] | None = None) -> Right:
        """Which images of the targets a row gets right; None: the class name alone."""
        right = self.base if label is None else self.found[label]
        return {f: right[f] for f in only or self.targets}

    def gain(self, label: str, over: str | None = None) -> Comparison:
        """A row's gain on the targets over another; None: over the class name alone."""
        return compare_images(self.on_targets(label), self.on_targets(over))

    def optimism(self, label: str) -> float:
        """Per cent of the few-shot images that the soups were selected on, minus that of held-out images."""
        right = self.found[label][self.name]
        seen = [right[k][self.source.subsets[seed].numpy()].mean() for k, seed in enumerate(SEEDS)]
        return 100 * float(np.mean(seen)) - 100 * float(self.found[label][self.held_out].mean())

    def table(self, labels: Sequence[str]) -> str:
        """The table of all kinds."""
        against = {label: self.gain(label, REFERENCE) for label in labels if label != REFERENCE}
        corrected = dict(zip(against, holm([c.fixed.p_value for c in against.values()]), strict=True))
        lines = [HEADER, "|---" * 9 + "|"]
        for label in labels:
            only = [self.held_out]
            held_out = compare_images(self.on_targets(label, only=only), self.on_targets(only=only)).fixed
            more = [shown(held_out), f"{self.optimism(label):+.1f}", f"{self.tokens[label] / 1e6:.2f}"]
            lines.append(line(label, self.gain(label), against.get(label), p=corrected.get(label), more=more))
        visible = max(c.fixed.smallest_visible(CONFIDENCE) for c in against.values())
        limit = f"{visible:.1f} points (80 % power, the widest of the comparisons shown)"
        return "\n".join(lines) + f"\n\nA difference from Algorithm 2 of less than {limit} could escape this run."

    def races(self, labels: Sequence[str]) -> str:
        """What racing costs, keeps and changes."""
        rows = ["| ranking | tokens, of the whole ranking's | of its top 100 are left | ... minus the whole ranking |"]
        rows.append("|---" * 4 + "|")
        for label, whole in RACES_AGAINST.items():
            if label in labels:
                ranking, share, kept = KINDS[label]["ranking"], [], []
                for seed in SEEDS:
                    full, raced = (self.world.ranked(self.name, r)[seed] for r in ("words", ranking))
                    share.append(raced.cost.tokens / full.cost.tokens)
                    kept.append(len({*full.texts[:100]} & {*raced.finalists().texts}))
                about = [label, f"{100 * np.mean(share):.0f} %", f"{np.mean(kept):.0f}"]
                rows.append(f"| {' | '.join([*about, shown(self.gain(label, whole).fixed)])} |")
        return "\n".join(rows)

    def trials(self, labels: Sequence[str]) -> str:
        """What was tried beside the kinds, each against the row that it varies."""
        rows = ["| tried | gain over the class name | against | minus that | million tokens |", "|---" * 5 + "|"]
        for label in labels:
            other = TRIALS[label][1]
            cells = [label, shown(self.gain(label).fixed), other, shown(self.gain(label, other).fixed)]
            rows.append(f"| {' | '.join([*cells, f'{self.tokens[label] / 1e6:.2f}'])} |")
        return "\n".join(rows)


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


def measured(world: World, name: str, *, kinds: Sequence[str], trials: Sequence[str]) -> list[str]:
    """The section of one source."""
    section = Section(world, name)
    for label in (*kinds, *trials):
        section.add(label)
    base = {f: f"{100 * float(right.mean()):.1f}" for f, right in section.base.items()}
    by_target = ", ".join(f"{f.removesuffix('/test')} {base[f]}" for f in section.targets)
    classes = f"{len(section.source.class_names)} classes, {SHOTS} shots, {len(SEEDS)} seeds"
    found = [
        f"## Source {name.split('/train')[0]}: {classes}",
        f"The class name alone, per cent: {by_target}; held-out source {base[section.held_out]}.",
        section.table(kinds),
        "Rankings that raced (one seed's cost), and soups made of them:",
        section.races(kinds),
    ]
    return found + (
        ["Tried beside the kinds, outside of the table's correction:", section.trials(trials)] * bool(trials)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Make docs/evidence.md.")
    parser.add_argument("--source", choices=SOURCES, help="with --only: of this source")
    parser.add_argument("--only", nargs="*", help="do the soups of these rows or trials, and write no page")
    parser.add_argument("--seed", type=int, nargs="*", default=SEEDS, help="with --only: of these seeds")
    parser.add_argument("--without", nargs="*", default=[], help="what is left out: LABEL, or SOURCE:LABEL")
    options = options_of(parser)
    world = World(options.data, cache=options.cache, pools=options.pools)
    kinds = [k for k, v in KINDS.items() if "descriptors" in options.pools or v.get("pool", "words") == "words"]
    kinds, trials = ([label for label in labels if label not in options.without] for labels in (kinds, TRIALS))
    if options.only is not None:
        for name in [options.source] if options.source else SOURCES:
            for label in options.only:
                print(name, label, [soup(world, name, label, seed=seed).texts for seed in options.seed], flush=True)
        return
    sections = []
    for name in SOURCES:
        some = [[label for label in labels if f"{name}:{label}" not in options.without] for labels in (kinds, trials)]
        sections += measured(world, name, kinds=some[0], trials=some[1])
    put(sections, script=Path(__file__))


if __name__ == "__main__":
    main()
