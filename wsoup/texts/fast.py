"""The fast path: token sequences to features, with everything that texts share computed once.

Three kinds of sharing, all exact because a causal tower reads only what came before:

* the keys and values of each prefix ("a photo of a cat,") are computed once and kept (`wsoup.texts.prefixes`), as are
  those of the beginning that *all* suffixes of a call share, such as a word chain in progress;
* suffixes are packed into tries, so that beginnings that *some* of them share are computed once per prefix;
* in the first block, prefixes of one length share the suffixes' queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from wsoup.texts.batches import halving, split_evenly
from wsoup.texts.prefixes import PREFIX_TOKENS, PrefixBatch, PrefixCache, batched, visible_beginning, visible_past
from wsoup.texts.tokens import Tokens
from wsoup.texts.tower import TextTower, additive
from wsoup.texts.trie import BLOCK_SIZES, SMALLEST_ON_CUDA, TrieBlock, common_beginning, pack, pack_well

LIST_BLOCK = 64
"""Nodes per block for a list of texts without a common prefix."""


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
        self.tower = tower
        self.batch_tokens = batch_tokens
        self.cache = PrefixCache(tower, budget=cache_bytes)

    def encode(self, sequences: Sequence[Tokens]) -> Tensor:
        """P token sequences -> (P, D) float32, L2-normalised."""
        out = torch.empty(len(sequences), self.tower.size, device=self.tower.device)
        longest_sequence = max(map(len, sequences), default=0)
        blocks = pack(sequences, size=max(LIST_BLOCK, longest_sequence))
        longest_block = max(map(len, blocks), default=0)
        blocks_at_once = self.batch_tokens // max(1, longest_block)
        for part in split_evenly(len(blocks), blocks_at_once):
            batch = blocks[part]
            features = halving(partial(self._list, batch), slice(0, len(batch)))
            for block, of_block in zip(batch, features, strict=True):
                out[block.members] = of_block[: len(block.members)]
        return out

    def prefix_batches(self, prefixes: Sequence[Tokens]) -> list[PrefixBatch]:
        """Prefixes sorted by length and batched, for `fill`, which caches states for these very objects."""
        return batched(prefixes, most_tokens=max(PREFIX_TOKENS, self.batch_tokens), device=self.tower.device)

    def fill(
        self, out: Tensor, prefixes: Sequence[PrefixBatch], sequences: Sequence[Tokens], *, rows: Sequence[int]
    ) -> None:
        """out[rows[i], c] = features of prefix c followed by sequence i; `out` is (S, C, D)."""
        beginning = _shared_beginning(sequences)
        remainders = [sequence[len(beginning) :] for sequence in sequences]
        n_prefixes = sum(len(batch.lengths) for batch in prefixes)
        smallest = BLOCK_SIZES[0]
        if self.tower.device.type == "cuda":
            smallest = SMALLEST_ON_CUDA
        packed = pack_well(remainders, smallest=smallest, largest=self.batch_tokens // n_prefixes)
        blocks = [BlockTensors(block, beginning=beginning, tower=self.tower) for block in packed]
        places = torch.tensor(rows, device=out.device)
        for batch in prefixes:
            past = self.cache.past(batch, beginning)
            for block in blocks:
                rows_of_block = places[block.members][:, None]
                prefixes_at_once = self.batch_tokens // block.tokens.numel()
                for part in split_evenly(len(batch.lengths), prefixes_at_once):
                    features = halving(partial(self._grid, batch, past, block), part)  # (n, R, D)
                    out[rows_of_block, batch.index[part]] = features.transpose(0, 1)

    def _grid(self, batch: PrefixBatch, past: Sequence[Tensor], block: BlockTensors, part: slice) -> Tensor:
        """The prefixes `part` of a batch, each followed by the block: (n, R, D)."""
        # All that a part needs is sliced from tensors on the device: a copy to a GPU would make it wait.
        first = batch.which[part.start]
        last = batch.which[part.stop - 1]
        different = batch.different[first : last + 1]
        repeat = batch.which_on_device[part] - first
        positions = different[:, None] + block.depths
        positions.clamp_(max=self.tower.context - 1)
        x = self.tower.embed(block.tokens, positions)  # (U, T, width), U different lengths

        longest = batch.lengths[part.stop - 1]
        of_prefixes, *of_beginning = past
        past = [of_prefixes[:, :, part, :, :longest]]
        past += [states[:, :, part] for states in of_beginning]

        # Prefixes of one length share one mask.
        lengths = different if first == last else different[repeat]
        before = visible_past(lengths, past, visible=block.before)  # (n or 1, K)
        n_nodes = x.shape[1]
        mask_of_past = before[:, None].expand(-1, n_nodes, -1)
        mask_of_block = block.mask.expand(len(before), -1, -1)
        mask = torch.cat([mask_of_past, mask_of_block], dim=2)
        self.tower.n_tokens += len(repeat) * n_nodes
        return self.tower.features(x, mask=additive(mask), reads=block.reads, past=past, repeat=repeat)

    def _list(self, blocks: Sequence[TrieBlock], part: slice) -> Tensor:
        """Blocks without prefixes, padded to one shape: (n, most R, D); rows beyond a block's own R are undefined."""
        blocks = blocks[part]
        device = self.tower.device
        longest = max(map(len, blocks))
        most_reads = max(len(block.reads) for block in blocks)
        tokens = np.zeros((len(blocks), longest), dtype=np.int64)
        depths = np.zeros_like(tokens)
        reads = np.zeros((len(blocks), most_reads), dtype=np.int64)
        mask = np.zeros((len(blocks), longest, longest), dtype=bool)
        mask[:] = np.eye(longest, dtype=bool)  # padding sees itself: a softmax over nothing would be NaN
        for i, block in enumerate(blocks):
            tokens[i, : len(block)] = block.tokens
            depths[i, : len(block)] = block.depths
            reads[i, : len(block.reads)] = block.reads
            mask[i, : len(block), : len(block)] = _mask(block, tower=self.tower)
            self.tower.n_tokens += len(block)
        x = self.tower.embed(torch.from_numpy(tokens).to(device), torch.from_numpy(depths).to(device))
        visible = torch.from_numpy(mask).to(device)
        return self.tower.features(x, mask=additive(visible), reads=torch.from_numpy(reads).to(device))


