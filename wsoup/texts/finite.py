"""Text features are finite, or the model does not do."""

from __future__ import annotations

from torch import Tensor

from wsoup.core.errors import ModelError


def finite(features: Tensor) -> Tensor:
    """The features (..., D) themselves; their sum is not finite where one of them is not. Those without values pass."""
    if not features.is_meta and not bool(features.sum().isfinite()):
        raise ModelError(
            "text features of this model are not finite (NaN or infinity); choose encoder.precision: fp32, or other "
            "weights"
        )
    return features
