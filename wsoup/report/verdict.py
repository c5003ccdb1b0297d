"""Whether each soup is better than its rivals by more than noise.

Every soup is compared, seed by seed, with the class name alone, the 80 templates, as many random texts from its pool, a
soup of kind `sample` from that pool, and Algorithm 2 (the soup `word`). What one soup does on one place is a question:
its comparisons there are corrected together (Holm); those with datasets resampled are a family of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wsoup.evaluate.right import Right, random_beside
from wsoup.evaluate.rows import CLASS_NAME, ENSEMBLE, row_name
from wsoup.search.grow.all_kinds import SoupParams
from wsoup.statistics.noise import Comparison, Estimate, Verdict, compare_images, judge

RIVALS = {
    "class_name": "class name only",
    "ensemble": "80 prompt templates",
    "random": "random texts of the same m",
    "sample": "a sample of the ranking",
    "word": "Algorithm 2 (word soup)",
}
"""What soups are compared with: key -> name in tables."""
NO_GAIN = "no gain"
"""Replaces better where a soup beats other texts, but neither beats the class name."""
ComparisonKey = tuple[str, str, str]
"""Soup, rival and role of a comparison."""


@dataclass(frozen=True)
class SoupVerdict:
    """One soup against one rival.

    Attributes:
        soup: name in params.yaml.
        rival: class_name, ensemble, random, sample or word.
        role: source, xd or dg.
        fixed: the verdict with datasets held fixed; its word may also be `NO_GAIN`.
        resampled: the same with datasets resampled; None for a single dataset.
        depends_on: the one dataset without which `fixed` would be noise or change sign, if there is one.
    """

    soup: str
    rival: str
    role: str
    fixed: Verdict
    resampled: Verdict | None
    depends_on: str | None


def compare_soups(
    rows: Mapping[str, Mapping[str, Right]],
    *,
    soups: Mapping[str, SoupParams],
    places: Mapping[str, Sequence[str]],
    confidence: float,
) -> list[SoupVerdict]:
    """Compare every soup with its rivals, everywhere.

    Args:
        rows: soup -> method -> which images are right, in the mode of that soup.
        soups: of params.yaml.
        places: role -> its datasets.
        confidence: of intervals and words.
    """
    compared: dict[ComparisonKey, Comparison] = {}
    for name, right in rows.items():
        ours = right[row_name(name)]
        for rival, method in _rivals(name, soups=soups, rows=right).items():
            theirs = right[method]
            for role, datasets in places.items():
                compared[name, rival, role] = compare_images(
                    {dataset: ours[dataset] for dataset in datasets},
                    {dataset: theirs[dataset] for dataset in datasets},
                )
    # Other datasets and these ones are two questions, so each has a correction of its own.
    estimates = {key: comparison.fixed for key, comparison in compared.items()}
    resampled = {key: comparison.resampled for key, comparison in compared.items() if comparison.resampled}
    fixed = _verdicts(estimates, confidence=confidence)
    over_datasets = _verdicts(resampled, confidence=confidence)
    verdicts = []
    for key, comparison in compared.items():
        verdict = fixed[key]
        depends_on = comparison.sole_carrier(verdict.level) if verdict.sure else None
        verdicts.append(SoupVerdict(*key, verdict, over_datasets.get(key), depends_on))
    return verdicts


def _rivals(name: str, *, soups: Mapping[str, SoupParams], rows: Mapping[str, Right]) -> dict[str, str]:
    """Rival -> its method, of every rival that a soup has."""
    rivals = {"class_name": CLASS_NAME.name}
    if ENSEMBLE.name in rows:
        rivals["ensemble"] = ENSEMBLE.name
    rivals["random"] = random_beside(name)
    pool = soups[name].pool
    # A soup cannot be its own control.
    samples = [other for other, soup in soups.items() if soup.kind == "sample" and soup.pool == pool]
    if samples and samples[0] != name:
        rivals["sample"] = row_name(samples[0])
    if name != "word" and "word" in soups:
        rivals["word"] = row_name("word")
    return rivals


def _verdicts(estimates: Mapping[ComparisonKey, Estimate], *, confidence: float) -> dict[ComparisonKey, Verdict]:
    """Verdicts, corrected for the rivals of each soup on each place, with `NO_GAIN`."""
    verdicts: dict[ComparisonKey, Verdict] = {}
    for question in dict.fromkeys((name, role) for name, _, role in estimates):
        asked = {key: estimate for key, estimate in estimates.items() if (key[0], key[2]) == question}
        judged = judge(list(asked.values()), confidence=confidence)
        verdicts |= dict(zip(asked, judged, strict=True))
    # All verdicts are needed first: whether a soup gains at all is its verdict over the class name.
    said = {}
    for (name, rival, role), verdict in verdicts.items():
        gains = verdicts[name, CLASS_NAME.name, role].word == "better"
        if verdict.word == "better" and not gains:
            verdict = replace(verdict, word=NO_GAIN)
        said[name, rival, role] = verdict
    return said
