"""Hugging Face text towers, from local files: right when batches are cut; needs `transformers`."""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from wsoup.params.inputs import EncoderParams
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import load_encoder

transformers = pytest.importorskip("transformers")
WORDS = ["a", "photo", "of", "cat", "dog", "which", "has", "claws", "time", ",", "."]
PREFIXES, SUFFIXES = ["a photo of a cat,", "a photo of a dog,"], [" time", " which has claws", " time cat", " cat" * 30]
SPECIAL = {
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "xlm-roberta": ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"],  # its padding is 1, and shifts its positions
}
TOWERS = [("bert", "mean_pooler"), ("bert", "cls_pooler"), ("xlm-roberta", "mean_pooler")]


def write_tower(folder: Path, *, kind: str, pooler: str) -> Path:
    """Write config, tokenizer and weights of a CLIP with a random text tower; returns the config's path."""
    vocabulary = [*SPECIAL[kind], *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    sizes = {"vocab_size": len(vocabulary), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "max_position_embeddings": 32, "pad_token_id": vocabulary.index("[PAD]")}
    config = transformers.AutoConfig.for_model(kind, **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    text = {"hf_model_name": str(folder), "hf_tokenizer_name": str(folder)}
    text |= {"hf_proj_type": "mlp", "hf_pooler_type": pooler, "context_length": 24}
    vision = {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
    path = folder / f"clip-{kind}-{pooler}.json"
    path.write_text(json.dumps({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(path)
    weights = open_clip.create_model(path.stem, load_weights=False).state_dict()
    generator = torch.Generator().manual_seed(0)
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    for name, tensor in weights.items():
        if name.startswith("text.") and tensor.is_floating_point() and tensor.ndim > 1:
            tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3)
    save_file(weights, folder / "weights.safetensors")
    return path


@pytest.fixture(scope="module", params=TOWERS, ids="-".join)
def encoder(request, tmp_path_factory):
    kind, pooler = request.param
    config = write_tower(tmp_path_factory.mktemp(kind), kind=kind, pooler=pooler)
    values = {"model": config.stem, "pretrained": str(config.parent / "weights.safetensors"), "config": str(config)}
    return load_encoder(EncoderParams.model_validate({**values, "precision": "fp32", "watch": str(config)}))


@torch.no_grad()
def at_full_context(encoder, texts):
    return F.normalize(encoder.model.encode_text(encoder.tokenizer(list(texts))), dim=-1)


def test_cut_texts_have_the_features_of_encode_text(encoder):
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    assert (texts.fast, texts.way) == (False, "cut")
    expected = torch.stack([at_full_context(encoder, [p + s for p in PREFIXES]) for s in SUFFIXES])
    assert (expected[0] - expected[2]).abs().max() > 1e-2, "or this would say nothing"
    torch.testing.assert_close(texts.encode_grid(PREFIXES, SUFFIXES), expected, atol=1e-6, rtol=0)
    mixed = [*(p + s for s in SUFFIXES for p in PREFIXES), "", "a"]
    torch.testing.assert_close(texts.encode(mixed), at_full_context(encoder, mixed), atol=1e-6, rtol=0)


def test_a_batch_is_as_long_as_its_longest_text(encoder):
    """Three texts of start, six tokens and end; sorted by length, the long one is alone."""
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device, batch_tokens=2)  # 32 the plain way
    assert texts.way == "cut"
    before = texts.tokens_encoded
    features = texts.encode(["a" + " cat" * 40, *["a photo of a cat,"] * 3])
    assert texts.tokens_encoded - before == 24 + 3 * 8
    assert torch.equal(features[1], features[3])


def test_null_tokens_between_prefix_and_suffix(encoder):
    """The row is padded as by the tokenizer; null tokens have id 0, whatever that means to the tower."""
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    features = texts.encode_grid(PREFIXES, [" time"], token_offset=2)
    rows = encoder.tokenizer(PREFIXES)
    time, end = encoder.tokenizer(["time"])[0, 1:3].tolist()
    for row in rows:
        row[7:11] = torch.tensor([0, 0, time, end])
    with torch.no_grad():
        expected = F.normalize(encoder.model.encode_text(rows), dim=-1)
    torch.testing.assert_close(features[0], expected, atol=1e-6, rtol=0)


def test_texts_of_a_tower_that_reads_padding_are_not_cut(encoder, monkeypatch):
    padding = encoder.model.text.config.pad_token_id
    monkeypatch.setattr("wsoup.texts.plain._masked_padding", lambda model: padding)
    monkeypatch.setattr(encoder.model.text.config, "pad_token_id", -1)  # nothing is masked
    with pytest.warns(UserWarning, match=r"differ by .* when their padding is cut .* full context"):
        texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    assert texts.way == "plain"
    expected = at_full_context(encoder, PREFIXES)
    torch.testing.assert_close(texts.encode(PREFIXES), expected, atol=1e-6, rtol=0)
