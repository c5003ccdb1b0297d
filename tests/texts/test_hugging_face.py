"""A Hugging Face text tower, from files alone, goes the plain way and comes out right; needs `transformers`."""

from __future__ import annotations

import json
from pathlib import Path

import open_clip
import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from wsoup.params.encoder import EncoderParams
from wsoup.search.source import Source, check_fits
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers import load_encoder

transformers = pytest.importorskip("transformers")
WORDS = ["a", "photo", "of", "cat", "dog", "which", "has", "claws", "time", ",", "."]
PREFIXES, SUFFIXES = ["a photo of a cat,", "a photo of a dog,"], [" time", " which has claws", " time cat"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """CLIP with a random BERT as its text tower: config, tokenizer and weights as they lie on disk."""
    folder: Path = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    sizes = {"vocab_size": 5 + len(WORDS), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(**sizes, intermediate_size=32, max_position_embeddings=32)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    text = {"hf_model_name": str(folder), "hf_tokenizer_name": str(folder)}
    text |= {"hf_proj_type": "mlp", "hf_pooler_type": "mean_pooler", "context_length": 24}
    vision = {"image_size": 16, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8}
    config = folder / "clip-bert.json"
    config.write_text(json.dumps({"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(config)
    weights = open_clip.create_model("clip-bert", load_weights=False).state_dict()
    save_file({name: tensor.clone() for name, tensor in weights.items()}, folder / "weights.safetensors")
    return load_encoder(
        EncoderParams.model_validate(
            {
                "model": "clip-bert",
                "pretrained": str(folder / "weights.safetensors"),
                "config": str(config),
                "precision": "fp32",
                "watch": str(config),
            }
        )
    )


def test_texts_are_encode_text_s_own(encoder):
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    assert not texts.fast
    with torch.no_grad():
        want = torch.stack(
            [
                F.normalize(encoder.model.encode_text(encoder.tokenizer([p + s for p in PREFIXES])), dim=-1)
                for s in SUFFIXES
            ]
        )
    torch.testing.assert_close(texts.encode_grid(PREFIXES, SUFFIXES), want, atol=1e-6, rtol=0)


def test_its_padding_is_no_token(encoder):
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=encoder.device)
    source = Source(texts, torch.empty(0, 24), torch.empty(0), {}, "a photo of a {}.", ["cat", "dog"])
    check_fits(["which has claws", "time"], source=source, origin=Path("pool.txt"))
