"""Which rows of the paper's tables a params.yaml fills, and which not and why; nothing has to have run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wsoup.check.whole import Params
from wsoup.core.errors import ParamsError
from wsoup.datasets import paper
from wsoup.disk.artifacts import PRETRAINED
from wsoup.evaluate.rows import TableRow
from wsoup.evaluate.rows import table as rows_of
from wsoup.report import paper as theirs
from wsoup.report.settings import Settings, differing

TABLES = ("zero_shot", "model_scaling", *theirs.TITLES)
REPORTED = "\u2020"
"""Behind the name of a row whose figures are those of its own authors: nobody ran it for the paper."""


@dataclass(frozen=True)
class Covered:
    """One row of one of the paper's tables.

    Attributes:
        table, label: whose; in model_scaling with the model.
        variant, row: of ours that stands beside it; empty where there is none.
        missing: why params.yaml does not fill it; empty where it does.
        marks: why it would be marked; pools are not known before a run.
    """

    table: str
    label: str
    variant: str = ""
    row: str = ""
    missing: str = ""
    marks: tuple[str, ...] = ()

    @property
    def reported(self) -> bool:
        """Whether it cannot be run: figures of its own authors."""
        return self.label.endswith(REPORTED)


def coverage(params: Params, *, table: str) -> list[Covered]:
    """Every row of one of the paper's tables, or of all, in the paper's order.

    Raises:
        ParamsError: no such table.
    """
    if table not in (*TABLES, "all"):
        raise ParamsError(f"--table {table!r} must be one of {', '.join(TABLES)}, all")
    known = {row.key: row for row in rows_of(list(params.soups))}
    fixed = Settings.of_paper()
    run = Settings.of_run(params.model_dump(mode="json", by_alias=True), pools=fixed.pools)
    found = []
    for name in TABLES if table == "all" else (table,):
        for entry in _beside(name):
            found.append(entry if entry.missing else _judged(entry, params=params, known=known, run=run, fixed=fixed))
    return found


def _beside(name: str) -> list[Covered]:
    """The rows of a table with those of ours that belong beside them."""
    ours = rows_of(["descriptor", "word"])
    if name == "zero_shot":
        keys = {row.label: row.key for row in ours}
        return [Covered(name, line["method"], PRETRAINED, keys[line["method"]]) for line in theirs.read(name)]
    if name == "model_scaling":
        scaling = {row.scaling: row.key for row in ours if row.scaling}
        return [
            Covered(name, f"{line['model']}: {line['method']}", PRETRAINED, scaling[line["method"]])
            for line in theirs.read(name)
        ]
    beside: dict[str, list[tuple[str, str]]] = {}
    for label, variant, key, _ in theirs.beside(name):
        beside.setdefault(label, []).append((variant, key))
    found = []
    for line in theirs.read(name):
        label = line["method"]
        if label.endswith(REPORTED):
            found.append(Covered(name, label, missing="as reported by its authors: the paper did not run it"))
        elif beside.get(label):
            found.append(Covered(name, label, *beside[label].pop(0)))
        else:
            found.append(Covered(name, label, missing="no row of ours belongs beside it"))
    return found


def _judged(
    entry: Covered, *, params: Params, known: Mapping[str, TableRow], run: Settings, fixed: Settings
) -> Covered:
    """Whether params.yaml fills a row that we have, and what would be marked."""
    missing = _encoder(entry, params=params) or _source(entry, params=params)
    key, _, m = entry.row.partition("@")
    row = known.get(key)
    if row is None:
        missing = missing or f"soups has no {key.split('_soup')[0]!r}"
    elif not missing:
        missing = _texts(row, params=params, m=int(m) if m else None, variant=entry.variant)
    if missing or row is None:
        return replace(entry, missing=missing)
    differs = theirs.encoder_differs(_encoder_id(params), tuned=entry.variant != PRETRAINED)
    marks = differing(run, paper=fixed, variant=entry.variant, row=row)
    return replace(entry, marks=(*([differs] if differs else []), *marks))


def _encoder(entry: Covered, *, params: Params) -> str:
    """Each model of model_scaling.csv is a run of its own, and so are all other tables."""
    pair = (params.encoder.model.removesuffix(theirs.QUICK_GELU), str(params.encoder.pretrained))
    wanted = paper.ENCODER
    if entry.table == "model_scaling":
        titles = {title: found for found, title in paper.SCALING_ENCODERS.items()}
        wanted = titles[entry.label.split(":")[0]]
    if pair == wanted or (entry.table != "model_scaling" and pair not in paper.ENCODERS):
        return ""
    return f"another encoder: wsoup profile paper --encoder {wanted[0]}"


def _source(entry: Covered, *, params: Params) -> str:
    laion = entry.table == "laion_source"
    if params.source.startswith("laion") == laion:
        return ""
    return "another source: images of LAION" if laion else "another source: ImageNet"


def _texts(row: TableRow, *, params: Params, m: int | None, variant: str) -> str:
    """What of params.yaml a row of texts needs."""
    if variant != PRETRAINED and variant not in params.finetune.methods:
        return f"finetune.methods has no {variant!r}: --methods"
    name = row.method.name
    if name == "gpt" and not any(dataset.gpt_descriptors for dataset in params.datasets.values()):
        return "no dataset has gpt_descriptors"
    if name in ("random_descriptors", "upper_bound") and not params.candidates.descriptors.paths:
        return "candidates.descriptors names no file"
    if name == "ensemble" and not params.evaluate.ensemble:
        return "evaluate.ensemble is off"
    if row.offsets and params.evaluate.offsets == [0]:
        return "evaluate.offsets is [0]"
    soup = params.soups[row.method.soup] if row.method.soup else None
    if m is not None and soup is not None:
        sizes = {soup.m, *params.evaluate.m}
        if variant != PRETRAINED:
            sizes = {params.finetune.methods[variant].members or soup.m}
        if m > soup.m or m not in sizes:
            return f"soups.{row.method.soup} is not evaluated at m = {m}"
    return ""


def _encoder_id(params: Params) -> dict[str, Any]:
    """What of an encoder's id is known before it is loaded: a tag brings its activation."""
    named = params.encoder.model.endswith(theirs.QUICK_GELU)
    return {
        "model": params.encoder.model,
        "pretrained": params.encoder.pretrained,
        "quick_gelu": named or params.encoder.quick_gelu or params.encoder.pretrained == "openai",
    }


def shown(rows: list[Covered]) -> str:
    """The list as text: filled, marked or missing, a row a line, and a count at the end."""
    lines, before = [], ""
    for row in rows:
        if row.table != before:
            lines.append(f"{row.table}:")
            before = row.table
        if row.missing:
            lines.append(f"  -  {row.label}: {row.missing}")
        elif row.marks:
            lines.append(f"  *  {row.label}: {row.variant}, {row.row}; marked: {'; '.join(row.marks)}")
        else:
            lines.append(f"  x  {row.label}: {row.variant}, {row.row}")
    count = Counter("missing" if row.missing else "marked" if row.marks else "filled" for row in rows)
    reported = sum(row.reported for row in rows)
    lines.append(
        f"{len(rows)} rows: {count['filled']} filled (x), {count['marked']} filled but marked (*), {count['missing']} "
        f"not (-), of which {reported} are as their authors reported them"
    )
    return "\n".join(lines) + "\n"
