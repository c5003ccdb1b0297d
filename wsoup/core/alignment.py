"""Alignment and uniformity: the mean cosines of images with the texts of their own and of other classes (section 4)."""

import torch
from torch import Tensor

IMAGES = 1 << 16
"""Images whose features are copied to float64 at a time."""


def class_sums(image_features: Tensor, labels: Tensor, *, n_classes: int) -> Tensor:
    """Sum of the images of each class, float64, for `mean_cosines`: (N, D), (N,) -> (C, D)."""
    sums = torch.zeros(n_classes, image_features.shape[1], dtype=torch.float64, device=labels.device)
    for x, y in zip(image_features.split(IMAGES), labels.split(IMAGES), strict=True):
        sums.index_add_(0, y, x.double())
    return sums


def mean_cosines(class_features: Tensor, *, sums: Tensor, n_images: int) -> tuple[Tensor, Tensor]:
    """Alignment and uniformity of P classifiers (section 4 of the paper).

    Alignment is the mean cosine of an image and its own class's text, uniformity that of an image and the texts of the
    other classes; with one class it is NaN.

    Args:
        class_features: (P, C, D).
        sums: (C, D) float64, `class_sums` of the images.
        n_images: N.

    Returns:
        alignment, uniformity: (P,) float64 each.
    """
    texts = class_features.double()
    n_classes = texts.shape[1]
    own = torch.einsum("pcd,cd->p", texts, sums)
    every = torch.einsum("pcd,d->p", texts, sums.sum(dim=0))
    others = n_images * (n_classes - 1) if n_classes > 1 else float("nan")
    return own / n_images, (every - own) / others
