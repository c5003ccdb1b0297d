"""Pools of candidates: common words for word soups, descriptors for descriptor soups, and GPT descriptors by class.

Words are the most common English ones of wordfreq, or the lines of a file. Descriptors come from text files (one per
line) or from GPT-descriptor JSON files: ``{class: [descriptor, ...]}``, as published with classification by description
(Menon & Vondrick 2023; sachit-menon/classify_by_description_release, descriptors/). Classes are matched by normalised
name, never by position. The wording is that of their code, including its choice by first letters ("which is antennae",
"which candles"), because the paper's results are for these texts: the 4,227 of ImageNet are exactly the authors' pool.

There are two differences unless a dataset's `gpt_wording` is ``code``: a descriptor's final period becomes the prompt's
(1 of 5,800 in ImageNet, 1 of 732 in Caltech, 1 of 499 in Food: "etc.", theirs "etc.."), and an empty descriptor or a
class without descriptors (5 in Food) gives the bare class name (theirs "..., which has .").
"""

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from wsoup.base.errors import MissingError, PoolError
from wsoup.core.prompts import bare
from wsoup.disk.files import read_text, reason_of, regular_file
from wsoup.disk.store import require, write_bytes

OFFENSIVE = frozenset(
    """
    anal ass asses asshole bastard bitch bitches boobs bullshit cock cum cunt dick fuck fucked fuckin fucking fucks
    goddamn hitler holocaust horny nazi nazis penis piss pissed porn pussy rape raped shit shitty tits vagina whore
    """.split()  # noqa: SIM905
)
"""Common words excluded from the default pool."""
_WORD = re.compile(r"[a-z]{2,}")
Descriptors = dict[str, list[str]]

_VERBS = ("has", "often", "typically", "may", "can")
_ALIASES = ({"newt", "eft", "smoothnewt"}, {"tights", "maillot"}, {"missile", "projectile"}, {"sunglasses", "sunglass"})
"""Names for the same ImageNet class in different lists of its 1,000 names, normalised."""


def common_words(count: int) -> list[str]:
    """The `count` most common English words of wordfreq: lower-case ASCII letters, two or more, none offensive.

    In order of frequency, so that the more common word wins ties in a ranking.
    """
    from wordfreq import top_n_list

    words: list[str] = []
    n_listed = count
    while len(words) < count:
        n_listed = n_listed * 5 // 4 + 100
        listed = top_n_list("en", n_listed)
        words = [word for word in listed if _WORD.fullmatch(word) and word not in OFFENSIVE]
        if len(listed) < n_listed and len(words) < count:
            raise PoolError(f"candidates.words.count is {count}, but wordfreq has {len(words)} such words; lower it")
    return words[:count]


def words_from_file(path: str | Path, *, count: int) -> list[str]:
    """The first `count` words of a text file such as google-10000-english, one per line.

    Raises:
        PoolError: the file has fewer words, or a word twice.
    """
    words = texts_of(path)
    if len(words) < count:
        raise PoolError(f"{path} holds {len(words)} words, candidates.words.count asks for {count}; lower it")
    return unique(words[:count], origin=str(path))


def descriptors(paths: Sequence[str | Path]) -> list[str]:
    """The distinct bare descriptors of several files, in order of first appearance.

    Lines of text files are kept in order. Descriptors of a JSON file, worded by `sentence`, are sorted as if they
    had their final period, like the authors' list, because the first one wins ties in a ranking.

    Raises:
        PoolError: a file without descriptors, or a text file with a repeated line.
    """
    pool: dict[str, None] = {}
    for path in map(Path, paths):
        if path.suffix == ".json":
            sentences = {text for texts in read_gpt(path).values() for text in texts}
            pool.update(dict.fromkeys(sorted(sentences, key=lambda text: f"{text}.")))
        else:
            pool.update(dict.fromkeys(unique(texts_of(path), origin=str(path))))
    if paths and not pool:
        raise PoolError(f"candidates.descriptors: no descriptors in {', '.join(map(str, paths))}")
    return list(pool)


def unique(texts: Sequence[str], *, origin: str) -> list[str]:
    """The texts themselves; PoolError if there are none, or one is repeated."""
    if not texts:
        raise PoolError(f"{origin} is empty; expected one text per line")
    repeated = [text for text, count in Counter(texts).items() if count > 1]
    if repeated:
        raise PoolError(
            f"{origin} holds {repeated[0]!r} more than once ({len(repeated)} such texts); remove the repetitions"
        )
    return list(texts)


def read_pool(path: str | Path) -> list[str]:
    """Read a pool that stage candidates wrote; it may be empty.

    Raises:
        MissingError: no such file.
        PoolError: the pool repeats a text.
    """
    texts = texts_of(require(path, made_by="candidates"))
    return unique(texts, origin=str(path)) if texts else []


