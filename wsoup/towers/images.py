"""Faster ViTs with the same features up to rounding; every other image tower stays open_clip's own.

Weights are packed for oneDNN on a CPU. Of the last block only the class token is computed where that is all that is
read (6.9 % of the FLOPs of ViT-B-16). Models finetuned from one another share their lower blocks (`sharing_blocks`).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from open_clip.transform import MaybeConvertMode
from open_clip.transformer import VisionTransformer
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.transforms import Compose, Normalize, ToTensor
from torchvision.transforms.functional import pil_to_tensor

from wsoup.base.errors import ModelError
from wsoup.disk.files import shown
from wsoup.towers.blocks import PackedBlock, foreign_block, split_heads
from wsoup.towers.encoder import Encoder

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Distance of unit features above which open_clip's tower is used; rounding alone gives 1e-7 to 2e-6 in float32."""


class PackedViT(VisionTransformer):
    """open_clip's ViT, for calls without gradients.

    It shares everything with `visual`, which is not changed. Later changes of weights have no effect on blocks that
    were used before, because these are packed then.

    Args:
        visual: a tower that `is_covered`.
        dtype: autocast dtype of the calls, or None.
    """

    def __init__(self, visual: Any, *, dtype: torch.dtype | None) -> None:
        self.__dict__.update(visual.__dict__)
        self.layers = list(visual.transformer.resblocks)
        self.dtype: torch.dtype = dtype or self.layers[0].attn.in_proj_weight.dtype
        self.heads = self.layers[0].attn.num_heads
        self.reads_first_row = reads_class_token(visual)
        self._packed: dict[int, PackedBlock] = {}
        self.lower: Callable[[Tensor], Tensor] | None = None
        self.n_lower = 0

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, D), not normalised."""
        return self.run_from((self.lower or self.start)(x), first=self.n_lower)

    def start(self, pixels: Tensor) -> Tensor:
        """Class token and patches before the first block: (B, 3, H, W) -> (B, T, width)."""
        x: Tensor = self._embeds(pixels)
        return x

    def run(self, x: Tensor, *, first: int, stop: int) -> Tensor:
        """Blocks `first` to `stop` - 1: (B, T, width) -> (B, T, width)."""
        for i in range(first, stop):
            block = self._block(i)
            q, k, v = split_heads(block.qkv(block.normed(x)), parts=3, heads=self.heads)
            x = block.after_attention(x, _mixed(q, k, v))
        return x

    def run_from(self, x: Tensor, *, first: int) -> Tensor:
        """Everything from block `first` on: (B, T, width) -> (B, D), not normalised."""
        last = len(self.layers) - 1
        if self.reads_first_row:
            x, block = self.run(x, first=first, stop=last), self._block(last)
            normed = block.normed(x)
            (q,) = split_heads(block.q(normed[:, :1]), parts=1, heads=self.heads)
            k, v = split_heads(block.kv(normed), parts=2, heads=self.heads)
            pooled = self.ln_post(block.after_attention(x[:, :1], _mixed(q, k, v))[:, 0])
        else:
            pooled = self._pool(self.run(x, first=first, stop=last + 1))[0]
        return pooled if self.proj is None else pooled @ self.proj

    def _block(self, i: int) -> PackedBlock:
        if i not in self._packed:
            is_cut = self.reads_first_row and i == len(self.layers) - 1
            self._packed[i] = PackedBlock(self.layers[i], dtype=self.dtype, last=is_cut)
        return self._packed[i]


def _mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of all heads: (B, heads, T, head size) each -> (B, T, width)."""
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def reads_class_token(visual: Any) -> bool:
    """Whether the feature of an open_clip ViT is its class token alone."""
    return visual.attn_pool is None and visual.pool_type == "tok"


def is_covered(visual: Any) -> bool:
    """Whether `PackedViT` does what this image tower does, read from its structure."""
    if type(visual) is not VisionTransformer or visual.output_tokens or not visual.transformer.batch_first:
        return False
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in visual.modules())
    return not hooked and foreign_block(visual.transformer.resblocks) is None


def with_fast_images(model: nn.Module, *, dtype: torch.dtype | None) -> nn.Module:
    """The same model, or wrapper with an attribute `model`, with a fast `visual`; everything else is shared.

    The result is compared with the original on an image of noise.

    Args:
        model: an open_clip model, to be called without gradients; later changes of its weights have no effect.
        dtype: autocast dtype of the calls, or None.
    """
    modules = model._modules if isinstance(model, nn.Module) else {}
    changed: dict[str, nn.Module] = {}
    if is_covered(visual := modules.get("visual")):
        changed["visual"] = PackedViT(visual, dtype=dtype)
        if not _agree(visual, changed["visual"], dtype=dtype):
            return model
    if (inner := modules.get("model")) is not None:
        changed["model"] = with_fast_images(inner, dtype=dtype)
    if all(modules[name] is part for name, part in changed.items()):
        return model
    fast = copy.copy(model)
    fast._modules = {**modules, **changed}
    return fast


