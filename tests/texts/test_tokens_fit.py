"""Does a text fit the context: one that just fills it does, one more token does not, whatever the padding."""

from __future__ import annotations

import pytest
import torch
from tower_cases import clip_tokenizer

from wsoup.base.errors import DataError, PoolError
from wsoup.texts.tokens import beyond_context, check_fits, check_prompts, token_lengths

CONTEXT = 12
ALONE = "{}"  # the class name is the class prompt
STEMS = ["a cat", "a big red dog"]  # 2 and 4 tokens, and the comma


def words_and_marks(text: str) -> list[int]:
    """A token for each word, comma and period."""
    return [5 + len(word) for word in text.replace(",", " , ").replace(".", " . ").split()]


def like_clip(texts):
    """Start 1, end 2, padding 0; a text that is too long keeps its end."""
    rows = [[1, *words_and_marks(text)[: CONTEXT - 2], 2] for text in texts]
    return torch.tensor([row + [0] * (CONTEXT - len(row)) for row in rows])


def like_siglip(texts):
    """No start, and an end that is the padding."""
    rows = [words_and_marks(text)[: CONTEXT - 1] for text in texts]
    return torch.tensor([row + [3] * (CONTEXT - len(row)) for row in rows])


@pytest.mark.parametrize(("tokenizer", "room"), [(like_clip, 10), (like_siglip, 11)])
def test_a_text_that_fills_the_context_may_have_been_truncated(tokenizer, room):
    most = room - 7  # "a big red dog" has 4 tokens; the comma, the period, and one that stays free
    fitting, beyond = " ".join(["sharp"] * most), " ".join(["sharp"] * (most + 1))
    check_fits([fitting], template=ALONE, class_names=STEMS, tokenizer=tokenizer, step="shorten it")
    with pytest.raises(PoolError, match=rf"pool: '{beyond}' after 'a big red dog' does not fit .* 12 tokens; shorten"):
        check_fits(
            ["", fitting, beyond],
            template="{}",
            class_names=STEMS,
            tokenizer=tokenizer,
            origin="pool",
            step="shorten it",
        )
    check_fits([beyond], template=ALONE, class_names=STEMS[:1], tokenizer=tokenizer, step="shorten it")


def test_a_token_with_the_id_of_padding_counts():
    """CLIP's "!" has id 0: 93 tokens once passed as 48, and were truncated."""
    tokenizer = clip_tokenizer()
    assert token_lengths(["!~ a", "", "!~" * 45 + " a"], tokenizer=tokenizer).tolist() == [5, 2, 77]
    with pytest.raises(PoolError, match="does not fit the model's context of 77 tokens"):
        check_fits(["!~" * 45 + " a"], template=ALONE, class_names=["a cat"], tokenizer=tokenizer, step="-")


def test_a_text_of_padding_alone_has_no_tokens():
    """SigLIP's empty text; its end is the padding."""
    assert token_lengths(["", "a cat", "a cat, old."], tokenizer=like_siglip).tolist() == [0, 2, 5]


def test_class_prompts_that_tokenise_alike_are_refused():
    tokenizer = clip_tokenizer()
    for first, second in (("a Blue", "a blue"), ("a caf\u00e9", "a cafe\u0301")):
        with pytest.raises(DataError, match=r"^photos: 'a .* are the same tokens to this model; rename one class$"):
            check_fits(
                ["sharp"],
                template="{}",
                class_names=[first, "a cat", second],
                tokenizer=tokenizer,
                origin="photos",
                step="-",
            )
    check_fits(
        ["sharp"], template=ALONE, class_names=["a missile", "a missile"], tokenizer=tokenizer, step="-"
    )  # as ImageNet's


def test_null_tokens_take_room():
    check_fits(["sharp"], template=ALONE, class_names=STEMS, tokenizer=like_clip, step="-", token_offset=3)
    with pytest.raises(PoolError, match="'sharp' after 'a big red dog' with token offset 4 does not fit"):
        check_fits(["sharp"], template=ALONE, class_names=STEMS, tokenizer=like_clip, step="-", token_offset=4)


def test_a_truncated_class_name_leaves_no_room():
    stems = ["a", " ".join(["long"] * 20)]
    with pytest.raises(PoolError, match=r"'' after 'long long .* does not fit"):
        check_fits([""], template=ALONE, class_names=stems, tokenizer=like_clip, step="-")


def test_all_texts_that_do_not_fit_are_listed_in_order():
    endings = [" sharp.", " a b c d.", " old.", " a b c d e f g h i."]
    beyond = beyond_context(["a cat,", "a big red dog,"], endings, tokenizer=like_clip)
    assert list(beyond) == [(1, 1), (1, 3)]
    assert list(beyond_context([], endings, tokenizer=like_clip)) == []


@pytest.mark.parametrize("letters", ["\u6f22" * 30, "\u0344" * 20])
def test_few_letters_may_be_many_tokens(letters):
    """The first have three bytes each; the second have two, and CLIP's tokenizer makes two letters of each."""
    tokenizer = clip_tokenizer()
    with pytest.raises(PoolError, match="after 'a cat' does not fit the model's context of 77 tokens"):
        check_fits(["sharp", letters], template=ALONE, class_names=["a cat"], tokenizer=tokenizer, step="-")


def test_a_word_that_goes_on_may_have_other_tokens():
    """CLIP has one token for guacamole, and five for guacamoleq."""
    tokenizer = clip_tokenizer()
    prefix = "a " * 70 + "guacamole"
    assert token_lengths([prefix, f"{prefix}q"], tokenizer=tokenizer).tolist() == [73, 77]
    assert list(beyond_context([prefix], ["", "q"], tokenizer=tokenizer)) == [(0, 1)]


def test_a_prompt_that_fills_the_context_may_be_truncated():
    check_prompts(["a " * 9], tokenizer=like_clip, origin="birds", step="-")
    with pytest.raises(PoolError, match=r"birds: 'a a .* does not fit the model's context of 12 tokens"):
        check_prompts(["a " * 30], tokenizer=like_clip, origin="birds", step="-")
