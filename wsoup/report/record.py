"""The record of a run, reports/verdict.json: what commands know of it without reading artifacts/.

`wsoup results`, `report` and `compare` show a run under the params in its record, whatever params.yaml says by now.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from wsoup.base.errors import MismatchError, WsoupError, one_line
from wsoup.disk import store

FILE = Path("reports/verdict.json")
PAGE = Path("reports/index.html")
PAGE_MARK = '<meta name="wsoup-results" content="'
"""Marks a page that `wsoup report` wrote; a digest of the record that the page shows follows."""
SEAL = '<meta name="wsoup-page" content="'
"""Marks the same page; a digest of the page without this one follows, by which an edit is noticed."""


class Record(BaseModel):
    """The content of verdict.json.

    Attributes:
        answer: sentences of `wsoup results`, one string for each part.
        intervals: what their intervals are; "" in older records.
        accuracy: per cent of the rows below them, in order: {row, source, xd, dg}; empty in older records.
        searched: the same of all other soups, with verdicts over the class name; empty in older records, and where the
            question is not which row to use.
        params: the sections of params.yaml that the report depends on.
        soup, mode, members: the run's soup, how it is judged, and its texts, all seeds.
        images: dataset -> number of test images; empty in older records.
        rows: variant -> row -> source, xd, dg and their deviations over seeds, per cent.
        metrics: variant -> row -> metric -> source, xd, dg; empty in older records.
    """

    model_config = ConfigDict(frozen=True)

    answer: list[str]
    intervals: str = ""
    accuracy: list[dict[str, str | float]] = []
    searched: list[dict[str, str | float]] = []
    params: dict[str, Any]
    soup: str
    mode: str
    members: list[str]
    images: dict[str, int] = {}
    rows: dict[str, dict[str, dict[str, float]]]
    metrics: dict[str, dict[str, dict[str, dict[str, float]]]] = {}

    @classmethod
    def parse(cls, text: str, *, origin: str) -> Record:
        """Read the text of verdict.json; raises MismatchError if it is not as the stage wrote it."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise MismatchError(
                f"{origin} was not written by stage `report` of this version; run `dvc repro`"
            ) from None


def load_record(root: Path) -> Record:
    """The record of the run in a folder.

    Raises:
        MissingError, MismatchError: stage `report` has not run, or its file was edited.
    """
    path = store.require(root / FILE, made_by="report")
    return Record.parse(path.read_text(encoding="utf-8", errors="replace"), origin=str(path))


def digest(root: Path) -> str:
    """The digest of the record in a folder."""
    return store.sha256_file(root / FILE)[:16]


def sealed(page: str) -> str:
    """A page with its own digest after `SEAL`, which is empty in `page`."""
    own = hashlib.sha256(page.encode()).hexdigest()[:16]
    return page.replace(f'{SEAL}"', f'{SEAL}{own}"', 1)


def is_page(file: Path, *, of: str = "") -> bool:
    """Whether a file is as `wsoup report` wrote it, of the results with a digest or of any; not after an edit."""
    if not file.is_file():
        return False
    page = file.read_text(encoding="utf-8", errors="replace")
    if PAGE_MARK + of not in page:
        return False
    without_digest = re.sub(rf'{re.escape(SEAL)}\w*"', f'{SEAL}"', page, count=1)
    return sealed(without_digest) == page


@contextmanager
def as_written() -> Iterator[None]:
    """Turn any error that a damaged file of a run may cause into one line; nobody can list them all."""
    try:
        yield
    except (WsoupError, OSError, ModuleNotFoundError):
        # These say what is wrong themselves; anything else came out of reading a file that is not as it was written.
        raise
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise MismatchError(
            f"a file in artifacts/ or reports/ is not as its stage wrote it ({type(error).__name__}: "
            f"{one_line(error, limit=150)}, at {Path(last.filename).name}:{last.lineno}); run `dvc repro`; if that "
            "does not help, this is a bug"
        ) from error
