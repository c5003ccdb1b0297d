"""Token tries: beginnings that texts share become shared nodes, which are computed once.

Sequences of token ids are sorted and packed into blocks of nodes. In a block each node attends to its ancestors and
itself only (tree attention), so with its depth as position a causal tower gives it the state it has in its own text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

BLOCK_SIZES = (32, 64, 128)
"""Nodes per block to choose from. Larger blocks share more; smaller ones waste less masked attention."""
SMALLEST_ON_CUDA = 64
"""Rows that an attention kernel handles together there: with 32 it takes twice as long (bf16, measured on an H100)."""
ATTENTION_PER_NODE = 0.0006
"""Time of masked attention per node in a block, relative to the matrix products (measured at width 512)."""


@dataclass
class TrieBlock:
    """T nodes in depth-first order, holding R sequences.

    Attributes:
        tokens: (T,) token ids.
        depths: (T,) distance from the root; the first token of a sequence has depth 0.
        parents: (T,) index of the parent, -1 at a root.
        members: (R,) index of each sequence in this block.
        reads: (R,) the node that each of them ends at.
    """

    tokens: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tokens)

    def before(self, first: int | None) -> list[int | None]:
        """The token before each node; `first` is the one before the roots, None if texts begin with them."""
        tokens: list[int | None] = []
        for parent in self.parents:
            is_root = parent < 0
            tokens.append(first if is_root else self.tokens[parent])
        return tokens

    def mask(self) -> np.ndarray:
        """(T, T) bool: row i is True at the ancestors of i and at i."""
        visible = np.eye(len(self), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                visible[node] |= visible[parent]
        return visible


def common_beginning(a: Sequence[int], b: Sequence[int]) -> int:
    """Number of equal tokens at the start.

    >>> common_beginning([1, 2, 3], [1, 2, 4, 5])
    2
    """
    shorter = min(len(a), len(b))
    return next((n for n in range(shorter) if a[n] != b[n]), shorter)


def pack(sequences: Sequence[Sequence[int]], *, size: int) -> list[TrieBlock]:
    """Pack every sequence into exactly one block of at most `size` nodes, or more for a single longer sequence.

    >>> [block.tokens for block in pack([[7, 9], [5, 9], [7, 8, 9]], size=6)]
    [[5, 9, 7, 8, 9, 9]]
    """
    blocks: list[TrieBlock] = []
    path: list[int] = []  # nodes of the previous sequence, in the block being filled
    previous: Sequence[int] = ()
    for index in sorted(range(len(sequences)), key=lambda i: tuple(sequences[i])):
        sequence = sequences[index]
        shared = common_beginning(previous, sequence)
        own = len(sequence) - shared  # new nodes
        if not blocks or len(blocks[-1]) + own > size:
            blocks.append(TrieBlock())
            shared = 0
        block = blocks[-1]
        path = path[:shared]
        for depth in range(shared, len(sequence)):
            parent = path[-1] if path else -1
            block.parents.append(parent)
            path.append(len(block))
            block.depths.append(depth)
            block.tokens.append(sequence[depth])
        block.members.append(index)
        block.reads.append(path[-1])
        previous = sequence
    return blocks


def pack_well(sequences: Sequence[Sequence[int]], *, largest: int, smallest: int = BLOCK_SIZES[0]) -> list[TrieBlock]:
    """`pack` at the cheapest size in `BLOCK_SIZES` from `smallest` to `largest`."""
    sizes = [size for size in BLOCK_SIZES if smallest <= size <= largest]
    packed = [pack(sequences, size=size) for size in sizes or [smallest]]
    return min(packed, key=_time)


def _time(blocks: Sequence[TrieBlock]) -> float:
    """Of encoding the blocks, in that of a node without attention."""
    return sum(len(block) * (1 + ATTENTION_PER_NODE * len(block)) for block in blocks)
