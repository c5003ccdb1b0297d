"""How much work a model's towers are, by its configuration alone."""

from __future__ import annotations

from dataclasses import dataclass

from wsoup.towers import config as models

RN50_FLOPS = 12e9
"""FLOPs of a ResNet of 16 blocks and width 64 on 224 x 224 pixels."""
KEPT = 20
"""Numbers as wide as the tower that training keeps of a token in a block: 16 (images) and 23 (texts) on one H100."""


@dataclass(frozen=True)
class Towers:
    """The two towers of a model; one that is neither a ViT nor a ResNet counts as a ViT-B-16.

    Attributes:
        text, vision: their configuration.
        size: D, the size of a feature.
    """

    text: models.Text
    vision: models.Vision
    size: int

    @classmethod
    def of(cls, config: models.Config | None) -> Towers:
        """Of a configuration; None counts as ViT-B-16, whose values open_clip's defaults are."""
        if config is None:
            return cls(models.Text(), models.Vision(), 512)
        return cls(config.text_cfg, config.vision_cfg, config.embed_dim)

    @property
    def token_flops(self) -> float:
        """FLOPs of one token of a text."""
        return self.text.layers * _block(self.text)

    @property
    def _side(self) -> int:
        """The longer side of an image in pixels."""
        size = self.vision.image_size
        return size if isinstance(size, int) else max(size)

    @property
    def image_tokens(self) -> int:
        """Tokens of one image: its patches and the class token."""
        return int((self._side // (self.vision.patch_size or 16)) ** 2 + 1)

    @property
    def image_blocks(self) -> int:
        """Blocks of the image tower; of a ResNet, all of its stages' blocks."""
        layers = self.vision.layers
        return layers if isinstance(layers, int) else sum(layers)

    @property
    def image_flops(self) -> float:
        """FLOPs of one image: a ViT's patches go through its blocks; a ResNet is compared with RN50."""
        vision = self.vision
        if isinstance(vision.layers, list):
            return RN50_FLOPS * sum(vision.layers) / 16 * (vision.width / 64) ** 2 * (self._side / 224) ** 2
        return vision.layers * _block(vision) * self.image_tokens

    @property
    def weights(self) -> float:
        """Bytes of both towers' weights in float32."""
        # A block's FLOPs for one token are two for each of its weights.
        of_blocks = (self.token_flops + self.image_blocks * _block(self.vision)) / 2
        return 4 * (of_blocks + self.text.vocab_size * self.text.width)

    def kept_of_texts(self, tokens: int) -> float:
        """Bytes that training keeps of some tokens of texts, in all blocks, to compute gradients."""
        return 4.0 * KEPT * tokens * self.text.layers * self.text.width

    def kept_of_images(self, images: int, *, blocks: int) -> float:
        """Bytes that training keeps of some images in its last blocks."""
        return 4.0 * KEPT * images * self.image_tokens * blocks * self.vision.width


def _block(tower: models.Vision | models.Text) -> float:
    """FLOPs of a token in one block: attention's four products and the two of the perceptron."""
    return 2 * (4 + 2 * tower.mlp_ratio) * tower.width**2
