"""Train the toy world's small CLIP from scratch, on image-caption pairs drawn at run time (none is stored).

The model is a plain open_clip one (`toy-clip.json`: ViT on 32 x 32 pixels, causal text tower, BPE tokens, context 77).
Captions resemble web captions: the subject, sometimes its background and style, and common English words that mean
nothing or hint at a colour or shape ("grass", "love"). A quarter are junk: about something else, often with words that
occur only in junk. So a bare class name is a weak signal, some words strengthen it and some mislead: a word soup
has to tell them apart.

Its result is in git (`toy-clip.safetensors`), so that a run need not train it, and every machine has the same encoder:
`python pretrain.py` writes it again, in two minutes on two cores. Same params, same machine and same number of threads
give the same bytes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import open_clip
import torch
import torch.nn.functional as F
import yaml
from encoder import EMBEDDING, ROWS
from render import COUNTS, STYLES, Scene, draw, pick, random_scene
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm, trange
from wordfreq import top_n_list

from wsoup.runtime.ending import leave_at_once

MODEL = "toy-clip"
MEAN, STD = open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD  # open_clip's defaults

OPENINGS = ("this is a", "my", "the", "a", "one", "look at this", "")
MEDIA: dict[str, tuple[str, ...]] = {  # openings that reveal the style
    **dict.fromkeys(("photo", "faded", "grainy"), ("a photo of a", "a photo of the", "photo of")),
    **dict.fromkeys(("poster", "sketch"), ("a drawing of a", "a drawing of the", "drawing of")),
    **dict.fromkeys(("night", "blurry"), ("a picture of a", "a view of the", "a bad photo of a")),
}
STYLE_WORDS: dict[str, tuple[str, ...]] = {
    "photo": ("photo", "photography", "outdoor", "real", "camera", "view"),
    "poster": ("poster", "flat", "icon", "design", "clean", "logo", "white"),
    "faded": ("old", "faded", "pale", "vintage", "light"),
    "grainy": ("grainy", "noise", "film", "rough", "retro"),
    "sketch": ("sketch", "drawing", "outline", "pencil", "paper", "line", "drawn"),
    "night": ("dark", "night", "shadow", "black", "evening", "dim"),
    "blurry": ("blurry", "tiny", "small", "distant", "far", "soft", "little"),
}
HINTS: dict[str, tuple[str, ...]] = {
    "red": ("blood", "fire", "rose", "wine"),
    "orange": ("autumn", "sunset", "juice"),
    "yellow": ("sun", "gold", "summer", "lemon"),
    "green": ("grass", "garden", "forest", "tree"),
    "blue": ("sky", "ocean", "water", "sea"),
    "purple": ("royal", "magic", "queen"),
    "pink": ("baby", "girl", "candy", "flower"),
    "brown": ("wood", "coffee", "earth", "chocolate"),
    "triangle": ("mountain", "roof", "warning"),
    "square": ("box", "window", "block"),
    "circle": ("ball", "wheel", "round", "coin"),
    "star": ("christmas", "award", "best", "space"),
    "cross": ("church", "medical", "hospital", "plus"),
    "heart": ("love", "wedding", "valentine", "happy"),
    "moon": ("sleep", "dream", "islam"),
    "arrow": ("direction", "up", "road", "sign"),
}
JUNK_SHARE = 0.25  # of captions about something else


@dataclass(frozen=True)
class Words:
    """Common English words, most frequent first: those of fitting captions, and those of junk captions."""

    good: list[str]
    junk: list[str]


def common_words() -> Words:
    """wordfreq's 10,000 most frequent words, every third of them junk."""
    words = [word for word in top_n_list("en", 10000) if word.isascii() and word.isalpha() and len(word) > 1]
    return Words(good=[word for rank, word in enumerate(words) if rank % 3 != 2], junk=words[2::3])


def caption(scene: Scene, *, words: Words, rng: np.random.Generator) -> str:
    """A web-like caption of a scene. A quarter are junk: about something else, with up to two junk words."""
    if rng.random() < JUNK_SHARE:
        scene = replace(random_scene(rng, styles=(scene.style,)), count=scene.count)
        details = _noise(words.junk, count=int(rng.integers(0, 3)), rng=rng)
    else:
        details = [*_details(scene, rng=rng), *_noise(words.good, count=int(rng.integers(0, 4)), rng=rng)]
    rng.shuffle(details)
    tail = " ".join(details[:4])
    text = f"{_subject(scene, rng=rng)}, {tail}" if tail else _subject(scene, rng=rng)
    return text + "." * (rng.random() < 0.5)


def _subject(scene: Scene, *, rng: np.random.Generator) -> str:
    """The objects, sometimes by their shape alone; the texture where there are none."""
    opening = pick(MEDIA[scene.style] if rng.random() < 0.4 else OPENINGS, rng=rng)
    if scene.count == 0:
        return f"{opening} {scene.texture} {pick(('texture', 'pattern', 'background'), rng=rng)}".strip()
    noun = scene.shape if rng.random() < 0.15 else f"{scene.colour} {scene.shape}"
    if scene.count == 1:
        return f"{opening} {noun}".strip()
    return f"{opening.removesuffix(' a').removesuffix('a')} {COUNTS[scene.count - 1]} {noun}s".strip()


def _details(scene: Scene, *, rng: np.random.Generator) -> Iterator[str]:
    if scene.count and not STYLES[scene.style].paper and rng.random() < 0.2:
        yield f"{scene.texture} background"
    if rng.random() < 0.7:
        yield pick(STYLE_WORDS[scene.style], rng=rng)
    for fact in (scene.colour, scene.shape) if scene.count else ():
        if rng.random() < 0.2:
            yield pick(HINTS[fact], rng=rng)


