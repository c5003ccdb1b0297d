"""Features in training, each computed as rarely as it can be.

* The teacher (the pretrained model) and the student share the frozen lower blocks of an image.
* Where the image trunk is left alone and there is no augmentation, image features are computed once.
* The teacher's texts are computed once per member of the soup; so are frozen lower text blocks below no prompt, and the
  whole text tower where nothing in it is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.finetune.frozen import FrozenImageTower
from wsoup.finetune.image_tower import TrainableImageTower
from wsoup.finetune.student import Student
from wsoup.finetune.text_tower import Texts, TextState, TrainableTextTower
from wsoup.towers.encoder import Encoder

IMAGES_PER_PASS = 64


class Passes:
    """Features of student and teacher, normalised float32.

    Args:
        encoder: the pretrained model.
        student: a student of it.
        class_names: C names in label order.
        template: of the source.
        soup: M member texts, bare; ``""`` is the class name alone. With soft descriptors: what each started from.
        save_memory: recompute activations in the backward pass.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        student: Student,
        class_names: Sequence[str],
        template: str,
        soup: Sequence[str],
        save_memory: bool = False,
    ) -> None:
        self.encoder, self.student = encoder, student
        self.text_tower = TrainableTextTower(student.model, save_memory=save_memory)
        vit = bool(len(student.image_blocks))  # another tower is called as a whole, and never trained
        model: Any = encoder.model
        self.frozen_images: Any = FrozenImageTower(model, dtype=encoder.dtype) if vit else model.encode_image
        self.image_tower: Any = TrainableImageTower(student.model, save_memory=save_memory) if vit else None
        self.frozen_texts = TrainableTextTower(encoder.model)
        stems = prompts.stems(template, class_names)
        self.members = len(student.soft_descriptors) or len(soup)
        self._tokens = [self._tokenize(stems, text) for text in soup]
        self._bare = self._tokenize(stems, "") if len(student.soft_descriptors) else None
        self._prompted = student.soft_prompt is not None
        self._fixed_trunk = (
            student.visual_prompts is None and student.projector is None and _untouched(student, "image")
        )
        self._fixed_texts = not self._prompted and not len(student.soft_descriptors) and _untouched(student, "text")
        self._texts: dict[int, Texts] = {}
        self._places: Tensor | None = None
        self._states: dict[int, TextState] = {}
        self._text_features: dict[int, Tensor] = {}
        self._teacher_texts: dict[int, Tensor] = {}
        self._image_features: Tensor | None = None

    @property
    def saves_memory(self) -> bool:
        """Whether activations are computed again in the backward pass instead of being kept."""
        return self.text_tower.save_memory

    def save_memory(self) -> None:
        """Compute activations again in the backward pass from now on."""
        for tower in (self.text_tower, self.image_tower):
            if tower is not None:
                tower.save_memory = True

    # --------------------------------------------------------------------------------------------------- images

    def keep_images(self, batches: Sequence[Tensor]) -> None:
        """Compute the trunk's features of all images once; later `images` takes positions instead of pixels."""
        with torch.no_grad(), self.encoder.autocast():
            parts = [self.frozen_images(pixels.to(self.encoder.device)).float() for pixels in batches]
        self._image_features = torch.cat(parts)

    @property
    def trunk_is_fixed(self) -> bool:
        """Whether the image tower itself is left alone (an adapter behind it is not part of it)."""
        return self._fixed_trunk

    def images(
        self, pixels: Tensor | None, *, positions: Tensor | None = None, teacher: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Features (B, D) of the student, with gradient, and of the teacher where it is asked for.

        Args:
            pixels: (B, 3, H, W), or None after `keep_images`.
            positions: (B,) positions in what `keep_images` was given.
            teacher: whether the teacher's are needed.
        """
        with self.encoder.autocast():
            raw, frozen = self._raw_images(pixels, positions=positions, teacher=teacher)
            if self.student.image_adapter is not None:
                raw = self.student.image_adapter(raw)
        return F.normalize(raw.float(), dim=-1), None if frozen is None else F.normalize(frozen.float(), dim=-1)

    def _raw_images(
        self, pixels: Tensor | None, *, positions: Tensor | None, teacher: bool
    ) -> tuple[Tensor, Tensor | None]:
        if pixels is None:
            assert self._image_features is not None
            raw = self._image_features[positions]
            return raw, raw
        pixels = pixels.to(self.encoder.device, non_blocking=True)
        if self._fixed_trunk:
            with torch.no_grad():
                raw = self.frozen_images(pixels)
            return raw, raw
        prompts = self.student.image_prompts()
        last = len(self.image_tower.blocks) - 1
        if prompts is not None:
            with torch.no_grad():
                frozen = self.frozen_images(pixels) if teacher else None
            return self.image_tower(pixels, prompts=prompts), frozen
        shared = min(self.student.first_image_block, last)
        with torch.no_grad():
            x = self.frozen_images.run(self.frozen_images.start(pixels), first=0, stop=shared)
            frozen = self.frozen_images.finish(self.frozen_images.run(x, first=shared, stop=last)) if teacher else None
        return self.image_tower.finish(self.image_tower.run(x, first=shared, stop=last)), frozen

    # ---------------------------------------------------------------------------------------------------- texts

    def texts(self, member: int, *, classes: Tensor | None = None) -> Tensor:
        """The student's features of one member of the soup, or of one soft descriptor: (C, D), with gradient.

        Args:
            member: index into the soup, or into the soft descriptors.
            classes: only these, in this order; None for all.
        """
        if self._fixed_texts:
            features = self.teacher_texts(member)
            return features if classes is None else features[classes]
        with self.encoder.autocast():
            texts, soft = self._text_inputs(member)
            first = 0 if self._prompted or soft is not None else min(self.student.first_text_block, self._last)
            state = self._lower(member, texts, first) if first else None
            if classes is not None:
                texts = texts.take(classes)
                state = state and TextState(state.head, state.tail[classes])
                soft = soft and (soft[0][classes], soft[1])
            return F.normalize(self._encode(texts, soft=soft, state=state, first=first).float(), dim=-1)

    def teacher_texts(self, member: int) -> Tensor:
        """The pretrained model's features of one member of the soup: (C, D), computed once."""
        if member not in self._teacher_texts:
            with torch.no_grad(), self.encoder.autocast():
                features = self.frozen_texts(self.frozen_texts.prepare(self._tokens[member]))
                self._teacher_texts[member] = F.normalize(features.float(), dim=-1)
        return self._teacher_texts[member]

    @property
    def _last(self) -> int:
        return len(self.text_tower.blocks) - 1

    def _tokenize(self, stems: Sequence[str], text: str) -> Tensor:
        texts = [stem + prompts.ending(text, period=True) for stem in stems]
        return self.encoder.tokenizer(texts).to(self.encoder.device)

    def _text_inputs(self, member: int) -> tuple[Texts, tuple[Tensor, Tensor] | None]:
        """Prepared texts of one member, and where a soft descriptor goes in them."""
        student_prompts = self.student.soft_prompt
        n_prompt = 0 if student_prompts is None else len(student_prompts)
        if not len(self.student.soft_descriptors):
            if member not in self._texts:
                self._texts[member] = self.text_tower.prepare(self._tokens[member], n_prompt=n_prompt)
            return self._texts[member], None
        if self._places is None:
            assert self._bare is not None
            tokens, self._places = self.student.with_descriptor(self._bare)
            before = int(self._places.min())
            self._texts[0] = self.text_tower.prepare(tokens, n_prompt=n_prompt, before=before)
        return self._texts[0], (self._places, self.student.soft_descriptors[member])

    def _lower(self, member: int, texts: Texts, first: int) -> TextState:
        """Texts before block `first`, below which nothing is trained: computed once."""
        if member not in self._states:
            with torch.no_grad():
                start = self.frozen_texts.start(texts)
                self._states[member] = self.frozen_texts.run(start, texts, first=0, stop=first)
        return self._states[member]

    def _encode(
        self, texts: Texts, *, soft: tuple[Tensor, Tensor] | None, state: TextState | None, first: int
    ) -> Tensor:
        text_prompts = self.student.text_prompts()
        if state is None:
            state = self.text_tower.start(texts, prompts=text_prompts, soft=soft)
        state = self.text_tower.run(state, texts, first=first, stop=self._last, prompts=text_prompts)
        return self.text_tower.finish(state, texts, prompts=text_prompts)


def _untouched(student: Student, tower: str) -> bool:
    """Whether nothing of a tower's own weights is open for training."""
    inside = student.model.visual if tower == "image" else student.text_tower
    names = () if tower == "image" else ("visual.",)
    return not any(p.requires_grad for name, p in inside.named_parameters() if not name.startswith(tuple(names)))
