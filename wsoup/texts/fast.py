"""The fast path: token sequences to features, with everything that texts share computed once.

Three kinds of sharing, all exact because a causal tower reads only what came before:

* the keys and values of each prefix ("a photo of a cat,") are computed once and kept (`PrefixCache`), as are those of
  the beginning that *all* suffixes of a call share, such as a word chain in progress;
* suffixes are packed into tries, so that beginnings that *some* of them share are computed once per prefix;
* in the first block, prefixes of one length share the suffixes' queries, keys and values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from wsoup.texts.models import halving, split_evenly
from wsoup.texts.tokens import Tokens
from wsoup.texts.tower import TextTower, additive
from wsoup.texts.trie import BLOCK_SIZES, SMALLEST_ON_CUDA, TrieBlock, common_beginning, pack, pack_well

LIST_BLOCK = 64
"""Nodes per block for a list of texts without a common prefix."""
PREFIX_TOKENS = 4096
"""Prefix tokens computed together, unless the batch is larger: limits the memory of prefixes that are not kept."""


@dataclass(frozen=True, eq=False)
class PrefixBatch:
    """Prefixes of similar length, handled together.

    Attributes:
        index: (n,) int64, their places among all prefixes.
        tokens: (n, L) int64, padded at the end.
        lengths: (n,) int64, ascending; on the CPU, where they decide shapes.
        group: the same object in all batches of one list of prefixes.
    """

    index: Tensor
    tokens: Tensor
    lengths: Tensor
    group: object


class FastTexts:
    """A causal text tower over tries of tokens.

    Args:
        tower: the text tower.
        batch_tokens: tokens in one forward pass.
        cache_bytes: keys and values of prefixes kept between calls.

    Attributes:
        cache: the keys and values kept.
    """

    def __init__(self, tower: TextTower, *, batch_tokens: int, cache_bytes: int) -> None:
        self.tower, self.batch_tokens = tower, batch_tokens
        self.cache = PrefixCache(tower, budget=cache_bytes)

    def encode(self, sequences: Sequence[Tokens]) -> Tensor:
        """P token sequences -> (P, D) float32, L2-normalised."""
        out = torch.empty(len(sequences), self.tower.size, device=self.tower.device)
        blocks = pack(sequences, size=max(LIST_BLOCK, max(map(len, sequences), default=0)))
        longest = max(map(len, blocks), default=0)
        for part in split_evenly(len(blocks), self.batch_tokens // max(1, longest)):
            batch = blocks[part]
            for block, features in zip(batch, halving(partial(self._list, batch), slice(0, len(batch))), strict=True):
                out[block.members] = features[: len(block.members)]
        return out

    def prefix_batches(self, prefixes: Sequence[Tokens]) -> list[PrefixBatch]:
        """Prefixes sorted by length and batched, for `fill`, which caches states for these very objects."""
        most_tokens = max(PREFIX_TOKENS, self.batch_tokens)
        parts: list[list[int]] = []
        for i in sorted(range(len(prefixes)), key=lambda i: len(prefixes[i])):
            if not parts or (len(parts[-1]) + 1) * len(prefixes[i]) > most_tokens:
                parts.append([])
            parts[-1].append(i)
        batches, group = [], object()
        for part in parts:
            tokens = pad_sequence([torch.tensor(prefixes[i], dtype=torch.int64) for i in part], batch_first=True)
            index, tokens = torch.tensor(part).to(self.tower.device), tokens.to(self.tower.device)
            lengths = torch.tensor([len(prefixes[i]) for i in part])
            batches.append(PrefixBatch(index=index, tokens=tokens, lengths=lengths, group=group))
        return batches

    def fill(
        self, out: Tensor, prefixes: Sequence[PrefixBatch], sequences: Sequence[Tokens], *, rows: Sequence[int]
    ) -> None:
        """out[rows[i], c] = features of prefix c followed by sequence i; `out` is (S, C, D)."""
        beginning = _shared_beginning(sequences)
        n_prefixes = sum(len(batch.index) for batch in prefixes)
        smallest = SMALLEST_ON_CUDA if self.tower.device.type == "cuda" else BLOCK_SIZES[0]
        remainders = [sequence[len(beginning) :] for sequence in sequences]
        packed = pack_well(remainders, smallest=smallest, largest=self.batch_tokens // n_prefixes)
        blocks = [BlockTensors(block, beginning=beginning, tower=self.tower) for block in packed]
        places = torch.tensor(rows, device=out.device)
        for batch in prefixes:
            past = self.cache.past(batch, beginning)
            for block in blocks:
                for part in split_evenly(len(batch.index), self.batch_tokens // block.tokens.numel()):
                    features = halving(partial(self._grid, batch, past, block), part)  # (n, R, D)
                    out[places[block.members][:, None], batch.index[part]] = features.transpose(0, 1)

    def _grid(self, batch: PrefixBatch, past: Sequence[Tensor], block: BlockTensors, part: slice) -> Tensor:
        """The prefixes `part` of a batch, each followed by the block: (n, R, D)."""
        lengths, device = batch.lengths[part], self.tower.device
        past = [past[0][:, :, part, :, : int(lengths[-1])], *(p[:, :, part] for p in past[1:])]
        kinds, repeat = lengths.unique_consecutive(return_inverse=True)
        positions = (kinds[:, None].to(device) + block.depths).clamp_(max=self.tower.context - 1)
        x = self.tower.embed(block.tokens, positions)  # (U, T, width), U different lengths
        before = visible_past(lengths if len(kinds) > 1 else kinds, past, visible=block.before).to(device)
        mask = torch.cat([a.expand(len(before), x.shape[1], -1) for a in (before[:, None], block.mask)], dim=2)
        n, n_nodes = len(lengths), x.shape[1]
        self.tower.n_tokens += n * n_nodes
        return self.tower.features(
            x, mask=additive(mask), reads=block.reads, past=past, repeat=repeat.to(device, non_blocking=True)
        )

    def _list(self, blocks: Sequence[TrieBlock], part: slice) -> Tensor:
        """Blocks without prefixes, padded to one shape: (n, most R, D); rows beyond a block's own R are undefined."""
        blocks, device = blocks[part], self.tower.device
        n, longest, most = len(blocks), max(map(len, blocks)), max(len(block.reads) for block in blocks)
        tokens, depths, reads = (np.zeros((n, size), dtype=np.int64) for size in (longest, longest, most))
        mask = np.broadcast_to(np.eye(longest, dtype=bool), (n, longest, longest)).copy()
        for i, block in enumerate(blocks):
            tokens[i, : len(block)], depths[i, : len(block)] = block.tokens, block.depths
            reads[i, : len(block.reads)] = block.reads
            mask[i, : len(block), : len(block)] = _mask(block, tower=self.tower)
        tokens_, depths_, reads_, mask_ = (torch.from_numpy(a).to(device) for a in (tokens, depths, reads, mask))
        self.tower.n_tokens += sum(map(len, blocks))
        return self.tower.features(self.tower.embed(tokens_, depths_), mask=additive(mask_), reads=reads_)


