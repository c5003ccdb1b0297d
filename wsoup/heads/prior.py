"""How many photos a class's text counts as, before any photo is left out.

Texts have seen none of the photos, so the share that they get right tells how much they know: a text is worth the more
photos the higher its odds. Left-out photos then move this number (`wsoup.heads.choose`), the more of them the further.
"""

from wsoup.heads.fewshot import BLOCK, FewShot

EVEN = 1.25
"""Photos that a text counts as where the texts get half of the photos right (docs/notes/evidence.md)."""
POWER = 0.7
"""Of the odds: texts that get nine of ten right count as 1.25 times 9 to this power, six photos."""
DOUBT = 3.0
"""Photos added to the right and to the wrong ones, so that five photos that are all right do not mean certainty."""


def photos_per_text(shots: FewShot) -> float:
    """How many photos of its class a text counts as: a positive number."""
    n_right = 0
    for features, labels in zip(shots.features.split(BLOCK), shots.labels.split(BLOCK), strict=True):
        text_answers = shots.text_logits(features).argmax(dim=1)
        n_right += int((text_answers == labels).sum())
    n_wrong = len(shots.labels) - n_right
    odds = (n_right + DOUBT) / (n_wrong + DOUBT)
    return EVEN * odds**POWER
