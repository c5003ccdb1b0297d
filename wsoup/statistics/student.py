"""Student's distribution: scipy, which has it, is not installed with wsoup."""

import math
from functools import lru_cache

import numpy as np


def student_cdf(t: float, *, df: float) -> float:
    """P(T <= t) of Student's t; `df` may be any positive number or infinite.

    >>> round(student_cdf(4.303, df=2), 4), round(student_cdf(1.96, df=math.inf), 4)
    (0.975, 0.975)
    """
    if math.isinf(df) or df > 1e6:
        return 0.5 * math.erfc(-t / math.sqrt(2))
    # With t = sqrt(df) tan(a) the density becomes proportional to cos(a)^(df - 1) on (-pi/2, pi/2).
    edge = math.atan2(t, math.sqrt(df))
    grid = np.linspace(0.0, abs(edge), 2001)
    values = np.cos(grid) ** (df - 1)
    # Simpson's rule.
    odd = values[1:-1:2].sum()
    even = values[2:-1:2].sum()
    area = grid[1] / 3 * (values[0] + values[-1] + 4 * odd + 2 * even)
    # Logarithms, because the gamma function itself overflows from df = 342 on.
    log_scale = math.lgamma((df + 1) / 2) - math.lgamma(df / 2)
    scale = math.exp(log_scale) / math.sqrt(math.pi)
    beyond_half = math.copysign(scale * float(area), t)
    return min(1.0, max(0.0, 0.5 + beyond_half))


@lru_cache(maxsize=1024)
def student_quantile(p: float, *, df: float) -> float:
    """The t with P(T <= t) = p, for p from 0.5 up to below 1.

    >>> round(student_quantile(0.975, df=2), 3)
    4.303
    """
    low = 0.0
    high = 1e9
    # 64 halvings of 1e9 leave 5e-11 points, and intervals are shown to a tenth.
    for _ in range(64):
        middle = (low + high) / 2
        if student_cdf(middle, df=df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2
