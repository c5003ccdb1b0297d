"""Before any run: which rows of the paper's tables a params.yaml fills, and why not the others; and the authors' pools.

What a row needs is written in data/paper/rows.csv and figures.csv, by keys of params.yaml. The authors' pools are known
by count and digest (data/paper/settings.yaml).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from wsoup.base import project
from wsoup.base.errors import ParamsError
from wsoup.datasets.paper import PAPER
from wsoup.paper import tables
from wsoup.paper.settings import Settings, dataset_differs, marks
from wsoup.paper.tables import ENCODER, ENCODERS, QUICK_GELU, SCALING_ENCODERS, SINGLE_TEXTS, TABLES, PaperRow
from wsoup.search.rank import gpt, pools

SOURCES = {
    "words": "google-10000-english-no-swears.txt of github.com/first20hours/google-10000-english, given to "
    "`wsoup profile paper --words FILE`",
    "descriptors": "gpt_descriptors/descriptors_imagenet.json of github.com/Chris210634/word_soups, given to "
    "`wsoup profile paper --gpt-descriptors DIR`",
}
Facts = Mapping[str, Mapping[str, object]]
"""Pool -> count and digest of its texts."""


def of_params(sections: Mapping[str, Any]) -> Settings:
    """A params.yaml before any run: a pool that is not there yet is unknown."""
    return Settings.of_run(sections, pools=known(sections["candidates"]))


def coverage(run: Settings, *, table: str) -> list[PaperRow]:
    """Every row of one of the paper's tables, or of all, in its order, with what it lacks and why it would be marked.

    The marks are the report's own, from everything known before a run; an unknown pool counts as the authors'.

    Raises:
        ParamsError: no such table.
    """
    if table not in (*TABLES, "all"):
        raise ParamsError(f"--table {table!r} must be one of {', '.join(TABLES)}, all")
    theirs, encoder, datasets = Settings.of_paper(), _encoder_id(run), _dataset_marks(run)
    run = replace(run, pools={**theirs.pools, **run.pools})
    rows = []
    for row in (row for name in (TABLES if table == "all" else (table,)) for row in tables.rows(name)):
        missing = _missing(row, run)
        if not missing:
            key = row.row.partition("@")[0]
            reasons = marks(run, paper=theirs, encoder=encoder, variant=row.variant, row=key)
            row = replace(row, marks=(*reasons, *(datasets if row.table not in SINGLE_TEXTS else ())))
        rows.append(replace(row, missing=missing))
    return rows


def _dataset_marks(run: Settings) -> list[str]:
    """What marks or empties cells of every row: datasets that differ from the paper's or are not there."""
    names = [name for name in tables.COLUMNS if run.below(f"datasets.{name}")]
    columns = {tables.COLUMNS[name] for name in names}
    absent = [name for name, column in tables.COLUMNS.items() if column not in columns and name != "laion"]
    reasons = [reason for name in names for reason in dataset_differs(run, name)]
    return [*reasons, *([f"datasets: no {', '.join(absent)}"] if absent else [])]


def unknown(run: Settings) -> list[str]:
    """What only the files can tell; coverage assumes that it is as in the paper."""
    names = [name for name in ("words", "descriptors") if name not in run.pools]
    return [
        *(f"whether candidates.{name} are the authors' (no such file yet)" for name in names),
        "test images and classes of each dataset (`wsoup check`)",
    ]


def _missing(row: PaperRow, run: Settings) -> str:
    """Why params.yaml does not fill a row; empty if it does. Every model of model_scaling.csv is a run of its own."""
    if row.reported:
        return "as reported by its authors: the paper did not run it"
    if not row.row:
        return "the paper shortens this text"
    pair, scaled = tables.pair_of(_encoder_id(run)), row.table == "model_scaling"
    titles = (each for each, title in SCALING_ENCODERS.items() if row.label.startswith(f"{title}: "))
    theirs = next(titles, ENCODER)
    if pair != theirs and (scaled or pair in ENCODERS):
        return f"another encoder: wsoup profile paper --encoder {theirs[0]}"
    if str(run.values["source"]).startswith("laion") != (row.table == "laion_source"):
        return f"another source: {'images of LAION' if row.table == 'laion_source' else 'ImageNet'}"
    return next((f"params.yaml has no {need}" for need in lacks(row.needs, run)), "")


