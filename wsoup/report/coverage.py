"""Before any run: which rows of the paper's tables a params.yaml fills, and why not the others."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from wsoup.base.errors import ParamsError
from wsoup.check import paper_pools
from wsoup.check.whole import Params
from wsoup.disk.artifacts import PRETRAINED
from wsoup.report import paper
from wsoup.report.labels import ENCODER, ENCODERS, SCALING_ENCODERS, TableRow
from wsoup.report.labels import table as rows_of
from wsoup.report.paper import TABLES, PaperRow
from wsoup.report.settings import Settings, dataset_differs, flat, marks


def coverage(params: Params, *, table: str) -> list[PaperRow]:
    """Every row of one of the paper's tables, or of all, in its order, with what it lacks and why it would be marked.

    The marks are the report's own, from everything known before a run; see `unknown` for what is assumed.

    Raises:
        ParamsError: no such table.
    """
    if table not in (*TABLES, "all"):
        raise ParamsError(f"--table {table!r} must be one of {', '.join(TABLES)}, all")
    ours, theirs = {row.key: row for row in rows_of(list(params.soups))}, Settings.of_paper()
    sections = params.model_dump(mode="json", by_alias=True)
    run = Settings.of_run(sections, pools={**theirs.pools, **paper_pools.known(params)})
    datasets, rows = _dataset_marks(run, params=params), []
    for row in (row for name in (TABLES if table == "all" else (table,)) for row in paper.rows(name)):
        missing, our_row = _missing(row, params=params, ours=ours), ours.get(row.row.partition("@")[0])
        row_marks: tuple[str, ...] = ()
        if not missing and our_row is not None:
            reasons = marks(run, paper=theirs, encoder=_encoder_id(params), variant=row.variant, row=our_row)
            row_marks = (*reasons, *datasets)
        rows.append(replace(row, missing=missing, marks=row_marks))
    return rows


def _dataset_marks(run: Settings, *, params: Params) -> list[str]:
    """What marks or empties cells of every row: datasets that differ from the paper's or are not there."""
    names = [name for name in params.datasets if name in paper.COLUMNS]
    columns = {paper.COLUMNS[name] for name in names}
    absent = [name for name, column in paper.COLUMNS.items() if column not in columns and name != "laion"]
    reasons = [reason for name in names for reason in dataset_differs(run, name)]
    return [*reasons, *([f"datasets: no {', '.join(absent)}"] if absent else [])]


def unknown(params: Params) -> list[str]:
    """What only the files can tell; coverage assumes that it is as in the paper."""
    known = paper_pools.known(params)
    pools = [name for name in ("words", "descriptors") if name not in known]
    return [
        *(f"whether candidates.{name} are the authors' (no such file yet)" for name in pools),
        "test images and classes of each dataset (`wsoup check`)",
    ]


def _missing(row: PaperRow, *, params: Params, ours: Mapping[str, TableRow]) -> str:
    """Why params.yaml does not fill a row; empty if it does."""
    if row.reported:
        return "as reported by its authors: the paper did not run it"
    if not row.row:
        return "no row of ours corresponds to it"
    key, _, m = row.row.partition("@")
    other_run = _other_encoder(row, params=params) or _other_source(row, params=params)
    if other_run or key not in ours:
        return other_run or f"soups has no {key.split('_soup')[0]!r}"
    return _missing_texts(ours[key], params=params, m=int(m) if m else None, variant=row.variant)


def _other_encoder(row: PaperRow, *, params: Params) -> str:
    """Each model of model_scaling.csv is a separate run, and so are all other tables together."""
    pair = params.encoder.model.removesuffix(paper.QUICK_GELU), str(params.encoder.pretrained)
    theirs = ENCODER
    if row.table == "model_scaling":
        theirs = next(pair for pair, title in SCALING_ENCODERS.items() if row.label.startswith(f"{title}: "))
    if pair == theirs or (row.table != "model_scaling" and pair not in ENCODERS):
        return ""
    return f"another encoder: wsoup profile paper --encoder {theirs[0]}"


def _other_source(row: PaperRow, *, params: Params) -> str:
    laion = row.table == "laion_source"
    if params.source.startswith("laion") == laion:
        return ""
    return "another source: images of LAION" if laion else "another source: ImageNet"


def _missing_texts(row: TableRow, *, params: Params, m: int | None, variant: str) -> str:
    """What a row of texts needs that params.yaml lacks."""
    methods, method = params.finetune.methods, row.method.name
    if variant != PRETRAINED and variant not in methods:
        return f"finetune.methods has no {variant!r}: --methods"
    no_pool = not params.candidates.descriptors.paths
    conditions = {
        "no dataset has gpt_descriptors": method == "gpt"
        and not any(d.gpt_descriptors for d in params.datasets.values()),
        "candidates.descriptors names no file": method in ("random_descriptors", "upper_bound") and no_pool,
        "evaluate.ensemble is off": method == "ensemble" and not params.evaluate.ensemble,
        "evaluate.offsets is [0]": row.offsets and params.evaluate.offsets == [0],
    }
    if m is not None and row.method.soup is not None:
        whole = params.soups[row.method.soup].m
        sizes = {whole, *params.evaluate.m} if variant == PRETRAINED else {methods[variant].members or whole}
        conditions[f"soups.{row.method.soup} is not evaluated at m = {m}"] = m > whole or m not in sizes
    return next((reason for reason, applies in conditions.items() if applies), "")


def _encoder_id(params: Params) -> dict[str, Any]:
    """The encoder's id as far as it is known before loading; OpenAI's weights imply QuickGELU."""
    encoder = params.encoder
    quick_gelu = encoder.model.endswith(paper.QUICK_GELU) or encoder.quick_gelu or encoder.pretrained == "openai"
    return {"model": encoder.model, "pretrained": encoder.pretrained, "quick_gelu": quick_gelu}


def figures(params: Params) -> list[str]:
    """The paper's figures and tables of single texts, a line each: what makes it, and what differs."""
    settings = flat(params.model_dump(mode="json", by_alias=True))
    encoder_reason = paper.encoder_differs(_encoder_id(params), tuned=True)  # all figures are of one encoder
    lines = []
    for figure in paper.read("figures"):
        key, _, value = figure["needs"].partition("=")
        is_there = settings.get(key) == value if value else settings.get(key)
        differs = "; ".join(filter(None, (encoder_reason, figure["differs"])))
        status = f"{figure['made_by']}; beside {figure['beside']}; differs: {differs}"
        missing = f"params.yaml has no {figure['needs']}"
        lines.append(f"  *  {figure['what']}: {status}" if is_there else f"  -  {figure['what']}: {missing}")
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


def own_rows(params: Params) -> str:
    """Rows that no table of the paper has: heads, a line each; "" if there are none."""
    lines = [f"  +  heads.{name}: {head.kind}, {head.soup}\n" for name, head in params.heads.items()]
    return "".join(["not the paper's:\n", *lines]) if lines else ""


def _line(row: PaperRow) -> str:
    if row.missing:
        return f"  -  {row.label}: {row.missing}"
    sign, marked = ("*", f"; marked: {'; '.join(row.marks)}") if row.marks else ("x", "")
    return f"  {sign}  {row.label}: {row.variant}, {row.row}{marked}"
