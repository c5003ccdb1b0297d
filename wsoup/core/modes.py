"""How the members of a soup become one classifier (section 3 of the paper; `wsoup.core.class_texts` computes it)."""

from typing import Literal, get_args

Mode = Literal["centroid", "score_mean"]
"""By the normalised mean of their texts, or by the mean of their scores."""
MODES: tuple[Mode, ...] = get_args(Mode)
