"""Which rows of the paper's tables a params.yaml fills, and why it does not fill the others; before any run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from wsoup.check import paper_pools
from wsoup.check.whole import Params
from wsoup.core.disk.artifacts import PRETRAINED
from wsoup.core.errors import ParamsError
from wsoup.evaluate.encoders import ENCODER, ENCODERS, SCALING_ENCODERS
from wsoup.evaluate.rows import TableRow
from wsoup.evaluate.rows import table as rows_of
from wsoup.report import paper
from wsoup.report.paper import TABLES, PaperRow
from wsoup.report.settings import Settings, dataset_differs, flat, marks


def coverage(params: Params, *, table: str) -> list[PaperRow]:
    """Every row of one of the paper's tables, or of all, in its order: what it lacks, and what would be marked.

    The report's own judge says so, from all that is known before a run; the rest (`unknown`) is taken for the authors'.

    Raises:
        ParamsError: no such table.
    """
    if table not in (*TABLES, "all"):
        raise ParamsError(f"--table {table!r} must be one of {', '.join(TABLES)}, all")
    ours, fixed = {row.key: row for row in rows_of(list(params.soups))}, Settings.of_paper()
    run = Settings.of_run(
        params.model_dump(mode="json", by_alias=True), pools={**fixed.pools, **paper_pools.known(params)}
    )
    datasets, judged = _datasets(run, params=params), []
    for row in (row for name in (TABLES if table == "all" else (table,)) for row in paper.rows(name)):
        missing, beside = _missing(row, params=params, ours=ours), ours.get(row.row.partition("@")[0])
        if not missing and beside is not None:
            why = marks(run, paper=fixed, encoder=_encoder_id(params), variant=row.variant, row=beside)
            row = replace(row, marks=(*why, *datasets))
        judged.append(replace(row, missing=missing))
    return judged


def _datasets(run: Settings, *, params: Params) -> list[str]:
    """What marks or empties cells of every row: a dataset that is not the paper's, or is not there."""
    names = [name for name in params.datasets if name in paper.COLUMNS]
    columns = {paper.COLUMNS[name] for name in names}
    lacks = [name for name, column in paper.COLUMNS.items() if column not in columns and name != "laion"]
    said = [why for name in names for why in dataset_differs(run, name)]
    return [*said, *([f"datasets: no {', '.join(lacks)}"] if lacks else [])]


def unknown(params: Params) -> list[str]:
    """What only the files can say."""
    known = paper_pools.known(params)
    absent = [name for name in ("words", "descriptors") if name not in known]
    absent = [f"whether candidates.{name} are the authors' (no such file yet)" for name in absent]
    return [*absent, "test images and classes of each dataset (`wsoup check`)"]


def _missing(row: PaperRow, *, params: Params, ours: Mapping[str, TableRow]) -> str:
    """Why params.yaml does not fill a row; empty where it does."""
    if row.reported:
        return "as reported by its authors: the paper did not run it"
    if not row.row:
        return "no row of ours belongs beside it"
    key, _, m = row.row.partition("@")
    elsewhere = _encoder(row, params=params) or _source(row, params=params)
    if elsewhere or key not in ours:
        return elsewhere or f"soups has no {key.split('_soup')[0]!r}"
    return _texts(ours[key], params=params, m=int(m) if m else None, variant=row.variant)


def _encoder(row: PaperRow, *, params: Params) -> str:
    """Each model of model_scaling.csv is a run of its own, and so are all other tables."""
    pair = params.encoder.model.removesuffix(paper.QUICK_GELU), str(params.encoder.pretrained)
    theirs = ENCODER
    if row.table == "model_scaling":
        theirs = next(pair for pair, title in SCALING_ENCODERS.items() if row.label.startswith(f"{title}: "))
    if pair == theirs or (row.table != "model_scaling" and pair not in ENCODERS):
        return ""
    return f"another encoder: wsoup profile paper --encoder {theirs[0]}"


