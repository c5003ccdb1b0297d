"""Validate arrays from users: features as rows of finite numbers, from whatever array they come in."""

import warnings
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import DataError, MismatchError, one_line, shown_value

NORM_TOLERANCE = 1e-3
"""A feature with a norm this close to 1 is not normalised again; half precision is off by no more."""
SHOWN_ROWS = 3
"""Wrong rows that an error names."""
LEFT_OUT = "leave these images out, labels as well"


def _number(value: object) -> object:
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta:
        return value.item()
    return value


def _device(value: Any) -> Any:
    try:
        return torch.device(value)
    except (RuntimeError, TypeError) as error:
        raise ValueError("expected a device of torch, such as cpu or cuda:1") from error


Device = Annotated[torch.device, BeforeValidator(_device)]
Positive = Annotated[float, Field(gt=1e-30, lt=1e30, allow_inf_nan=False, strict=True), BeforeValidator(_number)]
"""A number above 0 that float32 can divide by, or a tensor with one, such as ``model.logit_scale.exp()``."""


def tensor(value: object, *, name: str) -> Tensor:
    """An array as a dense tensor; DataError if it is sparse, quantized, masked, without values, or none at all."""
    try:
        if np.ma.is_masked(value):
            raise ValueError(f"{np.ma.count_masked(value)} of its values are masked")
        if not isinstance(value, Tensor):
            if value is None:
                raise ValueError("it is None")
            values = np.asarray(value)
            if values.dtype.kind == "U":
                raise ValueError(f"it holds text: {shown_value(value)}")
            if values.dtype.hasobject:
                raise ValueError(f"{type(value).__name__} holds objects, or is one")
            # torch takes neither the other byte order nor negative strides.
            native = values.dtype.newbyteorder("=")
            value = torch.from_numpy(np.array(values, dtype=native, order="C"))
        if value.layout != torch.strided or value.is_meta or value.is_quantized:
            raise ValueError("a sparse, quantized or meta tensor")
    except Exception as error:  # from an object's own __array__
        reason = one_line(error, limit=200)
        step = "expected a NumPy array or a torch tensor, dense and in memory"
        raise DataError(f"{name} is not an array of numbers ({reason}); {step}") from None
    return value.detach()


def rows(value: object, *, name: str, size: int | None = None, step: str = LEFT_OUT, nonzero: bool = False) -> Tensor:
    """An array as (N, D) float32, neither N nor D 0, all finite, on its own device.

    Raises:
        DataError: another shape or dtype, or a row with NaN or infinity, or, with `nonzero`, of zeros alone.
        MismatchError: D is not `size`.
    """
    x = tensor(value, name=name)
    if x.dim() != 2 or not x.numel():
        raise DataError(
            f"{name} has shape {tuple(x.shape)}; expected (N, D), one row of image features for each of N images"
        )
    if size not in (None, x.shape[1]):
        raise MismatchError(f"{name} have shape {tuple(x.shape)}; expected (N, {size}), as it was made with")
    if not x.is_floating_point():
        raise DataError(f"{name} holds {x.dtype}; expected floats, as model.encode_image gives them")
    x = x.float()
    problems = {"has NaN or infinity": ~x.isfinite().all(dim=1)}
    if nonzero:
        problems["holds nothing but zeros"] = (x == 0).all(dim=1)
    for problem, wrong in problems.items():
        if wrong.any():
            indices = wrong.nonzero()[:, 0].tolist()
            listed = ", ".join(map(str, indices[:SHOWN_ROWS]))
            if len(indices) > SHOWN_ROWS:
                listed += f" and {len(indices) - SHOWN_ROWS} more"
            raise DataError(f"{name} {problem} in rows {listed}; {step}")
    return x


def unit_rows(value: object, *, name: str, size: int | None = None) -> Tensor:
    """`rows` that are not zero, L2-normalised, with a warning if they were not."""
    x = rows(value, name=name, size=size, nonzero=True)
    off = (x.norm(dim=1) - 1).abs().max().item()
    if off <= NORM_TOLERANCE:
        return x
    problem = f"{name} are not of length 1 (off by up to {off:.2g}): they are normalised, as cosines need it"
    warnings.warn(problem, stacklevel=2)
    # Divided first, because squares of 1e25 are beyond float32.
    largest = x.abs().amax(dim=1, keepdim=True)
    return F.normalize(x / largest, dim=-1)