class BlockTensors:
    """A `TrieBlock` on the device: tokens (T,), depths (T,), mask (1, T, T), reads (1, R), members (R,).

    `beginning` comes between the prefix and the block; `before` (B,) bool says which of its B tokens are visible.
    """

    def __init__(self, block: TrieBlock, *, beginning: Tokens, tower: TextTower) -> None:
        on_device = partial(torch.tensor, device=tower.device)
        self.tokens = on_device(block.tokens)
        self.depths = on_device(block.depths) + len(beginning)
        mask = torch.from_numpy(_mask(block, tower=tower, after=beginning))
        self.mask = mask.to(tower.device)[None]
        self.reads = on_device(block.reads)[None]
        self.members = on_device(block.members)
        self.before = visible_beginning(beginning, tower=tower)


def _mask(block: TrieBlock, *, tower: TextTower, after: Tokens = ()) -> np.ndarray:
    """(T, T) bool: which nodes each node sees; the tokens `after` come before the block."""
    last = after[-1] if after else None
    visible = tower.visible(block.before(last))
    return block.mask() & np.array(visible, dtype=bool)


def _shared_beginning(sequences: Sequence[Tokens]) -> Tokens:
    """The beginning that all sequences share; () if they are all equal: a single text is not worth caching.

    >>> [_shared_beginning(texts) for texts in ([(5, 6, 9), (5, 7, 9)], [(5, 9), (5, 6, 9)], [(5, 6, 9)])]
    [(5,), (5,), ()]
    """
    # In this order the first and the last share least.
    first = min(sequences)
    last = max(sequences)
    if first == last:
        return ()
    shared = common_beginning(first, last)
    # Each sequence keeps a token of its own: the one that is read.
    return first[: min(shared, len(first) - 1, len(last) - 1)]
