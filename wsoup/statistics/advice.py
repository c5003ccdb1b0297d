"""Which of several classifiers to use on images like these: one decision for a folder of photos and for a whole run.

Rows compete on the same held-out images, from the simplest to the most costly: class name, templates, soup, head. The
head is named unless another row is ahead of it by more than two images and two standard errors of their paired
difference; otherwise the best row is, and of equal ones the simplest. Held-out photos are few where shots are few, and
a head that has seen such photos is mostly better on new ones, so a doubt counts for it.

The rule was chosen on folders of photographs, none of which were kept apart. How often it names the best row is in
docs/notes/heads.md. Where few are held out, all labelled photos judge in turn, and the sentence says how sure that is.

Gains over the first row are judged together, so intervals and words come from the same correction. Where even the best
row is not above chance by more than noise, that is said first.

`advise` is all that callers need; the names of rows are shown as they are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wsoup.base.number_of import number_of
from wsoup.statistics.noise import Verdict, compare_images, judge
from wsoup.statistics.words import get_or_gets, in_words, is_or_are, magnitude

HEAD = "head"
"""The row that has seen labelled images of the same classes."""
CLOSE = 2.0
"""Standard errors of the difference by which another row must be ahead of it, beside `IMAGES`."""
IMAGES = 2
"""Images by which it must be ahead, too: among a dozen photos two are chance."""
MOST_MORE = 1000
"""Further photos that anybody may be asked for."""

Right = Mapping[str, np.ndarray]
"""Dataset -> (K, N) or (N,): which images a row gets right, with each of K seeds; bool, or shares of answers."""


@dataclass(frozen=True)
class Advice:
    """Which row to use, and why.

    Attributes:
        use: name of the row.
        accuracy: of each row, per cent, the mean over datasets.
        gains: of each row but the first, over the first, corrected for their number.
        sentence: the advice in words; it begins with a capital letter and ends in a full stop.
        in_turn: the advice on all labelled images, if those decided: the figures of `sentence` are its figures.
    """

    use: str
    accuracy: Mapping[str, float]
    gains: Mapping[str, Verdict]
    sentence: str
    in_turn: Advice | None = None


def advise(
    rows: Mapping[str, Right],
    *,
    n_classes: Mapping[str, int],
    confidence: float,
    in_turn: Mapping[str, Right] | None = None,
) -> Advice:
    """Decide between rows on held-out images.

    Args:
        rows: name -> its right images, the simplest row first, such as "class name", "80 templates", "soup of 64
            words", `HEAD`; all on the same datasets and images. Rows of a single seed are compared with each seed of
            others.
        n_classes: dataset -> number of classes.
        confidence: of intervals and words, such as 0.95.
        in_turn: the same rows on all labelled images, where few are held out: shares of right answers by classifiers
            that have not seen the image. They decide, and the sentence is about them; accuracies and gains stay those
            of the held-out images.

    Raises:
        ValueError: no rows, or rows of other datasets or images.
    """
    if in_turn is not None:
        return _advise_in_turn(rows, in_turn=in_turn, n_classes=n_classes, confidence=confidence)
    right = _same_seeds(rows)
    first, *others = right
    accuracy = {name: _accuracy(row) for name, row in right.items()}
    compared = [compare_images(right[name], right[first]).fixed for name in others]
    verdicts = judge(compared, confidence=confidence)
    gains = dict(zip(others, verdicts, strict=True))
    # Rounded, because means of equal counts may differ in their last bits; `max` then takes the first, the simplest.
    best = max(accuracy, key=lambda name: round(accuracy[name], 9))
    chance = not_above_chance(right[best], n_classes=n_classes, confidence=confidence)
    if chance is not None:
        # No head is taken for being close to a row that does no better than guessing.
        n_images = _n_images(right[best])
        sentence = (
            f"No better than guessing: {best} {get_or_gets(best)} {accuracy[best]:.1f} % of {n_images:,} images, the "
            f"most of the rows compared here, and chance is {chance:.1f} %; if anything, use the {best}."
        )
        return Advice(best, accuracy, gains, sentence)
    use = best
    sure_lead = 0.0
    if HEAD in right:
        lead = compare_images(right[best], right[HEAD]).fixed
        if lead.interval(confidence)[0] > 0:
            sure_lead = lead.mean
        doubt = CLOSE * lead.se + 100 * IMAGES / _n_images(right[HEAD])
        if lead.mean <= doubt:
            use = HEAD
    sentence = _sentence(first, use, best, accuracy=accuracy, gains=gains, sure_lead=sure_lead)
    return Advice(use, accuracy, gains, sentence)


def _advise_in_turn(
    rows: Mapping[str, Right], *, in_turn: Mapping[str, Right], n_classes: Mapping[str, int], confidence: float
) -> Advice:
    """Accuracies and gains on the held-out images, the decision on all labelled ones, and how sure it is."""
    held_out = advise(rows, n_classes=n_classes, confidence=confidence)
    decided = advise(in_turn, n_classes=n_classes, confidence=confidence)
    n_held_out = _n_images(rows[decided.use])
    n_labelled = _n_images(in_turn[decided.use])
    judged_on = (
        f"With only {number_of(n_held_out, 'photo')} held out, this is judged on {n_labelled} labelled photos in turn."
    )
    doubt = _doubt(in_turn, use=decided.use, accuracy=decided.accuracy, confidence=confidence)
    parts = [decided.sentence, judged_on]
    if doubt:
        parts.append(doubt)
    return Advice(decided.use, held_out.accuracy, held_out.gains, " ".join(parts), in_turn=decided)


def _doubt(rows: Mapping[str, Right], *, use: str, accuracy: Mapping[str, float], confidence: float) -> str:
    """Which other rows may be as good, and how many more photos would settle it; "" where there is no doubt."""
    right = _same_seeds(rows)
    doubtful = []
    closest = 0.0
    for name in accuracy:
        if name == use:
            continue
        lead = compare_images(right[use], right[name]).fixed
        low, _ = lead.interval(confidence)
        if low <= 0:
            doubtful.append(f"the {name}")
            # The interval's half shrinks with the square root of the number of photos.
            longer = math.inf
            if lead.mean > 0:
                longer = (lead.mean - low) / lead.mean
            closest = max(closest, longer)
    if not doubtful:
        return ""
    *first, last = doubtful
    names = f"{', '.join(first)} and {last}" if first else last
    may_be = f"{names[0].upper()}{names[1:]} may be as good"
    n_more = _n_images(rows[use]) * (closest**2 - 1)
    if n_more > MOST_MORE:
        return f"{may_be}, and even {MOST_MORE:,} more labelled photos may not settle it."
    rounded = 10 * math.ceil(n_more / 10)
    return f"{may_be}: about {rounded} more labelled photos would settle it."


def _n_images(row: Right) -> int:
    return sum(hits.shape[-1] for hits in row.values())


def not_above_chance(row: Right, *, n_classes: Mapping[str, int], confidence: float) -> float | None:
    """Chance, per cent, the mean over datasets, if a row is not above it by more than noise; None if it is.

    Args:
        row: which images it gets right, (K, N) for each dataset.
        n_classes: dataset -> number of classes.
        confidence: of the interval.
    """
    guessing = {name: np.full(hits.shape, 1 / n_classes[name]) for name, hits in row.items()}
    over_chance = compare_images(row, guessing).fixed
    low, _ = over_chance.interval(confidence)
    if low > 0:
        return None
    return _accuracy(row) - over_chance.mean


def _accuracy(row: Right) -> float:
    """Per cent of right images, the mean over datasets with equal weights."""
    return float(np.mean([100.0 * hits.mean() for hits in row.values()]))


def _sentence(
    first: str, use: str, best: str, *, accuracy: Mapping[str, float], gains: Mapping[str, Verdict], sure_lead: float
) -> str:
    """The advice; `sure_lead`: points by which the best row is ahead of the head by more than noise, or 0."""
    got = {name: f"{percent:.1f} %" for name, percent in accuracy.items()}
    if use == first:
        return f"Keep the {first} alone: {got[first]}; nothing is better."
    if use == best:
        return f"Use the {use}: {got[use]} instead of {got[first]} with the {first} alone, {in_words(gains[use])}."
    if got[best] == got[use]:
        return f"Use the {use}: {got[use]}, the same as the {best}."
    verb = is_or_are(best)
    if sure_lead:
        only = f"only by {magnitude(sure_lead)} points"
        return f"Use the {use}: {got[use]}; the {best} ({got[best]}) {verb} ahead, but {only}."
    return f"Use the {use}: {got[use]}; the {best} ({got[best]}) {verb} not reliably ahead."


def _same_seeds(rows: Mapping[str, Right]) -> dict[str, dict[str, np.ndarray]]:
    """Every row with as many seeds as the one with most: dataset -> (K, N) bool."""
    n_seeds = 1
    by_row: dict[str, dict[str, np.ndarray]] = {}
    for name, row in rows.items():
        by_row[name] = {}
        for data, hits in row.items():
            by_row[name][data] = np.atleast_2d(hits)
            n_seeds = max(n_seeds, len(by_row[name][data]))
    for row_of_seeds in by_row.values():
        for data, hits in row_of_seeds.items():
            if len(hits) != n_seeds:
                row_of_seeds[data] = hits.repeat(n_seeds, axis=0)
    return by_row
