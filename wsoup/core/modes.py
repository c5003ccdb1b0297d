"""How the members of a soup become one classifier (section 3 of the paper; `wsoup.core.class_texts` computes it)."""

from typing import Literal, get_args

Mode = Literal["centroid", "score_mean"]
"""By the normalised mean of their texts, or by the mean of their scores."""
JudgedMode = Literal[Mode, "paper"]
"""As above, or as in the paper: descriptor soups by centroid, word soups by score mean."""
MODES: tuple[Mode, ...] = get_args(Mode)
Weighing = Literal["autoclip", "zpe", "zpe_selection"]
"""Each text with a weight, for each image (`wsoup.core.autoclip`) or for all of a dataset (`wsoup.core.zpe`)."""
WEIGHINGS: tuple[Weighing, ...] = get_args(Weighing)
SEES_IMAGES: tuple[Weighing, ...] = ("zpe", "zpe_selection")
"""Those that see all test images of a dataset, without labels, before they classify one of them."""
