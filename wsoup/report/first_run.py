"""Whether a first run of the toy world worked: its figure beside the committed one."""

from pathlib import Path

from wsoup.report.labels import soup_title
from wsoup.report.ran import is_drawn
from wsoup.report.record import FILE, Record
from wsoup.runtime.git import git

OTHER_CPU = 1.0
"""Points by which another processor moves the soup's accuracy on the source, at most."""


def worked(record: Record, *, root: Path) -> list[str]:
    """A line if the run is the toy world's with the committed params; else none.

    Args:
        record: of the run.
        root: its folder, in whose git repository the committed record is.
    """
    if not is_drawn(record):
        return []
    text = git("show", f"HEAD:./{FILE.as_posix()}", folder=root)
    if text is None:
        return []
    committed = Record.parse(text, origin=f"{FILE} of HEAD")
    ours = _on_source(record)
    theirs = _on_source(committed)
    if committed.params != record.params or ours is None or theirs is None:
        return []
    soup = soup_title(record.soup)
    figures = f"{soup} on the source {ours:.1f} % (committed: {theirs:.1f} %; another CPU moves it by up to 1)"
    # Rounded as printed, so that the line agrees with its figures.
    apart = round(abs(round(ours, 1) - round(theirs, 1)), 1)
    if apart <= OTHER_CPU:
        return [f"worked: {figures}"]
    return [f"not as committed: {figures}; `wsoup packages` lists packages of other versions"]


def _on_source(record: Record) -> float | None:
    """Per cent of the run's soup on the source; None in records without it."""
    for row in record.accuracy:
        if row["row"] == soup_title(record.soup) and "source" in row:
            return float(row["source"])
    return None
