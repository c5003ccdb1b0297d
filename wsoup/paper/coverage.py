"""Before any run: which rows of the paper's tables a params.yaml fills, and why not the others; and the authors' pools.

What a row needs is written in data/paper/rows.csv, by keys of params.yaml. The authors' pools are known by count and
digest (data/paper/settings.yaml).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.base.errors import ParamsError
from wsoup.datasets.paper import PAPER
from wsoup.paper import tables
from wsoup.paper.settings import Settings, marks
from wsoup.paper.tables import QUICK_GELU, TABLES, PaperRow
from wsoup.search.rank import lists, pools

SOURCES = {
    "words": "google-10000-english-no-swears.txt of github.com/first20hours/google-10000-english, given to "
    "`wsoup profile paper --words FILE`",
    "descriptors": "gpt_descriptors/descriptors_imagenet.json of github.com/Chris210634/word_soups, given to "
    "`wsoup profile paper --gpt-descriptors DIR`",
}
ASSUMED = "Pools whose files are not there yet count as the authors'; `wsoup check` looks at datasets.\n"
Facts = Mapping[str, Mapping[str, object]]
"""Pool -> count and digest of its texts."""


class Covered(NamedTuple):
    """A row of the paper's tables; why a params.yaml does not fill it, or else why it would be marked."""

    row: PaperRow
    missing: str
    marks: Sequence[str]

    @property
    def sign(self) -> str:
        return "-" if self.missing else "*" if self.marks else "x"


def of_params(sections: Mapping[str, Any]) -> Settings:
    """A params.yaml before any run: a pool that is not there yet is unknown."""
    return Settings.of_run(sections, pools=known(sections["candidates"]))


def coverage(run: Settings, *, table: str) -> list[Covered]:
    """Every row of one of the paper's tables, or of all, in its order.

    The marks are the report's own, but those of datasets; an unknown pool counts as the authors'.

    Raises:
        ParamsError: no such table.
    """
    if table not in (*TABLES, "all"):
        raise ParamsError(f"table {table!r} must be one of {', '.join(TABLES)}, all")
    paper, encoder, rows = Settings.of_paper(), encoder_id(run), []
    run = replace(run, pools={**paper.pools, **run.pools})
    for row in (row for name in (TABLES if table == "all" else (table,)) for row in tables.rows(name)):
        reasons: list[str] = []
        missing = next((f"params.yaml has no {need}" for need in lacks(row.needs, run)), "")
        if not row.row:
            missing = "its authors' figure, or a text that the paper shortens: no run makes it"
        elif not missing:
            name = row.row.partition("@")[0]
            reasons = marks(run, paper=paper, encoder=encoder, variant=row.variant, row=name)
        rows.append(Covered(row, missing, reasons))
    return rows


def lacks(needs: Iterable[str], run: Settings) -> Iterator[str]:
    """Needs that a run does not meet.

    Args:
        needs: a dotted key of params.yaml whose value, or anything below it, must be set, or ``key=value``: the value,
            or a list that contains it (``*`` for anything in both).
        run: its settings.
    """
    for need in needs:
        key, _, wanted = need.partition("=")
        below = [value for name, value in run.values.items() if fnmatch(name, key) or fnmatch(name, f"{key}.*")]
        values = [str(part) for value in below for part in (value if isinstance(value, list) else [value]) if part]
        if not any(fnmatch(value, wanted or "*") for value in values):
            yield need


def encoder_id(run: Settings) -> dict[str, object]:
    """The encoder's id as far as it is known before loading; OpenAI's weights imply QuickGELU."""
    model, pretrained, quick = (run.values.get(f"encoder.{key}") for key in ("model", "pretrained", "quick_gelu"))
    quick_gelu = str(model).endswith(QUICK_GELU) or bool(quick) or pretrained == "openai"
    return {"model": model, "pretrained": pretrained, "quick_gelu": quick_gelu}


def figures(run: Settings) -> Iterator[str]:
    """A line for each figure and claim of the paper: what makes it and what differs, or why this run does not."""
    for figure in tables.read("figures"):
        lacking, made_by = next(lacks([figure["needs"]], run), None), figure["made_by"]
        if lacking:
            yield f"  -  {figure['what']}: {'params.yaml has no ' if made_by else ''}{lacking}"
        else:
            yield f"  *  {figure['what']}: {made_by}; beside {figure['beside']}; differs: {figure['differs']}"


def as_text(rows: Sequence[Covered]) -> str:
    """A line for each row (filled, marked or missing), and their number."""
    lines = []
    for table, covered in groupby(rows, key=lambda line: line.row.table):
        lines.append(f"{table}:")
        for line in covered:
            ours = f"{line.row.variant}, {line.row.row}" + "".join(f"; {mark}" for mark in line.marks)
            lines.append(f"  {line.sign}  {line.row.label}: {line.missing or ours}")
    count = Counter(line.sign for line in rows)
    lines.append(f"{len(rows)} rows: {count['x']} filled (x), {count['*']} filled but marked (*), {count['-']} not (-)")
    return "\n".join([*lines, ASSUMED])


def facts(texts: Sequence[str]) -> dict[str, Any]:
    """Count and digest of a pool."""
    return {"count": len(texts), "digest": lists.digest(texts)}


def known(candidates: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """The pools of params.yaml, before any run: without those whose files are missing; wordfreq's has no digest.

    Args:
        candidates: that section of params.yaml.
    """
    path, count = candidates["words"]["path"], candidates["words"]["count"]
    known_pools: dict[str, dict[str, object]] = {}
    if path is None:
        known_pools["words"] = {"count": count}
    elif Path(path).exists():
        known_pools["words"] = facts(pools.words_from_file(path, count=count))
    paths = candidates["descriptors"]["paths"]
    if all(Path(path).exists() for path in paths):
        known_pools["descriptors"] = facts(pools.descriptors(paths))
    waffle = candidates.get("waffle")
    if waffle is not None and Path(waffle).exists():
        known_pools["waffle"] = facts(lists.waffle_texts(waffle))
    return known_pools


def compare(ours: Facts, *, theirs: Facts) -> Iterator[tuple[bool, str]]:
    """Whether each pool that is known is the authors', with a sentence that says so and where to get theirs."""
    for pool in (pool for pool in theirs if ours.get(pool, {}).get("count")):
        count, here = f"the authors' {theirs[pool]['count']:,}", f"{ours[pool]['count']:,} texts"
        other = f"{here}, not {count}; rows that depend on them are marked. Theirs: {SOURCES[pool]}"
        same = ours[pool].get("digest") == theirs[pool]["digest"]
        yield same, f"candidates.{pool}: {count if same else other}"


def pools_of_params(sections: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """`compare` for a params.yaml with one of the paper's datasets."""
    datasets = sections["datasets"].items()
    if not any(name in PAPER and dataset["layout"].startswith("coop") for name, dataset in datasets):
        return []
    return list(compare(known(sections["candidates"]), theirs=Settings.of_paper().pools))
