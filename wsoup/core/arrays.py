"""Validate arrays from users: features as rows of finite numbers, from whatever array they come in."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from wsoup.base.errors import DataError, MismatchError, one_line
from wsoup.core.scoring import normalize

NORM_TOLERANCE = 1e-3
"""A feature with a norm this close to 1 is not normalised again; half precision is off by no more."""
SHOWN_ROWS = 3
LEFT_OUT = "leave these images out, labels as well"


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta else value


def _device(value: Any) -> Any:
    try:
        return torch.device(value)
    except (RuntimeError, TypeError) as error:
        raise ValueError("expected a device of torch, such as cpu or cuda:1") from error


@contextmanager
def usual_torch() -> Iterator[None]:
    """float32 by default, on the CPU unless said otherwise, no autocast there: whatever the process has set."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_default_dtype(before)


Device = Annotated[torch.device, BeforeValidator(_device)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True), BeforeValidator(_number)]
"""A number above 0, or a tensor with one, such as ``model.logit_scale.exp()``."""


def rows(value: Any, *, name: str, size: int | None = None, step: str = LEFT_OUT) -> Tensor:
    """An array as (N, D) float32, neither N nor D 0, all finite, on its own device.

    Raises:
        DataError: another shape or dtype, or a row with NaN or infinity.
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
    broken = (~torch.isfinite(x := x.float())).any(dim=1)
    if broken.any():
        raise DataError(f"{name} has NaN or infinity in rows {_first(broken)}; {step}")
    return x


def tensor(value: Any, *, name: str) -> Tensor:
    """An array as a dense tensor; DataError if it is sparse, quantized, masked or without values."""
    if not isinstance(value, Tensor):
        values = array(value, name=name)
        try:
            value = torch.from_numpy(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("=")))
        except (TypeError, ValueError) as error:
            raise _no_array(name, error) from None
    if value.layout != torch.strided or value.is_meta or value.is_quantized:
        raise DataError(f"{name} is a sparse, quantized or meta tensor; expected plain numbers in memory")
    return value.detach()


def array(value: Any, *, name: str) -> np.ndarray:
    """Anything as a NumPy array; DataError if it is none, or is masked."""
    if np.ma.is_masked(value):
        raise DataError(f"{name} has {np.ma.count_masked(value)} masked values; leave these images out")
    try:
        return np.asarray(value)
    except Exception as error:  # from an object's own __array__
        raise _no_array(name, error) from None


def _no_array(name: str, error: Exception) -> DataError:
    reason = one_line(error, limit=200)
    return DataError(f"{name} is not an array of numbers ({reason}); expected a NumPy array or a torch tensor")


def _first(rows: Tensor) -> str:
    """The indices of the first rows that are True, and how many more there are."""
    indices = rows.nonzero()[:, 0].tolist()
    more = f" and {len(indices) - SHOWN_ROWS} more" if len(indices) > SHOWN_ROWS else ""
    return ", ".join(map(str, indices[:SHOWN_ROWS])) + more


def nonzero_rows(value: Any, *, name: str, step: str = LEFT_OUT) -> Tensor:
    """`rows` of any norm but 0; DataError for a row of zeros."""
    x = rows(value, name=name, step=step)
    zero = (x == 0).all(dim=1)
    if zero.any():
        raise DataError(f"{name} holds nothing but zeros in rows {_first(zero)}; {step}")
    return x


def unit_rows(value: Any, *, name: str) -> Tensor:
    """`nonzero_rows`, L2-normalised, with a warning if they were not."""
    x = nonzero_rows(value, name=name)
    off = (x.norm(dim=1) - 1).abs().max().item()
    if off <= NORM_TOLERANCE:
        return x
    problem = f"{name} are not of length 1 (off by up to {off:.2g}): they are normalised, as cosines need it"
    warnings.warn(problem, stacklevel=_caller())
    return normalize(x / x.abs().amax(dim=1, keepdim=True))  # squares of 1e25 are beyond float32


def _caller() -> int:
    """The stack level, as seen by this function's caller, of the code that called wsoup."""
    level, frame = 1, sys._getframe(1)
    inner = ("wsoup", "contextlib", "pydantic")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in inner:
        level, frame = level + 1, frame.f_back
    return level
