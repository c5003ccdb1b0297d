"""Features during training, each computed as rarely as possible.

* The teacher (the pretrained model) and the student share the frozen lower blocks of an image.
* The teacher's text features are computed once per member of the soup; so are frozen lower text blocks without a
  prompt, and the text features of a text tower that is not trained at all.
"""

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.finetune.image_tower import FrozenImageTower, TrainableImageTower
from wsoup.finetune.student import Student
from wsoup.finetune.text_tower import TextState, TrainableTextTower
from wsoup.towers.encoder import Encoder
from wsoup.towers.models import ensemble_templates

CLASS_WEIGHTS = "class_weights"


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
        self.encoder = encoder
        self.student = student
        self.text_tower = TrainableTextTower(student.model)
        self.frozen_texts = TrainableTextTower(encoder.model)
        self.image_tower = TrainableImageTower(student.model)
        self.frozen_images = FrozenImageTower(encoder.model, dtype=encoder.dtype)
        self.class_names = class_names
        self._tokens = [self._tokenize(text, template=template) for text in soup]
        self._positions: Tensor | None = None  # (C, n), of the soft descriptor in every text
        if student.soft_descriptors is not None:
            texts, self._positions = student.prepare(self.text_tower, self._tokenize("", template=template))
            self._texts = [texts] * len(student.soft_descriptors)
        else:
            self._texts = [student.prepare(self.text_tower, tokens)[0] for tokens in self._tokens]
        self.members = len(self._texts)
        learns_inputs = student.soft_prompt is not None or self._positions is not None
        # What is learnt at the input changes every block; else the blocks below the trained ones run once.
        self._first_block = 0
        if not learns_inputs:
            self._first_block = max(0, len(self.text_tower.blocks) - max(student.blocks, 1))
        in_towers = [name for name in student.trained_names if name.startswith("model.")]
        trains_trunk = any(name.startswith("model.visual.") for name in in_towers)
        trains_texts = any(not name.startswith("model.visual.") for name in in_towers)
        has_image_prompts = student.visual_prompts is not None or student.projector is not None
        self.trunk_is_fixed = not has_image_prompts and not trains_trunk
        """Whether the image tower is not trained; an adapter after it does not count."""
        self._texts_are_fixed = not learns_inputs and not trains_texts
        self.trains_classes = False
        """Whether class weights alone are trained, which stand in place of the class texts."""
        # Caches of this object alone: on the class, they would keep every model of a process alive.
        self.teacher_texts = cache(self._teacher_texts)
        self.template_texts = cache(self._template_texts)
        self._fixed_texts = cache(self._encode_texts)
        self._lower_state = cache(self._run_lower_blocks)

    def save_memory(self) -> None:
        """Recompute activations in the backward pass from now on."""
        self.text_tower.save_memory = True
        self.image_tower.save_memory = True

    @torch.no_grad()
    def begin_class_weights(self) -> None:
        """Set the class weights to the direction of the class texts, over all members of the soup, and train them."""
        members = torch.stack([self.texts(member) for member in range(self.members)])
        self.student.class_weights.copy_(F.normalize(members.mean(dim=0), dim=-1))
        self.train_class_weights()

    def train_class_weights(self) -> None:
        """Train the class weights alone from here on."""
        self.trains_classes = True
        for name, parameter in self.student.trained().items():
            parameter.requires_grad_(name == CLASS_WEIGHTS)

    def images(self, pixels: Tensor, *, teacher: bool) -> tuple[Tensor, Tensor | None]:
        """Features (B, D) of the student, with gradient, and of the teacher if needed.

        Args:
            pixels: (B, 3, H, W) float32, normalised, on the encoder's device.
            teacher: whether the teacher's are needed.
        """
        with self.encoder.training():
            raw, frozen = self._raw_images(pixels, teacher=teacher)
            if self.student.image_adapter is not None:
                raw = self.student.image_adapter(raw)
        features = F.normalize(raw.float(), dim=-1)
        if frozen is None:
            return features, None
        return features, F.normalize(frozen.float(), dim=-1)

    def _raw_images(self, pixels: Tensor, *, teacher: bool) -> tuple[Tensor, Tensor | None]:
        """Features (B, D) of the student and of the teacher, or None, not normalised and without the adapter."""
        image_prompts = self.student.image_prompts()
        if image_prompts is not None:
            frozen = self._frozen(pixels) if teacher else None
            return self.image_tower(pixels, prompts=image_prompts), frozen
        if self.trunk_is_fixed:
            features = self._frozen(pixels)
            return features, features
        # The last block is always left for `run_from`, which computes only the row that is read.
        n_shared = max(0, len(self.image_tower.blocks) - max(self.student.blocks, 1))
        with torch.no_grad():
            x = self.frozen_images.run(self.frozen_images.start(pixels), first=0, stop=n_shared)
            frozen = self.frozen_images.run_from(x, first=n_shared) if teacher else None
        return self.image_tower.run_from(x, first=n_shared), frozen

    @torch.no_grad()
    def _frozen(self, pixels: Tensor) -> Tensor:
        return self.frozen_images(pixels)

    def texts(self, member: int, *, classes: Tensor | None = None) -> Tensor:
        """The student's text features with one member of the soup or one soft descriptor: (C, D), with gradient.

        Args:
            member: index into the soup, or into the soft descriptors.
            classes: of these classes only, on the CPU; None: of all.
        """
        if self.trains_classes:
            return F.normalize(self.student.class_weights, dim=-1)
        if not self._texts_are_fixed:
            return self._encode_texts(member, classes=classes)
        with torch.no_grad():
            features = self._fixed_texts(member)
        if classes is None:
            return features
        return features[classes.to(features.device, non_blocking=True)]

    def _encode_texts(self, member: int, *, classes: Tensor | None = None) -> Tensor:
        texts = self._texts[member]
        positions = self._positions
        first = self._first_block
        state = self._lower_state(member) if first else None
        if classes is not None:
            rows = classes.to(self.encoder.device, non_blocking=True)
            texts = texts.take(classes)
            if positions is not None:
                positions = positions[rows]
            if state is not None:
                state = TextState(state.head, state.tail[rows])
        with self.encoder.training():
            text_prompts = self.student.text_prompts()
            if state is None:
                soft = None if positions is None else (positions, self.student.soft_descriptors[member])
                state = self.text_tower.start(texts, prompts=text_prompts, soft=soft)
            features = self.text_tower.run_from(state, texts, first=first, prompts=text_prompts)
        return F.normalize(features.float(), dim=-1)

    def _teacher_texts(self, member: int) -> Tensor:
        """The pretrained model's text features with one member of the soup: (C, D), computed once."""
        return F.normalize(self._frozen_texts(self._tokens[member]), dim=-1)

    def _template_texts(self, count: int) -> Tensor:
        """The pretrained model's mean over the first `count` of OpenAI's templates: (C, D), computed once.

        As in PromptSRC's code the mean is of features of any length, and is then normalised.
        """
        total: Tensor | float = 0.0
        for fill in ensemble_templates()[:count]:
            tokens = self._tokens_of([fill(name) for name in self.class_names])
            total = total + self._frozen_texts(tokens)
        return F.normalize(torch.as_tensor(total), dim=-1)

    @torch.no_grad()
    def _frozen_texts(self, tokens: Tensor) -> Tensor:
        """The pretrained model's text features, not normalised: (B, context) -> (B, D) float32."""
        with self.encoder.training():
            return self.frozen_texts(self.frozen_texts.prepare(tokens)).float()

    def _tokenize(self, text: str, *, template: str) -> Tensor:
        return self._tokens_of([prompts.prompt(template, name, text) for name in self.class_names])

    def _tokens_of(self, texts: Sequence[str]) -> Tensor:
        return self.encoder.tokenizer(list(texts)).to(self.encoder.device)

    @torch.no_grad()
    def _run_lower_blocks(self, member: int) -> TextState:
        """Texts before the first trained block, computed once."""
        texts = self._texts[member]
        with self.encoder.training():
            state = self.frozen_texts.start(texts)
            return self.frozen_texts.run(state, texts, first=0, stop=self._first_block)
