"""Pools of candidates: common words for word soups, descriptors for descriptor soups, and pools of one's own.

Words are the most common English ones of wordfreq, or the lines of a file. Descriptors come from text files (one per
line) or from GPT-descriptor JSON files (`wsoup.search.candidates.gpt`).
"""

import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from wsoup.base.errors import PoolError, shown_value
from wsoup.core.prompts import is_template
from wsoup.search.candidates import gpt
from wsoup.search.candidates.templates import templates_of
from wsoup.search.pools.lists import texts_of, unique
from wsoup.search.pools.params import CandidatesParams

OFFENSIVE = frozenset(
    """
    anal ass asses asshole bastard bitch bitches boobs bullshit cock cum cunt dick fuck fucked fuckin fucking fucks
    goddamn hitler holocaust horny nazi nazis penis piss pissed porn pussy rape raped shit shitty tits vagina whore
    """.split()  # noqa: SIM905
)
"""Common words excluded from the default pool."""
_WORD = re.compile(r"[a-z]{2,}")


def texts_of_pool(candidates: CandidatesParams, pool: str) -> list[str]:
    """The texts of any pool of params.yaml, in its order.

    Raises:
        MissingError: a file does not exist.
        PoolError: as `common_words`, `words_from_file` and `descriptors`.
    """
    words = candidates.words
    if pool != "words":
        section = candidates.texts(pool)
        if section.form == "template":
            return templates(section.paths)
        return descriptors(section.paths, pool=pool)
    if words.path is not None:
        return words_from_file(words.path, count=words.count)
    try:
        return common_words(words.count)
    except PoolError as error:
        raise PoolError(f"candidates.words.{error}") from None


def common_words(count: int) -> list[str]:
    """The `count` most common English words of wordfreq: lower-case ASCII letters, two or more, none offensive.

    In order of frequency, so that the more common word wins ties in a ranking.
    """
    from wordfreq import top_n_list

    words: list[str] = []
    n_listed = count
    # wordfreq cannot be asked for what is left after a choice, so longer lists are until enough is left.
    while len(words) < count:
        n_listed = n_listed * 5 // 4 + 100
        listed = top_n_list("en", n_listed)
        words = [word for word in listed if _WORD.fullmatch(word) and word not in OFFENSIVE]
        if len(listed) < n_listed and len(words) < count:
            raise PoolError(f"count is {count}, but wordfreq has {len(words)} such words; lower it")
    return words[:count]


def words_from_file(path: str | Path, *, count: int) -> list[str]:
    """The first `count` words of a text file such as google-10000-english, one per line.

    Raises:
        PoolError: the file has fewer words, or a word twice.
    """
    words = texts_of(path)
    if len(words) < count:
        raise PoolError(f"{path} holds {len(words)} words, candidates.words.count asks for {count}; lower it")
    return unique(dict(islice(words.items(), count)), origin=str(path))


def templates(sources: Sequence[str]) -> list[str]:
    """The distinct templates of several lists, in order of first appearance; raises as `templates_of`."""
    distinct: dict[str, None] = {}
    for source in sources:
        of_source = openai80() if source == "openai80" else templates_of(source)
        distinct.update(dict.fromkeys(of_source))
    return list(distinct)


def openai80() -> list[str]:
    """OpenAI's 80 templates, each with one ``{}``."""
    from wsoup.towers.models import ensemble_templates  # open_clip is slow to import

    return [fill("{}") for fill in ensemble_templates()]


def descriptors(paths: Sequence[str | Path], *, pool: str = "descriptors") -> list[str]:
    """The distinct bare texts of several files, in order of first appearance; `pool` names them in errors.

    Lines of text files are kept in order. Descriptors of a JSON file, worded by `wording.sentence`, are sorted as if
    they had their final period, like the authors' list, because the first one wins ties in a ranking.

    Raises:
        PoolError: a file without descriptors, or a text file with a repeated line.
    """
    distinct: dict[str, None] = {}
    for path in map(Path, paths):
        if path.suffix == ".json":
            sentences: set[str] = set().union(*gpt.read_descriptors(path).values())
            texts = sorted(sentences, key=lambda text: f"{text}.")
        else:
            texts = unique(texts_of(path), origin=str(path))
        template = next(filter(is_template, texts), None)
        if template is not None:
            raise PoolError(
                f"{path}: {shown_value(template)} holds {{}} and is a whole prompt; give templates a pool of their own "
                "with form: template"
            )
        # The same text in two files keeps its first place.
        distinct.update(dict.fromkeys(texts))
    if paths and not distinct:
        raise PoolError(f"candidates.{pool}: no texts in {', '.join(map(str, paths))}; name another file")
    return list(distinct)
