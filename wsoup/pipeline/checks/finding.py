"""What `wsoup check` says about one thing: a line with the next step."""

from collections.abc import Iterable
from typing import NamedTuple

KINDS = ("fact", "warning", "error")
"""Kinds in the order in which they are shown: what is wrong comes last, where it is read first."""


class Finding(NamedTuple):
    """A line of `wsoup check`.

    Attributes:
        kind: fact; warning: what a run accepts but is probably a mistake; error: what would end a run.
        about: a dataset's name, or encoder, or "".
        text: one sentence; with the next step if it is not a fact.
    """

    kind: str
    about: str
    text: str

    def __str__(self) -> str:
        parts = [self.about, self.text]
        if self.kind != "fact":
            parts.insert(0, self.kind)
        return ": ".join(part for part in parts if part)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once, by kind; of one kind in the order given."""
    once: dict[str, Finding] = {}
    for finding in findings:
        # Several parts may miss the same file, each on behalf of another section.
        line = finding.text if finding.kind == "error" else str(finding)
        once.setdefault(line, finding)
    return sorted(once.values(), key=lambda finding: KINDS.index(finding.kind))
