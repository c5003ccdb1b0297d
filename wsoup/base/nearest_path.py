"""The path that a mistyped one may have meant."""

import difflib
import os
from pathlib import Path

from wsoup.base.errors import one_line


def nearest_path(path: str | Path) -> str:
    """A hint for a path that does not exist: the one that differs from it in one similar name; "" if there is none."""
    wrong = Path(path)
    below: list[str] = []
    while not os.path.isdir(wrong.parent):
        below.insert(0, wrong.name)
        wrong = wrong.parent
    try:
        names = os.listdir(wrong.parent)
    except OSError:
        return ""
    # An ending that two files share makes other names alike, too.
    for name in difflib.get_close_matches(wrong.name, names, n=3, cutoff=0.75):
        near = wrong.parent.joinpath(name, *below)
        if os.path.exists(near):
            return f"did you mean {one_line(near)}?"
    return ""
