"""Where a text can be split without changing its tokens.

A text is `prefix + suffix`, for example "a photo of a cat," + " which has claws.". Each prefix and each suffix is
tokenised once, and their tokens are joined. That is safe before white space, where CLIP's tokenizers split anyway; a
suffix that begins otherwise (", which ...", ".") is split at its first space, and its head goes to the prefix.
"""

import re
from collections.abc import Callable, Sequence

from torch import Tensor

from wsoup.base.errors import ModelError, PoolError
from wsoup.texts.tokens import ClassToken, Tokenizer, Tokens, beyond_context, is_plain, refuse

SPACE = re.compile(r"\s")
PROBES = 4
"""Texts per call that are also tokenised whole, for comparison."""


class SplitTokenizer:
    """Tokenises prefixes and suffixes on their own.

    Args:
        tokenizer: texts -> (P, context) int64.
        reads: tokens (P, context) -> the position (P,) of the token that ends a text, where most towers read it.
        class_token: the token that the tower reads instead, or None.

    Attributes:
        start: token ids that every text begins with.
        end: the token id that every text ends with.
        context: tokens in a row of the tokenizer.
        room: most tokens in a sequence.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        reads: Callable[[Tensor], Tensor],
        class_token: ClassToken | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.reads = reads
        self.class_token = class_token
        (empty,) = self._tokens([""])
        self.start = empty[:-1]
        self.end = empty[-1]
        self.context = tokenizer([""]).shape[1]
        self.room = self.context
        if class_token is not None:
            self.room += 1

    def sequences(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of whole texts, including the one that is read; the tokenizer truncates long texts."""
        return [self.finished(tokens) for tokens in self._tokens(texts)]

    def prefixes(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of prefixes: with the start, without the end."""
        return [tokens[:-1] for tokens in self._tokens(texts)]

    def suffixes(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of suffixes: without the start, with the end, without the class token."""
        return [tokens[len(self.start) :] for tokens in self._tokens(texts)]

    def finished(self, tokens: Tokens) -> Tokens:
        """A text's tokens, or its suffix's, and those after it that are visible to any token: the class token's."""
        if self.class_token is None:
            return tokens
        if len(tokens) >= self.context:
            return (*tokens, self.class_token.id)
        return (*tokens, self.class_token.null, self.class_token.id)

    def accepts_suffix(self, prefix: Tokens) -> bool:
        """Whether the mask after this prefix depends on its length alone: padding inside it hides what follows."""
        return self.class_token is None or self.class_token.null not in prefix

    def _tokens(self, texts: Sequence[str]) -> list[Tokens]:
        if not texts:
            return []
        tokens = self.tokenizer(list(texts))
        ends = self.reads(tokens).tolist()
        return [tuple(row[: end + 1]) for row, end in zip(tokens.tolist(), ends, strict=True)]

    def safe(self, prefixes: Sequence[str], suffixes: Sequence[str]) -> list[bool]:
        """Per suffix: whether its tokens may be appended to those of any of these prefixes.

        First by rule: it begins with white space, and is plain ASCII without the characters of HTML entities, which
        tokenizers repair across the split. Then some pairs are compared: all prefixes that are not plain themselves,
        and `PROBES` others. If a pair differs, no suffix is safe.
        """
        by_rule = [_is_plain_suffix(text) for text in suffixes]
        plain_suffixes = [text for text, ok in zip(suffixes, by_rule, strict=True) if ok]
        if not plain_suffixes or not prefixes:
            return by_rule
        starts = [text for text in prefixes if not is_plain(text)]
        for i in range(min(PROBES, len(prefixes))):
            starts.append(prefixes[i * (len(prefixes) - 1) // max(1, PROBES - 1)])
        ends = [plain_suffixes[i * len(plain_suffixes) // len(starts)] for i in range(len(starts))]
        if self._join_as_they_are(starts, ends):
            return by_rule
        return [False] * len(suffixes)

    def _join_as_they_are(self, starts: Sequence[str], ends: Sequence[str]) -> bool:
        """Whether each whole text has the tokens of its start and its end; one that is too long may be truncated."""
        wholes = self._tokens([start + end for start, end in zip(starts, ends, strict=True)])
        for whole, start, end in zip(wholes, self.prefixes(starts), self.suffixes(ends), strict=True):
            joined = start + end
            if joined != whole and len(joined) <= self.context:
                return False
        return True

    def check_offset(self, prefixes: Sequence[str], suffixes: Sequence[str], *, token_offset: int) -> None:
        """Raise unless every suffix fits after every prefix with `token_offset` null tokens in between."""
        if len(self.start) != 1:
            raise ModelError(
                f"token offset {token_offset} needs a tokenizer that puts one start token before a text and an end "
                f"token after it; this one gives {(*self.start, self.end)} for the empty text"
            )
        if token_offset < 0:
            raise PoolError(f"token offset {token_offset} is negative; give the number of null tokens, 0 or more")
        for c, i in beyond_context(prefixes, suffixes, tokenizer=self.tokenizer, token_offset=token_offset):
            step = "shorten the text or the offset"
            refuse(suffixes[i], after=prefixes[c], tokenizer=self.tokenizer, step=step, token_offset=token_offset)


def by_head(suffixes: Sequence[str]) -> dict[str, list[int]]:
    """Indices of suffixes by what they have before their first white space.

    >>> by_head([", which has claws.", " sharp", ".", ", old."])
    {',': [0, 3], '': [1], '.': [2]}
    """
    groups: dict[str, list[int]] = {}
    for i, suffix in enumerate(suffixes):
        head = SPACE.split(suffix, maxsplit=1)[0]
        groups.setdefault(head, []).append(i)
    return groups


def _is_plain_suffix(text: str) -> bool:
    if not text:
        return True
    return SPACE.match(text) is not None and is_plain(text)
