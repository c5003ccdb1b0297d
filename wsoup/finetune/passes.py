"""Features during training, each computed as rarely as possible.

* The teacher (the pretrained model) and the student share the frozen lower blocks of an image.
* If the image trunk is not trained and there is no augmentation, image features are computed once.
* The teacher's text features are computed once per member of the soup; so are frozen lower text blocks without a
  prompt, and the text features of a text tower that is not trained at all.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.finetune.student import Student
from wsoup.finetune.towers import FrozenImageTower, TextState, TrainableImageTower, TrainableTextTower
from wsoup.towers.encoder import Encoder

IMAGES_PER_PASS = 64


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
        self.text_tower = TrainableTextTower(student.model)
        model: Any = encoder.model
        vit = bool(len(student.image_blocks))  # another tower is called whole, and never trained
        self.frozen_images: Any = FrozenImageTower(model, dtype=encoder.dtype) if vit else model.encode_image
        self.image_tower: Any = TrainableImageTower(student.model) if vit else None
        self.frozen_texts = TrainableTextTower(encoder.model)
        stems = prompts.stems(template, class_names)
        self.members = len(soup) if student.soft_descriptors is None else len(student.soft_descriptors)
        self._tokens = [self._tokenize(stems, text) for text in soup]
        self._positions: Tensor | None = None  # (C, n), of the soft descriptor in every text
        n_prompt = 0 if student.soft_prompt is None else len(student.soft_prompt)
        if student.soft_descriptors is not None:
            tokens, self._positions = student.with_descriptor(self._tokenize(stems, ""))
            texts = self.text_tower.prepare(tokens, n_prompt=n_prompt, before=int(self._positions.min()))
            self._texts = [texts] * self.members
        else:
            self._texts = [self.text_tower.prepare(tokens, n_prompt=n_prompt) for tokens in self._tokens]
        learns_inputs = bool(n_prompt) or self._positions is not None
        self._first_block = 0 if learns_inputs else min(student.first_text_block, len(self.text_tower.blocks) - 1)
        trained, changed = _towers(student.trained_names), _towers(student.stored_names)
        prompted = student.visual_prompts is not None or student.projector is not None
        self.trunk_is_fixed = not prompted and "image" not in trained
        """Whether the image tower is not trained; an adapter after it does not count."""
        self._fixed_texts = not learns_inputs and "text" not in trained
        self._texts_are_teachers = self._fixed_texts and "text" not in changed
        self._fixed_features: dict[int, Tensor] = {}
        self._lower_states: dict[int, TextState] = {}
        self._teacher_texts: dict[int, Tensor] = {}
        self._image_features: Tensor | None = None

    @property
    def saves_memory(self) -> bool:
        """Whether activations are recomputed in the backward pass."""
        return self.text_tower.save_memory

    def save_memory(self) -> None:
        """Recompute activations in the backward pass from now on."""
        for tower in (self.text_tower, self.image_tower):
            if tower is not None:
                tower.save_memory = True

    # --------------------------------------------------------------------------------------------------- images

    def keep_images(self, batches: Sequence[Tensor]) -> None:
        """Compute the trunk's features of all images, so that `images` takes positions instead of pixels."""
        with torch.no_grad(), self.encoder.autocast():
            parts = [self.frozen_images(pixels.to(self.encoder.device)).float() for pixels in batches]
        self._image_features = torch.cat(parts)

    def images(
        self, pixels: Tensor | None, *, positions: Tensor | None = None, teacher: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Features (B, D) of the student, with gradient, and of the teacher if needed.

        Args:
            pixels: (B, 3, H, W), or None after `keep_images`.
            positions: (B,) positions among the images given to `keep_images`.
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
        if self.trunk_is_fixed:
            with torch.no_grad():
                raw = self.frozen_images(pixels)
            return raw, raw
        prompts = self.student.image_prompts()
        if prompts is not None:
            with torch.no_grad():
                frozen = self.frozen_images(pixels) if teacher else None
            return self.image_tower(pixels, prompts=prompts), frozen
        shared = min(self.student.first_image_block, len(self.image_tower.blocks) - 1)
        with torch.no_grad():
            x = self.frozen_images.run(self.frozen_images.start(pixels), first=0, stop=shared)
            frozen = self.frozen_images.run_from(x, first=shared) if teacher else None
        return self.image_tower.run_from(x, first=shared), frozen

    # ---------------------------------------------------------------------------------------------------- texts

    def texts(self, member: int, *, classes: Tensor | None = None) -> Tensor:
        """The student's text features with one member of the soup or one soft descriptor: (C, D), with gradient.

        Args:
            member: index into the soup, or into the soft descriptors.
            classes: of these classes only; None: of all.
        """
        if self._fixed_texts:
            features = self.teacher_texts(member) if self._texts_are_teachers else self._fixed_text_features(member)
            return features if classes is None else features[classes]
        return self._encode_texts(member, classes=classes)

    def _fixed_text_features(self, member: int) -> Tensor:
        """Features from a tower that is not trained but differs from the pretrained one, computed once."""
        if member not in self._fixed_features:
            with torch.no_grad():
                self._fixed_features[member] = self._encode_texts(member, classes=None)
        return self._fixed_features[member]

    def _encode_texts(self, member: int, *, classes: Tensor | None) -> Tensor:
        with self.encoder.autocast():
            texts, first = self._texts[member], self._first_block
            soft = None if self._positions is None else (self._positions, self.student.soft_descriptors[member])
            state = self._lower_state(member) if first else None
            if classes is not None:
                texts = texts.take(classes)
                state = state and TextState(state.head, state.tail[classes])
                soft = soft and (soft[0][classes], soft[1])
            text_prompts = self.student.text_prompts()
            state = state or self.text_tower.start(texts, prompts=text_prompts, soft=soft)
            return F.normalize(
                self.text_tower.run_from(state, texts, first=first, prompts=text_prompts).float(), dim=-1
            )

    def teacher_texts(self, member: int) -> Tensor:
        """The pretrained model's text features with one member of the soup: (C, D), computed once."""
        if member not in self._teacher_texts:
            with torch.no_grad(), self.encoder.autocast():
                features = self.frozen_texts(self.frozen_texts.prepare(self._tokens[member]))
                self._teacher_texts[member] = F.normalize(features.float(), dim=-1)
        return self._teacher_texts[member]

    def _tokenize(self, stems: Sequence[str], text: str) -> Tensor:
        texts = [stem + prompts.ending(text, period=True) for stem in stems]
        return self.encoder.tokenizer(texts).to(self.encoder.device)

    def _lower_state(self, member: int) -> TextState:
        """Texts before the first trained block, computed once."""
        if member not in self._lower_states:
            texts = self._texts[member]
            with torch.no_grad():
                start = self.frozen_texts.start(texts)
                self._lower_states[member] = self.frozen_texts.run(start, texts, first=0, stop=self._first_block)
        return self._lower_states[member]


def _towers(names: Sequence[str]) -> set[str]:
    """The towers ("image", "text") that some of the open_clip model's parameters belong to."""
    return {"image" if name.startswith("model.visual.") else "text" for name in names if name.startswith("model.")}
