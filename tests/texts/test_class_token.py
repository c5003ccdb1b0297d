"""CoCa's class token: its mask is off by one and depends on token ids, and both show in the features."""

from __future__ import annotations

import open_clip
import pytest
import torch
from torch.nn import functional as F

from wsoup.base.errors import PoolError
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.splitting import SplitTokenizer
from wsoup.texts.tokens import ClassToken, last_token

CPU = torch.device("cpu")
START, END, CLASS = 49406, 49407, 49408
FAMILIES = ["coca", "coca_short_context"]


def distance(a, b) -> float:
    return (1 - F.cosine_similarity(a.double(), b.double(), dim=-1)).abs().max().item()


def test_what_follows_a_text_by_hand():
    """The class token sees the first padding token; a text that fills the context has none."""
    splitter = SplitTokenizer(
        open_clip.SimpleTokenizer(context_length=6),
        reads=last_token(0),
        class_token=ClassToken(id=CLASS, null=0),
    )
    assert splitter.sequences(["a cat"]) == [(START, 320, 2368, END, 0, CLASS)]
    assert splitter.sequences(["a cat a cat"]) == [(START, 320, 2368, 320, 2368, END, CLASS)]
    assert splitter.sequences(["a cat a cat a"]) == [(START, 320, 2368, 320, 2368, END, CLASS)]
    assert splitter.prefixes(["a cat"]) == [(START, 320, 2368)]
    assert splitter.finished(splitter.suffixes([" a cat"])[0]) == (320, 2368, END, 0, CLASS)
    assert (splitter.start, splitter.end, splitter.context, splitter.room) == ((START,), END, 6, 7)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_length_up_to_and_beyond_the_context_and_exclamation_marks(family, plain, name):
    """They have the id of padding: in class names, in descriptors and in the beginning of all descriptors."""
    model, tokenizer, _ = family(name)
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    assert encoder.fast
    lengths, cats = (
        ["a cat,", "an old grey cat,", "very " * 9 + "old cat,"],
        ["a cat,", "a cat !;", "a cat!;,", "a !; dog"],
    )
    tokens = tokenizer([f"{prefix} sharp" for prefix in cats])
    assert [0 in row[: row.argmax()] for row in tokens] == [False, True, True, True], "or this test says nothing"
    for prefixes, suffixes in (
        (lengths, [" long" * n for n in range(tokenizer.context_length + 2)]),
        (cats, ["", " sharp"]),
        (cats, [" sharp", " !; sharp", " old !;"]),
        (cats, [" !; old", " !; sharp", " !; grey cat"]),
    ):
        expected = plain(model, tokenizer, [p + s for s in suffixes for p in prefixes])
        assert distance(encoder.encode_grid(prefixes, suffixes).flatten(0, 1), expected) < 1e-10
        assert distance(encoder.encode([p + s for s in suffixes for p in prefixes]), expected) < 1e-10


@pytest.mark.parametrize("name", FAMILIES)
def test_null_tokens_of_an_offset_hide_keys_as_padding_does(family, name):
    model, tokenizer, _ = family(name)
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    context = tokenizer.context_length
    prefixes, suffixes = ["a cat,", "a big dog,"], [" sharp", " sharp old", ""]
    ids = {text: tokenizer([text])[0].tolist() for text in (*prefixes, *suffixes)}
    longest = 5 + 3  # start, a big dog, and sharp old with the end
    for offset in (1, 3, context - longest - 1, context - longest):
        features = encoder.encode_grid(prefixes, suffixes, token_offset=offset)
        for i, suffix in enumerate(suffixes):
            for c, prefix in enumerate(prefixes):
                start = ids[prefix][: ids[prefix].index(END)]
                row = [*start, *([0] * offset), *ids[suffix][1 : ids[suffix].index(END) + 1]]
                tokens = torch.tensor([row + [0] * (context - len(row))])
                assert distance(features[i, c], model.encode_text(tokens)[0]) < 1e-10
    with pytest.raises(PoolError, match="does not fit the model's context"):
        encoder.encode_grid(prefixes, suffixes, token_offset=context - longest + 1)


def test_a_word_costs_four_tokens(family):
    """The word, the end of the text, the visible padding, and the class token."""
    model, tokenizer, _ = family("coca")
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    encoder.encode_grid(["a cat,", "a dog,"], [" old"])
    before = encoder.tokens_encoded
    encoder.encode_grid(["a cat,", "a dog,"], [" sharp", " grey"])
    assert encoder.tokens_encoded - before == 2 * 2 * 4
