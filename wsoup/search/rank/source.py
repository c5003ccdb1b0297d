"""What selection may see: the source's few-shot training images, per seed, and the texts of its classes.

Everything that scores candidates or builds soups goes through `Source`, which reads the source's training features and
few-shot splits and nothing else. That no target is read is checked by the stage graph, too (DESIGN section 2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsoup.core import prompts
from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.errors import MismatchError
from wsoup.core.scoring import ImageSet, correct_per_candidate
from wsoup.texts import fits
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder


@dataclass(frozen=True)
class Source:
    """Source images and class texts on the encoder's device.

    Attributes:
        encoder: the model; its texts are encoded by `texts`, every class with every candidate.
        image_features: (N, D) float32, the training images of all seeds.
        labels: (N,) int64.
        subsets: for each seed the indices of its few-shot images among the N.
        template: the source's prompt template.
        class_names: C names in label order.
    """

    encoder: Encoder
    image_features: Tensor
    labels: Tensor
    subsets: dict[int, Tensor]
    template: str
    class_names: list[str]

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: tensors on the CPU, and no kept texts."""
        state = {name: value for name, value in self.__dict__.items() if name != "texts"}
        state |= {name: state[name].cpu() for name in ("image_features", "labels")}
        return state | {"subsets": {seed: index.cpu() for seed, index in self.subsets.items()}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        device = state["encoder"].device
        moved = {name: state[name].to(device) for name in ("image_features", "labels")}
        subsets = {seed: index.to(device) for seed, index in state["subsets"].items()}
        self.__dict__.update(state, **moved, subsets=subsets)

    @cached_property
    def texts(self) -> PromptEncoder:
        """Encodes every class with every candidate."""
        return PromptEncoder.of(self.encoder)

    def images(self) -> ImageSet:
        """All images with the subsets of the seeds, for scoring in one pass over the texts."""
        return ImageSet(
            self.image_features,
            labels=self.labels,
            n_classes=len(self.class_names),
            subsets=list(self.subsets.values()),
        )

    def text_blocks(self, texts: Sequence[str], *, period: bool) -> Iterator[Tensor]:
        """Features of texts with every class, in order and in bounded blocks: P texts -> blocks (b, C, D)."""
        stems = prompts.stems(self.template, self.class_names)
        if any(not text for text in texts):
            for text in texts:
                endings = [prompts.ending(text, period=period)]
                yield from (block for _, block in self.texts.grid_blocks(stems, endings))
            return
        endings = [prompts.after_comma(text, period=period) for text in texts]
        yield from (block for _, block in self.texts.grid_blocks(prompts.with_comma(stems), endings))

    def images_of(self, seed: int) -> tuple[Tensor, Tensor]:
        """Features (N, D) and labels (N,) of one seed's few-shot images."""
        index = self.subsets[seed]
        return self.image_features[index], self.labels[index]

    def count(self, texts: Sequence[str], *, seed: int, period: bool) -> np.ndarray:
        """Correct few-shot images of one seed for each text alone: (P,) int64."""
        x, y = self.images_of(seed)
        counts = [correct_per_candidate(x, y, block).sum(dim=1) for block in self.text_blocks(texts, period=period)]
        return torch.cat(counts).cpu().numpy()


def load_source(artifacts: Artifacts, *, source: str, seeds: Sequence[int], encoder: Encoder) -> Source:
    """Read the source's training features and its few-shot splits.

    Args:
        artifacts: where they lie.
        source: the source's name.
        seeds: which seeds.
        encoder: must be the one that made the features.
    """
    embeddings = artifacts.features(source, split="train")
    features = store.read_features(embeddings, encoder=encoder.id, of=(source, "train"))
    position = {int(row): i for i, row in enumerate(features.rows)}
    skipped = len(features.attributes.get("skipped", []))
    subsets = {}
    for seed in seeds:
        path = store.require(artifacts.split(source, seed=seed), made_by="fewshot")
        rows = store.read_table(path, columns=["row"])["row"].to_pylist()
        known = [position[row] for row in rows if row in position]
        if len(rows) - len(known) > skipped:
            raise MismatchError(f"{path} names images that {embeddings} does not hold; run `dvc repro` to align them")
        subsets[seed] = torch.tensor(known, device=encoder.device)
    return Source(
        encoder=encoder,
        image_features=torch.from_numpy(features.features).to(encoder.device),
        labels=torch.from_numpy(features.labels).to(encoder.device),
        subsets=subsets,
        template=features.attributes["template"],
        class_names=features.class_names,
    )


def check_fits(texts: Sequence[str], *, source: Source, origin: str | Path, otherwise: str = "") -> None:
    """Raise PoolError for the first text that does not fit the model's context with the longest class prompt."""
    stems = prompts.stems(source.template, source.class_names)
    step = f"shorten it or leave it out of the pool{otherwise}"
    fits.check_fits(texts, stems=stems, tokenizer=source.encoder.tokenizer, origin=origin, step=step)


def identity(source: Source, *, encoder: Encoder) -> dict[str, object]:
    """What decides every count on this source, as JSON values: names the resume folders of its shards."""
    return {
        "encoder": encoder.id,
        "template": source.template,
        "class_names": source.class_names,
        "images": store.fingerprint([source.labels.tolist(), source.image_features.double().sum(dim=1).tolist()]),
        "subsets": {str(seed): store.fingerprint(index.tolist()) for seed, index in source.subsets.items()},
    }