class BlockTensors:
    """A `TrieBlock` on the device: tokens (T,), depths (T,), mask (1, T, T), reads (1, R), members (R,).

    `beginning` comes between the prefix and the block; `before` says which of its tokens are visible.
    """

    def __init__(self, block: TrieBlock, *, beginning: Tokens, tower: TextTower) -> None:
        on_device = partial(torch.tensor, device=tower.device)
        self.tokens, self.depths = on_device(block.tokens), on_device(block.depths) + len(beginning)
        self.mask = torch.from_numpy(_mask(block, tower=tower, after=beginning)).to(tower.device)[None]
        self.reads, self.members = on_device(block.reads)[None], on_device(block.members)
        self.before = tower.visible((None, *beginning)[:-1])


class PrefixCache:
    """Keys and values per batch of prefixes and per beginning of the suffixes after them.

    Args:
        tower: the text tower.
        budget: most bytes to keep. What does not fit is computed again when needed.

    Attributes:
        nbytes: kept now.
    """

    def __init__(self, tower: TextTower, *, budget: int) -> None:
        self.tower, self.budget = tower, budget
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
            if (prefixes, beginning[:length]) in self._kept:
                self._kept.move_to_end((prefixes, beginning[:length]))
        return states

    def _compute(self, prefixes: PrefixBatch) -> Tensor:
        positions = torch.arange(prefixes.tokens.shape[1], device=prefixes.tokens.device)
        causal = additive(positions[:, None] >= positions[None])[None]
        self.tower.n_tokens += int(prefixes.lengths.sum())
        return self.tower.states(self.tower.embed(prefixes.tokens, positions), mask=causal)

    def _extend(self, prefixes: PrefixBatch, past: list[Tensor], beginning: Tokens) -> Tensor:
        """Keys and values of the last token of `beginning`; `past` holds those before it."""
        device = prefixes.tokens.device
        positions = (prefixes.lengths[:, None] + len(past) - 1).clamp_(max=self.tower.context - 1).to(device)
        x = self.tower.embed(torch.full_like(positions, beginning[-1]), positions)  # (n, 1, width)
        visible = visible_past(prefixes.lengths, past, visible=self.tower.visible((None, *beginning)[:-1]))
        self.tower.n_tokens += len(positions)
        return self.tower.states(x, mask=additive(visible[:, None]).to(device), past=past)

    def _keep(self, prefixes: PrefixBatch, beginning: Tokens, states: list[Tensor]) -> None:
        """Keep states if they fit, evicting the oldest but never a prefix of the same list.

        A scan over more prefixes than fit would otherwise evict each one just before it is needed.
        """
        size = states[-1].nbytes
        for key in list(self._kept):
            if self.nbytes + size <= self.budget:
                break
            if key[1] or key[0].group is not prefixes.group:
                self.nbytes -= self._kept.pop(key)[-1].nbytes
        if self.nbytes + size <= self.budget:
            self._kept[prefixes, beginning] = states
            self.nbytes += size


def visible_past(lengths: Tensor, past: Sequence[Tensor], *, visible: Sequence[bool]) -> Tensor:
    """(n, K) bool: which cached keys are visible after prefixes of these lengths (n,), whose padding is not.

    `visible` says so of each token after the prefixes, be it in `past` already or the next.
    """
    first = torch.arange(past[0].shape[4]) < lengths[:, None]
    return torch.cat([first, torch.tensor(visible, dtype=torch.bool).expand(len(lengths), -1)], dim=1)


def _mask(block: TrieBlock, *, tower: TextTower, after: Tokens = ()) -> np.ndarray:
    """(T, T) bool: which nodes each node sees; the tokens `after` come before the block."""
    visible = tower.visible(block.before(after[-1] if after else None))
    return block.mask() & np.array(visible, dtype=bool)


def _shared_beginning(sequences: Sequence[Tokens]) -> Tokens:
    """The beginning that all sequences share; () if they are all equal: a single text is not worth caching.

    >>> [_shared_beginning(texts) for texts in ([(5, 6, 9), (5, 7, 9)], [(5, 9), (5, 6, 9)], [(5, 6, 9)])]
    [(5,), (5,), ()]
    """
    first, last = min(sequences), max(sequences)  # the two that share least
    if first == last:
        return ()
    return first[: min(common_beginning(first, last), len(first) - 1, len(last) - 1)]
