"""The likelihood of labels: log softmax of cosines times a logit scale, at the label.

A count of correct images is coarse: with 16 shots of seven classes most words are within a few images of each other. A
likelihood also measures by how much an image is right or wrong. What it measures depends on the scale: at CLIP's 100 it
looks at the images near the border alone. `likeliest_scale` is the one at which the bare class name explains the images
best, so it is small where the class name says little. Source: this project; docs/notes/evidence.md compares scales.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from wsoup.core.scoring import AtOnce, Scores, suited_to

SCALES = tuple(5 * 1.15**step for step in range(26))
"""Logit scales to choose from, 5 to 165. A scale of 0 would make all texts equal where class names know nothing."""


def log_likelihoods(
    image_features: Tensor, labels: Tensor, text_features: Tensor, *, scale: float, at_once: AtOnce | None = None
) -> Tensor:
    """The log likelihood of each image's label with each of P candidates alone, in nats.

    Args:
        image_features: (N, D) float32.
        labels: (N,) int64, each in [0, C).
        text_features: (P, C, D) float32, L2-normalised.
        scale: of the cosines, above 0.
        at_once: sizes of the blocks; by default those that suit the device.

    Returns:
        (P, N) float32, at most 0.
    """
    at_once = at_once or suited_to(labels.device)
    # Blocks of so few scores that a softmax finds them in the cache.
    scores = Scores(image_features, text_features, at_once=replace(at_once, scores=at_once.softmax))
    of_label = text_features.new_empty(len(text_features), len(labels))
    for group, block, cosines in scores.blocks():
        logits = scale * cosines  # (n, p, C)
        place = labels[block, None, None].expand(-1, logits.shape[1], 1)
        own = logits.gather(2, place)[..., 0]
        of_label[group, block] = (own - logits.logsumexp(dim=2)).T
    return of_label


def likeliest_scale(image_features: Tensor, labels: Tensor, text_features: Tensor) -> float:
    """The one of `SCALES` at which a classifier (C, D) makes the labels (N,) of images (N, D) most likely."""
    likelihoods = []
    for scale in SCALES:
        of_label = log_likelihoods(image_features, labels, text_features[None], scale=scale)
        likelihoods.append(of_label.double().mean())
    return SCALES[int(torch.stack(likelihoods).argmax())]
