"""Numbers in environment variables."""

import math
import os

from wsoup.base.errors import ParamsError, one_line


def number_in(variable: str, default: float) -> float:
    """A number in an environment variable; ParamsError where it is negative, or not a number."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:  # NaN is not, either
        raise ParamsError(f"{variable}={one_line(text, limit=80)}: must be a number, 0 or more")
    return value