@torch.no_grad()
def _agree(visual: Any, fast: nn.Module, *, dtype: torch.dtype | None) -> bool:
    """Whether two towers have the same features for an image of noise."""
    weight = visual.conv1.weight
    noise = torch.rand(1, 3, *visual.image_size, generator=torch.Generator().manual_seed(0))
    noise = noise.to(weight.device, weight.dtype)
    with torch.autocast(weight.device.type, dtype, enabled=dtype is not None):
        expected, features = (F.normalize(tower(noise).float(), dim=-1) for tower in (visual, fast))
    return bool((expected - features).norm() <= TOLERANCE.get(dtype or weight.dtype, 0.0))


@contextmanager
def sharing_blocks(models: Sequence[nn.Module]) -> Iterator[None]:
    """Within the block, models from `with_fast_images` pass a batch, the same tensor, once through what they share."""
    modules = [model for model in models if isinstance(model, nn.Module)]  # a user's model may be any object
    towers = [part for model in modules for part in model.modules() if isinstance(part, PackedViT)]
    stems = [_stem(tower) for tower in towers]
    blocks = zip(*(tower.layers[:-1] for tower in towers), strict=False)
    n = sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, blocks))
    last: list[Tensor] = []  # pixels, and their states before block n

    def lower(pixels: Tensor) -> Tensor:
        if not last or last[0] is not pixels:
            last[:] = pixels, towers[0].run(towers[0].start(pixels), first=0, stop=n)
        return last[1]

    if len(towers) > 1 and all(all(map(torch.equal, stem, stems[0])) for stem in stems):
        for tower in towers:
            tower.lower, tower.n_lower = lower, n
    try:
        yield
    finally:
        for tower in towers:
            tower.lower, tower.n_lower = None, 0


def _stem(tower: PackedViT) -> list[Tensor]:
    """What comes before the first block."""
    return [tower.class_embedding, tower.positional_embedding, *tower.conv1.parameters(), *tower.ln_pre.parameters()]


def fast_images(encoder: Encoder) -> nn.Module:
    """The encoder's model with a fast image tower, made once."""
    if "images" not in encoder.derived:
        encoder.derived["images"] = with_fast_images(encoder.model, dtype=encoder.dtype)
    return encoder.derived["images"]


def in_two_steps(
    preprocess: Callable[[Image.Image], Tensor],
) -> tuple[Callable[[Image.Image], Tensor], Callable[[Tensor], Tensor]]:
    """A preprocessing as image -> (3, H, W), for decoding processes, and batch -> (B, 3, H, W) float, on the device.

    Between the steps the pixels are uint8, a quarter of the bytes, if the preprocessing ends as open_clip's own; the
    results are the same to the bit. Of any other the first step is everything.
    """
    match preprocess:
        case Compose(
            transforms=[*resize, MaybeConvertMode(mode="RGB") as to_rgb, ToTensor(), Normalize() as normalize]
        ):
            # Divided by a tensor, because CUDA multiplies by 1 / 255 where it is given a number.
            to_floats = lambda pixels: normalize(pixels / torch.tensor(255.0, device=pixels.device))  # noqa: E731
            return Compose([*resize, to_rgb, pil_to_tensor]), to_floats
    return preprocess, lambda pixels: pixels


@torch.inference_mode()
def encode_pixels(encoder: Encoder, pixels: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, D) float32, L2-normalised, on the encoder's device.

    If the device runs out of memory, the two halves of the batch are encoded one after the other.
    """
    try:
        with encoder.autocast():
            features = fast_images(encoder).encode_image(pixels.to(encoder.device, non_blocking=True))  # type: ignore[operator]
        return F.normalize(features.float(), dim=-1)
    except torch.OutOfMemoryError:
        if len(pixels) == 1:
            raise
    # The error holds the memory of the failed pass, so continue outside of the handler.
    half = len(pixels) // 2
    return torch.cat([encode_pixels(encoder, pixels[:half]), encode_pixels(encoder, pixels[half:])])


def check_finite(features: Tensor, *, paths: Sequence[str]) -> None:
    """Raise ModelError for the first of B images whose features (B, D) have NaN or infinity."""
    good = features.isfinite().all(dim=1).tolist()
    if not all(good):
        raise ModelError(
            f"{shown(paths[good.index(False)])}: its features are not finite (NaN or infinity); check "
            "encoder.image_mean and image_std, or choose precision: fp32"
        )
