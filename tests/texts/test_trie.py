"""Token tries."""

from __future__ import annotations

import random

import pytest

from wsoup.texts.trie import BLOCK_SIZES, pack, pack_well


def spelled(block, node: int) -> list[int]:
    """The tokens from the root to a node."""
    tokens = []
    while node >= 0:
        tokens.append(block.tokens[node])
        node = block.parents[node]
    return tokens[::-1]


def test_a_trie_by_hand():
    """which has a | which has b | which is: which -> (has -> (a, b), is), nodes in depth-first order."""
    (block,) = pack([[1, 2, 4], [1, 3], [1, 2, 5]], size=10)
    assert block.tokens == [1, 2, 4, 5, 3]
    assert block.depths == [0, 1, 2, 2, 1]
    assert block.parents == [-1, 0, 1, 1, 0]
    assert (block.members, block.reads) == ([0, 2, 1], [2, 3, 4])
    assert block.mask().astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 0, 1, 0],
        [1, 0, 0, 0, 1],
    ]

    (equal,) = pack([[5, 9], [5, 9], [5, 9]], size=2)
    assert (equal.tokens, equal.reads) == ([5, 9], [1, 1, 1])
    assert pack([], size=8) == pack_well([], largest=64) == []


@pytest.mark.parametrize("size", [1, 8, 64])
def test_every_sequence_can_be_read_back(size):
    rng = random.Random(0)
    sequences = [[rng.randrange(3) for _ in range(rng.randrange(1, 9))] + [9] for _ in range(200)]
    blocks = pack(sequences, size=size)
    assert sorted(i for block in blocks for i in block.members) == list(range(200))
    for block in blocks:
        assert (
            len(block) <= size
            or len(block.members) == 1
            or len(set(map(tuple, (sequences[i] for i in block.members)))) == 1
        )
        for member, node in zip(block.members, block.reads, strict=True):
            assert spelled(block, node) == sequences[member]
            assert spelled(block, node) == [t for t, seen in zip(block.tokens, block.mask()[node], strict=True) if seen]


def test_small_blocks_where_little_is_shared_and_large_ones_where_much_is():
    words = [[i, 999] for i in range(500)]
    deep = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, i, 999] for i in range(500)]
    assert max(map(len, pack_well(words, largest=128))) == BLOCK_SIZES[0]
    assert max(map(len, pack_well(deep, largest=128))) == BLOCK_SIZES[-1]
    assert max(map(len, pack_well(deep, largest=64))) == 64
    assert max(map(len, pack_well(words, smallest=64, largest=128))) == 64
    assert max(map(len, pack_well(words, smallest=64, largest=32))) == 64
