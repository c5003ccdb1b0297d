"""Tokenising texts in two parts."""

from __future__ import annotations

import random

import pytest
import torch
from tower_cases import clip_tokenizer

from wsoup.base.errors import ModelError
from wsoup.texts.splitting import SplitTokenizer
from wsoup.texts.tokens import token_lengths
from wsoup.towers import models as towers


def largest(tokens):
    return tokens.argmax(dim=-1)


@pytest.fixture(scope="module")
def splitter() -> SplitTokenizer:
    return SplitTokenizer(clip_tokenizer(), reads=largest)


def test_parts_by_hand(splitter):
    assert (splitter.start, splitter.end, splitter.context) == ((49406,), 49407, 77)
    assert splitter.sequences(["a cat"]) == [(49406, 320, 2368, 49407)]
    assert splitter.prefixes(["a cat"]) == [(49406, 320, 2368)]
    assert splitter.suffixes([" a cat", ""]) == [(320, 2368, 49407), (49407,)]
    assert splitter.sequences(["a <end_of_text> cat"]) == [(49406, 320, 49407)], "nothing after the end is read"


def test_length_counts_tokens_before_padding():
    """Start, "a", "cat", end; a text that is too long fills the context. So with padding 1, and on the left."""
    plain = clip_tokenizer()
    padded = lambda texts: plain(texts).masked_fill(plain(texts) == 0, 1)  # noqa: E731
    left = lambda texts: torch.stack([row.roll(int((row == 0).sum())) for row in plain(["", *texts])])[1:]  # noqa: E731
    for tokenizer in (plain, padded, left):
        assert token_lengths(["a cat", "", "cat " * 100], tokenizer=tokenizer).tolist() == [4, 2, 77]
        assert token_lengths([], tokenizer=tokenizer).tolist() == []


def test_twenty_thousand_pairs_join_without_mismatch(splitter):
    """Class names and letter soup, words and clauses: the tokens of the whole are those of the parts."""
    rng = random.Random(0)
    names = [f"a photo of a {name}," for name in towers.imagenet_class_names()]
    letters = "abcdefghijklmnopqrstuvwxyzABC0123456789'-.,()!?:/"
    words = ["".join(rng.choices(letters, k=rng.randrange(1, 9))) for _ in range(1000)]
    prefixes = [*names, *(f"a photo of a {rng.choice(words)} {rng.choice(words)}" for _ in range(500))]
    suffixes = ["".join(f" {rng.choice(words)}" for _ in range(rng.randrange(0, 6))) for _ in range(1000)]
    starts, ends = splitter.prefixes(prefixes), splitter.suffixes(suffixes)
    pairs = [(rng.randrange(len(prefixes)), rng.randrange(len(suffixes))) for _ in range(20_000)]
    mismatches = 0
    for first in range(0, len(pairs), 1000):
        some = pairs[first : first + 1000]
        wholes = splitter.sequences([prefixes[i] + suffixes[j] for i, j in some])
        mismatches += sum(
            whole != starts[i] + ends[j]
            for whole, (i, j) in zip(wholes, some, strict=True)
            if len(starts[i] + ends[j]) <= 77
        )
    assert mismatches == 0


@pytest.mark.parametrize(
    ("suffix", "safe"), [("", True), (" sharp", True), ("s", False), (".", False), (" café", False), (" &amp;", False)]
)
def test_where_a_text_may_be_split(splitter, suffix, safe):
    assert splitter.safe(["a cat,", "jalapeño,"], [suffix]) == [safe]


def test_a_tokenizer_that_merges_across_the_split_is_detected():
    plain = clip_tokenizer()

    def merging(texts):
        return plain([text.replace("cat, s", "cats") for text in texts])

    assert SplitTokenizer(merging, reads=largest).safe(["a cat,"], [" sharp", " old"]) == [False, False]


def test_every_class_name_that_is_not_plain_is_compared():
    """One of forty, between those that are compared anyway."""
    plain = clip_tokenizer()

    def merging(texts):
        return plain([text.replace("jalapeño, s", "s") for text in texts])

    names = [f"a cat {i}," for i in range(40)]
    names[7] = "a jalapeño,"
    assert SplitTokenizer(merging, reads=largest).safe(names, [" sharp", " old"]) == [False, False]
    assert SplitTokenizer(plain, reads=largest).safe(names, [" sharp", " old"]) == [True, True]


def test_a_difference_counts_up_to_a_text_that_just_fills_the_context():
    """Start, 72 times "a", cat, comma, sharp and end are 77 tokens; the whole, with "cats", has 75."""
    plain = clip_tokenizer()

    def merging(texts):
        return plain([text.replace("cat, sharp", "cats") for text in texts])

    splitter = SplitTokenizer(merging, reads=largest)
    assert len(splitter.prefixes(["a " * 72 + "cat,"])[0] + splitter.suffixes([" sharp"])[0]) == 77
    assert splitter.safe(["a " * 72 + "cat,"], [" sharp"]) == [False]


def test_a_text_that_is_too_long_says_nothing_about_the_split(splitter):
    """The tokenizer truncates the whole, but not the sum of its parts."""
    assert splitter.safe(["a cat,"], [" a" * 100, " sharp"]) == [True, True]


@pytest.mark.parametrize("n_start", [0, 1, 2])
def test_null_tokens_need_exactly_one_start_token(n_start):
    """What comes before them is cut at the start token."""

    def tokenizer(texts):
        rows = [[7] * n_start + [5] * min(8, len(text.split())) + [9] for text in texts]
        return torch.tensor([row + [0] * (12 - len(row)) for row in rows])

    splitter = SplitTokenizer(tokenizer, reads=largest)
    if n_start == 1:
        splitter.check_offset(["a cat,"], [" sharp."], token_offset=3)
    else:
        with pytest.raises(ModelError, match="token offset 3 needs a tokenizer that puts one start token before"):
            splitter.check_offset(["a cat,"], [" sharp."], token_offset=3)
