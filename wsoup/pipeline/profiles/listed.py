"""Section datasets for your own images that are no class folders: a list, shards, a folder with lists."""

from collections.abc import Sequence
from typing import NamedTuple

from wsoup.datasets import manifest
from wsoup.datasets.given import given
from wsoup.params.inputs import DatasetParams


class ListedSource(NamedTuple):
    """The source.

    Attributes:
        section: of params.yaml, but for role and template.
        class_names: C names in label order.
        notes: lines to say: what is left out, and how the images are divided.
    """

    section: dict[str, object]
    class_names: list[str]
    notes: Sequence[str]


def source(images: str, *, fraction: float | None, classes: str | None) -> ListedSource:
    """The source in a place, see `wsoup.datasets.given.given`, whose arguments and errors are these."""
    found = given(images, fraction=fraction, classes=classes)
    params = DatasetParams.model_validate({"role": "source", "template": "{}", **found.section})
    listing = manifest.read_listing("images", params=params)
    return ListedSource(found.section, listing.class_names, found.notes)
