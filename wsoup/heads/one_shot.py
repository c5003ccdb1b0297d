"""How much one image of each class weighs, where no setting can be tried on left-out images."""

from wsoup.heads.fewshot import BLOCK, FewShot

ONE_SHOT = 0.65
"""Weight of one image of each class where the texts get none of them right."""
KNOWN = 0.4
"""How much less it is where the texts get all of them right (docs/notes/heads.md)."""


def one_shot_weight(shots: FewShot) -> float:
    """Weight of an image beside its class's text, in units of s.

    The texts have seen none of the images, so the share that they get right tells how much they know.
    """
    n_right = 0
    for features, labels in zip(shots.features.split(BLOCK), shots.labels.split(BLOCK), strict=True):
        text_answers = shots.text_logits(features).argmax(dim=1)
        n_right += int((text_answers == labels).sum())
    return ONE_SHOT - KNOWN * (n_right / len(shots.labels))
