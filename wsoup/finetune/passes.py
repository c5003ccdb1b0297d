"""Features during training, each computed as rarely as possible.

* The teacher (the pretrained model) and the student share the frozen lower blocks of an image.
* The teacher's text features are computed once per member of the soup; so are frozen lower text blocks without a
  prompt, and the text features of a text tower that is not trained at all.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.finetune.student import Student
from wsoup.finetune.towers import FrozenImageTower, TextState, TrainableImageTower, TrainableTextTower
from wsoup.towers.encoder import Encoder


class Passes:
    """Computes features of student and teacher, normalised float32.

    Args:
        encoder: the pretrained model.
        student: its student.
        class_names: C names in label order.
        template: of the source.
        soup: M member texts, bare; ``""`` is the class name alone. With soft descriptors: the text each started from.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        student: Student,
        class_names: Sequence[str],
        template: str,
        soup: Sequence[str],
    ) -> None:
        self.encoder, self.student = encoder, student
        self.text_tower, self.frozen_texts = TrainableTextTower(student.model), TrainableTextTower(encoder.model)
        self.frozen_images = FrozenImageTower(encoder.model, dtype=encoder.dtype)
        self.image_tower = TrainableImageTower(student.model)
        stems = prompts.stems(template, class_names)
        self._tokens = [self._tokenize(stems, text) for text in soup]
        self._positions: Tensor | None = None  # (C, n), of the soft descriptor in every text
        if student.soft_descriptors is not None:
            texts, self._positions = student.prepare(self.text_tower, self._tokenize(stems, ""))
            self._texts = [texts] * len(student.soft_descriptors)
        else:
            self._texts = [student.prepare(self.text_tower, tokens)[0] for tokens in self._tokens]
        self.members = len(self._texts)
        learns_inputs = student.soft_prompt is not None or self._positions is not None
        self._first_block = 0 if learns_inputs else len(self.text_tower.blocks) - max(student.blocks, 1)
        trained = {name.startswith("model.visual.") for name in student.trained_names if name.startswith("model.")}
        prompted = student.visual_prompts is not None or student.projector is not None
        self.trunk_is_fixed = not prompted and True not in trained
        """Whether the image tower is not trained; an adapter after it does not count."""
        self._texts_are_fixed = not learns_inputs and False not in trained
        self.teacher_texts = cache(self._teacher_texts)
        self._fixed_texts, self._lower_state = cache(self._encode_texts), cache(self._run_lower_blocks)

    def save_memory(self) -> None:
        """Recompute activations in the backward pass from now on."""
        self.text_tower.save_memory = self.image_tower.save_memory = True

    def images(self, pixels: Tensor, *, teacher: bool) -> tuple[Tensor, Tensor | None]:
        """Features (B, D) of the student, with gradient, and of the teacher if needed.

        Args:
            pixels: (B, 3, H, W).
            teacher: whether the teacher's are needed.
        """
        with self.encoder.autocast():
            raw, frozen = self._raw_images(pixels.to(self.encoder.device, non_blocking=True), teacher=teacher)
            if self.student.image_adapter is not None:
                raw = self.student.image_adapter(raw)
        return F.normalize(raw.float(), dim=-1), None if frozen is None else F.normalize(frozen.float(), dim=-1)

    def _raw_images(self, pixels: Tensor, *, teacher: bool) -> tuple[Any, Any]:
        prompts = self.student.image_prompts()
        if self.trunk_is_fixed or prompts is not None:
            with torch.no_grad():
                frozen = self.frozen_images(pixels) if teacher or self.trunk_is_fixed else None
            return (frozen if prompts is None else self.image_tower(pixels, prompts=prompts)), frozen
        shared = len(self.image_tower.blocks) - max(self.student.blocks, 1)
        with torch.no_grad():
            x = self.frozen_images.run(self.frozen_images.start(pixels), first=0, stop=shared)
            frozen = self.frozen_images.run_from(x, first=shared) if teacher else None
        return self.image_tower.run_from(x, first=shared), frozen

    def texts(self, member: int, *, classes: Tensor | None = None) -> Tensor:
        """The student's text features with one member of the soup or one soft descriptor: (C, D), with gradient.

        Args:
            member: index into the soup, or into the soft descriptors.
            classes: of these classes only, on the CPU; None: of all.
        """
        if not self._texts_are_fixed:
            return self._encode_texts(member, classes=classes)
        with torch.no_grad():
            features = self._fixed_texts(member)
        return features if classes is None else features[classes.to(features.device, non_blocking=True)]

    def _encode_texts(self, member: int, *, classes: Tensor | None = None) -> Tensor:
        texts, first, at = self._texts[member], self._first_block, self._positions
        state = self._lower_state(member) if first else None
        if classes is not None:
            rows = classes.to(self.encoder.device, non_blocking=True)
            texts, at = texts.take(classes), None if at is None else at[rows]
            state = state and TextState(state.head, state.tail[rows])
        with self.encoder.autocast():
            text_prompts = self.student.text_prompts()
            soft = None if at is None else (at, self.student.soft_descriptors[member])
            state = state or self.text_tower.start(texts, prompts=text_prompts, soft=soft)
            features = self.text_tower.run_from(state, texts, first=first, prompts=text_prompts)
        return F.normalize(features.float(), dim=-1)

    def _teacher_texts(self, member: int) -> Tensor:
        """The pretrained model's text features with one member of the soup: (C, D), computed once."""
        with torch.no_grad(), self.encoder.autocast():
            features = self.frozen_texts(self.frozen_texts.prepare(self._tokens[member]))
            return F.normalize(features.float(), dim=-1)

    def _tokenize(self, stems: Sequence[str], text: str) -> Tensor:
        texts = [stem + prompts.ending(text, period=True) for stem in stems]
        return self.encoder.tokenizer(texts).to(self.encoder.device)

    @torch.no_grad()
    def _run_lower_blocks(self, member: int) -> TextState:
        """Texts before the first trained block, computed once."""
        texts = self._texts[member]
        with self.encoder.autocast():
            return self.frozen_texts.run(self.frozen_texts.start(texts), texts, first=0, stop=self._first_block)