def lacks(needs: Iterable[str], run: Settings) -> Iterator[str]:
    """Needs that a run does not meet.

    Args:
        needs: a dotted key of params.yaml whose value, or anything below it, must be set (``*`` for any name), or
            ``key=value``: the value, or a list that contains it.
        run: its settings.
    """
    for need in needs:
        key, _, wanted = need.partition("=")
        values = [value for name, value in run.values.items() if fnmatch(name, key) or fnmatch(name, f"{key}.*")]
        values = [str(part) for value in values for part in (value if isinstance(value, list) else [value]) if part]
        if not (wanted in values if wanted else values):
            yield need


def _encoder_id(run: Settings) -> dict[str, object]:
    """The encoder's id as far as it is known before loading; OpenAI's weights imply QuickGELU."""
    model, pretrained, quick = (run.values.get(f"encoder.{key}") for key in ("model", "pretrained", "quick_gelu"))
    quick_gelu = str(model).endswith(QUICK_GELU) or bool(quick) or pretrained == "openai"
    return {"model": model, "pretrained": pretrained, "quick_gelu": quick_gelu}


def figures(run: Settings) -> list[str]:
    """What else the paper prints, a line each: what makes it, and what differs."""
    encoder_reason = tables.encoder_differs(_encoder_id(run), tuned=True)  # all figures are of one encoder
    lines = []
    for figure in tables.read("figures"):
        lacking = [f"params.yaml has no {need}" for need in lacks([figure["needs"]], run)]
        if not figure["made_by"] or lacking:  # no single run makes it, or not this one
            lines.append(f"  -  {figure['what']}: {lacking[0] if figure['made_by'] else figure['needs']}")
        else:
            differs = "; ".join(filter(None, (encoder_reason, figure["differs"])))
            lines.append(f"  *  {figure['what']}: {figure['made_by']}; beside {figure['beside']}; differs: {differs}")
    return lines


def as_text(rows: list[PaperRow], *, unsure: list[str]) -> str:
    """The rows as text: a line each (filled, marked or missing), their number, and what is `unknown`."""
    lines = []
    for table, table_rows in groupby(rows, key=lambda row: row.table):
        lines += [f"{table}:", *map(_line, table_rows)]
    count = Counter("missing" if row.missing else "marked" if row.marks else "filled" for row in rows)
    reported = sum(row.reported for row in rows)
    lines.append(
        f"{len(rows)} rows: {count['filled']} filled (x), {count['marked']} filled but marked (*), {count['missing']} "
        f"not (-), of which {reported} are as their authors reported them"
    )
    lines += [f"not known before a run: {what}" for what in unsure]
    return "\n".join(lines) + "\n"


def _line(row: PaperRow) -> str:
    if row.missing:
        return f"  -  {row.label}: {row.missing}"
    sign, marked = ("*", f"; marked: {'; '.join(row.marks)}") if row.marks else ("x", "")
    return f"  {sign}  {row.label}: {row.variant}, {row.row}{marked}"


def authors() -> Facts:
    """The authors' pools."""
    return yaml.safe_load((project.file("data/paper") / "settings.yaml").read_text(encoding="utf-8"))["pools"]


def facts(texts: Sequence[str]) -> dict[str, Any]:
    """Count and digest of a pool."""
    return {"count": len(texts), "digest": pools.digest(texts)}


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
        known_pools["waffle"] = facts(gpt.waffle_texts(waffle))
    return known_pools


def compare(ours: Facts, *, expected: Facts | None = None) -> Iterator[tuple[bool, str]]:
    """Whether each pool is the authors' (or `expected`), with a sentence that says so and where to get theirs."""
    for pool, theirs in (expected or authors()).items():
        if not ours.get(pool, {}).get("count"):
            continue  # not known yet, or left out
        count = f"{theirs['count']:,}"
        if ours[pool].get("digest") == theirs["digest"]:
            yield True, f"candidates.{pool}: the authors' {count}"
        else:
            here = f"{ours[pool]['count']:,} texts, not the authors' {count}"
            yield False, f"candidates.{pool}: {here}; rows that depend on them are marked. Theirs: {SOURCES[pool]}"


def pools_of_params(sections: Mapping[str, Any]) -> list[tuple[bool, str]]:
    """`compare` for a params.yaml with one of the paper's datasets."""
    datasets = sections["datasets"].items()
    if not any(name in PAPER and dataset["layout"].startswith("coop") for name, dataset in datasets):
        return []
    return list(compare(known(sections["candidates"])))
