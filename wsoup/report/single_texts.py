"""The table of texts alone, as in the paper's tables 1 and 2: members of soups, random texts, texts of params.yaml."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.rows import CLASS_NAME, GIVEN
from wsoup.paper import tables as paper
from wsoup.report.lines import Line, read_lines
from wsoup.report.results import ROLES, Results
from wsoup.report.tables import Table

NOTE = (
    "Per cent, change in points against the class name alone, and mean cosines with an image's own class "
    "(alignment) and with the others (uniformity); random texts are the grey rows."
)
ByDataset = Mapping[str, Line]
"""Dataset -> the counts of one text."""


def single_texts(path: Path, *, results: Results) -> Table:
    """Members of the first seed's soups, random texts and those of ``evaluate.texts``, each alone.

    Args:
        path: texts.parquet of stage evaluate.
        results: with the class name alone, to compare with. On its source the paper's figures are beside ours.
    """
    kinds = {GIVEN: "given"}
    for row in results.table:
        if row.alone:
            kinds[row.method.name] = row.alone
    groups = _groups(results)
    theirs = _papers_figures(results)
    plain = _class_name_alone(results)
    texts = _lines_of_texts(path, results=results)
    if any(method == GIVEN for method, _ in texts):
        # What the given texts are compared with stands above them.
        texts = {(GIVEN, ""): plain, **texts}
    rows: list[dict[str, object]] = []
    for (method, text), lines in texts.items():
        kind = kinds.get(method)
        if kind is None:  # of a soup that params.yaml no longer has
            continue
        cells: dict[str, object] = {"kind": kind, "text": text or paper.NO_TEXT}
        for group, names in groups.items():
            ours = [lines[name] for name in names]
            base = [plain[name] for name in names]
            figures: Mapping[str, float] = {}
            # Only for texts that params.yaml gives: a soup may have found one of the paper's by itself.
            if method == GIVEN:
                figures = theirs.get(group, {}).get(text, {})
            cells |= _measured(group, ours, base=base, theirs=figures)
        rows.append(cells)
    columns = dict.fromkeys(["kind", "text"])
    for cells in rows:
        columns |= dict.fromkeys(cells)
    cosines = [f"{group} {measure}" for group in groups for measure in ("alignment", "uniformity")]
    return Table(
        "single_texts",
        "Members of the soups, each alone",
        list(columns),
        rows,
        [NOTE],
        places=dict.fromkeys(cosines, 3),
    )


def _groups(results: Results) -> dict[str, list[str]]:
    """Columns of accuracy: the mean of each role that has datasets, then each dataset."""
    groups = {}
    for role in ROLES:
        names = results.datasets(role)
        if names:
            groups[role] = names
    for name in results.datasets():
        groups[name] = [name]
    return groups


def _papers_figures(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """Source -> text -> the paper's figures; none for another encoder than the paper's."""
    if paper.encoder_differs(results.encoder, tuned=True):
        return {}
    return {name: paper.single_texts(name) for name in results.datasets("source")}


def _class_name_alone(results: Results) -> ByDataset:
    """The pretrained model's counts without any text."""
    row = (PRETRAINED, CLASS_NAME.name, "centroid")
    by_dataset = {}
    for line in results.lines:
        if (line.variant, line.method, line.mode) == row:
            by_dataset[line.dataset] = line
    return by_dataset


def _lines_of_texts(path: Path, *, results: Results) -> dict[tuple[str, str], ByDataset]:
    """(method, text) -> its counts."""
    texts: dict[tuple[str, str], dict[str, Line]] = {}
    for line in read_lines(path, variant=PRETRAINED, datasets=results.roles):
        by_dataset = texts.setdefault((line.method, line.text or ""), {})
        by_dataset[line.dataset] = line
    return {**texts}


def _measured(
    group: str, ours: Sequence[Line], *, base: Sequence[Line], theirs: Mapping[str, float]
) -> dict[str, object]:
    """Cells of a text on a group of datasets: measures, the change of accuracy against a base, the paper's figures."""
    # Each dataset is compared with its own class name alone before the mean is taken.
    changes = [line.accuracy - plain.accuracy for line, plain in zip(ours, base, strict=True)]
    columns = {"accuracy": group, "alignment": f"{group} alignment", "uniformity": f"{group} uniformity"}
    means = {
        "accuracy": float(np.mean([line.accuracy for line in ours])),
        "alignment": float(np.mean([line.alignment for line in ours])),
        "uniformity": float(np.mean([line.uniformity for line in ours])),
    }
    cells: dict[str, object] = {
        group: means["accuracy"],
        f"{group} change": float(np.mean(changes)),
        columns["alignment"]: means["alignment"],
        columns["uniformity"]: means["uniformity"],
    }
    for measure, figure in theirs.items():
        column = columns[measure]
        cells[f"{column} (paper)"] = figure
        cells[f"{column} (diff)"] = means[measure] - figure
    return cells
