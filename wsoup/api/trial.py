"""What a soup and a head bring on a folder of labelled photos, in a minute: `wsoup try`.

A few photos of each class (shots) make a head; all others are held out and judge. The soup is of random common words:
nothing is selected, so that the shots can judge it, too. On photographs a sample gained as much as any selection did
(docs/evidence.md). What is recommended is chosen on the shots alone, the head's answers with each left out in turn.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wsoup.api.accuracy import Accuracy, Gain
from wsoup.api.classify import Classifier
from wsoup.api.images import encode_images
from wsoup.api.photos import Photo
from wsoup.api.sheet import write_sheet
from wsoup.api.soups import COMMON_WORDS, common_words
from wsoup.core import prompts
from wsoup.core.disk.store import write_bytes
from wsoup.core.errors import DataError, MissingError
from wsoup.core.scoring import correct, count_correct, normalize
from wsoup.datasets import fewshot, folder
from wsoup.datasets.listing import Listing, Split, validated
from wsoup.evaluate.baselines import ensemble_prompts
from wsoup.heads.choose import ANY
from wsoup.heads.fewshot import SAME, FewShot, checked
from wsoup.heads.fitted import Fitted
from wsoup.heads.head import Head, made
from wsoup.runtime.progress import progress
from wsoup.search.grow.singles import sample
from wsoup.soup.member import Member
from wsoup.soup.soup import Soup
from wsoup.texts.classes import logit_scale_of
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.fits import check_fits
from wsoup.towers.encoder import Encoder, ensemble_templates

WORDS_AT_ONCE = 16
PICTURES = 300
"""On the contact sheet, spread over the photos that were held out."""
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
    """What was made and what it gets right.

    Attributes:
        encoder: the model.
        class_names: C names.
        shots: what the head was made of.
        held_out: photos that judge.
        soup, head: what was made.
        texts: classifiers (C, D) of the rows whose texts all classes share, by name; the last is the soup's.
        notes: what was left out, one line each.
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
    def soups_name(self) -> str:
        """Of the soup's row."""
        return [*self.texts][-1]

    @property
    def wants_head(self) -> bool:
        """Whether the head gets more of the left-out shots right than the soup gets of them; never where none was."""
        seen = self.shots.folds >= 0
        x, y = self.shots.features[seen].float(), self.shots.labels[seen]
        return self.head.n_correct > count_correct(x, y, self.texts[self.soups_name])

    def accuracies(self) -> dict[str, Accuracy]:
        """Of each row on the held-out photos, with what it gains over the class name."""
        x, y = self.held_out.features, self.held_out.labels
        right = {name: correct(x, y, weights).numpy() for name, weights in self.texts.items()}
        right[f"head ({self.head.kind}) on the soup"] = (self.head.predict(x) == y).numpy()
        plain = next(iter(right.values()))
        gains = {name: Gain.of(hits, plain, confidence=CONFIDENCE) for name, hits in right.items()}
        return {
            name: Accuracy(int(hits.sum()), len(hits), gains[name] if hits is not plain else None)
            for name, hits in right.items()
        }

    def verdict(self) -> str:
        """What to use, and what it brings, in two sentences."""
        rows = self.accuracies()
        plain, name = next(iter(rows.values())), ([*rows][-1] if self.wants_head else self.soups_name)
        chosen, gain = rows[name], rows[name].gain
        assert gain is not None
        by = f"{gain.points:+.1f} points [{gain.low:+.1f}, {gain.high:+.1f}]"
        told = f"{chosen.percent:.1f} % of {chosen.n_images} held-out photos right instead of {plain.percent:.1f} %"
        if gain.high < 0:
            return f"Use class names alone. The {name} gets {told}: {by}, worse by more than noise."
        if gain.low > 0:
            return f"Use the {name}. It gets {told}: {by}, more than noise."
        return f"Use the {name} or class names alone. It gets {told}: {by}, which may be noise."

    def save(self, out: Path) -> None:
        """Write soup.json, head.safetensors, classes.txt and sheet.html."""
        self.soup.save(out / "soup.json")
        self.head.save(out / "head.safetensors")
        write_bytes(out / "classes.txt", "".join(f"{name}\n" for name in self.class_names).encode())
        scale, texts = logit_scale_of(self.encoder.model), self.texts[self.soups_name]
        of_soup = Classifier(self.encoder, self.class_names, Fitted.linear(texts.T), scale)
        classifier = Classifier.of_head(self.head, encoder=self.encoder) if self.wants_head else of_soup
        step = max(1, len(self.held_out.paths) // PICTURES)
        labels = [self.class_names[label] for label in self.held_out.labels.tolist()]
        photos = [Photo(path, label) for path, label in zip(self.held_out.paths, labels, strict=True)][::step]
        top = min(3, len(self.class_names))
        answers = classifier.answers(photos, self.held_out.features[::step], top=top, explain=False)
        shown = progress(answers, label="contact sheet", total=len(photos), unit="photo")
        write_sheet(out / "sheet.html", shown, title=self.verdict(), bad={})


def trial(root: str, *, encoder: Encoder, shots: int, m: int, seed: int, template: str, batch_size: int) -> Trial:
    """Make a soup and a head for a folder of photos, and judge them on the photos that were held out.

    Args:
        root: <class>/<image>, or train/<class>/<image> and test/<class>/<image>.
        encoder: image and text towers.
        shots: photos of each class for the head, at most; without a train/ no more than half of the smallest class.
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
    few, rest = _parts(listing, shots=shots, seed=seed)
    every = Split(few.paths + rest.paths, np.concatenate([few.labels, rest.labels]))
    paths = [str(Path(root) / path) for path in every.paths]
    how = {"model": encoder.model, "preprocess": encoder.preprocess, "batch_size": batch_size}
    features = encode_images(paths, on_bad_image="nan", **how)  # type: ignore[arg-type]
    photos = Photos(paths, features, torch.from_numpy(every.labels))
    first, read = torch.arange(len(paths)) < len(few.paths), features.isfinite().all(dim=1)
    mine, held_out = photos.where(first & read), photos.where(~first & read)
    notes = [f"{int((~read).sum())} photos could not be read"] if not read.all() else []
    again = (torch.cdist(held_out.features.double(), mine.features.double()) < SAME).any(dim=1)
    if again.any():
        notes.append(f"{int(again.sum())} photos are also among the shots and judge nothing")
        held_out = held_out.where(~again)
    if not held_out.paths:
        raise DataError(f"{root}: no photos are left to be held out; add some to test/, or lower --shots")
    names, soup = listing.class_names, _soup(encoder, template=template, m=m, seed=seed)
    texts = _texts(encoder, soup=soup, class_names=names)
    few_shot, said = checked(
        mine.features,
        mine.labels,
        texts=[*texts.values()][-1].T,
        logit_scale=logit_scale_of(encoder.model),
        names=names,
    )
    about = {"template": template, "class_names": names, "encoder": encoder.id}
    head = made(few_shot, kinds=ANY, soup=soup, note=said, **about)  # type: ignore[arg-type]
    return Trial(encoder, names, few_shot, held_out, soup, head, texts, notes)


def _parts(listing: Listing, *, shots: int, seed: int) -> tuple[Split, Split]:
    """Photos for the head, and those that are held out: of train and test, or of the only split, of both some."""
    splits = {name: split for name, split in listing.splits.items() if split.paths}
    source = splits.get("train", next(iter(splits.values())))
    other = splits.get("test", splits.get("val", source))
    fewest = min(map(len, fewshot.by_label(source, n_classes=len(listing.class_names))))
    most = fewest if other is not source else fewest // 2
    few = fewshot.draw(
        source, class_names=listing.class_names, shots=max(1, min(shots, most)), seed=seed, origin=listing.root
    )
    rest = np.setdiff1d(np.arange(len(source.paths)), few)
    return _part(source, few), _part(source, rest) if other is source else other


def _part(split: Split, places: np.ndarray) -> Split:
    return Split([split.paths[i] for i in places.tolist()], split.labels[places])


def _soup(encoder: Encoder, *, template: str, m: int, seed: int) -> Soup:
    """Random common words."""
    words = tuple(map(Member, sample(common_words(COMMON_WORDS), m=m, seed=seed)))
    return Soup("sample", seed, template, encoder.id, words, preprocessing=encoder.preprocessing)


def _texts(encoder: Encoder, *, soup: Soup, class_names: list[str]) -> dict[str, Tensor]:
    """Classifiers (C, D) of the class names, of OpenAI's 80 templates, and of the soup."""
    by = PromptEncoder.of(encoder)
    stems, endings = prompts.stems(soup.template, class_names), [prompts.ending(t, period=True) for t in soup.texts]
    step = "it would be cut; shorten the class name or --template"
    check_fits(soup.texts, stems=stems, tokenizer=encoder.tokenizer, step=step)
    ensemble = ensemble_prompts(soup.template, class_names=class_names, templates=ensemble_templates())
    parts = [endings[start : start + WORDS_AT_ONCE] for start in range(0, len(endings), WORDS_AT_ONCE)]
    with progress(label="texts", total=len(class_names) * (1 + len(ensemble[0]) + len(endings)), unit="text") as bar:
        name = by.encode_grid(stems, ["."])[0]
        bar.update(len(name))
        templates = torch.empty_like(name)
        for label, texts in enumerate(ensemble):
            templates[label] = by.encode(texts).mean(dim=0)
            bar.update(len(texts))
        total = torch.zeros_like(name)
        for part in parts:
            total += by.encode_grid(stems, part).sum(dim=0)
            bar.update(len(part) * len(stems))
    rows = {"class name": name, f"{len(ensemble[0])} templates": templates, f"soup of {len(endings)} words": total}
    return {row: normalize(features).cpu() for row, features in rows.items()}
