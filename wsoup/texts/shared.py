"""Token sequences to features with shared beginnings computed once: grids of prefixes and suffixes, and plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from wsoup.texts.forward import TextTower, additive
from wsoup.texts.plain import halving, split_evenly
from wsoup.texts.states import SLAB_TOKENS, PrefixStates, Slab, make_slabs, visible_past
from wsoup.texts.tokens import Tokens
from wsoup.texts.trie import BLOCK_SIZES, SMALLEST_ON_CUDA, TrieBlock, common_beginning, pack, pack_well

LIST_BLOCK = 64
"""Nodes per block where the texts of a list share no prefix."""


@dataclass(frozen=True)
class BlockTensors:
    """A `TrieBlock` on the device: tokens (T,), depths (T,), sees (1, T, T), reads (1, R), members (R,).

    `before` (len,) bool says which of the tokens between prefix and block are seen.
    """

    tokens: Tensor
    depths: Tensor
    sees: Tensor
    reads: Tensor
    members: Tensor
    before: list[bool]

    @classmethod
    def make(cls, block: TrieBlock, *, beginning: Tokens, tower: TextTower) -> BlockTensors:
        """`beginning` comes between the prefix and the block."""
        device = tower.device
        return cls(
            tokens=torch.tensor(block.tokens, device=device),
            depths=torch.tensor(block.depths, device=device) + len(beginning),
            sees=torch.from_numpy(_sees(block, tower=tower, after=beginning)).to(device)[None],
            reads=torch.tensor(block.reads, device=device)[None],
            members=torch.tensor(block.members, device=device),
            before=tower.seen(beginning),
        )


class SharedTexts:
    """A causal text tower over tries of tokens.

    Args:
        tower: the text tower.
        batch_tokens: tokens in one forward pass.
        cache_bytes: keys and values of prefixes kept between calls.

    Attributes:
        states: the kept keys and values.
        tokens, flops: computed so far outside `states`.
    """

    def __init__(self, tower: TextTower, *, batch_tokens: int, cache_bytes: int) -> None:
        self.tower, self.batch_tokens = tower, batch_tokens
        self.states = PrefixStates(tower, budget=cache_bytes)
        self.tokens = self.flops = 0

    def slabs(self, prefixes: Sequence[Tokens]) -> list[Slab]:
        """Prefixes made ready for `fill`; what it keeps belongs to these very objects."""
        return make_slabs(prefixes, most_tokens=max(SLAB_TOKENS, self.batch_tokens), device=self.tower.device)

    def encode(self, sequences: Sequence[Tokens]) -> Tensor:
        """P token sequences -> (P, D) float32, L2-normalised."""
        out = torch.empty(len(sequences), self.tower.size, device=self.tower.device)
        blocks = pack(sequences, size=max(LIST_BLOCK, max(map(len, sequences), default=0)))
        longest = max(map(len, blocks), default=0)
        for part in split_evenly(len(blocks), self.batch_tokens // max(1, longest)):
            some = blocks[part]
            for block, features in zip(some, halving(partial(self._list, some), slice(0, len(some))), strict=True):
                out[block.members] = features[: len(block.members)]
        return out

    def fill(self, out: Tensor, slabs: Sequence[Slab], sequences: Sequence[Tokens], *, members: Sequence[int]) -> None:
        """out[members[i], c] = features of prefix c followed by sequence i; `out` is (S, C, D)."""
        shared = _shared(sequences)
        n_prefixes = sum(len(slab.index) for slab in slabs)
        smallest = SMALLEST_ON_CUDA if self.tower.device.type == "cuda" else BLOCK_SIZES[0]
        rests = [sequence[len(shared) :] for sequence in sequences]
        packed = pack_well(rests, smallest=smallest, largest=self.batch_tokens // n_prefixes)
        blocks = [BlockTensors.make(block, beginning=shared, tower=self.tower) for block in packed]
        rows = torch.tensor(members, device=out.device)
        for slab in slabs:
            past = self.states.past(slab, shared)
            for block in blocks:
                places = rows[block.members][:, None]
                for part in split_evenly(len(slab.index), self.batch_tokens // block.tokens.numel()):
                    features = halving(partial(self._grid, slab, past, block), part)  # (n, R, D)
                    out[places, slab.index[part]] = features.transpose(0, 1)

    def _grid(self, slab: Slab, past: Sequence[Tensor], block: BlockTensors, part: slice) -> Tensor:
        """The prefixes `part` of a slab, each followed by the block: (n, R, D)."""
        lengths, device = slab.lengths[part], self.tower.device
        past = [past[0][:, :, part, :, : int(lengths[-1])], *(p[:, :, part] for p in past[1:])]
        kinds, repeat = lengths.unique_consecutive(return_inverse=True)
        positions = (kinds[:, None].to(device) + block.depths).clamp_(max=self.tower.context - 1)
        x = self.tower.embed(block.tokens, positions)  # (U, T, width)
        before = visible_past(lengths if len(kinds) > 1 else kinds, past, seen=block.before).to(device)
        visible = torch.cat([a.expand(len(before), x.shape[1], -1) for a in (before[:, None], block.sees)], dim=2)
        self._count(len(lengths) * x.shape[1], reads=len(lengths) * block.reads.numel(), first=x.shape[0] * x.shape[1])
        return self.tower.features(
            x, mask=additive(visible), reads=block.reads, past=past, repeat=repeat.to(device, non_blocking=True)
        )

    def _list(self, blocks: Sequence[TrieBlock], part: slice) -> Tensor:
        """Blocks without prefixes, side by side: (n, most R, D); what is beyond a block's own R means nothing."""
        blocks, device = blocks[part], self.tower.device
        n, longest, most = len(blocks), max(map(len, blocks)), max(len(block.reads) for block in blocks)
        tokens, depths, reads = (np.zeros((n, size), dtype=np.int64) for size in (longest, longest, most))
        sees = np.broadcast_to(np.eye(longest, dtype=bool), (n, longest, longest)).copy()
        for i, block in enumerate(blocks):
            tokens[i, : len(block)], depths[i, : len(block)] = block.tokens, block.depths
            reads[i, : len(block.reads)] = block.reads
            sees[i, : len(block), : len(block)] = _sees(block, tower=self.tower)
        tokens_, depths_, reads_, sees_ = (torch.from_numpy(a).to(device) for a in (tokens, depths, reads, sees))
        self._count(sum(map(len, blocks)), reads=sum(len(block.reads) for block in blocks))
        return self.tower.features(self.tower.embed(tokens_, depths_), mask=additive(sees_), reads=reads_)

    def _count(self, tokens: int, *, reads: int, first: int | None = None) -> None:
        self.tokens += tokens
        self.flops += self.tower.flops(tokens, reads=reads, shared=0 if first is None else tokens - first)


def _sees(block: TrieBlock, *, tower: TextTower, after: Tokens = ()) -> np.ndarray:
    """(T, T) bool: which nodes each node sees; `after` is what comes before the block."""
    seen = tower.seen(block.tokens, before=block.before(after[-1] if after else None))
    return block.sees() & np.array(seen, dtype=bool)


def _shared(sequences: Sequence[Tokens]) -> Tokens:
    """The beginning that all sequences share, worth keeping; () where all are the same, as one text comes once.

    >>> _shared([(5, 6, 9), (5, 7, 9)]), _shared([(5, 9), (5, 6, 9)]), _shared([(5, 6, 9)])
    ((5,), (5,), ())
    """
    first, last = min(sequences), max(sequences)  # sorted, the two ends share least
    if first == last:
        return ()
    return first[: min(common_beginning(first, last), len(first) - 1, len(last) - 1)]
