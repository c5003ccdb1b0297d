"""Pixels: preprocessing in two steps, and a batch of preprocessed images to features."""

from collections.abc import Callable, Sequence

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from wsoup.base.errors import ModelError
from wsoup.disk.files import shown
from wsoup.images.fast import fast_images
from wsoup.towers.encoder import Encoder
from wsoup.towers.library import MaybeConvertMode, transforms


def in_two_steps(
    preprocess: Callable[[Image.Image], Tensor],
) -> tuple[Callable[[Image.Image], Tensor], Callable[[Tensor], Tensor]]:
    """A preprocessing as image -> (3, H, W), for decoding processes, and batch -> (B, 3, H, W) float, on the device.

    Between the steps the pixels are uint8, a quarter of the bytes, if the preprocessing ends as open_clip's own; the
    results are the same to the bit. Of any other the first step is everything.
    """
    match preprocess:
        case transforms.Compose(
            transforms=[
                *resize,
                MaybeConvertMode(mode="RGB") as to_rgb,
                transforms.ToTensor(),
                transforms.Normalize() as normalize,
            ]
        ):
            in_place = transforms.Normalize(normalize.mean, normalize.std, inplace=True)
            # Divided by a tensor, because CUDA multiplies by 1 / 255 where it is given a number.
            to_floats = lambda pixels: in_place(pixels / torch.tensor(255.0, device=pixels.device))  # noqa: E731
            return transforms.Compose([*resize, to_rgb, transforms.functional.pil_to_tensor]), to_floats
    return preprocess, lambda pixels: pixels


def side_that_is_enough(encoder: Encoder) -> int | None:
    """Twice the size that images are first resized to: a decoder need not give more pixels; None where it should.

    From there resizing still averages at least two pixels, so features hardly move (docs/performance.md). They must not
    move at all in the reference precision and with the paper's loader, and nobody knows what another first step reads.
    """
    steps = getattr(encoder.preprocess, "transforms", ())
    if encoder.as_stored or encoder.id.get("precision") == "reference" or not steps:
        return None
    first = steps[0]
    if not isinstance(first, transforms.Resize):
        return None
    sizes = [first.size] if isinstance(first.size, int) else list(first.size)
    return 2 * max(sizes)


def dtype_of_pixels(model: object) -> torch.dtype:
    """What a model's first convolution takes: float16 after `model.half()`; else float32, which autocast may lower."""
    tower = getattr(model, "visual", model)
    if isinstance(tower, nn.Module):
        for module in tower.modules():
            # Not the first weight of all: open_clip's own half-precision models keep some in float32.
            if isinstance(module, nn.Conv2d):
                return module.weight.dtype
    return torch.float32


@torch.inference_mode()
def encode_pixels(encoder: Encoder, pixels: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, D) float32, L2-normalised, on the encoder's device.

    If the device runs out of memory, the two halves of the batch are encoded one after the other.
    """
    try:
        on_device = pixels.to(encoder.device, dtype=dtype_of_pixels(encoder.model), non_blocking=True)
        with encoder.autocast():
            features = fast_images(encoder).encode_image(on_device)  # type: ignore[operator]
        # In float32, whatever the model computes in: in half precision the length itself would be rounded.
        return F.normalize(features.float(), dim=-1)
    except torch.OutOfMemoryError:
        if len(pixels) == 1:
            raise
    # The error holds the memory of the failed pass, so continue outside of the handler.
    half = len(pixels) // 2
    first = encode_pixels(encoder, pixels[:half])
    second = encode_pixels(encoder, pixels[half:])
    return torch.cat([first, second])


def check_finite(features: Tensor, *, paths: Sequence[str]) -> None:
    """Raise ModelError for the first of B images whose features (B, D) have NaN or infinity."""
    good = features.isfinite().all(dim=1).tolist()
    if not all(good):
        first_bad = paths[good.index(False)]
        raise ModelError(
            f"{shown(first_bad)}: its features are not finite (NaN or infinity); check "
            "encoder.image_mean and image_std, or choose precision: fp32"
        )
