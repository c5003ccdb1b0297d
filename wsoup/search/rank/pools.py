"""The pools of candidates: common words for word soups, descriptors for descriptor soups.

Words are wordfreq's most common English ones, or any list by path. Descriptors come from text files (one a line) or
from GPT-descriptor JSON files (`wsoup.search.rank.gpt`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from wsoup.core.disk.files import read_text
from wsoup.core.disk.store import require, write_bytes
from wsoup.core.errors import MissingError, PoolError
from wsoup.core.prompts import bare
from wsoup.search.rank import gpt

OFFENSIVE = frozenset(
    """
    anal ass asses asshole bastard bitch bitches boobs bullshit cock cum cunt dick fuck fucked fuckin fucking fucks
    goddamn hitler holocaust horny nazi nazis penis piss pissed porn pussy rape raped shit shitty tits vagina whore
    """.split()  # noqa: SIM905
)
"""Common words that are left out of the default pool."""
_WORD = re.compile(r"[a-z]{2,}")


def common_words(count: int) -> list[str]:
    """The `count` most common English words of wordfreq: lower-case ASCII letters, two or more, none offensive.

    In order of frequency, so that ties in a ranking fall to the more common word.
    """
    from wordfreq import top_n_list

    words: list[str] = []
    listed = count
    while len(words) < count:
        listed = listed * 5 // 4 + 100
        common = top_n_list("en", listed)
        words = [word for word in common if _WORD.fullmatch(word) and word not in OFFENSIVE]
        if len(common) < listed and len(words) < count:
            raise PoolError(f"candidates.words.count is {count}, but wordfreq has {len(words)} such words; lower it")
    return words[:count]


def words_from_file(path: str | Path, *, count: int) -> list[str]:
    """The first `count` words of a text file, one a line; google-10000-english is such a list.

    Raises:
        PoolError: the file has no words, fewer than `count`, or a word twice.
    """
    words = texts_of(path)
    if len(words) < count:
        raise PoolError(f"{path} holds {len(words)} words, candidates.words.count asks for {count}; lower it")
    return unique(words[:count], origin=str(path))


def descriptors(paths: Sequence[str | Path]) -> list[str]:
    """All descriptors of several files, bare; text files as they are, JSON files as `gpt.sentence` makes them.

    A descriptor that several files or classes share is kept once, at its first place; those of a JSON file are sorted
    with their final period, as the authors' list is, because ties in a ranking fall to the one that comes first.

    No paths give no descriptors; a file without any is an error.

    Raises:
        PoolError: a file without descriptors, or a text file with a line twice.
    """
    pool: dict[str, None] = {}
    for path in map(Path, paths):
        if path.suffix == ".json":
            sentences = {text for texts in gpt.read(path).values() for text in texts}
            pool.update(dict.fromkeys(sorted(sentences, key=lambda text: f"{text}.")))
        else:
            pool.update(dict.fromkeys(unique(texts_of(path), origin=str(path))))
    if paths and not pool:
        raise PoolError(f"candidates.descriptors: no descriptors in {', '.join(map(str, paths))}")
    return list(pool)


def unique(texts: Sequence[str], *, origin: str) -> list[str]:
    """The texts themselves; PoolError if there are none or one comes twice."""
    if not texts:
        raise PoolError(f"{origin} is empty; expected one text a line")
    twice = [text for text, count in Counter(texts).items() if count > 1]
    if twice:
        raise PoolError(f"{origin} holds {twice[0]!r} more than once ({len(twice)} such texts); remove the repetitions")
    return list(texts)


def read_pool(path: str | Path) -> list[str]:
    """The texts of a pool that stage candidates wrote; none where none were asked for.

    Raises:
        MissingError: no such file.
        PoolError: the pool holds a text twice.
    """
    texts = texts_of(require(path, made_by="candidates"))
    return unique(texts, origin=str(path)) if texts else []


def digest(texts: Iterable[str]) -> str:
    """Sixteen hex digits of a pool's texts, whatever their order: tells the authors' pools from others."""
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:16]


def write_pool(path: str | Path, texts: Iterable[str]) -> None:
    """Write a pool, one bare text a line."""
    write_bytes(path, "".join(f"{text}\n" for text in texts).encode())


def texts_of(path: str | Path) -> list[str]:
    """The lines of a text file, bare, empty ones left out."""
    path = Path(path)
    if not path.exists():
        raise MissingError(f"{path} does not exist; correct its path under candidates in params.yaml")
    lines = read_text(path, kind=PoolError).splitlines()
    return [line for line in map(bare, lines) if line]
