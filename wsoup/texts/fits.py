"""Does a text fit the model's context? A tokenizer cuts it in silence where not, and it is another text then.

A class whose name is cut is another class, and a soup whose members are cut after a long class name is another soup:
its count would be that of other texts than those that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from wsoup.core import prompts
from wsoup.core.errors import PoolError, one_line
from wsoup.texts.tokens import Tokenizer, token_lengths

SPARE = 8
"""Tokens that a tokenizer may add to those of the letters: a token holds a byte at least."""


def check_fits(
    texts: Sequence[str],
    *,
    stems: Sequence[str],
    tokenizer: Tokenizer,
    origin: object = "",
    step: str,
    token_offset: int = 0,
) -> None:
    """Raise PoolError for the first text that does not fit the context after the longest class prompt.

    Args:
        texts: P texts, bare.
        stems: C class prompts without their final period.
        tokenizer: texts -> (P, context) int64.
        origin: what the error begins with: where the texts come from.
        step: what to do about it.
        token_offset: null tokens between the two.
    """
    for stem, text in too_long(texts, stems=stems, tokenizer=tokenizer, token_offset=token_offset):
        refuse(text, after=stem, tokenizer=tokenizer, origin=origin, step=step, token_offset=token_offset)


def too_long(
    texts: Sequence[str], *, stems: Sequence[str], tokenizer: Tokenizer, token_offset: int = 0
) -> Iterator[tuple[str, str]]:
    """The longest class prompt with each text that does not fit behind it; arguments as `check_fits`."""
    endings = [prompts.after_comma(text, period=True) for text in texts]
    for c, i in beyond_context(prompts.with_comma(stems), endings, tokenizer=tokenizer, token_offset=token_offset):
        whole = stems[c] + prompts.ending(texts[i], period=True)
        if token_offset or int(token_lengths([whole], tokenizer=tokenizer)) >= _capacity(tokenizer):
            yield stems[c], texts[i]


def check_prompts(texts: Sequence[str], *, tokenizer: Tokenizer, origin: object, step: str) -> None:
    """Raise PoolError for the first whole prompt that fills the context: nobody knows whether it was cut."""
    capacity = _capacity(tokenizer)
    long = [text for text in texts if len(text.encode()) + SPARE > capacity]
    for text, length in zip(long, token_lengths(long, tokenizer=tokenizer).tolist() if long else (), strict=True):
        if length >= capacity:
            refuse(text, after="", tokenizer=tokenizer, origin=origin, step=step)


def beyond_context(
    beginnings: Sequence[str], endings: Sequence[str], *, tokenizer: Tokenizer, token_offset: int = 0
) -> Iterator[tuple[int, int]]:
    """The endings that do not fit after the longest beginning: (which beginning, which ending), in their order.

    Told from the tokens of the two; those of the whole may be fewer, where tokens merge between them.
    """
    if not beginnings or not endings:
        return
    before = token_lengths(beginnings, tokenizer=tokenizer)
    longest, both = int(before.argmax()), int(token_lengths([""], tokenizer=tokenizer))  # each has a start and an end
    room = _capacity(tokenizer) + both - int(before.max()) - token_offset
    long = [i for i, ending in enumerate(endings) if len(ending.encode()) + SPARE > room]
    if long:
        behind = token_lengths([endings[i] for i in long], tokenizer=tokenizer)
        yield from ((longest, i) for i, length in zip(long, behind.tolist(), strict=True) if length > room)


def _capacity(tokenizer: Tokenizer) -> int:
    """Tokens of a text that fills the context, as `token_lengths` counts them."""
    return int(token_lengths(["a " * tokenizer([""]).shape[1]], tokenizer=tokenizer))


def refuse(
    text: str, *, after: str, tokenizer: Tokenizer, step: str, origin: object = "", token_offset: int = 0
) -> NoReturn:
    """Raise PoolError: this text, after this class prompt, does not fit."""
    where = f"{origin}: " if origin else ""
    behind = f" after {one_line(after, limit=160)!r}" if after else ""
    shift = f" with token offset {token_offset}" if token_offset else ""
    raise PoolError(
        f"{where}{one_line(text, limit=120)!r}{behind}{shift} does not fit the model's context of "
        f"{tokenizer([''])[0].numel()} tokens; {step}"
    )
