"""The scale on which a model compares texts with images."""

from torch import Tensor

LOGIT_SCALE = 100.0
"""CLIP's; for a model without a `logit_scale`."""


def logit_scale_of(model: object) -> float:
    """The factor that the model multiplies cosines by; `LOGIT_SCALE` if it has no `logit_scale`."""
    scale = getattr(model, "logit_scale", None)
    if not isinstance(scale, Tensor):
        return LOGIT_SCALE
    # CLIP learns the logarithm of the factor.
    return float(scale.detach().exp())
