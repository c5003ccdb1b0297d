"""What stage `report` and `wsoup results` print: the answer first; tables only when asked for."""

import textwrap
from pathlib import Path

from wsoup.report.record import load_record, notes
from wsoup.report.results import PLACES
from wsoup.report.verdict import Judgement

WIDTH = 100


def answer(judgement: Judgement) -> list[str]:
    """At most 12 lines: for source, XD and DG which row to use and why, then the accuracies of all four."""
    lines = []
    for role, each in judgement.answers.items():
        where = {"source": "Test images of the source"}.get(role, role.upper())
        lines += textwrap.wrap(f"{where}. {each.sentence}", width=WIDTH, subsequent_indent="    ")
    lines.append(f"{'per cent':<24}" + "".join(f"{PLACES[role]:>10}" for role in judgement.answers))
    for name in judgement.names.values():
        cells = [each.accuracy.get(name) for each in judgement.answers.values()]
        if any(cell is not None for cell in cells):
            lines.append(f"{name[:23]:<24}" + "".join(f"{'' if c is None else f'{c:.2f}':>10}" for c in cells))
    return lines


def shown(*, root: Path = Path(), everything: bool = False) -> str:
    """All that `wsoup results` prints about the run in a folder; with `everything`, its tables too.

    Raises:
        MissingError, MismatchError: stage `report` has not run, or its file is not as it wrote it.
    """
    record = load_record(root)
    lines = [*record.answer, *notes(record, root=root)]
    if everything:
        tables = sorted((root / "reports/tables").glob("*.md"))
        lines += [f"\n{table.read_text(encoding='utf-8').rstrip()}" for table in tables if table.stem != "counts"]
    return "\n".join(lines)
