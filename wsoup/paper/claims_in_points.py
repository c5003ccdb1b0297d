"""The paper's claims that are differences of two rows of one of its tables, with a run's differences beside them.

The rows have the same names in a run's table as in the paper's (data/paper/<table>.csv), of which the claim's own
differences are taken. Whether a claim holds, `wsoup.paper.claims_verdict` says.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wsoup.disk.files import PRETRAINED
from wsoup.paper import tables
from wsoup.paper.claims_verdict import (
    PLACES,
    Difference,
    Lines,
    RowName,
    difference,
    read_lines,
    verdict_at_least,
    verdict_at_most,
)

CE = "Cross Entropy (CE)"
Rows = Mapping[str, Mapping[str, str]]
"""Name of a row -> its cells."""


class Claim(NamedTuple):
    """A claim of the paper.

    Attributes:
        says: in words.
        table: of the paper and of reports/tables.
        ours, over: names of rows; of each side the best in a place counts.
        least: place -> points that the claim says at least.
    """

    says: str
    table: str
    ours: Sequence[str]
    over: Sequence[str]
    least: Mapping[str, float]


STACKED = {CE: CE, "CoOp": "Vanilla CoOp", "MaPLe": "Vanilla MaPLe", "CLIPood": "Vanilla CLIPood"}
"""Methods that the paper stacks with a word soup, and their rows."""
OTHERS = (
    "CoOp †",
    "Co-CoOp †",
    "MaPLe †",
    "CLIPood †",
    "ProGrad",
    "KgCoOp",
    "ProDA",
    "Vanilla CoOp",
    "Vanilla MaPLe",
    "Vanilla CLIPood",
)
"""Methods of others in the few-shot table."""
SOUPS = (f"{CE} + Word soup score mean", f"{CE} + Descriptor soup + offset trick")
CLAIMS = (
    Claim(
        "The offset trick adds 0.4 and 0.3 points to a finetuned descriptor soup",
        "few_shot",
        (f"{CE} + Descriptor soup + offset trick",),
        (f"{CE} + Descriptor soup",),
        {"XD mean": 0.4, "DG mean": 0.3},
    ),
    *(
        Claim(
            f"A word soup stacked on {method} adds 0.8 to 1.0 points (DG)",
            "few_shot",
            (f"{row} + Word soup score mean",),
            (row,),
            {"DG mean": 0.8},
        )
        for method, row in STACKED.items()
    ),
    Claim(
        "Soups with cross entropy are 1 and 0.8 points better than the best method of others",
        "few_shot",
        SOUPS,
        OTHERS,
        {"XD mean": 1.0, "DG mean": 0.8},
    ),
    Claim(
        "The diversity loss adds 1 point to CoOp with a word soup",
        "diversity_ablation",
        ("CoOp + word soup + diversity loss (lambda=0.25)",),
        ("CoOp + word soup (lambda=0)",),
        {"XD mean": 1.0, "DG mean": 1.0},
    ),
    Claim(
        "Score means of a word soup are better than its centroid",
        "zero_shot",
        ("Word soup score mean",),
        ("Word soup",),
        {"XD mean": 0.1, "DG mean": 0.1},
    ),
)

COUNTS = "counts.csv"
"""The table of a run that intervals come from."""
NOT_THE_PAPERS: Mapping[str, RowName] = {"Word soup + offset trick": (PRETRAINED, "word_soup_offsets")}
"""Rows of a run that the paper's tables do not have."""
NOTHING = 0.1
"""Points that are no gain: the smallest that the paper prints."""


def claims_in_points(folder: Path) -> Iterator[str]:
    """A line for each of `CLAIMS`, from the tables in a folder such as reports/tables."""
    for claim in CLAIMS:
        yield in_points(claim, folder)
    yield offsets_of_words(folder)


def in_points(claim: Claim, folder: Path) -> str:
    """What a claim says, the paper's differences, and those of a run's tables with their intervals."""
    theirs = _differences(claim, _by_name(tables.table_rows(claim.table)))
    path = folder / f"{claim.table}.csv"
    ours = _differences(claim, _by_name(read_lines(path)), counts=read_lines(folder / COUNTS))
    if not ours:
        return f"{claim.says}: ours is not known, because {path} has not both rows"
    places = [f"{PLACES[place]} paper {theirs[place]}, ours {difference}" for place, difference in ours.items()]
    return f"{claim.says}: {'; '.join(places)}; {verdict_at_least(ours, least=claim.least)}"


def offsets_of_words(folder: Path) -> str:
    """The paper has no row of a word soup with offsets: by the authors' log it adds -0.10 and -0.06 points."""
    says = "The offset trick adds nothing to word soups"
    claim = Claim(says, "zero_shot", ("Word soup + offset trick",), ("Word soup",), dict.fromkeys(PLACES, 0.0))
    path = folder / "zero_shot.csv"
    ours = _differences(claim, _by_name(read_lines(path)), counts=read_lines(folder / COUNTS))
    if not ours:
        return f"{says}: ours is not known, because {path} has not both rows"
    places = [f"{PLACES[place]} ours {difference}" for place, difference in ours.items()]
    return f"{says}: {'; '.join(places)}; {verdict_at_most(ours, most=NOTHING)}"


def _by_name(lines: Sequence[Mapping[str, str]]) -> Rows:
    return {line["method"]: line for line in lines}


def _differences(claim: Claim, rows: Rows, *, counts: Lines = ()) -> dict[str, Difference]:
    """The best row of ours minus the best of the others by place, where both sides have figures."""
    names = dict(NOT_THE_PAPERS)
    for row in tables.rows(claim.table):
        names[row.label] = (row.variant, row.row)
    differences = {}
    for place in claim.least:
        ours = _best(claim.ours, rows, place=place)
        over = _best(claim.over, rows, place=place)
        if ours is not None and over is not None:
            points = float(rows[ours][place]) - float(rows[over][place])
            both = {"ours": names[ours], "over": names[over]}
            differences[place] = difference(points, counts=counts, place=place, **both)
    return differences


def _best(names: Sequence[str], rows: Rows, *, place: str) -> str | None:
    """The name with the highest figure in a place; None if none has one."""
    there = [name for name in names if rows.get(name, {}).get(place)]
    return max(there, key=lambda name: float(rows[name][place]), default=None)
