"""What finetuning a method needs, and what seeing the test images with finetuned models does."""

import math

from wsoup.finetune.params import FinetuneParams, MethodParams
from wsoup.finetune.tune_params import BlocksTune, ImageAdapterTune, LastBlocksTune
from wsoup.pipeline.planning.need import Need
from wsoup.pipeline.planning.tower_sizes import Towers

SEEDS_AT_ONCE = 3
"""As in `wsoup.evaluate.seen`, which a plan does not import."""
PROMPT_TOKENS = 10
"""Tokens of a class prompt in training, where nothing is shared."""


def trained_blocks(method: MethodParams, *, towers: Towers) -> int:
    """Blocks of the image tower from the first that training changes to the last; 0 if it changes none of them."""
    tune = method.tune
    if not tune.tunes_images or isinstance(tune, ImageAdapterTune):
        return 0
    if isinstance(tune, BlocksTune | LastBlocksTune):
        return min(tune.blocks, towers.image_blocks)
    # Visual prompts go through all of them.
    return towers.image_blocks


def trained(
    method: MethodParams, *, shared: FinetuneParams, towers: Towers, n_seeds: int, classes: int, image_bytes: float
) -> Need:
    """Of stage finetune: all seeds of a method, each a shard."""
    trainings = n_seeds
    if method.select is not None:
        trainings += n_seeds * len(method.select.learning_rate)
    steps = (method.iterations or shared.iterations) * trainings
    at_once = min(method.batch_size or shared.batch_size, classes)
    images = steps * at_once
    blocks = trained_blocks(method, towers=towers)
    text_flops = steps * classes * PROMPT_TOKENS * towers.token_flops
    image_flops = images * towers.image_flops
    # A second stage, of class weights alone, sees images and goes back through no tower.
    through_towers = method.tune.share_of_towers
    # Forward and back through a tower is three times forward; back goes no further than to the first trained block.
    back = 2 * image_flops * through_towers * blocks / towers.image_blocks
    flops = 3 * text_flops * through_towers + image_flops + back
    kept = towers.kept_of_texts(classes * PROMPT_TOKENS) + towers.kept_of_images(at_once, blocks=blocks)
    return Need(
        steps, classes, images, flops, images * image_bytes, device_memory=towers.weights + kept, shards=n_seeds
    )


def seen(method: MethodParams, *, towers: Towers, n_seeds: int, n_test: int) -> Need:
    """Test images as the models of all seeds see them, `SEEDS_AT_ONCE` models in one pass over the images.

    An image is decoded once in a pass, goes once through blocks that models share, and through its own with each.
    """
    if not method.tune.tunes_images:
        return Need(device_memory=towers.weights)
    trained = trained_blocks(method, towers=towers)
    # The last block is each model's own, whatever was trained.
    own = max(1, trained)
    passes = math.ceil(n_seeds / SEEDS_AT_ONCE)
    in_blocks = n_seeds * own + passes * (towers.image_blocks - own)  # that an image goes through
    return Need(
        images=passes * n_test,
        flops=n_test * towers.image_flops * in_blocks / towers.image_blocks,
        # A model has the blocks of its own that it trained.
        device_memory=towers.weights * (1 + min(n_seeds, SEEDS_AT_ONCE) * trained / towers.image_blocks),
    )
