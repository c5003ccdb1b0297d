"""The paper's claims that are numbers of a finished run, with ours beside them.

Ours are read from what stage `report` wrote (reports/tables, reports/plots) and from the scores of descriptors. A claim
whose numbers this run does not have says what is missing.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.paper.claims_in_points import claims_in_points
from wsoup.paper.claims_verdict import PLACES, Difference, read_lines, verdict, verdict_at_least
from wsoup.paper.tables import MEMORY

BEST = "Word soup score mean"
"""The last row of the paper's zero-shot table, which its "gain over" rows are about."""
SOUP_OF_TWO = "Word Soup m=2"
"""A row of the table of parameter efficiency."""
COOP = "CoOp "
"""How the rows of CoOp begin in that table."""
ZERO_SHOT = (
    *("CLIP ZS", "Class name only", "Ensemble", "80 prompt templates"),
    *("GPT centroids", "GPT score mean", "Random descriptors", "Waffle CLIP"),
)
"""The zero-shot table's rows without a soup and with at most 80 members, by the paper's names and by ours. The offset
trick's are left out: with its copies they have 96, and the claim is about at most 64."""
FEWER = {"XD mean": 25, "DG mean": 70}
"""How many times fewer parameters than CoOp's best the paper claims."""
LEAST = 0.1
"""Points by which a row beats another: the smallest that the paper prints."""
ABOUT = 0.8
"""The share of the paper's factor that is about as much: it reads its own from a curve, between soups of its table."""
MANY_WORDS = 1000


def claims(artifacts: Artifacts) -> Iterator[str]:
    """A line for each claim, ours beside the paper's."""
    tables = artifacts.reports / "tables"
    yield from gains(tables / "gains.csv")
    efficiency = tables / "parameter_efficiency.csv"
    yield beaten_baselines(efficiency, zero_shot=tables / "zero_shot.csv")
    yield fewer_parameters(efficiency)
    yield from claims_in_points(tables)
    yield better_descriptors(artifacts.scores("descriptors"))
    yield better_words(artifacts.scores("words"))
    yield correlated(artifacts.reports / "plots/transfer.json")
    yield less_memory(tables / "memory.csv")
    yield landscape(artifacts.reports / "plots/landscape_lines.json")


def gains(path: Path) -> Iterator[str]:
    """The "gain over" rows: the word soup's score mean over each baseline, in points, with intervals."""
    lines = [line for line in read_lines(path) if line["method"] == BEST]
    if not lines:
        yield f"gain over ...: ours are not known, because {path} has no {BEST}"
    for line in lines:
        places = [_gain(line, column, title) for column, title in PLACES.items() if line.get(column)]
        yield f"{BEST}, gain over {line['over']}: {'; '.join(places)} (compared by {line['compared by']})"


def _gain(line: Mapping[str, str], column: str, title: str) -> str:
    """``XD paper +1.61, ours +1.20 [+0.40, +2.00]``."""
    low = float(line[f"{column} low"])
    high = float(line[f"{column} high"])
    theirs = line[f"{column} (paper)"]
    paper = f"paper {float(theirs):+.2f}, " if theirs else ""
    return f"{title} {paper}ours {float(line[column]):+.2f} [{low:+.2f}, {high:+.2f}]"


def beaten_baselines(efficiency: Path, *, zero_shot: Path) -> str:
    """How many zero-shot baselines a word soup of two members beats.

    Args:
        efficiency: the table of parameter efficiency as CSV, which has that soup.
        zero_shot: the table of zero-shot rows.
    """
    claim = "A word soup of m = 2 beats all zero-shot baselines"
    soup = next((line for line in read_lines(efficiency) if line["method"] == SOUP_OF_TWO), None)
    baselines = [line for line in read_lines(zero_shot) if line["method"] in ZERO_SHOT]
    if soup is None or not baselines:
        return f"{claim}: ours is not known, because {efficiency} has no {SOUP_OF_TWO}, or {zero_shot} no baseline"
    places = []
    over_best = {}
    for column, title in PLACES.items():
        measured = [line for line in baselines if line.get(column)]
        if not measured or not soup.get(column):
            continue
        ours = float(soup[column])
        best = max(measured, key=lambda line: float(line[column]))
        over_best[column] = _between_seeds(soup, best, column=column)
        n_beaten = sum(float(line[column]) < ours for line in measured)
        figures = f"ours {ours:.2f} beats {n_beaten} of {len(measured)}"
        by = over_best[column]
        places.append(f"{title} {figures} (best: {best['method']}, {float(best[column]):.2f}; {by})")
    return f"{claim}: {'; '.join(places)}; {verdict_at_least(over_best, least=dict.fromkeys(PLACES, LEAST))}"


def _between_seeds(line: Mapping[str, str], other: Mapping[str, str], *, column: str) -> Difference:
    """One row of a table minus another, with two standard deviations over seeds to either side, if it has them."""
    points = float(line[column]) - float(other[column])
    deviations = [each.get(f"{column} (std)") for each in (line, other)]
    if not all(deviations):
        return Difference(points)
    both = 2 * math.hypot(*(float(str(deviation)) for deviation in deviations))
    return Difference(points, points - both, points + both)