def _source(row: PaperRow, *, params: Params) -> str:
    laion = row.table == "laion_source"
    if params.source.startswith("laion") == laion:
        return ""
    return "another source: images of LAION" if laion else "another source: ImageNet"


def _texts(row: TableRow, *, params: Params, m: int | None, variant: str) -> str:
    """What a row of texts needs that params.yaml lacks."""
    methods, method = params.finetune.methods, row.method.name
    if variant != PRETRAINED and variant not in methods:
        return f"finetune.methods has no {variant!r}: --methods"
    no_pool = not params.candidates.descriptors.paths
    lacks = {
        "no dataset has gpt_descriptors": method == "gpt"
        and not any(d.gpt_descriptors for d in params.datasets.values()),
        "candidates.descriptors names no file": method in ("random_descriptors", "upper_bound") and no_pool,
        "evaluate.ensemble is off": method == "ensemble" and not params.evaluate.ensemble,
        "evaluate.offsets is [0]": row.offsets and params.evaluate.offsets == [0],
    }
    if m is not None and row.method.soup is not None:
        whole = params.soups[row.method.soup].m
        sizes = {whole, *params.evaluate.m} if variant == PRETRAINED else {methods[variant].members or whole}
        lacks[f"soups.{row.method.soup} is not evaluated at m = {m}"] = m > whole or m not in sizes
    return next((why for why, it_does in lacks.items() if it_does), "")


def _encoder_id(params: Params) -> dict[str, Any]:
    """What of an encoder's id is known before it is loaded: a tag brings its activation."""
    encoder = params.encoder
    said = encoder.model.endswith(paper.QUICK_GELU) or encoder.quick_gelu
    return {
        "model": encoder.model,
        "pretrained": encoder.pretrained,
        "quick_gelu": said or encoder.pretrained == "openai",
    }


def figures(params: Params) -> list[str]:
    """Every figure of the paper, and its tables of single texts: what makes it, beside what of theirs, what differs."""
    made = flat(params.model_dump(mode="json", by_alias=True))
    another = paper.encoder_differs(_encoder_id(params), tuned=True)  # all of them are of one encoder
    lines = []
    for line in paper.read("figures"):
        key, _, value = line["needs"].partition("=")
        if made.get(key) == value if value else made.get(key):
            differs = "; ".join([*([another] if another else []), line["differs"]])
            lines.append(f"  *  {line['what']}: {line['made_by']}; beside {line['beside']}; differs: {differs}")
        else:
            lines.append(f"  -  {line['what']}: params.yaml has no {line['needs']}")
    return lines


def shown(rows: list[PaperRow], *, unsure: list[str]) -> str:
    """The list as text: filled, marked or missing, a row a line, a count, and what is `unknown`."""
    lines = []
    for table, of_table in groupby(rows, key=lambda row: row.table):
        lines += [f"{table}:", *map(_line, of_table)]
    count = Counter("missing" if row.missing else "marked" if row.marks else "filled" for row in rows)
    reported = sum(row.reported for row in rows)
    lines.append(
        f"{len(rows)} rows: {count['filled']} filled (x), {count['marked']} filled but marked (*), {count['missing']} "
        f"not (-), of which {reported} are as their authors reported them"
    )
    lines += [f"not known before a run: {what}" for what in unsure]
    return "\n".join(lines) + "\n"


def beside(params: Params) -> str:
    """Rows of a run that no table of the paper has: heads and adaptations, one a line; "" where there are none."""
    own: dict[str, Mapping[str, Any]] = {"heads": params.heads, "adapt": params.adapt}
    lines = [f"  +  {key}.{name}: {one.kind}, {one.soup}\n" for key, of in own.items() for name, one in of.items()]
    return "".join(["not the paper's:\n", *lines]) if lines else ""


def _line(row: PaperRow) -> str:
    if row.missing:
        return f"  -  {row.label}: {row.missing}"
    sign, marked = ("*", f"; marked: {'; '.join(row.marks)}") if row.marks else ("x", "")
    return f"  {sign}  {row.label}: {row.variant}, {row.row}{marked}"
