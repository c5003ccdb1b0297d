"""`wsoup try`: is a soup or a head better than class names on a folder of labelled photos?

A few photos per class (shots) make a head; all others are held out as test images. The soup is a random sample of
common words, which on photographs gained as much as any selection (docs/evidence.md). Since nothing is selected, the
recommendation between soup and head is made on the shots alone, with leave-one-out answers of the head.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wsoup.api.accuracy import Accuracy, Gain
from wsoup.api.classify import Classifier
from wsoup.api.images import encode_images
from wsoup.api.outputs import write_sheet
from wsoup.api.photos import Photo
from wsoup.api.soups import COMMON_WORDS, common_words
from wsoup.base.errors import DataError, MissingError
from wsoup.core.scoring import correct, count_correct, normalize
from wsoup.datasets import fewshot, folder
from wsoup.datasets.listing import Listing, Split, validated
from wsoup.disk.store import write_bytes
from wsoup.evaluate.baselines import ensemble_prompts
from wsoup.heads.fewshot import SAME, FewShot, checked
from wsoup.heads.head import Head, best_head
from wsoup.runtime.progress import progress
from wsoup.search.grow.soups import sample
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup
from wsoup.texts.classes import class_texts, logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder, ensemble_templates

PICTURES = 300
"""Pictures on the contact sheet, spread over the held-out photos."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Photos:
    """Labelled photos with their features.

    Attributes:
        paths: N files.
        features: (N, D) on the CPU.
        labels: (N,) int64.
    """

    paths: list[str]
    features: Tensor
    labels: Tensor

    def where(self, kept: Tensor) -> Photos:
        """Some of them: (N,) bool."""
        return Photos([self.paths[i] for i in kept.nonzero()[:, 0].tolist()], self.features[kept], self.labels[kept])


