"""The paper's claims that are numbers of a finished run, with ours beside them.

Ours are read from what stage `report` wrote (reports/tables, reports/plots) and from the scores of descriptors. A claim
whose numbers this run does not have says what is missing.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.paper.tables import MEMORY

BEST = "Word soup score mean"
"""The last row of the paper's zero-shot table, which its "gain over" rows are about."""
SOUP_OF_TWO = "Word Soup m=2"
"""A row of the table of parameter efficiency."""
PLACES = {"XD mean": "XD", "DG mean": "DG"}
Lines = Sequence[Mapping[str, str]]
"""The lines of a table, by column."""


def claims(artifacts: Artifacts) -> Iterator[str]:
    """A line for each claim, ours beside the paper's."""
    tables = artifacts.reports / "tables"
    yield from gains(tables / "gains.csv")
    efficiency = tables / "parameter_efficiency.csv"
    yield beaten_baselines(efficiency)
    yield fewer_parameters(efficiency)
    yield better_descriptors(artifacts.scores("descriptors"))
    yield less_memory(tables / "memory.csv")
    yield landscape(artifacts.reports / "plots/landscape_lines.json")


def gains(path: Path) -> Iterator[str]:
    """The "gain over" rows: the word soup's score mean over each baseline, in points, with intervals."""
    lines = [line for line in _read(path) if line["method"] == BEST]
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


def beaten_baselines(path: Path) -> str:
    """How many baselines of the table of parameter efficiency a word soup of two members beats.

    Args:
        path: that table as CSV.
    """
    claim = "A word soup of m = 2 beats all baselines"
    soup, baselines = _parameter_efficiency(path)
    if soup is None or not baselines:
        return f"{claim}: ours is not known, because {path} has no {SOUP_OF_TWO}, or nothing beside it"
    places = []
    for column, title in PLACES.items():
        measured = [line for line in baselines if line.get(column)]
        if not measured or not soup.get(column):
            continue
        ours = float(soup[column])
        best = max(measured, key=lambda line: float(line[column]))
        n_beaten = sum(float(line[column]) < ours for line in measured)
        figures = f"ours {ours:.2f} beats {n_beaten} of {len(measured)}"
        places.append(f"{title} {figures} (best: {best['method']}, {float(best[column]):.2f})")
    return f"{claim}: {'; '.join(places)}"


def fewer_parameters(path: Path) -> str:
    """How many times more numbers CoOp stores than a word soup of two members; `path` as for `beaten_baselines`."""
    claim = "25 and 70 times fewer parameters"
    soup, baselines = _parameter_efficiency(path)
    coop = [line for line in baselines if line["method"].startswith("CoOp ") and line["stored"]]
    if soup is None or not coop:
        return f"{claim}: ours is not known, because {path} has no {SOUP_OF_TWO}, or no CoOp beside it"
    n_stored = float(soup["stored"])
    times = [f"{line['method']} {float(line['stored']) / n_stored:.0f} times" for line in coop]
    return f"{claim}: beside the {n_stored:g} numbers of ours of m = 2, {', '.join(times)} as many"


def _parameter_efficiency(path: Path) -> tuple[Mapping[str, str] | None, Lines]:
    """The soup of two members, and the rows without any soup."""
    soup = None
    baselines = []
    for line in _read(path):
        if line["method"] == SOUP_OF_TWO:
            soup = line
        elif not line["method"].startswith("Word Soup"):
            baselines.append(line)
    return soup, baselines


def better_descriptors(scores: Path) -> str:
    """How many descriptors beat the class name alone on the first seed's few-shot images, beside the paper's number.

    Args:
        scores: the Parquet of scores of pool `descriptors`; an empty text is the class name alone.
    """
    if not scores.exists():
        return f"About 1200 descriptors are better than none: ours is not known, because {scores} is missing"
    lines = store.read_table(scores).to_pylist()
    first_seed = min(line["seed"] for line in lines)
    n_correct = {line["text"]: line["n_correct"] for line in lines if line["seed"] == first_seed}
    class_name = n_correct.pop("", None)
    if class_name is None:
        return f"About 1200 descriptors are better than none: {scores} has no count of the class name alone"
    # A tie is not better, as in the searches, which accept a text only if its count rises.
    n_better = sum(count > class_name for count in n_correct.values())
    return f"Descriptors better than none: paper about 1200 of 4227, ours {n_better} of {len(n_correct)}"


def less_memory(path: Path) -> str:
    """The peak of device memory in the searches and in training.

    Args:
        path: the table of memory as CSV.
    """
    claim = "Less GPU memory"
    lines = _read(path)
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


def _read(path: Path) -> Lines:
    """The lines of a CSV table; none if there is no such file."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
