"""What wsoup answers to a file that it may refuse."""

from __future__ import annotations

from pathlib import Path

from wsoup.core.errors import LONGEST, WsoupError
from wsoup.soup.soup import Soup


def refusal(path: Path) -> str | None:
    """The error of a soup file, one printable line that is not too long; None where it is a soup."""
    try:
        Soup.load(path)
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= LONGEST + len(str(path))
        return text
    return None
