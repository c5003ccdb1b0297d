"""Every config of open_clip whose tokenizer needs no download: which path its texts take, and that they are right.

Run with `pytest -m slow -s tests/texts/test_all_configs.py` to see the table. Text towers have their own width, heads,
activation, mask and pooling, three layers and random weights; image towers are made tiny. Towers of Hugging Face need
files from its hub; `test_hugging_face` builds small ones.
"""

from __future__ import annotations

import gc
import json
import logging
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import open_clip
import pytest
import torch
from torch.nn import functional as F

from wsoup.texts.encoder import PromptEncoder

PREFIXES = ["a photo of a cat,", "a photo of a golden retriever, dog"]
SUFFIXES = ["", " sharp", " old sharp", ", which has claws.", " which has a wet nose and a tail.", " long" * 90]
LAYERS = 3
FAST, COCA, PLAIN = 85, 3, 7
"""With open_clip 3.3 and no tokenizer but its own."""


class Sweep(NamedTuple):
    model: str
    way: str
    distance: float
    note: str = ""


def small(config: dict) -> dict:
    """The config with its text tower cut to three layers and everything else made tiny."""
    vision = {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16}
    text = {**config["text_cfg"], "layers": min(LAYERS, config["text_cfg"].get("layers", 12))}
    tiny = {**config, "vision_cfg": vision, "text_cfg": text}
    if "multimodal_cfg" in config:
        tiny["vision_cfg"] |= {"attentional_pool": True, "attn_pooler_heads": 4, "output_tokens": True}
        tiny["multimodal_cfg"] = {**config["multimodal_cfg"], "layers": 1}
    return tiny


@torch.no_grad()
def sweep(name: str, config: dict, *, folder: Path) -> Sweep:
    """The largest distance between both ways on a few texts."""
    if "hf_tokenizer_name" in config["text_cfg"] or "hf_model_name" in config["text_cfg"]:
        return Sweep(name, "tokenizer missing", float("nan"))  # it would have to be downloaded
    tokenizer = open_clip.get_tokenizer(name)
    path = folder / f"swept-{name}.json"
    path.write_text(json.dumps(small(config)))
    open_clip.add_model_config(path)
    torch.manual_seed(0)
    model = open_clip.create_model(path.stem, load_weights=False).eval().requires_grad_(False)
    for p in model.parameters():  # norms, biases and scales too, so that the test notices one that is left out
        p.add_(0.1 * p.std() * torch.randn_like(p) if p.numel() > 1 and p.std() > 0 else 0.1 * torch.randn_like(p))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = PromptEncoder(model, tokenizer, device=torch.device("cpu"))
        way = encoder.way
        features = encoder.encode_grid(PREFIXES, SUFFIXES).flatten(0, 1)
    expected = F.normalize(model.encode_text(tokenizer([p + s for s in SUFFIXES for p in PREFIXES])), dim=-1)
    distance = (features - expected).norm(dim=-1).max()
    assert (expected[0] - expected[6]).norm() > 100 * distance, f"{name}: texts are not distinguished"
    note = "; ".join(str(w.message).split(";")[0] for w in caught)
    return Sweep(name, way, distance.item(), note)


@pytest.mark.slow
def test_every_config(tmp_path, capsys):
    logging.disable(logging.WARNING)  # open_clip warns about random weights, which are intended
    rows: list[Sweep] = []
    known: dict[str, Sweep] = {}  # by configuration: many models have the same text tower
    try:
        for name in open_clip.list_models():
            if not name.startswith("swept-") and "hub" not in name:
                config = open_clip.get_model_config(name)
                key = json.dumps(small(config), sort_keys=True)
                if key not in known:
                    known[key] = sweep(name, config, folder=tmp_path)
                    gc.collect()
                rows.append(known[key]._replace(model=name))
    finally:
        logging.disable(logging.NOTSET)
    ways = Counter(row.way for row in rows)
    with capsys.disabled():
        print()
        for row in rows:
            print(f"{row.model:40} {row.way:18} {row.distance:8.1e}  {row.note}")
        print(f"{len(rows)} configs: {dict(ways)}")
    for row in rows:
        assert not row.distance > 5e-6, f"{row.model} is {row.distance:.1e} from encode_text"
    assert {row.way for row in rows if row.model.startswith("coca") and "roberta" not in row.model} == {"fast"}
    assert ways["fast"] >= FAST + COCA
    assert ways["plain"] <= PLAIN
