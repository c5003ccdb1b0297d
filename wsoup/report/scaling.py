"""The paper's model-scaling table: zero-shot rows of several encoders, each a DVC experiment of its own.

`run` makes what is missing, one `dvc exp run --temp` per encoder (the workspace stays as it is, nothing is
finetuned); `scaling_table` reads the experiments from git, as `wsoup.report.sweep` does, beside the paper's figures.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wsoup.core.disk import store
from wsoup.core.errors import MissingError, ParamsError, WsoupError
from wsoup.core.params.section import parse_yaml, read_yaml
from wsoup.core.params.yaml12 import dump
from wsoup.evaluate.rows import table as rows_of
from wsoup.report import paper
from wsoup.report.compare import PARAMS, WORKSPACE, experiments, read_at
from wsoup.report.tables import MARK, Table

NAME = "model_scaling"
PREFIX = "scaling-"
ZERO_SHOT = "reports/tables/zero_shot"
TITLES = {paper.ENCODER: "Open-AI CLIP ViT-B/16", **paper.SCALING_ENCODERS}
"""The paper's models; ViT-B/16 stands in its table of zero-shot methods instead."""


def encoder_of(text: str) -> dict[str, Any]:
    """Section `encoder` as far as it is given: ``MODEL/TAG``, or a YAML file of its keys, for local weights.

    >>> encoder_of("ViT-B-32/openai")
    {'model': 'ViT-B-32', 'pretrained': 'openai'}
    """
    if text.endswith((".yaml", ".yml")):
        section = read_yaml(text)
        if {"model", "pretrained"} <= set(section):
            return dict(section)
        raise ParamsError(f"--encoder {text}: expected the keys of section encoder, at least model and pretrained")
    model, _, tag = text.rpartition("/")
    if not (model and tag):
        raise ParamsError(f"--encoder {text!r} must be MODEL/TAG, such as ViT-B-32/openai, or a YAML file")
    return {"model": model, "pretrained": tag}


def name_of(encoder: Mapping[str, Any]) -> str:
    """The experiment of one encoder: its model, and its weights where they are a tag."""
    model, tag = str(encoder["model"]), Path(str(encoder["pretrained"])).stem
    return PREFIX + re.sub(r"[^A-Za-z0-9]+", "-", model if tag == model else f"{model}-{tag}").strip("-")


def run(encoders: Sequence[Mapping[str, Any]], *, root: Path = Path()) -> list[str]:
    """Run the experiments that are missing, one per encoder; returns the names of all.

    Raises:
        WsoupError: an experiment failed; those before it are kept, and the same command goes on from there.
    """
    there, names = experiments(root=root), [name_of(encoder) for encoder in encoders]
    params = read_yaml(root / PARAMS)
    zero_shot = [f"~finetune.methods.{name}" for name in params["finetune"]["methods"]] + ["landscape.methods=[]"]
    for name, encoder in zip(names, encoders, strict=True):
        if name in there:
            print(f"{name} has been run: `dvc exp remove {name}` to run it again", file=sys.stderr)
            continue
        changes = [f"encoder.{key}={_override(value)}" for key, value in encoder.items()] + zero_shot
        options = [part for change in changes for part in ("--set-param", change)]
        done = subprocess.run(["dvc", "exp", "run", "--temp", "--name", name, *options], cwd=root, check=False)
        if done.returncode:
            raise WsoupError(
                f"experiment {name} failed (see above); it runs in a copy of what git tracks, so datasets, descriptors "
                "and weights need absolute paths in params.yaml. Finished ones are kept: run the same command again"
            )
    return names


def _override(value: Any) -> str:
    """A value as Hydra's overrides write it."""
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, str) else dump(value, default_flow_style=True).split("\n")[0]


def scaling_table(revisions: Sequence[str] = (), *, root: Path = Path()) -> Table:
    """The rows of model_scaling.csv of every encoder that revisions have, beside the paper's.

    Args:
        revisions: which; none means the workspace and every experiment that `run` made.
        root: the repository.

    Raises:
        MissingError: a revision holds no zero-shot table, or none is there at all.
    """
    names = list(revisions) or [name for name in experiments(root=root) if name.startswith(PREFIX)]
    if not revisions and (root / f"{ZERO_SHOT}.csv").exists():
        names.append(WORKSPACE)
    if not names:
        raise MissingError("there is no experiment with another encoder; add --run, or name revisions")
    tables: dict[tuple[str, str], Table] = {}
    for revision in names:
        encoder = parse_yaml(read_at(revision, PARAMS, root=root), origin=f"{PARAMS} of {revision}")["encoder"]
        pair = str(encoder["model"]).removesuffix(paper.QUICK_GELU), str(encoder["pretrained"])
        tables.setdefault(
            pair, _of_revision(revision, title=TITLES.get(pair, f"{pair[0]} / {Path(pair[1]).name}"), root=root)
        )
    order = [*TITLES, *sorted(set(tables) - set(TITLES))]
    ordered = [tables[pair] for pair in order if pair in tables]
    return Table(
        NAME,
        "Zero-shot accuracy by encoder",
        list(dict.fromkeys(column for table in ordered for column in table.columns)),
        [row for table in ordered for row in table.rows],
        list(dict.fromkeys(note for table in ordered for note in table.notes)),
    )


def _of_revision(revision: str, *, title: str, root: Path) -> Table:
    """Of one encoder's zero-shot table the rows that the paper's table has, with their marks."""
    scaling = {row.label: row.scaling for row in rows_of(["descriptor", "word"]) if row.scaling}
    lines = list(csv.DictReader(io.StringIO(read_at(revision, f"{ZERO_SHOT}.csv", root=root))))
    text = read_at(revision, f"{ZERO_SHOT}.md", root=root)
    marked = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|") and f"{MARK})" in line}
    rows = []
    for line in lines:
        label = line["method"].removeprefix("'")  # of a spreadsheet's defence
        if label in scaling:
            row: dict[str, Any] = {key: number(value) for key, value in line.items()}
            papers = [key for key in line if key.endswith(" (paper)")] if label in marked else []
            row |= {f"{key.removesuffix(' (paper)')} (mark)": MARK for key in papers}
            rows.append({**row, "model": title, "method": scaling[label]})
    below = [line for line in text.splitlines() if line and not line.startswith(("#", "|"))]
    notes = [f"{title}: {note}" if note.startswith(MARK) else note for note in below]
    return Table(NAME, title, ["model", *(lines[0] if lines else [])], rows, notes)


def number(text: str) -> float | str | None:
    """A cell of a CSV: a number where it is one, None where it is empty."""
    try:
        return float(text) if text else None
    except ValueError:
        return text


def write(table: Table, *, folder: Path) -> Path:
    """Write reports/model_scaling.csv, .md and .json; `saved` reads the last one for the page."""
    table.write(folder)
    parts = {name: getattr(table, name) for name in ("title", "columns", "rows", "notes")}
    store.write_json(folder / f"{NAME}.json", parts)
    return folder / f"{NAME}.md"


def saved(folder: Path) -> list[Table]:
    """The table that `write` left in a folder, or none."""
    path = folder / f"{NAME}.json"
    return [Table(NAME, **store.read_json(path))] if path.exists() else []
