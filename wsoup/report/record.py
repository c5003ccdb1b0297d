"""`reports/verdict.json`: what stage `report` found out about a run, with the params that made it; and what is printed.

`wsoup results`, `report` and `compare` show a run under these params, whatever params.yaml says by now. Stage `report`
and `wsoup results` print the answer first, and tables only when asked for.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import store
from wsoup.paper.settings import flat
from wsoup.params.section import read_yaml
from wsoup.report.results import PLACES
from wsoup.report.verdict import Judgement
from wsoup.runtime.process import git

FILE = Path("reports/verdict.json")
PAGE = Path("reports/index.html")
MARK = '<meta name="wsoup-results" content="{}">'
"""In the page: the digest of the record that it shows."""
SHOWN = 3
"""Keys that a line names; it counts the others."""
WIDTH = 100


class Record(BaseModel):
    """The content of verdict.json.

    Attributes:
        answer: lines of `wsoup results`.
        params: the sections of params.yaml that the report depends on.
        soup, mode, members: the run's soup, how it is judged, and its texts, all seeds.
        rows: variant -> row -> source, xd, dg and their deviations over seeds, per cent.
        verdicts: lines of the table of verdicts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: list[str]
    params: dict[str, JsonValue]
    soup: str
    mode: str
    members: list[str]
    rows: dict[str, dict[str, dict[str, float]]]
    verdicts: list[dict[str, object]]

    @classmethod
    def parse(cls, text: str, *, origin: str) -> Record:
        """From the text of verdict.json; raises MismatchError if it is not as the stage wrote it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise MismatchError(f"{origin} is not as stage report of this wsoup writes it; run `dvc repro`") from None


def load_record(root: Path) -> Record:
    """The record of the run in a folder.

    Raises:
        MissingError, MismatchError: stage `report` has not run, or its file was edited.
    """
    path = store.require(root / FILE, made_by="report")
    return Record.parse(path.read_text(encoding="utf-8", errors="replace"), origin=str(path))


def differences(before: dict[str, JsonValue], after: dict[str, JsonValue]) -> list[str]:
    """``soups.word.k0 250 -> 50`` for every dotted key that differs; ``-`` where a side lacks it."""
    old, new = flat(before), flat(after)
    pairs = {key: (old.get(key, "-"), new.get(key, "-")) for key in {**old, **new}}
    return [f"{key} {_short(a)} -> {_short(b)}" for key, (a, b) in pairs.items() if a != b]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def first_few(items: list[str]) -> str:
    """The first of some texts, and how many others there are."""
    return ", ".join(items[:SHOWN]) + (f" and {len(items) - SHOWN} more" if len(items) > SHOWN else "")


def notes(record: Record, *, root: Path) -> list[str]:
    """One line each: params.yaml has changed since, the page shows other results, reports/ differ from HEAD."""
    lines = []
    try:
        now = {name: section for name, section in read_yaml(root / "params.yaml").items() if name in record.params}
    except MissingError:
        now = record.params
    if changed := differences(record.params, now):
        lines.append(f"params.yaml has changed since: {first_few(changed)}; run `dvc repro`")
    if (root / PAGE).is_file() and not shows(root / PAGE, root=root):
        lines.append(f"{PAGE} shows other results; `wsoup report` writes it again")
    return lines + ([line] if (line := baseline(root)) else [])


def baseline(root: Path) -> str:
    """What to do where reports/ differ from the last commit; "" where they do not, or there is no git."""
    changed = git("status", "--porcelain", "--", str(FILE), folder=root)
    advice = "reports/ differ from HEAD: see `wsoup compare`, or commit them as this machine's baseline"
    return advice if changed and changed.strip() else ""


def digest(root: Path) -> str:
    """Of the record in a folder."""
    return store.sha256_file(root / FILE)[:16]


def shows(page: Path, *, root: Path) -> bool:
    """Whether a page shows the record in a folder."""
    return MARK.format(digest(root)) in page.read_text(encoding="utf-8", errors="replace")


def is_page(file: Path) -> bool:
    """Whether `wsoup report` wrote a file, of whatever results."""
    return file.is_file() and MARK.split("{")[0] in file.read_text(encoding="utf-8", errors="replace")


def remove_stale_page(root: Path) -> None:
    """Remove reports/index.html if `wsoup report` wrote it for other results; any other file stays."""
    page = root / PAGE
    if is_page(page) and not shows(page, root=root):
        page.unlink()


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
        lines += [f"\n{table.read_text(encoding='utf-8').rstrip()}" for table in tables]
    return "\n".join(lines)
