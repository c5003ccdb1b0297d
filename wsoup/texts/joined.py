"""The fast path for every prefix with every suffix: tokens of both are joined, where that is safe.

Other texts are encoded whole, on the same tower.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from torch import Tensor

from wsoup.texts.fast import FastTexts
from wsoup.texts.prefixes import PrefixBatch
from wsoup.texts.splitting import SplitTokenizer, by_head
from wsoup.texts.tokens import Tokens

KEPT_PREFIX_LISTS = 4
"""Lists of prefixes whose batches are kept: a call has one for each head of its suffixes, such as a comma."""


class JoinedTexts:
    """Features of prefixes (C strings) with suffixes (S strings), written into tensors (S, C, D).

    Args:
        texts: encodes token sequences.
        splitter: its tokenizer, split.
    """

    def __init__(self, texts: FastTexts, splitter: SplitTokenizer) -> None:
        self.texts = texts
        self.splitter = splitter
        self.started = lru_cache(maxsize=KEPT_PREFIX_LISTS)(partial(_started, splitter=splitter, texts=texts))

    def fill(self, out: Tensor, prefixes: Sequence[str], suffixes: Sequence[str]) -> None:
        """Fill `out` (S, C, D) with every prefix followed by every suffix."""
        for head, rows in by_head(suffixes).items():
            for i, classes in self._fill_after_head(out, prefixes, suffixes, head=head, rows=rows):
                wholes = self.splitter.sequences([prefixes[c] + suffixes[i] for c in classes])
                out[i, classes] = self.texts.encode(wholes)

    def _fill_after_head(
        self, out: Tensor, prefixes: Sequence[str], suffixes: Sequence[str], *, head: str, rows: list[int]
    ) -> list[tuple[int, list[int]]]:
        """Fill `out` for the suffixes `rows`, all of which have `head` before their first white space.

        Returns (row, classes) of texts that have to be encoded whole: they are not safe to split, or too long.
        """
        starts = tuple(prefix + head for prefix in prefixes)
        tails = [suffixes[i][len(head) :] for i in rows]
        every_class = list(range(len(starts)))
        joined_rows = []
        joined_tails = []
        wholes = []
        for i, tail, safe in zip(rows, tails, self.splitter.safe(starts, tails), strict=True):
            if safe:
                joined_rows.append(i)
                joined_tails.append(tail)
            else:
                wholes.append((i, every_class))
        tokens = self.splitter.suffixes(joined_tails)
        return self.fill_tokens(out, starts, tokens, rows=joined_rows) + wholes

    def fill_tokens(
        self, out: Tensor, prefixes: tuple[str, ...], suffixes: list[Tokens], *, rows: Sequence[int]
    ) -> list[tuple[int, list[int]]]:
        """Fill `out` for the suffixes `rows`, given as tokens without class token.

        Returns (row, classes) of texts that cannot be joined from their parts, because they exceed `room` or the
        prefix accepts no suffix. Their features in `out` are wrong, and the caller has to replace them.
        """
        if not rows:
            return []
        batches, lengths = self.started(prefixes)
        sequences = [self.splitter.finished(suffix) for suffix in suffixes]
        self.texts.fill(out, batches, sequences, rows=rows)
        too_long = []
        for i, sequence in zip(rows, sequences, strict=True):
            room = self.splitter.room - len(sequence)
            classes = [c for c, length in enumerate(lengths) if length > room]
            if classes:
                too_long.append((i, classes))
        return too_long


def _started(
    prefixes: tuple[str, ...], *, splitter: SplitTokenizer, texts: FastTexts
) -> tuple[list[PrefixBatch], list[int]]:
    """Prefixes in batches, and their lengths in tokens: the whole room for one that accepts no suffix."""
    starts = splitter.prefixes(prefixes)
    lengths = []
    for start in starts:
        length = len(start)
        if not splitter.accepts_suffix(start):
            length = splitter.room
        lengths.append(length)
    return texts.prefix_batches(starts), lengths
