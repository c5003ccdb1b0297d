"""Features of folders of labelled photos and of texts for their classes, computed once for each encoder and folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsoup.api.images import encode_images
from wsoup.api.model import checked_logit_scale
from wsoup.api.soups import COMMON_WORDS, common_words
from wsoup.base.folder_names import proposed
from wsoup.core.draws import named_seed
from wsoup.core.member import Member
from wsoup.core.soup import EncoderId, Soup
from wsoup.datasets import folder
from wsoup.datasets.listing import Listing
from wsoup.disk import store
from wsoup.heads.in_turn import each_once
from wsoup.heads.zero_shot import class_texts
from wsoup.photos.classify import built_in_texts
from wsoup.photos.trial import CLASS_NAME, SOUP, TEMPLATES, WORDS
from wsoup.search.grow.sample import drawn_from
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

TEMPLATE = "a photo of a {}."
TEXT_ROWS = (CLASS_NAME, TEMPLATES, SOUP)
"""Rows of `wsoup try` that are texts, the simplest first."""


@dataclass(frozen=True)
class PhotoSet:
    """All photos of one folder, whatever split they are in, each picture once.

    Attributes:
        name: the folder.
        class_names: C names in label order.
        features, labels: (N, D) float32, L2-normalised, and (N,) int64.
        texts: class texts (C, D) by row of `TEXT_ROWS`.
        logit_scale, encoder: of the encoder, its scale of cosines and its id.
    """

    name: str
    class_names: list[str]
    features: Tensor
    labels: Tensor
    texts: dict[str, Tensor]
    logit_scale: float
    encoder: EncoderId


def photo_set(root: str, *, encoder: Encoder, cache: Path) -> PhotoSet:
    """Read a folder; features and texts come from `cache` if they are there.

    Args:
        root: a folder of <class>/<image>, or with train/ and test/ of such.
        encoder: whose features.
        cache: a folder outside the repository.

    Raises:
        MissingError, DataError: no such folder, or one that is not divided into classes.
    """
    listing = folder.read(root)
    names = proposed(folder.class_folders(root))
    file = cache / f"{named_seed(Path(root).resolve(), encoder.id, names):016x}.safetensors"
    if not file.is_file():
        _write(file, listing=listing, names=names, encoder=encoder)
    stored = store.unpack_arrays(file.read_bytes(), origin=file)
    arrays = {name: torch.from_numpy(np.array(array)) for name, array in stored.items()}
    features = arrays.pop("features")
    labels = arrays.pop("labels")
    kept = each_once(features, labels)
    return PhotoSet(root, names, features[kept], labels[kept], arrays, checked_logit_scale(encoder.model), encoder.id)


def _write(file: Path, *, listing: Listing, names: list[str], encoder: Encoder) -> None:
    """Encode the photos of one folder, and texts for its classes."""
    paths = []
    labels = []
    for split in listing.splits.values():
        paths += [str(Path(listing.root) / path) for path in split.paths]
        labels.append(split.labels)
    arrays = {row: texts.numpy() for row, texts in _texts(names, encoder=encoder).items()}
    arrays["features"] = encode_images(paths, model=encoder.model, preprocess=encoder.preprocess).numpy()
    arrays["labels"] = np.concatenate(labels)
    store.write_bytes(file, store.pack_arrays(arrays))


def _texts(names: list[str], *, encoder: Encoder) -> dict[str, Tensor]:
    """Class texts (C, D) of each row of `TEXT_ROWS`."""
    words = common_words(COMMON_WORDS)
    members = tuple(Member(words[i]) for i in drawn_from(words, m=WORDS, seed=1))
    soup = Soup("sample", 1, TEMPLATE, encoder.id, members, preprocessing=encoder.preprocessing)
    prompts = PromptEncoder.of(encoder)
    return {
        CLASS_NAME: built_in_texts("class_name", class_names=names, template=TEMPLATE, encoder=encoder),
        TEMPLATES: built_in_texts("templates", class_names=names, template=TEMPLATE, encoder=encoder),
        SOUP: class_texts(soup, template=TEMPLATE, class_names=names, text_encoder=prompts),
    }