def digest(texts: Iterable[str]) -> str:
    """Digest of a pool's texts in any order, 16 hex digits: identifies the authors' pools."""
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:16]


def write_pool(path: str | Path, texts: Iterable[str]) -> None:
    """Write a pool, one bare text per line."""
    write_bytes(path, "".join(f"{text}\n" for text in texts).encode())


def texts_of(path: str | Path) -> list[str]:
    """The non-empty lines of a text file, bare."""
    path = Path(path)
    if not path.exists():
        raise MissingError(f"{path} does not exist; correct its path under candidates in params.yaml")
    lines = read_text(path, kind=PoolError).splitlines()
    return [line for line in map(bare, lines) if line]


def sentence(descriptor: str, *, wording: str | None = None) -> str:
    """A descriptor worded to follow a class name, as load.py of the source does; bare unless `wording` is ``code``.

    >>> sentence("a long tail"), sentence("antennae"), sentence("can fly"), sentence("used in war"), sentence("wings")
    ('which is a long tail', 'which is antennae', 'which can fly', 'which is used in war', 'which has wings')
    """
    text = descriptor if wording == "code" else bare(descriptor)
    if text.startswith(("a", "used")):
        return f"which is {text}"
    return f"which {text}" if text.startswith(_VERBS) else f"which has {text}"


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; ValueError for a key that appears twice, of which Python would take the last."""
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} appears twice")
    return dict(pairs)


def waffle_texts(path: str | Path) -> list[str]:
    """Waffle's texts as the authors' list has them, one a line: with a comma of their own, without the final period.

    Raises:
        MissingError, PoolError: no such file, or it is no text.
    """
    if not Path(path).exists():
        raise MissingError(f"{path} does not exist; correct candidates.waffle in params.yaml")
    return [line.strip().removesuffix(".") for line in read_text(path, kind=PoolError).splitlines() if line.strip()]


def read_gpt(path: str | Path, *, wording: str | None = None) -> Descriptors:
    """Read a GPT-descriptor file: class -> descriptors worded by `sentence`, including repetitions.

    Args:
        path: the file.
        wording: ``code`` for the authors' endings; else sentences are bare, and empty ones are left out.

    Raises:
        MissingError: no such file.
        PoolError: not a JSON object of class to list of texts.
    """
    try:
        regular_file(str(path))  # a FIFO would block
        raw = json.loads(Path(path).read_text(encoding="utf-8-sig"), object_pairs_hook=_each_once)
        if not all(isinstance(texts, list) and all(isinstance(t, str) for t in texts) for texts in raw.values()):
            raise ValueError("a class does not hold a list of texts")
        json.dumps(raw, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except FileNotFoundError:
        raise MissingError(f"{path} does not exist; correct the path of the GPT descriptors in params.yaml") from None
    except (ValueError, AttributeError, RecursionError, OSError) as error:
        raise PoolError(
            f"{path} is not a GPT-descriptor file ({reason_of(error)}); expected {{class: [descriptor, ...]}}"
        ) from None
    if wording == "code":
        return {name: [sentence(text, wording=wording) for text in texts or [""]] for name, texts in raw.items()}
    return {name: [sentence(text) for text in texts if bare(text)] for name, texts in raw.items()}


def matched(
    descriptors: Mapping[str, list[str]],
    *,
    class_names: Sequence[str],
    origin: str,
    gpt_names: Mapping[str, str] = MappingProxyType({}),
) -> Descriptors:
    """The descriptors of each class, matched by normalised name or a known alias in ImageNet.

    Args:
        descriptors: by the file's keys.
        class_names: C names in label order.
        origin: the file, for messages.
        gpt_names: the key of some classes, if it is not their name (``datasets.<name>.gpt_names``).

    Raises:
        PoolError: a class has no key; suggests the nearest keys.
    """
    keys = {normalised(key): key for key in descriptors}

    def key_of(name: str) -> str | None:
        plain = normalised(gpt_names.get(name, name))
        aliases = next((sorted(group - {plain}) for group in _ALIASES if plain in group), [])
        return next((keys[alias] for alias in (plain, *aliases) if alias in keys), None)

    matches = {name: key_of(name) for name in class_names}
    if unmatched := [name for name, key in matches.items() if key is None]:
        near = difflib.get_close_matches(normalised(unmatched[0]), list(keys), n=3, cutoff=0.4)
        hint = f"nearest keys: {', '.join(repr(keys[k]) for k in near)}" if near else "no key is near"
        raise PoolError(
            f"{origin} has no descriptors for class {unmatched[0]!r} ({len(unmatched)} of {len(class_names)} classes "
            f"unmatched; {hint}); rename the key, or the class in the dataset's list of class names"
        )
    return {name: descriptors[key] for name, key in matches.items() if key is not None}


def normalised(name: str) -> str:
    """Letters and digits only, in lower case: "Apply_Eye Makeup" and "applyeyemakeup" are the same name."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())
