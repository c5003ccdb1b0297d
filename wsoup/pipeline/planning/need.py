"""What one stage needs, and how its work is divided."""

from typing import NamedTuple


class Need(NamedTuple):
    """What a stage needs.

    Attributes:
        texts: texts with each of some classes.
        classes: those classes.
        images: images to decode.
        flops: work in FLOP, of which `alone` is done after all shards, in one process.
        image_bytes: bytes of image files to decode.
        memory: bytes in the memory of the machine.
        device_memory: bytes in that of the device; on a CPU they are the machine's, too.
        shards: pieces of the work that devices can share.
        alone: FLOP.
    """

    texts: int = 0
    classes: int = 0
    images: int = 0
    flops: float = 0
    image_bytes: float = 0
    memory: float = 0
    device_memory: float = 0
    shards: int = 1
    alone: float = 0
