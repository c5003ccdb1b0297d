"""How many tokens a text has, and whether it fits the model's context.

Tokenizers silently truncate a text that does not fit. A truncated class name is another class, and a soup truncated
after a long class name is another soup, so that its count would not be that of the texts on show.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from wsoup.base.errors import DataError, PoolError, one_line, shown_value
from wsoup.core import prompts

Tokenizer = Callable[[Sequence[str]], Tensor]
Tokens = tuple[int, ...]

SPARE_TOKENS = 8
"""Most tokens that a suffix adds beside those of its own letters: a word that goes on may be split in other ways."""


@dataclass(frozen=True)
class ClassToken:
    """CoCa's class token after the context, where its feature is read, and what its attention mask hides.

    The mask of open_clip's `TextTransformer` hides padding, recognised by its id, from every token. All weights were
    trained with a mask that is off by one: it hides the key *after* each padding token. So the class token sees the
    real tokens and the first padding token, and sees itself only if a text fills the context.

    Attributes:
        id: stands for it in token sequences; no token has it.
        null: the id of padding.
    """

    id: int
    null: int


def token_lengths(texts: Sequence[str], *, tokenizer: Tokenizer) -> Tensor:
    """Tokens of each text with its start and end, without padding: (P,) int64.

    A text that fills the context, or would exceed it, has the context's length. The empty text shows the id of padding,
    0 for CLIP, 1 for SigLIP and some Hugging Face tokenizers, at its end, or on the left at its start.
    """
    tokens = tokenizer(["", *texts]).cpu()
    empty = tokens[0]
    padding = empty[0]
    if empty[-1] == empty[-2]:
        padding = empty[-1]
    real = (tokens[1:] != padding).int()
    # Counted from the first to the last real token, because "!" in between has CLIP's id of padding.
    before = real.argmax(dim=1)
    after = real.flip(1).argmax(dim=1)
    length = tokens.shape[1] - before - after
    return torch.where(real.any(dim=1), length, 0)


def last_token(null: int) -> Callable[[Tensor], Tensor]:
    """Tokens (P, context) -> the position (P,) of the last one that is not `null`; the very last where all are."""

    def reads(tokens: Tensor) -> Tensor:
        real = tokens != null
        padding = real.flip(1).int().argmax(dim=1)
        return tokens.shape[1] - 1 - padding

    return reads


def check_fits(
    texts: Sequence[str],
    *,
    template: str,
    class_names: Sequence[str],
    tokenizer: Tokenizer,
    origin: object = "",
    step: str,
    token_offset: int = 0,
) -> None:
    """Raise PoolError for the first text that does not fit the context after the longest class prompt.

    A text that is a template itself must fit with the longest class name in it.

    Raise DataError if two class prompts differ as strings alone: of their equal columns the second is never predicted.

    Args:
        texts: P texts, bare.
        template: of the dataset.
        class_names: C names.
        tokenizer: texts -> (P, context) int64.
        origin: where the texts come from; the error begins with it.
        step: what to do about it; the error ends with it.
        token_offset: null tokens between the two.
    """
    unfitting = too_long(
        texts, template=template, class_names=class_names, tokenizer=tokenizer, token_offset=token_offset
    )
    for name, text in unfitting:
        after = "" if prompts.is_template(text) else prompts.stem(template, name)
        shown = prompts.prompt(template, name, text) if prompts.is_template(text) else text
        refuse(shown, after=after, tokenizer=tokenizer, origin=origin, step=step, token_offset=token_offset)
    stems = prompts.stems(template, class_names)
    for first, second in alike(stems, tokenizer=tokenizer):
        pair = f"{shown_value(first)} and {shown_value(second)}"
        raise DataError(f"{_beginning(origin)}{pair} are the same tokens to this model; rename one class")


def alike(texts: Sequence[str], *, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Pairs (first, later) of different texts with the same tokens, such as ``blue`` and ``Blue`` for CLIP."""
    if not texts:
        return []
    first_of: dict[Tokens, str] = {}
    pairs = []
    rows = tokenizer(list(texts)).tolist()
    for row, text in zip(rows, texts, strict=True):
        first = first_of.setdefault(tuple(row), text)
        if first != text:
            pairs.append((first, text))
    return pairs


def too_long(
    texts: Sequence[str], *, template: str, class_names: Sequence[str], tokenizer: Tokenizer, token_offset: int = 0
) -> Iterator[tuple[str, str]]:
    """The class name of the longest prompt with each text that does not fit there; arguments as `check_fits`."""
    followers = [text for text in texts if not prompts.is_template(text)]
    stems = prompts.stems(template, class_names)
    endings = [prompts.ending(text, period=True) for text in followers]
    for c, i in beyond_context(stems, endings, tokenizer=tokenizer, token_offset=token_offset):
        yield class_names[c], followers[i]
    templates = [text for text in texts if prompts.is_template(text)]
    if not templates or not class_names:
        return
    longest = class_names[int(token_lengths(class_names, tokenizer=tokenizer).argmax())]
    filled = [prompts.prompt(template, longest, text) for text in templates]
    for _, i in beyond_context([""], filled, tokenizer=tokenizer):
        yield longest, templates[i]


def check_prompts(texts: Sequence[str], *, tokenizer: Tokenizer, origin: object, step: str) -> None:
    """Raise PoolError for the first whole prompt that does not fit the context."""
    for _, i in beyond_context([""], texts, tokenizer=tokenizer):
        refuse(texts[i], after="", tokenizer=tokenizer, origin=origin, step=step)


def beyond_context(
    prefixes: Sequence[str], suffixes: Sequence[str], *, tokenizer: Tokenizer, token_offset: int = 0
) -> Iterator[tuple[int, int]]:
    """(index of the longest prefix, index of a suffix) for each suffix that does not fit after it, in their order.

    A text that fills the context does not fit: it may have been truncated. With null tokens in between it does.
    """
    if not prefixes or not suffixes:
        return
    overlong = "a " * tokenizer([""]).shape[1]
    *lengths, full = token_lengths([*prefixes, overlong], tokenizer=tokenizer).tolist()
    longest = lengths.index(max(lengths))
    room = full - max(1, token_offset)
    # A token of a plain text holds at least a letter, so that short ones fit without being tokenised. Other letters may
    # become several when a tokenizer normalises them, and each of these several tokens.
    tokens_left = room - lengths[longest] - SPARE_TOKENS
    doubtful = [i for i, suffix in enumerate(suffixes) if len(suffix) > tokens_left or not is_plain(suffix)]
    wholes = [prefixes[longest] + suffixes[i] for i in doubtful]
    lengths_of_wholes = token_lengths(wholes, tokenizer=tokenizer).tolist()
    for i, length in zip(doubtful, lengths_of_wholes, strict=True):
        if length > room:
            yield longest, i


def refuse(
    text: str, *, after: str, tokenizer: Tokenizer, step: str, origin: object = "", token_offset: int = 0
) -> NoReturn:
    """Raise PoolError: this text does not fit after this class prompt."""
    shown = repr(one_line(text, limit=120))
    if after:
        shown += f" after {one_line(after, limit=160)!r}"
    if token_offset:
        shown += f" with token offset {token_offset}"
    context = tokenizer([""]).shape[1]
    raise PoolError(f"{_beginning(origin)}{shown} does not fit the model's context of {context} tokens; {step}")


def is_plain(text: str) -> bool:
    """Whether a text is ASCII without HTML entities: tokenizers change the letters of others before they split them."""
    return text.isascii() and "&" not in text and "<" not in text


def _beginning(origin: object) -> str:
    return f"{origin}: " if origin else ""
