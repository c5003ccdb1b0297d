"""What selection may see, the source's few-shot images and class names; and what a search costs.

Everything that scores candidates or builds soups goes through `Source`, which reads the source's training features and
few-shot splits and nothing else. The stage graph also proves that no target is read.

Cost is in texts, tokens and FLOPs of the text tower, and computed from the texts alone. A text is encoded with every
class. Tokens are the minimum that must be computed: prefixes shared by texts of a search count once, and class prompts
not at all, since every kind of soup needs them. Unlike `PromptEncoder.tokens_encoded`, which is slightly higher, a cost
does not depend on batches, caches, restarts or workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsoup.base.errors import MismatchError
from wsoup.core import prompts
from wsoup.core.scoring import ImageSet, decide
from wsoup.disk import store
from wsoup.disk.features import read_features
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import EncoderParams
from wsoup.params.section import Name, Sections, Seeds
from wsoup.soup.soup import Cost
from wsoup.texts import tokens
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, load_encoder


class SourceParams(Sections):
    """The sections of params.yaml that every stage reads which selects on the source or evaluates."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams


@dataclass(frozen=True)
class Run:
    """What a stage works with that encodes texts.

    Attributes:
        owner: of the stage's resume state.
        source: name of the source dataset.
        seeds: the run's seeds.
        encoder: the pretrained model.
        artifacts: where results are.
    """

    owner: Owner
    source: str
    seeds: tuple[int, ...]
    encoder: Encoder
    artifacts: Artifacts = field(default_factory=Artifacts)

    @classmethod
    def of(cls, owner: Owner, params: SourceParams) -> Run:
        """The run of a params.yaml, with its encoder loaded."""
        return cls(owner, params.source, tuple(params.seeds), load_encoder(params.encoder))

    @property
    def about(self) -> dict[str, object]:
        """Attributes of every table that the stage writes."""
        return {"encoder": self.encoder.id, "made_with": dict(self.owner.packages)}


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
    def texts(self) -> PromptEncoder:
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
        if not all(texts):
            for text in texts:
                endings = [prompts.ending(text, period=period)]
                yield from (block for _, block in self.texts.grid_blocks(stems, endings))
            return
        endings = [prompts.after_comma(text, period=period) for text in texts]
        yield from (block for _, block in self.texts.grid_blocks(prompts.with_comma(stems), endings))

    def images_of(self, seed: int) -> tuple[Tensor, Tensor]:
        """Features (N, D) and labels (N,) of one seed's few-shot images, on the encoder's device."""
        index, device = self.subsets[seed], self.encoder.device
        return self.image_features[index].to(device), self.labels[index].to(device)


def load_source(run: Run) -> Source:
    """Read the source's training features and its few-shot splits.

    Raises:
        MissingError, MismatchError: a file is missing, or was made with another encoder or from other images.
    """
    encoder, embeddings = run.encoder, run.artifacts.features(run.source, split="train")
    features = read_features(embeddings, encoder=encoder.id)
    position = {int(row): i for i, row in enumerate(features.rows)}
    skipped = len(features.attributes.get("skipped", []))
    subsets = {}
    for seed in run.seeds:
        path = store.require(run.artifacts.split(run.source, seed=seed), made_by="fewshot")
        rows = store.read_table(path, columns=["row"])["row"].to_pylist()
        subset = [position[row] for row in rows if row in position]
        if len(rows) - len(subset) > skipped:
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
    stems = prompts.stems(source.template, source.class_names)
    step = f"shorten it or remove it from the pool{otherwise}"
    tokens.check_fits(texts, stems=stems, tokenizer=source.encoder.tokenizer, origin=origin, step=step)


def identity(source: Source, *, seed: int | None = None) -> dict[str, object]:
    """What determines the counts on the images of one seed, or of all, as JSON values for the resume key."""
    of_seed = {}
    for each in source.subsets if seed is None else (seed,):
        features, labels = source.images_of(each)
        of_seed[str(each)] = store.fingerprint([labels.tolist(), features.double().sum(dim=1).tolist()])
    encoder, template, class_names = source.encoder.id, source.template, source.class_names
    return {"encoder": encoder, "template": template, "class_names": class_names, "images": of_seed}


def cost_of(texts: Iterable[str], *, period: bool, source: Source) -> Cost:
    """The cost of encoding every class with each distinct text, once for all seeds."""
    classes, encoder = len(source.class_names), source.texts
    unique = sorted({prompts.after_comma(text, period=period) for text in texts})
    empty, *rows = encoder.tokenizer(["", *unique])
    if encoder.tower is None:
        return Cost(len(unique), len(unique) * classes * len(empty), None)
    n_start = int((empty != empty[-1]).sum()) - 1  # start tokens: all of the empty text's except its end token
    prefixes: set[tuple[int, ...]] = set()
    for row in rows:
        sequence = row[n_start : int((row != empty[-1]).sum())].tolist()  # after the comma, with the end token
        prefixes.update(tuple(sequence[:length]) for length in range(1, len(sequence) + 1))
    n_tokens = len(prefixes) * classes
    return Cost(len(unique), n_tokens, encoder.tower.flops(n_tokens, reads=len(unique) * classes))


class Meter:
    """Text features and counts for one search with one seed, keeping track of the texts used.

    Attributes:
        images: features (N, D) and labels (N,) of the seed's few-shot images.
    """

    def __init__(self, source: Source, *, seed: int, period: bool) -> None:
        self.source, self.seed, self.period, self.images = source, seed, period, source.images_of(seed)
        self._texts: set[str] = set()

    def blocks(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Features of texts with every class, in blocks (b, C, D); only consumed blocks count."""
        start = 0
        for block in self.source.text_blocks(texts, period=self.period):
            self._texts.update(texts[start : start + len(block)])
            start += len(block)
            yield block

    def features(self, texts: Sequence[str]) -> Tensor:
        """Features of P texts with every class: (P, C, D)."""
        return torch.cat(list(self.blocks(texts)))

    def count(self, texts: Sequence[str]) -> np.ndarray:
        """Correct images of the seed for each text alone: (P,) int64."""
        counts = [decide(*self.images, block)[0].sum(dim=1) for block in self.blocks(texts)]
        return torch.cat(counts).cpu().numpy()

    def cost(self) -> Cost:
        """The cost of all texts so far."""
        return cost_of(self._texts, period=self.period, source=self.source)
