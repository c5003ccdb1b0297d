"""The model during and after training: a copy of the pretrained one with prompts and adapters.

It encodes like open_clip's model and shares every frozen block below the trained ones with the pretrained model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from wsoup.base.errors import ModelError, PoolError
from wsoup.finetune.image_tower import TrainableImageTower
from wsoup.finetune.text_tower import Texts, TrainableTextTower
from wsoup.towers.blocks import foreign_block
from wsoup.towers.pooling import end_of_text


class Student(nn.Module):
    """An open_clip model with trained additions; any other attribute is the open_clip model's.

    Attributes:
        model: the open_clip model; blocks below the trained ones are shared with the pretrained model.
        soft_prompt: (n, width) embeddings that replace tokens 1..n of every text, or None.
        deep_prompts: (depth - 1, n, width) that replace them again before blocks 1, 2, ..., or None.
        visual_prompts: (depth, n, image width), or None.
        projector: text prompts -> visual prompts (MaPLe), or None.
        image_adapter: (B, D) -> (B, D) on image features, or None.
        soft_descriptors: (M, n, width), each used as a descriptor; a text is encoded as their centroid. Or None.
        class_weights: (C, D) in place of the source's class texts, zero until they are trained; or None.
        class_names: whose weights these are.
        blocks: how many last blocks of either tower are not shared with the pretrained model; all, if it has fewer.
        trained_names: names of the trained parameters.
        stored_names: names of the parameters to store, including random ones that are not trained.
        tunes_images: whether image features differ from the pretrained model's.
        comma, period: their token ids, for inserting a soft descriptor.
    """

    def __init__(self, model: nn.Module, *, blocks: int, tokenizer: Callable[[Sequence[str]], Tensor]) -> None:
        super().__init__()
        check_model(model)
        self.model: Any = _copy_above(model, blocks=blocks)
        for name in ("soft_prompt", "deep_prompts", "soft_descriptors", "visual_prompts", "class_weights"):
            self.register_parameter(name, None)
        for name in ("image_adapter", "projector"):
            self.register_module(name, None)
        comma, period = tokenizer([",", "."])
        # The first token is the start of text.
        self.comma = int(comma[1])
        self.period = int(period[1])
        self.blocks = blocks
        self.tunes_images = False
        self.class_names: tuple[str, ...] = ()
        self.trained_names: tuple[str, ...] = ()
        self.stored_names: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        # Parameters and modules of torch are found here, too, so these come first.
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    @property
    def text_tower(self) -> Any:
        """The module with the text tower's parts: the model itself (CLIP) or its `text` (CustomTextCLIP)."""
        return getattr(self.model, "text", self.model)

    @property
    def image_blocks(self) -> Any:
        """Blocks of the image tower."""
        return self.model.visual.transformer.resblocks

    @property
    def text_blocks(self) -> Any:
        """Blocks of the text tower."""
        return self.text_tower.transformer.resblocks

    def embeddings(self, tokens: Tensor) -> Tensor:
        """The pretrained embeddings of token ids (n,), without gradient: (n, width)."""
        weight = self.text_tower.token_embedding.weight
        return weight[tokens.to(weight.device)].detach()

    def text_prompts(self) -> Tensor | None:
        """(depth, n, width), or None."""
        if self.soft_prompt is None:
            return None
        if self.deep_prompts is None:
            return self.soft_prompt[None]
        return torch.cat([self.soft_prompt[None], self.deep_prompts])

    def image_prompts(self) -> Tensor | None:
        """(depth, n, image width), or None."""
        if self.projector is None:
            return self.visual_prompts
        return self.projector(self.text_prompts())

    def prepare(self, tower: TrainableTextTower, tokens: Tensor) -> tuple[Texts, Tensor | None]:
        """Texts (B, context), with room for a soft descriptor if there are any, and then its positions (B, n)."""
        n_prompt = 0 if self.soft_prompt is None else len(self.soft_prompt)
        if self.soft_descriptors is None:
            return tower.prepare(tokens, n_prompt=n_prompt), None
        n = self.soft_descriptors.shape[1]
        tokens, positions = insert_descriptor(tokens, n=n, comma=self.comma, period=self.period)
        return tower.prepare(tokens, n_prompt=n_prompt, before=int(positions.min())), positions

    def encode_image(self, pixels: Tensor, normalize: bool = False) -> Tensor:
        """(B, 3, H, W) -> (B, D)."""
        prompts = self.image_prompts()
        if prompts is None:
            features = self.model.encode_image(pixels)
        else:
            features = TrainableImageTower(self.model)(pixels, prompts=prompts)
        if self.image_adapter is not None:
            features = self.image_adapter(features)
        if not normalize:
            return features
        return F.normalize(features, dim=-1)

    def encode_text(self, tokens: Tensor, normalize: bool = False) -> Tensor:
        """(B, context) int64 -> (B, D); with soft descriptors, the centroid over them."""
        tower = TrainableTextTower(self.model)
        prompts = self.text_prompts()
        texts, positions = self.prepare(tower, tokens)
        if positions is None:
            features = tower(texts, prompts=prompts)
        else:
            members = [tower(texts, prompts=prompts, soft=(positions, soft)) for soft in self.soft_descriptors]
            stacked = torch.stack(members).float()  # (M, B, D)
            # Members are of equal length before the mean is taken, as those of a soup are.
            features = F.normalize(stacked, dim=-1).mean(dim=0)
        if not normalize:
            return features
        return F.normalize(features, dim=-1)

    def class_directions(self) -> dict[str, Tensor]:
        """The directions (D,) of the trained class weights by class name, float32; none if none have been trained."""
        if self.class_weights is None:
            return {}
        directions = F.normalize(self.class_weights.detach().float(), dim=-1)
        return {name: of_class for name, of_class in zip(self.class_names, directions, strict=True) if of_class.any()}

    def trained(self) -> dict[str, nn.Parameter]:
        """The trained parameters by name."""
        return {name: self.get_parameter(name) for name in self.trained_names}

    def stored(self) -> dict[str, nn.Parameter]:
        """The parameters to store, by name."""
        return {name: self.get_parameter(name) for name in self.stored_names}

    def merge(self) -> Student:
        """Fold low-rank updates, scales and shifts into the weights, exactly, and freeze all parameters."""
        # Lists, because removing a parametrization changes what is gone through.
        for module in list(self.model.modules()):
            if parametrize.is_parametrized(module):
                for name in list(module.parametrizations):
                    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
        return self.requires_grad_(False).eval()


