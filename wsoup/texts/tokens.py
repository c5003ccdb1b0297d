"""From strings to token sequences, and where a text may be cut in two without changing its tokens.

A text is `prefix + suffix`, for example "a photo of a cat," + " which has claws.". Each prefix and each suffix goes
through the tokenizer once, and their tokens are joined. The seam is safe before white space, where tokenizers of the
CLIP kind split anyway; so a suffix that begins otherwise (", which ...", ".") is cut at its first space, and the head
is counted to the prefix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

Tokenizer = Callable[[Sequence[str]], Tensor]
Tokens = tuple[int, ...]

SPACE = re.compile(r"\s")
PROBES = 4
"""Texts per call that are also tokenised whole and compared."""


@dataclass(frozen=True)
class ClassToken:
    """The class token that CoCa puts behind the context, where its feature is read, and what its mask hides.

    The mask of open_clip's `TextTransformer` hides padding from every token, told by its id. As the weights were
    trained, it is one token off (`shifted`): what is hidden is the key *after* each padding token. So the class token
    sees the real tokens and the first padding token, and does not see itself unless a text fills the context.

    Attributes:
        id: stands for it in sequences of tokens; no token has it.
        null: the id of padding.
        shifted: False for a tower that was built with `correct_cls_mask`.
    """

    id: int
    null: int
    shifted: bool

    def behind(self, length: int, *, context: int) -> Tokens:
        """What follows a text of so many tokens as far as anything sees it."""
        return (self.null, self.id) if self.shifted and length < context else (self.id,)

    def seen(self, tokens: Sequence[int], *, before: Sequence[int | None]) -> list[bool]:
        """Whether the keys of these tokens are seen by those after; `before` holds the token before each, or None."""
        deciding = [b if self.shifted else token for token, b in zip(tokens, before, strict=True)]
        return [token != self.null for token in deciding]


class Seams:
    """Tokenises prefixes and suffixes on their own.

    Args:
        tokenizer: texts -> (P, context) int64.
        reads: tokens (P, context) -> the position (P,) of the token that ends a text, which most towers read.
        class_token: the one that the tower reads instead, or None.

    Attributes:
        start: token ids that every text begins with.
        end: the token id that every text ends with.
        context: tokens in a row of the tokenizer.
        room: tokens in a sequence, at most.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        reads: Callable[[Tensor], Tensor],
        class_token: ClassToken | None = None,
    ) -> None:
        self.tokenizer, self.reads, self.class_token = tokenizer, reads, class_token
        (empty,) = self._tokens([""])
        self.context = tokenizer([""]).shape[1]
        self.room = self.context + (class_token is not None)
        self.start, self.end = empty[:-1], empty[-1]

    def sequences(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of whole texts, up to and with the one that is read; a long text is truncated by the tokenizer."""
        return [self.finished(tokens) for tokens in self._tokens(texts)]

    def prefixes(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of beginnings: with the start, without the end."""
        return [tokens[:-1] for tokens in self._tokens(texts)]

    def endings(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of endings: without the start, with the end, without the class token."""
        return [tokens[len(self.start) :] for tokens in self._tokens(texts)]

    def suffixes(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of endings up to and with the one that is read, where the text that they end has room left."""
        return [self.finished(tokens) for tokens in self.endings(texts)]

    def finished(self, tokens: Tokens) -> Tokens:
        """The sequence of a text of these tokens: with the class token, if the tower has one."""
        if self.class_token is None:
            return tokens
        return tokens + self.class_token.behind(len(tokens), context=self.context)

    def whole_only(self, tokens: Tokens) -> bool:
        """Whether what follows this beginning depends on more than its length: padding inside it hides what follows."""
        return self.class_token is not None and self.class_token.null in tokens

    def _tokens(self, texts: Sequence[str]) -> list[Tokens]:
        if not texts:
            return []
        tokens = self.tokenizer(list(texts))
        return [tuple(row[: stop + 1]) for row, stop in zip(tokens.tolist(), self.reads(tokens).tolist(), strict=True)]

    def safe(self, prefixes: Sequence[str], suffixes: Sequence[str]) -> list[bool]:
        """Per suffix: whether its tokens may be appended to those of any of these prefixes.

        A rule first (it begins with white space, and is plain ASCII without the characters of HTML entities, which
        tokenizers repair across the seam), then a comparison of some pairs: all prefixes that are not plain
        themselves, and `PROBES` others. Where a pair differs, no suffix is safe.
        """
        plain = [not text or (bool(SPACE.match(text)) and _is_plain(text)) for text in suffixes]
        ends = [text for text, ok in zip(suffixes, plain, strict=True) if ok]
        if not ends or not prefixes:
            return plain
        odd = [text for text in prefixes if not _is_plain(text)]
        spread = [prefixes[i * (len(prefixes) - 1) // max(1, PROBES - 1)] for i in range(min(PROBES, len(prefixes)))]
        pairs = [(text, ends[i * len(ends) // (len(odd) + len(spread))]) for i, text in enumerate([*odd, *spread])]
        whole = self.sequences([a + b for a, b in pairs])
        joined = [
            a + b
            for a, b in zip(self.prefixes([a for a, _ in pairs]), self.suffixes([b for _, b in pairs]), strict=True)
        ]
        same = all(a == b or len(b) > self.room for a, b in zip(whole, joined, strict=True))
        return plain if same else [False] * len(suffixes)


def token_lengths(texts: Sequence[str], *, tokenizer: Tokenizer) -> Tensor:
    """Tokens of each text with its start and end, told from the padding behind it: (P,) int64.

    A text that fills the context, or would not fit it, has the context's length. Which id is padding is told by the
    empty text, which ends with it: 0 for CLIP, 1 for SigLIP and some Hugging Face tokenizers.
    """
    tokens = tokenizer(["", *texts])
    return (tokens[1:] != tokens[0, -1]).sum(dim=1)


def last_token(null: int) -> Callable[[Tensor], Tensor]:
    """Tokens (P, context) -> the position (P,) of the last one that is not `null`; the very last where all are."""
    return lambda tokens: tokens.shape[1] - 1 - (tokens != null).flip(1).int().argmax(dim=1)


def split_head(suffix: str) -> tuple[str, str]:
    """What comes before the first white space, and the rest.

    >>> split_head(", which has claws."), split_head(" sharp"), split_head(".")
    ((',', ' which has claws.'), ('', ' sharp'), ('.', ''))
    """
    space = SPACE.search(suffix)
    return (suffix, "") if space is None else (suffix[: space.start()], suffix[space.start() :])


def _is_plain(text: str) -> bool:
    return text.isascii() and "&" not in text and "<" not in text
