"""Lists of candidates: text files with one text a line, such as the pools that stage `candidates` writes."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from wsoup.base.errors import MissingError, PoolError, one_line
from wsoup.core.prompts import bare
from wsoup.disk.files import read_text
from wsoup.disk.store import require, write_bytes

SAVED_BY_TORCH = (b"PK\x03\x04", b"\x80")
"""How a file of `torch.save` begins: a zip archive, or a pickle."""
SHOWN = 5
"""Repeated texts that an error lists, and places of each."""


def numbered(path: str | Path) -> dict[int, str]:
    """The non-empty lines of a text file of candidates by their number from 1, without white space around them.

    Raises:
        MissingError: no such file.
        PoolError: the file is not text.
    """
    try:
        lines = read_text(path, kind=PoolError).splitlines()
    except MissingError:
        raise MissingError(f"{path} does not exist; correct its path under candidates in params.yaml") from None
    return {number: line.strip() for number, line in enumerate(lines, start=1) if line.strip()}


def texts_of(path: str | Path) -> dict[int, str]:
    """The non-empty lines of a text file, bare, by their number from 1; raises as `numbered`."""
    texts = {number: bare(line) for number, line in numbered(path).items()}
    return {number: text for number, text in texts.items() if text}


def waffle_texts(path: str | Path) -> list[str]:
    """Waffle's texts as the authors' list has them: with a comma of their own, without the final period.

    The authors' own file is one of torch, which is not read here: it is unpickled only by its user, and only as data.

    Raises:
        MissingError, PoolError: as `numbered`; PoolError with the command that makes such a file a list.
    """
    file = Path(path)
    if file.is_file():
        with file.open("rb") as opened:
            start = opened.read(4)
        if start.startswith(SAVED_BY_TORCH):
            load = f"import torch; print(*torch.load({str(path)!r}, weights_only=True), sep='\\n')"
            raise PoolError(
                f"{path} was saved by torch or pickle; a text file with one text per line is expected. Convert it: "
                f'python -c "{load}" > waffle.txt'
            )
    return [line.removesuffix(".") for line in numbered(path).values()]


def unique(by_number: Mapping[int, str], *, origin: str, numbers_are: str = "lines") -> list[str]:
    """The texts themselves; PoolError, naming `origin`, if there are none, or one is repeated.

    Args:
        by_number: bare texts, as from `texts_of`.
        origin: where they are from.
        numbers_are: what their numbers count, for errors.
    """
    if not by_number:
        raise PoolError(f"{origin} is empty; expected one text or more")
    numbers_of: dict[str, list[int]] = {}
    for number, text in by_number.items():
        numbers_of.setdefault(text, []).append(number)
    repeated = []
    for text, numbers in numbers_of.items():
        if len(numbers) > 1:
            repeated.append(f"{text!r} more than once ({numbers_are} {', '.join(map(str, numbers[:SHOWN]))})")
    if repeated:
        more = ""
        if len(repeated) > SHOWN:
            more = f" and {len(repeated) - SHOWN} more texts likewise"
        raise PoolError(f"{origin} holds {one_line(', '.join(repeated[:SHOWN]), limit=400)}{more}; keep each text once")
    return list(by_number.values())


def read_pool(path: str | Path) -> list[str]:
    """Read a pool that stage candidates wrote; it may be empty.

    Raises:
        MissingError: no such file.
        PoolError: the pool repeats a text.
    """
    texts = texts_of(require(path, made_by="candidates"))
    if not texts:
        return []
    return unique(texts, origin=str(path))


def write_pool(path: str | Path, texts: Iterable[str]) -> None:
    """Write a pool, one bare text per line."""
    content = "".join(f"{text}\n" for text in texts)
    write_bytes(path, content.encode())


def digest(texts: Iterable[str]) -> str:
    """Digest of a pool's texts in any order, 16 hex digits: identifies the authors' pools."""
    in_order = "\n".join(sorted(texts))
    return hashlib.sha256(in_order.encode()).hexdigest()[:16]