def check_model(model: nn.Module) -> None:
    """Raise ModelError unless an open_clip model can be trained: two standard transformers, the paper's models."""
    needed = _needed_instead(model)
    if needed is not None:
        raise ModelError(
            f"finetuning needs {needed}; choose a ViT CLIP, for example encoder.model: ViT-B-16, or a head "
            "(section heads), which takes any model"
        )


def _needed_instead(model: nn.Module) -> str | None:
    """What a model would have to have to be trained, and what it has; None if it can be trained."""
    visual: Any = getattr(model, "visual", None)
    text: Any = getattr(model, "text", model)
    image_blocks = _blocks(visual)
    text_blocks = _blocks(text)
    is_vit = hasattr(visual, "class_embedding") and len(image_blocks) > 0 and len(text_blocks) > 0
    has_image_projection = isinstance(getattr(visual, "proj", None), Tensor)
    has_text_projection = isinstance(getattr(text, "text_projection", None), Tensor)
    if not is_vit or not has_image_projection or not has_text_projection:
        towers = f"{type(visual).__name__} and {type(text).__name__}"
        return f"towers of open_clip's VisionTransformer and TextTransformer with projections, found {towers}"
    foreign = foreign_block([*image_blocks, *text_blocks])
    if foreign:
        return f"towers with standard blocks, found {foreign}"
    reads_class_embedding = getattr(text, "cls_emb", None) is not None
    if reads_class_embedding or text.attn_mask is None or end_of_text(text) is None:
        return "a causal text tower that is read at the end of the text (CoCa's and SigLIP's are not)"
    return None


def _blocks(tower: object) -> Sequence[Any]:
    """The blocks of a transformer; none if it is not one."""
    return getattr(getattr(tower, "transformer", None), "resblocks", ())


def _copy_above(model: Any, *, blocks: int) -> nn.Module:
    """A copy that shares with `model` the embeddings and all but the last `blocks` blocks of both towers, if any."""
    text = getattr(model, "text", model)
    visual = model.visual
    shared = [text.token_embedding, visual.conv1]
    for layers in (text.transformer.resblocks, visual.transformer.resblocks):
        shared += layers[: max(0, len(layers) - blocks)]
    # `deepcopy` takes what is in its memo for copied already.
    return copy.deepcopy(model, memo={id(module): module for module in shared})


def insert_descriptor(tokens: Tensor, *, n: int, comma: int, period: int) -> tuple[Tensor, Tensor]:
    """Put a comma and n more tokens in place of each text's final period, or at its end if it has none.

    Args:
        tokens: (B, context) int64, zero after the end-of-text, which has the highest id.
        n: tokens of the soft descriptor.
        comma, period: token ids.

    Returns:
        (B, context) tokens, with commas in place of the descriptor, and its positions (B, n).

    Raises:
        PoolError: a text is too long.
    """
    count, context = tokens.shape
    rows = torch.arange(count, device=tokens.device)
    end = tokens.argmax(dim=1)
    longest = int(end.max()) + 1
    if longest + n >= context:
        raise PoolError(f"a text of {longest} tokens has no room for {n} soft tokens in {context}; train fewer")
    has_period = tokens[rows, end - 1] == period  # (B,)
    comma_at = torch.where(has_period, end - 1, end)
    at = comma_at[:, None]  # (B, 1)
    # What follows moves by the comma and n tokens, less the period that the comma replaces.
    shift = n + 1 - has_period[:, None].long()
    position = torch.arange(context, device=tokens.device).expand(count, -1)
    # Positions before the comma keep their token; the others' is so many places to the left.
    source = torch.where(position < at, position, (position - shift).clamp(min=0))
    is_inserted = (position >= at) & (position <= at + n)
    moved = tokens.gather(1, source).masked_fill(is_inserted, comma)
    return moved, at + 1 + torch.arange(n, device=tokens.device)
