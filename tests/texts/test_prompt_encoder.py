"""`PromptEncoder` is exact to `encode_text` for every kind of tower, whatever the grouping."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import Tensor, nn

from wsoup.base.errors import ModelError, PoolError
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.joined import KEPT_PREFIX_LISTS
from wsoup.texts.tokens import Tokenizer

CPU = torch.device("cpu")
PREFIXES = ["a photo of a cat", "a photo of a golden retriever, dog", "jalapeño & co", "small (toy)", "", "x" * 9]
SUFFIXES = [
    "", ".", ", which has claws.", ", which has a tail.", ", sharp", ", sharp", " foo bar", "s and more", ", café",
    ", a &amp; b", ", which has a tail as long as that of an old grey cat.",
]  # fmt: skip
MANY = [f"a photo of {'very ' * (i % 5)}{i}" for i in range(600)]
FAMILIES = [
    "clip", "quick_gelu", "tanh_gelu", "resnet", "one_block", "custom_text", "layer_scale", "projection_bias",
    "no_projection", "end_of_text_by_id", "short_context", "coca", "coca_short_context",
    "coca_true_mask", "two_way", "siglip", "other_blocks",
]  # fmt: skip


def whole(prefixes, suffixes) -> list[str]:
    return [prefix + suffix for suffix in suffixes for prefix in prefixes]


def cosine_distance(a: Tensor, b: Tensor) -> float:
    a, b = a.double(), b.double()
    return (1 - (a * b).sum(-1) / a.norm(dim=-1) / b.norm(dim=-1)).abs().max().item()


def assert_same(ours: Tensor, plain: Tensor) -> None:
    assert cosine_distance(ours, plain) < 1e-10
    torch.testing.assert_close(ours, plain, atol=2e-5, rtol=0)


def encoder_of(name: str, model: nn.Module, tokenizer: Tokenizer, **options) -> PromptEncoder:
    """Only a causal tower with unknown blocks warns (and warnings are errors)."""
    if name != "other_blocks":
        return PromptEncoder(model, tokenizer, **options)
    with pytest.warns(UserWarning, match=r"CustomResidualAttentionBlock \(ln_1 LayerNorm, .* but slow$"):
        return PromptEncoder(model, tokenizer, **options)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_tower_gives_what_encode_text_gives(family, plain, name):
    model, tokenizer, fast = family(name)
    encoder = encoder_of(name, model, tokenizer, device=CPU, batch_tokens=128)
    expected = plain(model, tokenizer, whole(PREFIXES, SUFFIXES))
    assert_same(encoder.encode_grid(PREFIXES, SUFFIXES).flatten(0, 1), expected)
    assert_same(encoder.encode(whole(PREFIXES, SUFFIXES)), expected)
    assert encoder.fast == fast
    different = plain(model, tokenizer, ["a photo of a cat, which has claws.", "a photo of a cat, which has a tail."])
    assert cosine_distance(different[0], different[1]) > 1e-4, "or the comparison above would prove nothing"


def test_a_model_that_computes_something_else_is_detected(family, plain):
    model, tokenizer, _ = family("clip")

    class Shifted(type(model)):
        def encode_text(self, text, normalize=False):
            return super().encode_text(text, normalize=normalize) + 0.01

    shifted = copy.copy(model)
    shifted.__class__ = Shifted
    with pytest.warns(UserWarning, match="differs from this model's encode_text"):
        encoder = PromptEncoder(shifted, tokenizer, device=CPU)
    assert not encoder.fast
    features = encoder.encode_grid(PREFIXES, SUFFIXES)
    assert_same(features.flatten(0, 1), plain(shifted, tokenizer, whole(PREFIXES, SUFFIXES)))


def test_a_learned_prompt_replaces_the_first_tokens(family, plain):
    """As in finetuned models: `soft_prompt` tells the fast path what `encode_text` does."""
    model, tokenizer, _ = family("clip")
    prompt = torch.randn(3, model.token_embedding.weight.shape[1], generator=torch.Generator().manual_seed(0))
    learned = lambda module, tokens, x: torch.cat([x[:, :1], prompt.expand(len(x), -1, -1), x[:, 4:]], dim=1)  # noqa: E731
    without = plain(model, tokenizer, whole(PREFIXES, SUFFIXES))
    hook = model.token_embedding.register_forward_hook(learned)
    model.soft_prompt = prompt
    try:
        encoder = PromptEncoder(model, tokenizer, device=torch.device("cpu"))
        assert encoder.fast
        ours = encoder.encode_grid(PREFIXES, SUFFIXES).flatten(0, 1)
        expected = plain(model, tokenizer, whole(PREFIXES, SUFFIXES))
    finally:
        hook.remove()
        del model.soft_prompt
    assert_same(ours, expected)
    assert cosine_distance(ours, without) > 1e-3


def test_a_causal_tower_with_a_replaced_part_takes_the_plain_path_with_a_warning(family):
    model = copy.deepcopy(family("custom_text")[0])
    block = model.text.transformer.resblocks[0]
    block.mlp.c_fc.__class__ = type("OtherLinear", (nn.Linear,), {})
    with pytest.warns(UserWarning, match=r"does not know this causal text tower's ResidualAttentionBlock"):
        assert not PromptEncoder(model, family("custom_text")[1], device=CPU).fast


def test_a_cpu_takes_more_tokens_at_once_in_bf16(tiny_encoder):
    """The plain way, whose batches are of whole contexts, does not."""
    for dtype, tokens in ((None, 1024), (torch.bfloat16, 4096)):
        encoder = PromptEncoder.of(dataclasses.replace(tiny_encoder, dtype=dtype))
        assert encoder.tower is not None
        in_bf16 = encoder.tower.packed_half
        assert encoder._fast.texts.batch_tokens == (tokens if in_bf16 else 1024)
        assert encoder._plain.batch_tokens == 16 * 1024


@pytest.fixture(scope="module")
def plain_features_of_many(family, plain) -> Tensor:
    """Of `MANY` with three suffixes, which take seconds to encode the plain way."""
    model, tokenizer, _ = family("clip")
    return plain(model, tokenizer, whole(MANY, SUFFIXES[:3]))


@pytest.mark.parametrize("batch_tokens", [1, 40, 5000])
@pytest.mark.parametrize("cache_bytes", [0, 100_000, 1 << 30])
def test_neither_batch_nor_cache_changes_the_features(family, plain, plain_features_of_many, batch_tokens, cache_bytes):
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU, batch_tokens=batch_tokens, cache_bytes=cache_bytes)
    for suffixes in (SUFFIXES, SUFFIXES[2:4], [" old man", " old cat"], [" old cat sat", " old cat ran", " old cat"]):
        expected = plain(model, tokenizer, whole(PREFIXES, suffixes))
        assert_same(encoder.encode_grid(PREFIXES, suffixes).flatten(0, 1), expected)
        assert encoder._fast.texts.cache.nbytes <= cache_bytes
    if batch_tokens == 40:
        expected = plain_features_of_many
        for _ in range(2):
            assert_same(encoder.encode_grid(MANY, SUFFIXES[:3]).flatten(0, 1), expected)
        assert len(encoder._fast.started(tuple(MANY))[0]) > 1


def test_the_same_call_gives_the_same_bits_whatever_came_before(family):
    model, tokenizer, _ = family("clip")
    suffixes = [" alpha beta gamma", " alpha beta delta", " alpha beta"]
    fresh = PromptEncoder(model, tokenizer, device=CPU).encode_grid(PREFIXES, suffixes)
    used = PromptEncoder(model, tokenizer, device=CPU)
    for earlier in ([" alpha beta"], [" alpha x", " alpha y"], [" alpha beta x", " alpha beta y"], SUFFIXES):
        used.encode_grid(PREFIXES, earlier)
    assert torch.equal(used.encode_grid(PREFIXES, suffixes), fresh)
    assert torch.equal(used.encode_grid(PREFIXES, suffixes), fresh)


def test_a_word_costs_its_own_tokens(family):
    """3 classes: the states of the prefixes once, then a word token and an end-of-text token for each text."""
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    prefixes = ["a photo of a cat,", "a photo of a dog,", "a photo of a bat,"]
    assert encoder.fast
    for suffixes, tokens in (
        ([" sharp", " old"], 3 * 7 + 2 * 3 * 2),  # start, "a photo of a", noun and comma are 7
        ([" grey", " red"], 2 * 3 * 2),
        ([" grey cold", " grey big"], 3 + 2 * 3 * 2),  # "grey" once per class
        ([" grey cold tall", " grey cold low"], 3 + 2 * 3 * 2),  # of "grey cold", only "cold"
        # "which"; "has a" "is old" + end; "tail" and "nose", each with an end
        ([" which has a tail", " which has a nose", " which is old"], 3 * (1 + 2 + 3 + 2 * 2)),
    ):
        before = encoder.tokens_encoded
        encoder.encode_grid(prefixes, suffixes)
        assert encoder.tokens_encoded - before == tokens


@pytest.mark.parametrize("name", ["clip", "coca", "two_way"])
def test_token_offset_is_null_tokens_between_prefix_and_suffix(family, name):
    model, tokenizer, _ = family(name)
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    features = encoder.encode_grid(["a cat,", "a dog,"], [" sharp", ""], token_offset=3)
    start, end, comma = 49406, 49407, 267
    ids = {"a": 320, "cat": 2368, "dog": 1929, "sharp": 8157}
    for i, tail in enumerate([[ids["sharp"]], []]):
        for c, noun in enumerate(["cat", "dog"]):
            row = [start, ids["a"], ids[noun], comma, 0, 0, 0, *tail, end]
            tokens = torch.zeros(1, tokenizer.context_length, dtype=torch.long)
            tokens[0, : len(row)] = torch.tensor(row)
            expected = torch.nn.functional.normalize(model.encode_text(tokens), dim=-1)
            assert_same(features[i, c], expected[0])


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_token_offset_as_in_the_authors_code_comes_after_the_whole_prompt(tiny_encoder, offset):
    """After its period and, from 2 on, its end of text; the comma comes last. The feature is read at the very end."""
    model, (start, cat, period, comma, sharp, end) = tiny_encoder.model, (49406, 2368, 269, 267, 8157, 49407)
    row = [start, cat, period, *([end] if offset > 1 else []), *[0] * (offset - 2), comma, sharp, end]
    tokens = torch.zeros(1, 77, dtype=torch.long)
    tokens[0, : len(row)] = torch.tensor(row)
    x = model.transformer(model.token_embedding(tokens) + model.positional_embedding, attn_mask=model.attn_mask)
    expected = torch.nn.functional.normalize(model.ln_final(x)[:, len(row) - 1] @ model.text_projection, dim=-1)
    encoder = PromptEncoder.of(tiny_encoder)
    assert_same(encoder.encode_grid(["cat,"], [" sharp"], token_offset=offset, offset_formula="code")[0], expected)


def test_token_offset_beyond_the_context_is_refused(family):
    model, tokenizer, _ = family("short_context")
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    with pytest.raises(PoolError, match=r"'a cat,' with token offset 20 does not fit .* context of 24"):
        encoder.encode_grid(["a cat,"], [" sharp"], token_offset=20)
    with pytest.raises(PoolError, match="-1 is negative"):
        encoder.encode_grid(["a cat,"], [" sharp"], token_offset=-1)
    bare = PromptEncoder(
        family("two_way")[0], lambda texts: torch.tensor([[5 + len(t), *[1] * 76] for t in texts]), device=CPU
    )
    with pytest.raises(ModelError, match="needs a tokenizer that puts one start token"):
        bare.encode_grid(["a"], [" b"], token_offset=1)


def test_too_long_texts_are_truncated_as_the_tokenizer_does_it(family, plain):
    model, tokenizer, _ = family("short_context")
    prefixes = ["a cat,", "a very " * 6 + "old cat,", "a very " * 20 + "old cat,"]
    suffixes = ["", " sharp", " which has" + " long" * 8, " which has" + " long" * 60]
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    expected = plain(model, tokenizer, whole(prefixes, suffixes))
    assert_same(encoder.encode_grid(prefixes, suffixes).flatten(0, 1), expected)
    assert_same(encoder.encode(whole(prefixes, suffixes)), expected)
    assert encoder.fast


@pytest.mark.parametrize(("n_prefixes", "n_suffixes"), [(1, 1), (1, 4), (4, 1), (0, 2), (2, 0)])
def test_small_grids(family, plain, n_prefixes, n_suffixes):
    model, tokenizer, _ = family("clip")
    prefixes, suffixes = PREFIXES[:n_prefixes], SUFFIXES[:n_suffixes]
    features = PromptEncoder(model, tokenizer, device=CPU).encode_grid(prefixes, suffixes)
    assert (features.shape, features.dtype) == ((n_suffixes, n_prefixes, 24), torch.float32)
    if features.numel():
        assert_same(features.flatten(0, 1), plain(model, tokenizer, whole(prefixes, suffixes)))


@pytest.mark.parametrize("name", ["clip", "two_way"])
def test_blocks_are_the_grid_in_order_and_bounded(family, name):
    model, tokenizer, _ = family(name)
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    three_of_two_classes = 4 * 24 * 2 * 3
    assert encoder.encode([]).shape == (0, 24)
    blocks = list(encoder.grid_blocks(PREFIXES[:2], SUFFIXES, block_bytes=three_of_two_classes))
    assert [which for which, _ in blocks] == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 11)]
    torch.testing.assert_close(
        torch.cat([block for _, block in blocks]), encoder.encode_grid(PREFIXES[:2], SUFFIXES), atol=2e-6, rtol=0
    )


def test_lists_of_prefixes_do_not_accumulate(family):
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU, cache_bytes=50_000)
    for i in range(12):
        encoder.encode_grid([f"a photo of {i},", "a cat,"], [" sharp", " old"])
    assert encoder._fast.started.cache_info().currsize == KEPT_PREFIX_LISTS
    assert encoder._fast.texts.cache.nbytes <= 50_000


def test_out_of_memory_halves_the_batch(family, plain, monkeypatch):
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU, batch_tokens=4096)
    assert encoder.fast
    tower, sizes = encoder._fast.texts.tower, []
    compute = tower.features

    def small_memory(x, *, repeat=None, **options):
        sizes.append(len(x) if repeat is None else len(repeat))
        if sizes[-1] > 2:
            raise torch.OutOfMemoryError("no memory for more than two")
        return compute(x, repeat=repeat, **options)

    monkeypatch.setattr(tower, "features", small_memory)
    features = encoder.encode_grid(PREFIXES, [" sharp", " old"]).flatten(0, 1)
    assert_same(features, plain(model, tokenizer, whole(PREFIXES, [" sharp", " old"])))
    assert max(sizes) > 2
    monkeypatch.setattr(tower, "features", lambda *args, **kwargs: small_memory(torch.empty(3, 1)))
    with pytest.raises(torch.OutOfMemoryError):
        encoder.encode_grid(PREFIXES[:1], [" sharp"])


@pytest.mark.parametrize("name", ["clip", "quick_gelu", "tanh_gelu", "custom_text", "coca"])
def test_half_precision_products(family, plain, name):
    model, tokenizer, _ = family(name)
    encoder = PromptEncoder(model, tokenizer, device=CPU, dtype=torch.bfloat16)
    features = encoder.encode_grid(PREFIXES, SUFFIXES)
    assert encoder.fast
    assert features.dtype == torch.float32
    expected = plain(model, tokenizer, whole(PREFIXES, SUFFIXES))
    assert 0 < cosine_distance(features.flatten(0, 1), expected) < 2e-3


@pytest.mark.parametrize("plain_path", [False, True])
def test_an_encoders_precision_is_that_of_its_texts(tiny_encoder, plain_path, monkeypatch):
    """bf16 has eight bits: the features differ from float32's by about 2^-9, on either path."""
    if plain_path:
        monkeypatch.setattr("wsoup.texts.encoder.read_tower", lambda *args, **kwargs: None)
    half = PromptEncoder.of(dataclasses.replace(tiny_encoder, dtype=torch.bfloat16))
    exact = PromptEncoder.of(tiny_encoder)
    assert half.fast is exact.fast is not plain_path
    texts = whole(PREFIXES, SUFFIXES)
    distance = (half.encode(texts) - exact.encode(texts)).norm(dim=1)
    assert 1e-4 < float(distance.median()) < 2e-2
    if half.tower is not None:
        assert half.tower.dtype == torch.bfloat16


def test_without_the_packed_layout_the_features_are_the_same(family, plain, monkeypatch):
    monkeypatch.setattr("wsoup.core.linear.has_onednn", lambda dtype: False)
    for name in ("clip", "quick_gelu", "tanh_gelu"):
        model, tokenizer, _ = family(name)
        features = PromptEncoder(model, tokenizer, device=CPU).encode_grid(PREFIXES, SUFFIXES).flatten(0, 1)
        assert_same(features, plain(model, tokenizer, whole(PREFIXES, SUFFIXES)))
