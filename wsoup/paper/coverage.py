"""Before any run: which rows of the paper's tables a params.yaml fills, and why not the others; and the authors' pools.

What a row needs is written in data/paper/rows.csv, by keys of params.yaml. The authors' pools are known by count and
digest (data/paper/settings.yaml).
"""

import fnmatch
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from wsoup.base.errors import ParamsError
from wsoup.datasets.paper import PAPER
from wsoup.paper import tables
from wsoup.paper.settings import Mark, Settings, marks
from wsoup.paper.tables import QUICK_GELU, TABLES, PaperRow
from wsoup.search.candidates import pools
from wsoup.search.pools import lists

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
    """A row of the paper's tables, and what a params.yaml makes of it.

    Attributes:
        row: the row.
        need: the first of its needs that the params.yaml lacks, or "".
        marks: why it would be marked, if it is filled.
    """

    row: PaperRow
    need: str
    marks: Sequence[Mark]

    @property
    def missing(self) -> str:
        """Why it is not filled, or ""."""
        if not self.row.row:
            return "its authors' figure, or a text that the paper shortens: no run makes it"
        return f"params.yaml has no {self.need}" if self.need else ""

    @property
    def sign(self) -> str:
        if self.missing:
            return "-"
        return "*" if self.marks else "x"


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
    paper = Settings.of_paper()
    encoder = encoder_id(run)
    # A pool that is not there yet counts as the authors', as `ASSUMED` says below the rows.
    run = replace(run, pools={**paper.pools, **run.pools})
    names = TABLES if table == "all" else (table,)
    rows = [row for name in names for row in tables.rows(name)]
    # Rows share needs, and each is looked for among all values of params.yaml.
    unmet = set(lacks({need for row in rows for need in row.needs}, run))
    return [_covered(row, run, unmet=unmet, paper=paper, encoder=encoder) for row in rows]


def _covered(
    row: PaperRow, run: Settings, *, unmet: Collection[str], paper: Settings, encoder: Mapping[str, object]
) -> Covered:
    if not row.row:
        return Covered(row, "", [])
    for need in row.needs:
        if need in unmet:
            return Covered(row, need, [])
    key, _, _ = row.row.partition("@")
    return Covered(row, "", marks(run, paper=paper, encoder=encoder, variant=row.variant, row=key))


def lacks(needs: Iterable[str], run: Settings) -> Iterator[str]:
    """Needs that a run does not meet.

    Args:
        needs: a dotted key of params.yaml whose value, or anything below it, must be set, or ``key=value``: the value,
            or a list that contains it (``*`` for anything in both).
        run: its settings.
    """
    for need in needs:
        # A key alone is met by any value.
        key, _, pattern = need.partition("=")
        names = fnmatch.filter(run.values, key) + fnmatch.filter(run.values, f"{key}.*")
        set_values: list[str] = []
        for name in names:
            value = run.values[name]
            parts = value if isinstance(value, list) else [value]
            set_values += [str(part) for part in parts if part]
        if not fnmatch.filter(set_values, pattern or "*"):
            yield need


def encoder_id(run: Settings) -> dict[str, object]:
    """The encoder's id as far as it is known before loading; OpenAI's weights imply QuickGELU."""
    model = run.values.get("encoder.model")
    pretrained = run.values.get("encoder.pretrained")
    is_set = bool(run.values.get("encoder.quick_gelu"))
    is_named = str(model).endswith(QUICK_GELU)
    quick_gelu = is_set or is_named or pretrained == "openai"
    return {"model": model, "pretrained": pretrained, "quick_gelu": quick_gelu}


def figures(run: Settings) -> Iterator[str]:
    """A line for each figure and claim of the paper: what makes it and what differs, or why this run does not."""
    for figure in tables.table_rows("figures"):
        what = figure["what"]
        made_by = figure["made_by"]
        if not made_by:
            # No run makes it, and `needs` says why.
            yield f"  -  {what}: {figure['needs']}"
            continue
        need = next(lacks(figure["needs"].split(), run), None)
        if need is None:
            yield f"  *  {what}: {made_by}; beside {figure['beside']}; differs: {figure['differs']}"
        else:
            yield f"  -  {what}: params.yaml has no {need}"


def as_text(rows: Sequence[Covered]) -> str:
    """A line for each row (filled, marked or missing), and their number."""
    lines = []
    for table, covered in groupby(rows, key=lambda line: line.row.table):
        lines.append(f"{table}:")
        for line in covered:
            ours = "; ".join([f"{line.row.variant}, {line.row.row}", *(mark.why for mark in line.marks)])
            lines.append(f"  {line.sign}  {line.row.label}: {line.missing or ours}")
    count = Counter(line.sign for line in rows)
    filled = f"{count['x']} filled (x), {count['*']} filled but marked (*), {count['-']} not (-)"
    lines.append(f"{len(rows)} rows: {filled}")
    return "\n".join([*lines, ASSUMED])


def facts(texts: Sequence[str]) -> dict[str, Any]:
    """Count and digest of a pool."""
    return {"count": len(texts), "digest": lists.digest(texts)}


def known(candidates: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    """The pools of params.yaml, before any run: without those whose files are missing; wordfreq's has no digest.

    Args:
        candidates: that section of params.yaml.
    """
    path = candidates["words"]["path"]
    count = candidates["words"]["count"]
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
    for pool, of_authors in theirs.items():
        here = ours.get(pool, {})
        if not here.get("count"):
            continue
        authors = f"the authors' {of_authors['count']:,}"
        if here.get("digest") == of_authors["digest"]:
            yield True, f"candidates.{pool}: {authors}"
            continue
        differs = f"candidates.{pool}: {here['count']:,} texts, not {authors}; rows that depend on them are marked"
        yield False, f"{differs}. Theirs: {SOURCES[pool]}"


def pools_of_params(sections: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """`compare` for a params.yaml with one of the paper's datasets."""
    datasets = sections["datasets"].items()
    # A run on photos of one's own is not compared with the paper, so its pools need not be the authors'.
    if not any(name in PAPER and dataset["layout"].startswith("coop") for name, dataset in datasets):
        return []
    ours = known(sections["candidates"])
    return list(compare(ours, theirs=Settings.of_paper().pools))
