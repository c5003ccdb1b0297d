"""Unpack the toy world's small CLIP, which `pretrain.py` trained, for open_clip.

The file in git holds what training changed, in half precision. Rows of the token embedding whose token was in no
caption are drawn here, uniformly with the standard deviation of open_clip's start, from a named seed. So every machine
has the same encoder, to the bit.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from pathlib import Path

import numpy as np
from render import whole
from safetensors.numpy import load_file, save_file

from wsoup.runtime.ending import leave_at_once

MODEL = "toy-clip"
EMBEDDING = "token_embedding.weight"
ROWS = "token_rows"
"""Which rows of the embedding the file has."""
SEED = 0
UNTRAINED_STD = 0.02
"""Standard deviation of untrained rows; open_clip's own for a new text tower."""


def unpacked(weights: Path, *, vocabulary: int) -> dict[str, np.ndarray]:
    """The state dict of the whole model, float32, from the file of `pretrain.py`."""
    trained = load_file(weights)
    rows = trained.pop(ROWS)
    state = {name: value.astype(np.float32) for name, value in trained.items()}
    width = state[EMBEDDING].shape[1]
    bound = np.float32(UNTRAINED_STD * math.sqrt(3))
    embedding = (2 * np.random.default_rng(SEED).random((vocabulary, width), dtype=np.float32) - 1) * bound
    embedding[rows] = state[EMBEDDING]
    return {**state, EMBEDDING: embedding}


def unpack(out: Path, *, config: Path, weights: Path) -> None:
    """Write `toy-clip.json` and `toy-clip.safetensors` to the folder `out`."""
    vocabulary = json.loads(config.read_text(encoding="utf-8"))["text_cfg"]["vocab_size"]
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(config, out / f"{MODEL}.json")
    save_file(unpacked(weights, vocabulary=vocabulary), out / f"{MODEL}.safetensors")


def main() -> None:
    leave_at_once()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name(f"{MODEL}.json"))
    parser.add_argument("--weights", type=Path, default=Path(__file__).with_name(f"{MODEL}.safetensors"))
    arguments = parser.parse_args()
    with whole(arguments.out) as folder:
        unpack(folder, config=arguments.config, weights=arguments.weights)


if __name__ == "__main__":
    main()
