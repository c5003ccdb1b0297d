"""What selection may see: the source's few-shot images and class names.

Everything that scores candidates or builds soups goes through `Source`, which reads the source's training features and
few-shot splits and nothing else. The stage graph also proves that no target is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import torch
from torch import Tensor

from wsoup.base.errors import MismatchError
from wsoup.core import prompts
from wsoup.disk import store
from wsoup.search.rank.image_set import ImageSet
from wsoup.texts import tokens
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.templates import template_blocks
from wsoup.towers.encoder import Encoder
from wsoup.towers.features import read_features
from wsoup.towers.run import Run


@dataclass(frozen=True)
class Source:
    """Images and class names of the source.

    Attributes:
        encoder: the model.
        image_features: (N, D) float32, the training images of all seeds.
        labels: (N,) int64.
        subsets: indices into the N images by seed: its few-shot images.
        template: the source's prompt template.
        class_names: C names in label order.
    """

    encoder: Encoder
    image_features: Tensor
    labels: Tensor
    subsets: dict[int, Tensor]
    template: str
    class_names: list[str]

    @cached_property
    def text_encoder(self) -> PromptEncoder:
        """The encoder's text side, which encodes every class with every candidate."""
        return PromptEncoder.of(self.encoder)

    def images(self) -> ImageSet:
        """All images, with the seeds as subsets, for scoring in one pass over the texts; on the encoder's device."""
        device = self.encoder.device
        return ImageSet(
            self.image_features.to(device),
            labels=self.labels.to(device),
            n_classes=len(self.class_names),
            subsets=[index.to(device) for index in self.subsets.values()],
        )

    def text_blocks(self, texts: Sequence[str], *, period: bool) -> Iterator[Tensor]:
        """Features of P texts with every class, in order: blocks (b, C, D) of bounded size."""
        stems = prompts.stems(self.template, self.class_names)
        for form, group in groupby(texts, key=_form):
            alike = list(group)
            if form == "template":
                blocks = template_blocks(self.text_encoder, alike, self.class_names)
            elif form == "ending":
                # All follow the same comma, so that the class prompts with it are computed once.
                endings = [prompts.after_comma(text, period=period) for text in alike]
                blocks = self.text_encoder.grid_blocks(prompts.with_comma(stems), endings)
            else:
                blocks = self.text_encoder.grid_blocks(stems, [prompts.ending(text, period=period) for text in alike])
            for _, block in blocks:
                yield block

    def images_of(self, seed: int) -> tuple[Tensor, Tensor]:
        """Features (N, D) and labels (N,) of one seed's few-shot images, on the encoder's device."""
        index = self.subsets[seed]
        device = self.encoder.device
        return self.image_features[index].to(device), self.labels[index].to(device)


def _form(text: str) -> str:
    """What a text is beside a class name."""
    if not text:
        return "class name alone"
    return "template" if prompts.is_template(text) else "ending"


def load_source(run: Run) -> Source:
    """Read the source's training features and its few-shot splits.

    Raises:
        MissingError, MismatchError: a file is missing, or was made with another encoder or from other images.
    """
    encoder = run.encoder
    embeddings = run.artifacts.features(run.source, split="train")
    features = read_features(embeddings, encoder=encoder.id)
    position = {int(row): i for i, row in enumerate(features.rows)}
    n_skipped = len(features.attributes.get("skipped", []))
    subsets = {}
    for seed in run.seeds:
        path = store.require(run.artifacts.split(run.source, seed=seed), made_by="fewshot")
        rows = store.read_table(path, columns=["row"])["row"].to_pylist()
        subset = [position[row] for row in rows if row in position]
        # Images that could not be decoded have no features; any other that is missing means another split.
        if len(rows) - len(subset) > n_skipped:
            raise MismatchError(f"{path} names images that {embeddings} lacks; run `dvc repro` to align them")
        subsets[seed] = torch.tensor(subset)
    return Source(
        encoder=encoder,
        image_features=torch.from_numpy(features.features),
        labels=torch.from_numpy(features.labels),
        subsets=subsets,
        template=features.attributes["template"],
        class_names=features.class_names,
    )


def check_fits(texts: Sequence[str], *, source: Source, origin: str | Path, otherwise: str = "") -> None:
    """Raise PoolError for the first text that exceeds the model's context after the longest class prompt."""
    tokens.check_fits(
        texts,
        template=source.template,
        class_names=source.class_names,
        tokenizer=source.encoder.tokenizer,
        origin=origin,
        step=f"shorten it or remove it from the pool{otherwise}",
    )


def identity_of_source(source: Source, *, seed: int | None = None) -> dict[str, object]:
    """What determines the counts on the images of one seed, or of all, as JSON values for the resume key."""
    seeds = list(source.subsets) if seed is None else [seed]
    images = {}
    for each in seeds:
        features, labels = source.images_of(each)
        # A sum per image is enough to notice other features, and one number instead of D.
        sums = features.double().sum(dim=1)
        images[str(each)] = store.fingerprint([labels.tolist(), sums.tolist()])
    return {
        "encoder": source.encoder.id,
        "template": source.template,
        "class_names": source.class_names,
        "images": images,
    }