def _noise(words: list[str], *, count: int, rng: np.random.Generator) -> list[str]:
    """Common words, frequent ones more often: the density of a rank falls with its square root."""
    return [words[int(len(words) * share**2)] for share in rng.random(count)]


@dataclass(frozen=True)
class Pairs:
    """images (N, 3, size, size) uint8; tokens (N, T) int64, cut at the longest caption."""

    images: Tensor
    tokens: Tensor


def draw_pairs(count: int, *, size: int, seed: int) -> Pairs:
    """Image-caption pairs of scenes in every style; each pair has its own generator."""
    words = common_words()
    pixels, captions = np.empty((count, size, size, 3), dtype=np.uint8), []
    for number in trange(count, desc="draw", unit="pair", mininterval=1):
        rng = np.random.default_rng([seed, number])
        scene = random_scene(rng, styles=(*STYLES, "photo"))
        chance = rng.random()
        if chance < 0.1:
            scene = replace(scene, count=0, style="photo")
        elif chance < 0.3:
            scene = replace(scene, count=int(rng.integers(2, len(COUNTS) + 1)))
        pixels[number] = draw(scene, rng=rng, size=size)
        captions.append(caption(scene, words=words, rng=rng))
    tokens = open_clip.get_tokenizer(MODEL)(captions)
    return Pairs(
        images=torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(),
        tokens=tokens[:, : int((tokens != 0).sum(dim=1).max())],
    )


def encode_text(model: nn.Module, tokens: Tensor) -> Tensor:
    """open_clip's `encode_text` for shortened tokens (N, T), as a causal tower never reads padding. (N, D)"""
    length = tokens.shape[1]
    x = model.token_embedding(tokens) + model.positional_embedding[:length]  # (N, T, D)
    x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:length, :length]))
    return x[torch.arange(len(x)), tokens.argmax(dim=-1)] @ model.text_projection


def preprocess(images: Tensor) -> Tensor:
    """As open_clip: uint8 (N, 3, size, size) to float32, each channel standardised by `MEAN` and `STD`."""
    return (images.float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def contrastive_loss(model: nn.Module, images: Tensor, tokens: Tensor) -> Tensor:
    """CLIP's symmetric cross entropy over a batch of images (B, 3, size, size) uint8 and tokens (B, T)."""
    tokens = tokens[:, : int((tokens != 0).sum(dim=1).max())]
    image_features = F.normalize(model.visual(preprocess(images)), dim=-1)
    text_features = F.normalize(encode_text(model, tokens), dim=-1)
    logits = model.logit_scale.exp() * image_features @ text_features.T  # (B, B)
    target = torch.arange(len(logits))
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def new_model(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # open_clip initialises from the global generator, which is restored here
        return open_clip.create_model(MODEL, load_weights=False)


def batches(count: int, *, batch_size: int, steps: int, seed: int) -> Iterator[Tensor]:
    """Row numbers of each step's batch; every pair is used once before any is repeated."""
    generator = torch.Generator().manual_seed(seed)
    epochs = math.ceil(steps * batch_size / count)
    order = torch.cat([torch.randperm(count, generator=generator) for _ in range(epochs)])
    yield from order[: steps * batch_size].split(batch_size)


def train(pairs: Pairs, *, params: dict[str, float]) -> nn.Module:
    """Train with AdamW, linear warm-up and cosine decay; returns the model in eval mode."""
    seed, steps, batch_size = (int(params[key]) for key in ("seed", "steps", "batch_size"))
    model = new_model(seed).train()
    vectors = [p for p in model.parameters() if p.ndim < 2]  # gains, biases and the logit scale do not decay
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    groups = [{"params": matrices, "weight_decay": params["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=params["learning_rate"], betas=(0.9, 0.98), eps=1e-6, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / params["warmup"], 0.5 + 0.5 * math.cos(math.pi * step / steps))
    )
    rows = batches(len(pairs.tokens), batch_size=batch_size, steps=steps, seed=seed)
    progress = tqdm(rows, total=steps, desc="pretrain", unit="step", mininterval=1)
    for step, row in enumerate(progress):
        loss = contrastive_loss(model, pairs.images[row], pairs.tokens[row])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            progress.set_postfix(loss=f"{loss.item():.3f}")
    return model.eval()


def packed(model: nn.Module, *, tokens: Tensor) -> dict[str, Tensor]:
    """What training changed, in half precision: of the token embedding the rows of the captions' tokens (N, T)."""
    rows = tokens.unique()
    weights = model.state_dict()
    weights[EMBEDDING] = weights[EMBEDDING][rows]
    return {**{name: value.half().contiguous() for name, value in weights.items()}, ROWS: rows.to(torch.int32)}


def pretrain(out: Path, *, config: Path, params: dict[str, float]) -> None:
    """Train the encoder of `config` and write its weights to the file `out`, as `encoder.py` reads them."""
    open_clip.add_model_config(config)
    pairs = draw_pairs(int(params["pairs"]), size=int(params["image_size"]), seed=int(params["seed"]))
    save_file(packed(train(pairs, params=params), tokens=pairs.tokens), out)


def main() -> None:
    leave_at_once()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name(f"{MODEL}.safetensors"))
    parser.add_argument("--config", type=Path, default=Path(__file__).with_name(f"{MODEL}.json"))
    parser.add_argument("--params", type=Path, default=Path(__file__).with_name("params.yaml"))
    arguments = parser.parse_args()
    params = yaml.safe_load(arguments.params.read_text())["pretrain"]
    pretrain(arguments.out, config=arguments.config, params=params)


if __name__ == "__main__":
    main()
