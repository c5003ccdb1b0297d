"""A learning rate chosen on held-out few-shot images of the source, so that no test image and no target decides it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import ParamsError
from wsoup.core import prompts
from wsoup.core.class_texts import ClassTexts
from wsoup.core.draws import named_generator
from wsoup.finetune.student import Student
from wsoup.finetune.training_set import TrainingSet
from wsoup.images.decode import load_rgb
from wsoup.towers.encoder import Encoder

AT_ONCE = 64
"""Held-out images in one forward pass."""


def divided(source: TrainingSet, *, seed: int) -> tuple[TrainingSet, TrainingSet]:
    """The images to train on while a rate is chosen, and those held out: as many of each class, or one less.

    Raises:
        ParamsError: a class has one image.
    """
    shown: list[int] = []
    held: list[int] = []
    for c, name in enumerate(source.class_names):
        of_class = np.flatnonzero(source.labels == c)
        if len(of_class) == 1:
            raise ParamsError(
                f"finetune.methods: select holds out half of the few-shot images, and class {name!r} has one with seed "
                f"{seed}; take fewshot.shots: 2 or more, or leave select out"
            )
        drawn = named_generator(seed, "held out", c).permutation(of_class).tolist()
        middle = (len(drawn) + 1) // 2
        shown += drawn[:middle]
        held += drawn[middle:]
    return _only(source, sorted(shown)), _only(source, sorted(held))


def _only(source: TrainingSet, kept: Sequence[int]) -> TrainingSet:
    return replace(
        source,
        paths=[source.paths[i] for i in kept],
        digests=[source.digests[i] for i in kept],
        labels=source.labels[list(kept)],
    )


@torch.no_grad()
def count_right(student: Student, encoder: Encoder, *, held: TrainingSet, soup: Sequence[str]) -> int:
    """Held-out images that a trained student gets right with the centroid of its texts, or its class weights.

    It is merged.

    Args:
        student: after training.
        encoder: the pretrained model.
        held: the images.
        soup: bare texts that it was trained on; of soft descriptors the class name alone.

    Raises:
        ChangedError, DataError: a file has changed since it was listed, or is not an image.
    """
    student.merge()
    stems = prompts.stems(held.template, held.class_names)
    members = []
    with encoder.autocast():
        for text in soup:
            texts = [stem + prompts.ending(text, period=True) for stem in stems]
            features = student.encode_text(encoder.tokenizer(texts).to(encoder.device))
            members.append(F.normalize(features.float(), dim=-1))
    classifier = ClassTexts.of_members(torch.stack(members)).centroids  # (C, D)
    class_names = list(held.class_names)
    for name, direction in student.class_directions().items():
        classifier[class_names.index(name)] = direction
    n_right = 0
    for start in range(0, len(held.paths), AT_ONCE):
        places = range(start, min(start + AT_ONCE, len(held.paths)))
        pixels = torch.stack([_pixels(held, i, encoder=encoder) for i in places]).to(encoder.device)
        with encoder.autocast():
            images = F.normalize(student.encode_image(pixels).float(), dim=-1)
        labels = torch.from_numpy(held.labels[start : start + AT_ONCE]).to(encoder.device)
        # Among equal scores the lowest label, as everywhere; an edited `wsoup.core.scoring` trains nothing again.
        n_right += int((images @ classifier.T).argmax(dim=1).eq(labels).sum())
    return n_right


def _pixels(held: TrainingSet, i: int, *, encoder: Encoder) -> Tensor:
    """(3, H, W) of one image, as it would be classified."""
    return encoder.preprocess(load_rgb(held.paths[i], digest=held.digests[i], as_stored=encoder.as_stored))