@dataclass(frozen=True)
class Trial:
    """A soup and a head with their results.

    Attributes:
        encoder: the model.
        class_names: C names.
        shots: training images of the head.
        held_out: test images.
        soup, head: the soup, and the head on it.
        texts: text classifiers (C, D) by name of their row; the soup's is the last.
        notes: photos left out and why, one line each.
    """

    encoder: Encoder
    class_names: list[str]
    shots: FewShot
    held_out: Photos
    soup: Soup
    head: Head
    texts: dict[str, Tensor]
    notes: list[str]

    @property
    def soup_row(self) -> str:
        """Name of the soup's row."""
        return [*self.texts][-1]

    @property
    def wants_head(self) -> bool:
        """Whether the head gets more left-out shots right than the soup; False if none were left out."""
        left_out = self.shots.folds >= 0
        x, y = self.shots.features[left_out].float(), self.shots.labels[left_out]
        return self.head.n_correct > count_correct(x, y, self.texts[self.soup_row])

    def accuracies(self) -> dict[str, Accuracy]:
        """Accuracy of each row on the held-out photos, with its gain over the class name."""
        x, y = self.held_out.features, self.held_out.labels
        right = {row: correct(x, y, weights).numpy() for row, weights in self.texts.items()}
        right[f"head ({self.head.kind}) on the soup"] = (self.head.predict(x) == y).numpy()
        (baseline_row, baseline), *_ = right.items()
        gains = {row: Gain.of(hits, baseline, confidence=CONFIDENCE) for row, hits in right.items()}
        gains.pop(baseline_row)
        return {row: Accuracy(int(hits.sum()), len(hits), gains.get(row)) for row, hits in right.items()}

    def verdict(self) -> str:
        """The recommendation and its gain, in two sentences."""
        rows = self.accuracies()
        baseline, row = next(iter(rows.values())), ([*rows][-1] if self.wants_head else self.soup_row)
        accuracy, gain = rows[row], rows[row].gain
        assert gain is not None
        points = f"{gain.points:+.1f} points [{gain.low:+.1f}, {gain.high:+.1f}]"
        result = (
            f"{accuracy.percent:.1f} % of {accuracy.n_images} held-out photos right instead of {baseline.percent:.1f} %"
        )
        if gain.high < 0:
            return f"Use class names alone. The {row} gets {result}: {points}, worse by more than noise."
        if gain.low > 0:
            return f"Use the {row}. It gets {result}: {points}, more than noise."
        return f"Use the {row} or class names alone. It gets {result}: {points}, which may be noise."

    def save(self, out: Path) -> None:
        """Write soup.json, head.safetensors, classes.txt and sheet.html."""
        self.soup.save(out / "soup.json")
        self.head.save(out / "head.safetensors")
        write_bytes(out / "classes.txt", "".join(f"{name}\n" for name in self.class_names).encode())
        if self.wants_head:
            classifier = Classifier.of_head(self.head, encoder=self.encoder)
        else:
            weights, scale = self.texts[self.soup_row].T, logit_scale_of(self.encoder.model)
            classifier = Classifier(self.encoder, self.class_names, weights, scale)
        step = max(1, len(self.held_out.paths) // PICTURES)
        labels = [self.class_names[label] for label in self.held_out.labels.tolist()]
        photos = [Photo(path, label) for path, label in zip(self.held_out.paths, labels, strict=True)][::step]
        top = min(3, len(self.class_names))
        answers = classifier.answers(photos, self.held_out.features[::step], top=top)
        predictions = list(progress(answers, label="contact sheet", total=len(photos), unit="photo"))
        write_sheet(out / "sheet.html", predictions, title=self.verdict(), bad={})


def trial(root: str, *, encoder: Encoder, shots: int, m: int, seed: int, template: str, batch_size: int) -> Trial:
    """Make a soup and a head for a folder of photos, and test them on held-out photos.

    Args:
        root: <class>/<image>, or train/<class>/<image> and test/<class>/<image>.
        encoder: image and text towers.
        shots: photos per class for the head; without a train/ at most half of the smallest class.
        m: words in the soup.
        seed: of the draws.
        template: prompt template with one ``{}``.
        batch_size: photos in one forward pass.

    Raises:
        MissingError, DataError: no such folder, fewer than two classes, or no photos to hold out.
    """
    if not os.path.isdir(root):
        raise MissingError(f"{root} is not a folder; give one of {root}/<class>/<image>")
    listing = validated(folder.read(root))
    names = listing.class_names
    train, test = _split(listing, shots=shots, seed=seed)
    paths = [str(Path(root) / path) for path in train.paths + test.paths]
    features = encode_images(
        paths, model=encoder.model, preprocess=encoder.preprocess, batch_size=batch_size, on_bad_image="nan"
    )
    photos = Photos(paths, features, torch.from_numpy(np.concatenate([train.labels, test.labels])))
    in_train, readable = torch.arange(len(paths)) < len(train.paths), features.isfinite().all(dim=1)
    shown, held_out = photos.where(in_train & readable), photos.where(~in_train & readable)
    notes = [f"{int((~readable).sum())} photos could not be read"] if not readable.all() else []
    duplicates = (torch.cdist(held_out.features.double(), shown.features.double()) < SAME).any(dim=1)
    if duplicates.any():
        notes.append(f"{int(duplicates.sum())} held-out photos are also among the shots and are left out")
        held_out = held_out.where(~duplicates)
    if not held_out.paths:
        raise DataError(f"{root}: no photos are left to be held out; add some to test/, or lower --shots")
    words = tuple(map(Member, sample(common_words(COMMON_WORDS), m=m, seed=seed)))
    soup = Soup("sample", seed, template, encoder.id, words, preprocessing=encoder.preprocessing)
    texts = _texts(encoder, soup=soup, class_names=names)
    few_shot, note = checked(
        shown.features,
        shown.labels,
        texts=[*texts.values()][-1].T,
        logit_scale=logit_scale_of(encoder.model),
        names=names,
    )
    head = best_head(
        few_shot, kind="both", soup=soup, template=template, class_names=names, encoder=encoder.id, note=note
    )
    return Trial(encoder, names, few_shot, held_out, soup, head, texts, notes)


def _split(listing: Listing, *, shots: int, seed: int) -> tuple[Split, Split]:
    """Photos for the head and held-out photos: of train and test, or both of the only split."""
    splits = {name: split for name, split in listing.splits.items() if split.paths}
    source = splits.get("train", next(iter(splits.values())))
    other = splits.get("test", splits.get("val", source))
    smallest = min(map(len, fewshot.by_label(source, n_classes=len(listing.class_names))))
    most = smallest if other is not source else smallest // 2
    drawn = fewshot.draw(
        source, class_names=listing.class_names, shots=max(1, min(shots, most)), seed=seed, origin=listing.root
    )
    if other is source:
        other = _part(source, np.setdiff1d(np.arange(len(source.paths)), drawn))
    return _part(source, drawn), other


def _part(split: Split, positions: np.ndarray) -> Split:
    return Split([split.paths[i] for i in positions.tolist()], split.labels[positions])


def _texts(encoder: Encoder, *, soup: Soup, class_names: list[str]) -> dict[str, Tensor]:
    """Classifiers (C, D) of the class names, of OpenAI's 80 templates, and of the soup."""
    options: Any = {"template": soup.template, "class_names": class_names, "encoder": PromptEncoder.of(encoder)}
    rows = {"class name": class_texts(soup.class_name_soup(), **options)}
    ensemble = ensemble_prompts(soup.template, class_names=class_names, templates=ensemble_templates())
    labels = progress(ensemble, label="templates", unit="class")
    templates = torch.stack([options["encoder"].encode(texts).mean(dim=0) for texts in labels])
    rows[f"{len(ensemble[0])} templates"] = normalize(templates).cpu()
    rows[f"soup of {len(soup.members)} words"] = class_texts(soup, **options)
    return rows
