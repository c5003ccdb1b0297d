"""Keys and values of what many texts begin with, computed once and kept within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wsoup.texts.forward import TextTower, additive
from wsoup.texts.tokens import Tokens

SLAB_TOKENS = 4096
"""Prefix tokens computed together, unless the batch is larger: bounds what is held of prefixes that are not kept."""


@dataclass(frozen=True, eq=False)
class Slab:
    """Prefixes of similar length that are handled together.

    Attributes:
        index: (n,) int64, their places among all prefixes.
        tokens: (n, L) int64, padded at the end.
        lengths: (n,) int64, ascending; on the CPU, where it decides shapes.
        family: the same object in all slabs of one list of prefixes.
    """

    index: Tensor
    tokens: Tensor
    lengths: Tensor
    family: object


def make_slabs(prefixes: Sequence[Tokens], *, most_tokens: int, device: torch.device) -> list[Slab]:
    """Prefixes sorted by length, in slabs of at most `most_tokens` tokens or one prefix."""
    order = sorted(range(len(prefixes)), key=lambda i: len(prefixes[i]))
    parts: list[list[int]] = []
    for i in order:
        if not parts or (len(parts[-1]) + 1) * len(prefixes[i]) > most_tokens:
            parts.append([])
        parts[-1].append(i)
    slabs, family = [], object()
    for part in parts:
        longest = len(prefixes[part[-1]])
        rows = [[*prefixes[i], *([0] * (longest - len(prefixes[i])))] for i in part]
        lengths = [len(prefixes[i]) for i in part]
        index, tokens = (torch.tensor(values, device=device) for values in (part, rows))
        slabs.append(Slab(index=index, tokens=tokens, lengths=torch.tensor(lengths), family=family))
    return slabs


class PrefixStates:
    """A cache of keys and values, per slab of prefixes and per beginning of the suffixes that follow.

    Args:
        tower: the text tower.
        budget: bytes to keep at most. What does not fit is computed again where it is needed.

    Attributes:
        tokens: tokens computed so far.
        flops: of their matrix products.
    """

    def __init__(self, tower: TextTower, *, budget: int) -> None:
        self.tower, self.budget = tower, budget
        self.tokens = self.flops = self.held = 0
        self._kept: OrderedDict[tuple[Slab, Tokens], list[Tensor]] = OrderedDict()

    def past(self, slab: Slab, beginning: Tokens) -> list[Tensor]:
        """Keys and values of each prefix in the slab and then of `beginning`, in parts along the length.

        The first part, of the prefixes, is as long as the longest of them (see `visible_past`); each other part is one
        token. Always built token by token, so that the last bits do not depend on what earlier calls have left.
        """
        states = self._kept.get((slab, beginning))
        if states is None:
            if beginning:
                before = self.past(slab, beginning[:-1])
                states = [*before, self._extend(slab, before, beginning)]
            else:
                states = [self._compute(slab)]
            self._keep(slab, beginning, states)
        # Shorter beginnings last, so that the oldest entry is never one that a younger entry is built on.
        for length in range(len(beginning), -1, -1):
            if (slab, beginning[:length]) in self._kept:
                self._kept.move_to_end((slab, beginning[:length]))
        return states

    def _compute(self, slab: Slab) -> Tensor:
        length = slab.tokens.shape[1]
        positions = torch.arange(length, device=slab.tokens.device)
        causal = additive(positions[:, None] >= positions[None])[None]
        self._count(int(slab.lengths.sum()))
        return self.tower.states(self.tower.embed(slab.tokens, positions), mask=causal)

    def _extend(self, slab: Slab, past: list[Tensor], beginning: Tokens) -> Tensor:
        """Keys and values of the last token of `beginning`, after those of the others in `past`."""
        device = slab.tokens.device
        positions = (slab.lengths[:, None] + len(past) - 1).clamp_(max=self.tower.context - 1).to(device)
        x = self.tower.embed(torch.full_like(positions, beginning[-1]), positions)  # (n, 1, width)
        visible = visible_past(slab.lengths, past, seen=self.tower.seen(beginning))
        self._count(len(positions))
        return self.tower.states(x, mask=additive(visible[:, None]).to(device), past=past)

    def _count(self, tokens: int) -> None:
        self.tokens += tokens
        self.flops += self.tower.flops(tokens, reads=0)

    def _keep(self, slab: Slab, beginning: Tokens, states: list[Tensor]) -> None:
        size = states[-1].nbytes
        # The prefixes of one list do not displace each other: in a scan over more than fit, displacing the oldest
        # would displace each just before it is needed.
        for key in list(self._kept):
            if self.held + size <= self.budget:
                break
            if key[1] or key[0].family is not slab.family:
                self.held -= self._kept.pop(key)[-1].nbytes
        if self.held + size <= self.budget:
            self._kept[slab, beginning] = states
            self.held += size


def visible_past(lengths: Tensor, past: Sequence[Tensor], *, seen: Sequence[bool]) -> Tensor:
    """(n, K) bool: False at the padding of the first part, whose prefixes have these lengths (n,), and where told.

    `seen` says it of each token after the first part, be it in `past` already or the next.
    """
    first = torch.arange(past[0].shape[4]) < lengths[:, None]
    return torch.cat([first, torch.tensor(seen, dtype=torch.bool).expand(len(lengths), -1)], dim=1)
