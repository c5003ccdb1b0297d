"""A learning rate chosen on held-out few-shot images of the source, so that no test image and no target decides it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from wsoup.base.errors import ParamsError
from wsoup.core import prompts
from wsoup.core.class_texts import ClassTexts
from wsoup.core.draws import named_generator
from wsoup.core.scoring import Scores
from wsoup.finetune.student import Student
from wsoup.finetune.training_set import TrainingSet
from wsoup.images.features import encode_files
from wsoup.runtime.progress import counting, showing
from wsoup.texts.encoder import PromptEncoder
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


def count_right(student: Student, encoder: Encoder, *, held: TrainingSet, soup: Sequence[str]) -> int:
    """Held-out images that a trained student gets right with the centroid of its texts; it is merged.

    Args:
        student: after training.
        encoder: the pretrained model.
        held: the images.
        soup: bare texts that it was trained on; of soft descriptors the class name alone.
    """
    tuned = replace(encoder, model=student.merge())
    stems = prompts.stems(held.template, held.class_names)
    endings = [prompts.ending(text, period=True) for text in soup]
    texts = PromptEncoder(tuned.model, tuned.tokenizer, device=tuned.device, dtype=tuned.dtype)
    centroids = ClassTexts.of_members(texts.encode_grid(stems, endings)).centroids
    # The bar is that of training.
    with showing(bars=False), counting(label="held out", total=None, initial=0, unit="image"):
        encoded = encode_files(
            {"tuned": tuned}, paths=list(held.paths), digests=held.digests, batch_size=AT_ONCE, on_bad_image="stop"
        )
    images = torch.from_numpy(encoded.features["tuned"][:]).to(tuned.device)
    labels = torch.from_numpy(held.labels).to(tuned.device)
    (right,) = Scores(images, centroids[None]).right(labels)
    return int(right.sum())