def fewer_parameters(path: Path) -> str:
    """How many times fewer numbers the smallest word soup stores that is as accurate as the best CoOp.

    Args:
        path: the table of parameter efficiency as CSV.
    """
    claim = "25 and 70 times fewer parameters than CoOp's best"
    lines = [line for line in read_lines(path) if line["stored"]]
    coop = [line for line in lines if line["method"].startswith(COOP)]
    soups = [line for line in lines if line["method"].startswith("Word Soup m=")]
    if not coop or not soups:
        return f"{claim}: ours is not known, because {path} has no word soups, or no CoOp beside them"
    places = []
    as_many = True
    for column, title in PLACES.items():
        best = max(coop, key=lambda line: float(line[column]))
        reaching = [line for line in soups if float(line[column]) >= float(best[column])]
        if not reaching:
            as_many = False
            places.append(f"{title} no word soup reaches {float(best[column]):.2f} of {best['method']}")
            continue
        smallest = min(reaching, key=lambda line: float(line["stored"]))
        times = float(best["stored"]) / float(smallest["stored"])
        as_many = as_many and times >= ABOUT * FEWER[column]
        reached = f"{smallest['method']} reaches {float(best[column]):.2f} of {best['method']}"
        places.append(f"{title} {reached} with {times:.0f} times fewer (paper: {FEWER[column]})")
    return f"{claim}: {'; '.join(places)}; {verdict(as_many)}"


def better_descriptors(scores: Path) -> str:
    """How many descriptors beat the class name alone on the first seed's few-shot images, beside the paper's number.

    Args:
        scores: the Parquet of scores of pool `descriptors`; an empty text is the class name alone.
    """
    claim = "About 1200 descriptors are better than none"
    counted = _better_than_none(scores)
    if counted is None:
        return _unknown(claim, scores)
    n_better, n_texts = counted
    return f"Descriptors better than none: paper about 1200 of 4227, ours {n_better} of {n_texts}"


def _unknown(claim: str, scores: Path) -> str:
    return f"{claim}: ours is not known, because {scores} is missing, or has no count of the class name alone"


def _better_than_none(scores: Path) -> tuple[int, int] | None:
    """How many texts of the first seed have a higher count than the empty one, and how many texts there are."""
    if not scores.exists():
        return None
    lines = store.read_table(scores, columns=["text", "seed", "n_correct"]).to_pylist()
    first_seed = min(line["seed"] for line in lines)
    n_correct = {line["text"]: line["n_correct"] for line in lines if line["seed"] == first_seed}
    class_name = n_correct.pop("", None)
    if class_name is None:
        return None
    # A tie is not better, as in the searches, which accept a text only if its count rises.
    return sum(count > class_name for count in n_correct.values()), len(n_correct)


def better_words(scores: Path) -> str:
    """How many single words beat the class name alone on the first seed's few-shot images; `scores`: of pool words."""
    claim = "More than 1,000 single words are better than none"
    counted = _better_than_none(scores)
    if counted is None:
        return _unknown(claim, scores)
    n_better, n_texts = counted
    return f"{claim}: ours {n_better} of {n_texts}; {verdict(n_better > MANY_WORDS)}"


def correlated(path: Path) -> str:
    """Pearson's correlation of the descriptors' accuracies on source and targets; `path`: the figure's data."""
    claim = "Descriptors that are better on the source are better on the targets"
    points = store.read_json(path) if path.exists() else []
    correlation = points[0]["correlation"] if points else None
    if correlation is None:
        return f"{claim}: ours is not known, because {path} has no correlation"
    return f"{claim}: correlation {correlation:.2f}; {verdict(correlation > 0)}"


def less_memory(path: Path) -> str:
    """The peak of device memory in the searches and in training.

    Args:
        path: the table of memory as CSV.
    """
    claim = "Less GPU memory"
    lines = read_lines(path)
    measured = [line for line in lines if line[MEMORY].isdecimal()]
    if not lines:
        return f"{claim}: ours is not known, because {path} is missing"
    if not measured:
        return f"{claim}: {lines[0][MEMORY]}"
    peaks = [f"{line['method']} {line[MEMORY]} MiB" for line in measured]
    return f"{claim}: {', '.join(peaks)}"


def landscape(path: Path) -> str:
    """The loss at the two initialisations and at the tuned descriptor, of which the paper draws the landscape.

    Args:
        path: the points of the figure of lines: place 0 is tuned, place 1 an initialisation.
    """
    claim = "Loss landscape, 0-1 loss at its corners"
    points = store.read_json(path) if path.exists() else []
    if not points:
        return f"{claim}: ours is not known, because params.yaml has no landscape.methods"
    of_method: dict[tuple[str, str], dict[str, float]] = {}
    for point in points:
        errors = of_method.setdefault((point["method"], point["mean"]), {})
        if point["place"] == 0:
            errors["tuned"] = point["error"]
        elif point["place"] == 1:
            errors[point["line"].removeprefix("to ")] = point["error"]
    sentences = []
    for (method, mean), errors in of_method.items():
        figures = ", ".join(f"{name} {error:.1f}" for name, error in errors.items())
        sentences.append(f"{method}, {mean}: {figures} % wrong")
    return f"{claim}: {'; '.join(sentences)}"
