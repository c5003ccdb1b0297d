"""What the benchmarks share: a model with random weights, prompts of ImageNet's classes, laps of time, and a result."""

import json
import resource
import time
from collections.abc import Sequence
from typing import Any

import open_clip
import torch

from wsoup.base.errors import ParamsError
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import parse
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import AUTOCAST, Encoder, preprocessing_of
from wsoup.towers.models import imagenet_class_names, random_model

Result = dict[str, Any]


class Clock:
    """Laps of wall-clock time that include pending work of the device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self._last = device, 0.0
        self.lap()

    def lap(self) -> float:
        """Seconds since the previous lap."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self._last, seconds = now, now - self._last
        return seconds


def random_encoder(name: str, *, device: torch.device, precision: str = "fp32") -> Encoder:
    """An open_clip model with seeded random weights and its preprocessing.

    Raises:
        ParamsError, ModelError: unknown precision or model.
    """
    params = parse(EncoderParams, {"model": name, "precision": precision, "watch": "-"}, origin="bench")
    model, tokenizer = random_model(name, seed=0)
    preprocessing = preprocessing_of(model)
    return Encoder(
        model=model.to(device),
        tokenizer=tokenizer,
        preprocess=open_clip.image_transform(preprocessing["size"], is_train=False),
        id={"model": params.model, "pretrained": None, "precision": params.precision},
        preprocessing=preprocessing,
        device=device,
        dtype=AUTOCAST[params.precision],
    )


def class_prompts(count: int) -> list[str]:
    """Prompts of `count` classes spread over ImageNet's 1,000, ready for a descriptor."""
    names = imagenet_class_names()
    if not 1 <= count <= len(names):
        raise ParamsError(f"bench: classes must be from 1 to {len(names)}, got {count}")
    return [f"a photo of a {names[i * len(names) // count]}," for i in range(count)]


def warm(encoder: Encoder, prefixes: Sequence[str]) -> PromptEncoder:
    """A prompt encoder that has cached the prefixes and checked itself against `encode_text`."""
    prompts = PromptEncoder.of(encoder)
    prompts.encode_grid(prefixes, [""])
    encoder.encode_texts(prefixes[:2])
    return prompts


def page_faults() -> int:
    """Page faults of this process so far that needed no disk."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def peak_bytes(device: torch.device) -> int:
    """Peak memory of a GPU, or of this process on Linux."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def about(encoder: Encoder) -> Result:
    """Model, device and peak memory."""
    device = encoder.device
    on_gpu = device.type == "cuda"
    return {
        "model": encoder.id["model"],
        "device": torch.cuda.get_device_name(device) if on_gpu else f"{device.type}, {torch.get_num_threads()} threads",
        "peak_memory": peak_bytes(device),
    }


def show(result: Result) -> None:
    """Print a result as JSON; times in seconds, memory in bytes."""
    print(json.dumps(result, indent=2))
