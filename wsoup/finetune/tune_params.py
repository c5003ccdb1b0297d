"""What is trained: the settings of every kind of `tune`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wsoup.base.arguments import Flag
from wsoup.params.section import NO_BOOLEAN, Count, Fraction, NonNegativeInt, Place, Positive, Section


class AnyTune(Section):
    """Base of every kind of `tune`."""

    tunes_images: ClassVar[bool] = True
    """Whether image features change, so that test images must be encoded again."""
    prompt_key: ClassVar[str | None] = None
    """The field that says how many first tokens of the template are learnt; None if none are."""

    @property
    def n_prompt(self) -> int:
        """How many first tokens of the template are learnt."""
        if self.prompt_key is None:
            return 0
        n_tokens: int = getattr(self, self.prompt_key)
        return n_tokens

    @property
    def keeps_texts(self) -> bool:
        """Whether the texts of a soup stay as they are: no token of them is learnt, and nothing is put in."""
        return self.n_prompt == 0

    @property
    def share_of_towers(self) -> float:
        """Share of the iterations that train what lies in the towers; a second stage trains class weights."""
        return 1.0

    @property
    def trains_classes(self) -> bool:
        """Whether a second stage of training gives every class of the source a weight vector in place of its text."""
        return self.share_of_towers < 1


class PromptTune(AnyTune):
    """CoOp: the first `tokens` tokens of the template."""

    tunes_images = False
    prompt_key = "tokens"
    kind: Literal["prompt"]
    tokens: Count
    """Number of learnt tokens of the template."""


class LastBlocksTune(AnyTune):
    """The last blocks of both towers, their final norms and projections, and a text prompt (0 tokens: none)."""

    prompt_key = "prompt_tokens"
    kind: Literal["last_blocks"]
    blocks: Count
    """Number of last blocks."""
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]
    """Learnt tokens of the template; 0: none."""


class SoftDescriptorsTune(AnyTune):
    """`members` soft descriptors of `tokens` tokens each, and a text prompt (0 tokens: none).

    They start as words and a period, which is learnt and replaces the prompt's own. ProDA trains them together with a
    prompt. With cross entropy they are a CoOp ensemble: each is trained on its own, from scratch, for its share of the
    iterations, and only the descriptors are kept.
    """

    tunes_images = False
    prompt_key = "prompt_tokens"
    written = frozenset({"start", "words", "blocks"})
    kind: Literal["soft_descriptors"]
    members: Count
    """Number of soft descriptors."""
    tokens: Count
    """Tokens of each."""
    start: Literal["random", "soup"] = "random"
    """Words to start from: `random` ones, or those of the first members of the method's `soup`, cut or repeated to fit
    (the paper's loss landscape)."""
    words: Place | None = None
    """A list of words to start from, one a line, watched as `candidates.words.watch`; those of one token are drawn.
    null: common words of the tokenizer."""
    prompt_tokens: Annotated[NonNegativeInt, Field(le=10_000)]
    """Learnt tokens of the template; 0: none."""
    blocks: Annotated[NonNegativeInt, Field(le=10_000)] = 0
    """Last blocks of both towers, with final norms and projections, that are trained with each descriptor and restored
    after it; 0: none. The authors' CoOp ensemble trains 3 (argparse_parameters.py:37)."""

    @property
    def keeps_texts(self) -> bool:
        """Soft descriptors stand where a text would."""
        return False


class VisualPromptTune(AnyTune):
    """VPT: shallow (depth 1) or deep."""

    kind: Literal["visual_prompt"]
    tokens: Count
    """Learnt tokens in addition to the image's patches."""
    depth: Count
    """Blocks with learnt prompts; 1 is shallow."""


class MapleTune(AnyTune):
    """MaPLe: text prompts, deep where depth > 1, and a linear map from them to visual prompts."""

    prompt_key = "tokens"
    kind: Literal["maple"]
    tokens: Count
    """Learnt tokens of the template, and as many in addition to the patches."""
    depth: Count
    """Blocks with learnt prompts; 1 is shallow."""


class IndependentPromptsTune(AnyTune):
    """PromptSRC: text prompts and, independent of them, visual prompts, both deep where depth > 1."""

    prompt_key = "tokens"
    kind: Literal["independent_prompts"]
    tokens: Count
    """Learnt tokens of the template, and as many in addition to the patches."""
    depth: Count
    """Blocks with learnt prompts in each tower; 1 is shallow."""


class BlocksTune(AnyTune):
    """A `tune` inside the last blocks."""

    written = frozenset({"opens"})
    opens: Literal["both", "image_twice"] = "both"
    """`both` towers, as in the method's paper; or, as in the authors' code (trainer.py:201), only the image tower, with
    each parameter listed twice in the optimizer and so taking two steps at a time. Parameters that `ssf` and `adapter`
    add to the text tower then keep their initial values."""
    blocks: Count
    """Number of last blocks."""


class BitfitTune(BlocksTune):
    """The biases of the last blocks."""

    kind: Literal["bitfit"]


class LoraTune(BlocksTune):
    """A low-rank update of query and value in the last blocks."""

    written = frozenset({"opens", "piles_up"})
    kind: Literal["lora"]
    rank: Count
    """Rank of the update."""
    piles_up: Flag = False
    """During training every pass adds the update to the weights for good, as in the authors' code (models.py:185);
    false: every pass uses weights + update. Either way, the final update is added once."""


class ClipLoraTune(BlocksTune):
    """CLIP-LoRA: a low-rank update of query, key and value, alpha / sqrt(rank) times the product of its two factors."""

    kind: Literal["clip_lora"]
    rank: Count
    """Rank of the update (CLIP-LoRA: 2)."""
    alpha: Positive = 1.0
    """Scale of the update."""


class SsfTune(BlocksTune):
    """Scale and shift after both norms, attention and feed-forward of the last blocks."""

    kind: Literal["ssf"]


class AdapterTune(BlocksTune):
    """A bottleneck of width / reduction after the feed-forward part of the last blocks, blended at `ratio`."""

    kind: Literal["adapter"]
    reduction: Count
    """The bottleneck's width is width / reduction."""
    ratio: Fraction
    """Weight of the bottleneck in the output."""


class BlockNormsTune(AnyTune):
    """2SFS: both layer norms of every block of both towers, and then one weight vector for each class of the source.

    The authors' code lists the norms before and after the blocks, too, and then freezes them.
    """

    kind: Literal["block_norms"]
    first_stage: Annotated[float, Field(gt=0, lt=1), NO_BOOLEAN] | None = None
    """Share of the iterations that train norms, one or more (2SFS: 0.6). The others train class weights, which begin as
    the class texts, and the schedule begins again. null: all train norms, and every class has its text."""

    @property
    def share_of_towers(self) -> float:
        """The first stage's, if there are two."""
        return 1.0 if self.first_stage is None else self.first_stage


class ImageProjectionTune(AnyTune):
    """ProLIP: the matrix that projects image features into the space of texts."""

    kind: Literal["image_projection"]


class ImageAdapterTune(AnyTune):
    """CLIP-Adapter: a bottleneck on the image features, blended at `ratio`."""

    kind: Literal["image_adapter"]
    reduction: Count
    """The bottleneck's width is width / reduction."""
    ratio: Fraction
    """Weight of the bottleneck in the feature."""


TuneParams = (
    PromptTune
    | LastBlocksTune
    | SoftDescriptorsTune
    | VisualPromptTune
    | MapleTune
    | IndependentPromptsTune
    | BitfitTune
    | LoraTune
    | ClipLoraTune
    | SsfTune
    | AdapterTune
    | BlockNormsTune
    | ImageProjectionTune
    | ImageAdapterTune
)
