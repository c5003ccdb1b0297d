"""Features of whole templates are those of `encode_text`, whatever they share."""

from __future__ import annotations

import pytest
import torch

from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import by_shared_part, encode_templates, template_blocks

TEMPLATES = [
    "a photo of a {}.", "art of the {}.", "a bad photo of a {}.", "a {} in a video game.", "{}", "{}, on its own",
    "itap of my {}.", 'the "{}"', "a photo of a {}, which has claws.", "a photo of a {}, at night.", "café with a {}.",
    "art of the {}.", "a photo of the {}",
]  # fmt: skip
CPU = torch.device("cpu")
FAMILIES = ["clip", "custom_text", "layer_scale", "short_context", "coca", "coca_true_mask", "two_way", "siglip"]
NAMES = ["cat", "golden retriever", "golden eagle", "jalapeño & co", "small (toy)", "Capitol in D.C."]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_tower_gives_what_encode_text_gives(family, plain, name):
    model, tokenizer, _ = family(name)
    encoder = PromptEncoder(model, tokenizer, device=CPU, batch_tokens=128)
    filled = [template.replace("{}", name) for template in TEMPLATES for name in NAMES]
    features = encode_templates(encoder, TEMPLATES, NAMES)
    assert features.shape[:2] == (len(TEMPLATES), len(NAMES))
    torch.testing.assert_close(features.flatten(0, 1), plain(model, tokenizer, filled), atol=1e-6, rtol=0)


def test_blocks_are_the_whole_in_order(family):
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    whole = encode_templates(encoder, TEMPLATES, NAMES)
    size = 4 * whole.shape[1] * whole.shape[2]
    blocks = list(template_blocks(encoder, TEMPLATES, NAMES, block_bytes=3 * size))
    assert [where.start for where, _ in blocks] == [0, 3, 6, 9, 12]
    torch.testing.assert_close(torch.cat([block for _, block in blocks]), whole, atol=1e-6, rtol=0)


def test_no_templates_and_no_classes(family):
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    assert encode_templates(encoder, [], NAMES).shape == (0, 6, 24)
    assert encode_templates(encoder, TEMPLATES[:2], []).shape == (2, 0, 24)
    assert list(template_blocks(encoder, [], NAMES)) == []


def test_templates_with_one_ending_encode_little_more_than_the_class_names(family):
    """Of 3 x 40 texts of 8 tokens or more only what follows the class name is not shared."""
    model, tokenizer, _ = family("clip")
    encoder = PromptEncoder(model, tokenizer, device=CPU)
    names = [f"thing {i}" for i in range(40)]
    templates = ["a photo of a very old {}.", "a drawing of a very old {}.", "art of the {}."]
    encode_templates(encoder, templates, names)
    shared = encoder.tokens_encoded
    encoder.encode([template.replace("{}", name) for template in templates for name in names])
    assert encoder.tokens_encoded - shared > shared


def test_templates_are_grouped_by_what_more_of_them_share():
    groups = by_shared_part(["a {}.", "the {}.", "art of a {} at night", "art of a {} by day", "{}."])
    assert [(shared.before, shared.after, places) for shared, places in groups.items()] == [
        (None, ".", [0, 1]),
        ("art of a ", None, [2, 3]),
        ("", None, [4]),
    ]
