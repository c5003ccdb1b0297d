"""The rows of an answer on few-shot and test images in turn, where a run has few test images of its source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from wsoup.heads.head import Head
from wsoup.heads.in_turn import CLASS_MEANS, each_once, judged_in_turn
from wsoup.heads.zero_shot import class_texts, prompt_texts
from wsoup.search.rank.source import Source


def rows_in_turn(
    head: Head,
    *,
    seed: int,
    source: Source,
    features: np.ndarray,
    labels: np.ndarray,
    prompts: Sequence[Sequence[str]],
) -> dict[str, list[float]]:
    """How right texts, class means and heads are on all labelled images of the source, none seen by a head.

    Args:
        head: of the run's only seed; the row ``soup`` has its texts.
        seed: that seed.
        source: its few-shot images.
        features, labels: (H, D) and (H,) of the source's test images, fewer than `wsoup.heads.in_turn.FEW`.
        prompts: the 80 prompts of each class.

    Returns:
        Key of a row of the answer -> shares of right answers, as of `judged_in_turn`.
    """
    shown, shown_labels = source.images_of(seed)
    all_features = torch.cat([shown.cpu(), torch.from_numpy(features)])
    all_labels = torch.cat([shown_labels.cpu(), torch.from_numpy(labels)])
    in_train = torch.arange(len(all_labels)) < len(shown_labels)
    usable = each_once(all_features, all_labels)
    template = source.template
    names = source.class_names
    encoder = source.text_encoder
    class_name = head.soup.class_name_soup()
    texts = {
        "class_name": class_texts(class_name, template=template, class_names=names, text_encoder=encoder),
        "templates": prompt_texts(prompts, text_encoder=encoder),
        "soup": class_texts(head.soup, template=template, class_names=names, text_encoder=encoder),
    }
    judged = judged_in_turn(
        all_features[usable],
        all_labels[usable],
        in_train=in_train[usable],
        head=head,
        texts=texts,
        of_head="soup",
        seed=seed,
    )
    keys = {CLASS_MEANS: "means"}
    return {keys.get(row, row): shares.tolist() for row, shares in judged.items()}
