"""The answer of a run in at most three short sentences: what to use, and what it does to the user's own images.

``wsoup results``, the page and metrics.json say the same.
"""

from __future__ import annotations

from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE
from wsoup.report.judgement import Asked, Judgement
from wsoup.report.tables import signed

NOISE = "no difference that this run can tell from noise"


def headline(judgement: Judgement) -> str:
    """What to use; the source's held-out test images; all targets."""
    source = judgement.source.datasets[0]
    said = [f"{_advice(judgement)}.", f"Test images of {source}: {_compared(judgement.source)}."]
    if judgement.targets is not None:
        others = judgement.targets.datasets
        place = others[0] if len(others) == 1 else f"{len(others)} other datasets"
        said.append(f"{place[0].upper()}{place[1:]}: {_compared(judgement.targets)}.")
    return " ".join(said)


def _advice(judgement: Judgement) -> str:
    """By the verdicts over the class name alone, unless the templates beat the soup."""
    soup = f"`{judgement.soup}`"
    if _templates_win(judgement):
        return f"Use the 80 prompt templates: they beat {soup} by more than noise"
    words = [asked.over[CLASS_NAME.name].word for asked in judgement.asked]
    if "better" not in words:
        return f"Keep the class name alone: {soup} {'is worse' if 'worse' in words else 'gains nothing beyond noise'}"
    use = f"Use {soup}, {'score mean' if judgement.mode == 'score_mean' else 'centroid'} of all seeds"
    if "worse" not in words:
        return use
    good, bad = ("the source", "other datasets") if words[0] == "better" else ("other datasets", "the source")
    return f"{use}, for {good} and the class name alone for {bad}"


def _templates_win(judgement: Judgement) -> bool:
    """Where a soup loses to them somewhere, wins nowhere, and they are above the class name alone."""
    asked = [one for one in judgement.asked if ENSEMBLE.name in one.over]
    words = [one.over[ENSEMBLE.name].word for one in asked]
    above = all(
        one.rivals[ENSEMBLE.name] > one.rivals[CLASS_NAME.name]
        for one, word in zip(asked, words, strict=True)
        if word == "worse"
    )
    return "worse" in words and "better" not in words and above


def _compared(asked: Asked) -> str:
    """45.6 % instead of 46.0 %, -0.4 points [-1.9, +1.1]: no difference that this run can tell from noise."""
    verdict = asked.over[CLASS_NAME.name]
    text = (
        f"{asked.soup:.1f} % instead of {asked.rivals[CLASS_NAME.name]:.1f} %, {signed(verdict.mean, places=1)} points"
    )
    text += f" [{signed(verdict.low, places=1)}, {signed(verdict.high, places=1)}]"
    if not verdict.sure:
        return f"{text}: {NOISE}"
    return f"{text}, more than noise" + (f", but not without {asked.hangs_on}" if asked.hangs_on else "")
