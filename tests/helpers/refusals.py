"""The error of a soup file."""

from __future__ import annotations

from pathlib import Path

from wsoup.base.errors import LONGEST, WsoupError
from wsoup.soup.soup import Soup


def refusal(path: Path) -> str | None:
    """The error of loading a soup file, one printable line of bounded length; None if it loads."""
    try:
        Soup.load(path)
    except WsoupError as error:
        text = str(error)
        assert text.isprintable()
        assert len(text) <= LONGEST + len(str(path))
        return text
    return None
