"""Prefixes of texts in batches, and their keys and values, kept between calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wsoup.texts.tokens import Tokens
from wsoup.texts.tower import TextTower, additive

PREFIX_TOKENS = 4096
"""Prefix tokens computed together, unless the batch is larger: limits the memory of prefixes that are not kept."""


@dataclass(frozen=True, eq=False)
class PrefixBatch:
    """Prefixes of similar length, handled together.

    Attributes:
        index: (n,) int64, their places among all prefixes.
        tokens: (n, L) int64, padded at the end.
        lengths: n lengths, ascending; on the CPU, where they decide shapes.
        different: (U,) int64, the U different lengths, ascending.
        which: n indices into `different`.
        which_on_device: (n,) int64, the same on the device.
        group: the same object in all batches of one list of prefixes.
    """

    index: Tensor
    tokens: Tensor
    lengths: list[int]
    different: Tensor
    which: list[int]
    which_on_device: Tensor
    group: object


def batched(prefixes: Sequence[Tokens], *, most_tokens: int, device: torch.device) -> list[PrefixBatch]:
    """Prefixes sorted by length, in batches of at most `most_tokens` tokens with padding."""
    parts: list[list[int]] = []
    for i in sorted(range(len(prefixes)), key=lambda i: len(prefixes[i])):
        # Prefixes come by rising length, so this one decides the length of all in its part.
        if not parts or (len(parts[-1]) + 1) * len(prefixes[i]) > most_tokens:
            parts.append([])
        parts[-1].append(i)
    group = object()
    return [_batch(part, prefixes, group=group, device=device) for part in parts]


def _batch(part: list[int], prefixes: Sequence[Tokens], *, group: object, device: torch.device) -> PrefixBatch:
    tokens = [torch.tensor(prefixes[i], dtype=torch.int64) for i in part]
    lengths = torch.tensor([len(prefixes[i]) for i in part])
    different, which = lengths.unique_consecutive(return_inverse=True)
    return PrefixBatch(
        index=torch.tensor(part).to(device),
        tokens=pad_sequence(tokens, batch_first=True).to(device),
        lengths=lengths.tolist(),
        different=different.to(device),
        which=which.tolist(),
        which_on_device=which.to(device),
        group=group,
    )


class PrefixCache:
    """Keys and values per batch of prefixes and per beginning of the suffixes after them.

    Args:
        tower: the text tower.
        budget: most bytes to keep. What does not fit is computed again when needed.

    Attributes:
        nbytes: kept now.
    """

    def __init__(self, tower: TextTower, *, budget: int) -> None:
        self.tower = tower
        self.budget = budget
        self.nbytes = 0
        self._kept: OrderedDict[tuple[PrefixBatch, Tokens], list[Tensor]] = OrderedDict()

    def past(self, prefixes: PrefixBatch, beginning: Tokens) -> list[Tensor]:
        """Keys and values of each prefix and then of `beginning`, in parts along the length.

        The first part, of the prefixes, is as long as the longest of them (see `visible_past`); each other part is one
        token. They are always built token by token, so that the last bits do not depend on earlier calls.
        """
        states = self._kept.get((prefixes, beginning))
        if states is None:
            if beginning:
                before = self.past(prefixes, beginning[:-1])
                states = [*before, self._extend(prefixes, before, beginning)]
            else:
                states = [self._compute(prefixes)]
            self._keep(prefixes, beginning, states)
        # Shorter beginnings move to the end last: the oldest entry is never one that a younger entry is built on.
        for length in range(len(beginning), -1, -1):
            key = (prefixes, beginning[:length])
            if key in self._kept:
                self._kept.move_to_end(key)
        return states

    def _compute(self, prefixes: PrefixBatch) -> Tensor:
        positions = torch.arange(prefixes.tokens.shape[1], device=self.tower.device)
        causal = positions[:, None] >= positions
        self.tower.n_tokens += sum(prefixes.lengths)
        x = self.tower.embed(prefixes.tokens, positions)
        return self.tower.states(x, mask=additive(causal)[None])

    def _extend(self, prefixes: PrefixBatch, past: list[Tensor], beginning: Tokens) -> Tensor:
        """Keys and values of the last token of `beginning`; `past` holds those before it."""
        lengths = prefixes.different[prefixes.which_on_device]
        n_before = len(past) - 1  # tokens of `beginning`: the first part is the prefixes'
        positions = (lengths[:, None] + n_before).clamp_(max=self.tower.context - 1)
        tokens = torch.full_like(positions, beginning[-1])
        x = self.tower.embed(tokens, positions)  # (n, 1, width)
        visible = visible_past(lengths, past, visible=visible_beginning(beginning, tower=self.tower))
        self.tower.n_tokens += len(lengths)
        return self.tower.states(x, mask=additive(visible[:, None]), past=past)

    def _keep(self, prefixes: PrefixBatch, beginning: Tokens, states: list[Tensor]) -> None:
        """Keep states if they fit, evicting the oldest but never a prefix of the same list.

        A scan over more prefixes than fit would otherwise evict each one just before it is needed.
        """
        size = states[-1].nbytes
        for key in list(self._kept):
            if self.nbytes + size <= self.budget:
                break
            kept_prefixes, kept_beginning = key
            if kept_beginning or kept_prefixes.group is not prefixes.group:
                evicted = self._kept.pop(key)
                self.nbytes -= evicted[-1].nbytes
        if self.nbytes + size <= self.budget:
            self._kept[prefixes, beginning] = states
            self.nbytes += size


def visible_past(lengths: Tensor, past: Sequence[Tensor], *, visible: Tensor) -> Tensor:
    """(n, K) bool: which cached keys are visible after prefixes of these lengths (n,), whose padding is not.

    `visible` (B,) bool says so of each token after the prefixes, be it in `past` already or the next.
    """
    places = torch.arange(past[0].shape[4], device=lengths.device)
    of_prefixes = places < lengths[:, None]
    of_beginning = visible.expand(len(lengths), -1)
    return torch.cat([of_prefixes, of_beginning], dim=1)


def visible_beginning(beginning: Tokens, *, tower: TextTower) -> Tensor:
    """(B,) bool: which of these B tokens after a prefix are visible to later ones."""
    before_each = (None, *beginning)[:-1]
    return torch.tensor(tower.visible(before_each), dtype=torch.bool, device=tower.device)
