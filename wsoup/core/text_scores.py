"""Scores of images with every single text, for classifiers that weigh texts by images (AutoCLIP, ZPE)."""

from torch import Tensor

from wsoup.core.scoring import suited_to


def text_scores(images: Tensor, members: Tensor) -> Tensor:
    """Cosines of images with every text of every class: (n, D), (M, C, D) -> (n, M, C)."""
    n_texts, n_classes, _ = members.shape
    return (images @ members.flatten(0, 1).T).view(len(images), n_texts, n_classes)


def images_at_once(members: Tensor) -> int:
    """Images whose scores with all texts (M, C, D) fit into memory."""
    n_texts, n_classes, _ = members.shape
    return max(1, suited_to(members.device).scores // (n_texts * n_classes))
