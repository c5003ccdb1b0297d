"""`wsoup try`: class names alone, 80 templates, a soup or a head on a folder of labelled photos?

As many photos of each class as it has, up to a number (shots), make the head; all others are held out and judge. The
soup is a random sample of common words, which on photographs gained as much as any selection (docs/evidence.md), so
that no row has seen a held-out photo. `wsoup.statistics.advice` decides, as for a pipeline's run.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import Tensor

from wsoup.api.encoders import EncoderOptions
from wsoup.api.images import encode_images
from wsoup.api.model import checked_logit_scale
from wsoup.api.soups import COMMON_WORDS, common_words
from wsoup.base.class_names import changes, proposed
from wsoup.base.errors import DataError, MissingError, one_line
from wsoup.core import prompts
from wsoup.datasets import fewshot, folder
from wsoup.datasets.listing import Listing, Split, some, validated
from wsoup.disk.store import write_bytes
from wsoup.heads.head import Head, best_head
from wsoup.heads.kinds import checked, duplicates
from wsoup.heads.zero_shot import class_texts
from wsoup.photos.classify import Classifier, built_in_texts
from wsoup.photos.files import Photo, find_photos
from wsoup.photos.sheet import write_sheet
from wsoup.photos.tables import write_rows
from wsoup.search.grow.sample import drawn
from wsoup.soup.soup import Member, Soup
from wsoup.statistics.advice import HEAD, Advice, advise, in_words
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

FILES = ("predictions.csv", "soup.json", "head.safetensors", "classes.txt", "encoder.yaml", "sheet.html")
"""What a trial writes into its folder."""
WORDS = 64
"""Words in the soup."""
CONFIDENCE = 0.95
CLASS_NAME, TEMPLATES, SOUP = "class name", "80 templates", f"soup of {WORDS} words"
FEWEST = 5
"""Held-out photos of a class from which its name is judged."""


@dataclass(frozen=True)
class Wanted:
    """A folder of photos before any model is loaded.

    Attributes:
        paths: files, those of the head first.
        labels: (N,) int64.
        n_train: number of photos for the head.
        names: class name by folder, in label order.
        template, seed: of the prompts and of the draws.
        notes: lines to say.
    """

    paths: list[str]
    labels: Tensor
    n_train: int
    names: dict[str, str]
    template: str
    seed: int
    notes: list[str]

    @property
    def class_names(self) -> list[str]:
        """C names in label order."""
        return [*self.names.values()]


def look(root: str, *, shots: int, seed: int, template: str, classes: str | None) -> Wanted:
    """List a folder, name its classes and divide its photos.

    Args:
        root: <class>/<image>, or train/<class>/<image> and test/<class>/<image>.
        shots: photos of each class for the head, or as many as it has; without a train/ at most half of them.
        seed: of the draws.
        template: prompt template with one ``{}``.
        classes: a file of class names by folder; None: those of root/classnames.txt, or else proposed ones.

    Raises:
        MissingError, DataError, ParamsError: no such folder, one class, nothing to hold out, or a bad template.
    """
    if not Path(root).is_dir():
        raise MissingError(f"{root} is not a folder; give one of {root}/<class>/<image>")
    listing = validated(folder.read(root, class_names=classes))
    names = dict(zip(_folders(listing), listing.class_names, strict=True))
    if len(names) < 2:
        raise DataError(f"{root} has one class, {listing.class_names[0]!r}; photos are told apart between two or more")
    notes = [find_photos([root])[1]]
    if classes is None and not (Path(root) / "classnames.txt").exists():
        names = dict(zip(names, proposed([*names]), strict=True))
        if changed := changes(names):
            notes.append(f"classes are named {changed}; --classes FILE gives other names, like classes.txt in --out")
    train, test = _divided(listing, shots=shots, seed=seed)
    if not test.paths:
        raise DataError(f"{root}: no photos are left to be held out; add some to test/, or lower --shots")
    paths = [str(Path(root) / path) for path in train.paths + test.paths]
    labels = torch.from_numpy(np.concatenate([train.labels, test.labels]))
    return Wanted(paths, labels, len(train.paths), names, prompts.checked(template), seed, [*filter(None, notes)])


def _folders(listing: Listing) -> list[str]:
    """The folder of each class, in label order."""
    found: dict[int, str] = {}
    for name, split in listing.splits.items():
        depth = int(all(path.startswith(f"{name}/") and path.count("/") > 1 for path in split.paths))
        for path, label in zip(split.paths, split.labels.tolist(), strict=True):
            found.setdefault(label, path.split("/")[depth])
    return [found[label] for label in range(len(listing.class_names))]


def _divided(listing: Listing, *, shots: int, seed: int) -> tuple[Split, Split]:
    """Photos for the head and held-out photos: of train and test, or both of the only split."""
    splits = {name: split for name, split in listing.splits.items() if split.paths}
    source = splits.get("train", next(iter(splits.values())))
    other = splits.get("test", splits.get("val", source))
    drawn = []
    for label, members in enumerate(fewshot.by_label(source, n_classes=len(listing.class_names))):
        most = len(members) if other is not source else max(1, len(members) // 2)
        drawn.append(np.random.default_rng([seed, label]).permutation(members)[: min(shots, most)])
    train = np.sort(np.concatenate(drawn))
    if other is source:
        other = _part(source, np.setdiff1d(np.arange(len(source.paths)), train))
    return _part(source, train), other


def _part(split: Split, positions: np.ndarray) -> Split:
    return Split([split.paths[i] for i in positions.tolist()], split.labels[positions])


@dataclass(frozen=True)
class Trial:
    """Four rows on the held-out photos.

    Attributes:
        wanted: the folder.
        paths: files of the H held-out photos that could be read.
        features, labels: (H, D) and (H,) of them.
        soup: the soup.
        head: the head; None if a class has no photo to learn from.
        classifiers: of each row, the simplest first.
        notes: what was left out and why, one line each.
    """

    wanted: Wanted
    paths: list[str]
    features: Tensor
    labels: Tensor
    soup: Soup
    head: Head | None
    classifiers: dict[str, Classifier]
    notes: list[str]

    @cached_property
    def answers(self) -> dict[str, Tensor]:
        """Labels (H,) that each row gives."""
        return {row: (self.features @ one.weights).argmax(dim=1) for row, one in self.classifiers.items()}

    @cached_property
    def advice(self) -> Advice:
        """Which row to use."""
        right = {row: {"photos": (answers == self.labels).numpy()} for row, answers in self.answers.items()}
        return advise(right, n_classes={"photos": len(self.wanted.names)}, confidence=CONFIDENCE)

    def lines(self) -> list[str]:
        """A line on each row, what the names of classes do, and the advice."""
        lines = []
        for row, answers in self.answers.items():
            gain = f", {in_words(self.advice.gains[row])}" if row in self.advice.gains else ""
            right, n = int((answers == self.labels).sum()), len(self.labels)
            lines.append(f"{row:<20} {100 * right / n:.2f} % ({right} of {n}){gain}")
        if labels := hurting_names(self.features @ self.classifiers[CLASS_NAME].weights, self.labels):
            named = some([self.wanted.class_names[label] for label in labels])
            lines.append(f"these names tell little of their own photos, other words may help (--classes): {named}")
        return [*lines, "", self.advice.sentence]

    def save(self, out: Path, *, options: EncoderOptions) -> None:
        """Write `FILES`; encoder.yaml says how the encoder is loaded."""
        self.soup.save(out / "soup.json")
        write_bytes(out / "encoder.yaml", yaml.safe_dump({"encoder": options.section()}).encode())
        if self.head is not None:
            self.head.save(out / "head.safetensors")
        lines = [f"{folder}\t{name}\n" for folder, name in self.wanted.names.items()]
        write_bytes(out / "classes.txt", "".join(lines).encode())
        names, rows = self.wanted.class_names, []
        photos = [Photo(path, names[label]) for path, label in zip(self.paths, self.labels.tolist(), strict=True)]
        for i, photo in enumerate(photos):
            answers = {row: names[int(given[i])] for row, given in self.answers.items()}
            rows.append({"path": photo.path, "label": photo.label, **answers})
        write_rows(out / "predictions.csv", rows)
        used = self.classifiers[self.advice.use].answers(photos, self.features, top=min(3, len(names)))
        write_sheet(out / "sheet.html", [*used], title=self.advice.sentence)

    def command(self, out: Path) -> str:
        """The command that classifies photos with the row to use."""
        use = {CLASS_NAME: "class_name", TEMPLATES: "templates", SOUP: str(out / "soup.json")}.get(self.advice.use)
        words = ["--soup", use or str(out / "head.safetensors"), "--params", str(out / "encoder.yaml")]
        words += ["--classes", str(out / "classes.txt"), "--template", self.wanted.template] if use else []
        return f"wsoup classify PHOTOS {shlex.join(words)} > predictions.csv"


def hurting_names(cosines: Tensor, labels: Tensor) -> list[int]:
    """Classes whose own photos have more than half of the other names nearer than theirs, the worst first.

    Args:
        cosines: of photos and class texts (H, C).
        labels: (H,); a class with fewer than `FEWEST` photos is not judged.
    """
    own = cosines.gather(1, labels[:, None])
    nearer = (cosines > own).float().mean(dim=1) * cosines.shape[1] / (cosines.shape[1] - 1)  # (H,), of the others
    n_photos = torch.bincount(labels, minlength=cosines.shape[1])
    shares = torch.zeros(cosines.shape[1]).index_add(0, labels, nearer) / n_photos.clamp(min=1)
    judged = [label for label in shares.argsort(descending=True).tolist() if n_photos[label] >= FEWEST]
    return [label for label in judged if shares[label] > 0.5]


def trial(wanted: Wanted, *, encoder: Encoder) -> Trial:
    """Make a soup and a head, and let all rows answer the held-out photos.

    Raises:
        DataError: no photo to hold out can be read.
    """
    names, template, notes = wanted.class_names, wanted.template, [*wanted.notes]
    words = common_words(COMMON_WORDS)
    members = tuple(Member(words[i]) for i in drawn(len(words), m=WORDS, seed=wanted.seed))
    soup = Soup("sample", wanted.seed, template, encoder.id, members, preprocessing=encoder.preprocessing)
    texts = {
        CLASS_NAME: built_in_texts("class_name", class_names=names, template=template, encoder=encoder),
        TEMPLATES: built_in_texts("templates", class_names=names, template=template, encoder=encoder),
        SOUP: class_texts(soup, class_names=names, template=template, encoder=PromptEncoder.of(encoder)),
    }  # before the photos: a name that is too long is said at once
    rows = {row: Classifier.of_texts(each, class_names=names, encoder=encoder) for row, each in texts.items()}
    features = encode_images(wanted.paths, model=encoder.model, preprocess=encoder.preprocess, on_bad_image="nan")
    usable = torch.ones(len(features), dtype=torch.bool)
    for why, photos in _left_out(wanted, features).items():
        usable[photos] = False
        listed = some([wanted.paths[i] for i in photos], limit=5)
        notes += [one_line(f"{len(photos)} photos {why}: {listed}")] if photos else []
    in_train = torch.arange(len(features)) < wanted.n_train
    shown, kept = in_train & usable, ~in_train & usable
    if not kept.any():
        raise DataError("no photo that could be read is left to be held out; add some to test/, or lower --shots")
    head = None
    if missing := [names[label] for label in range(len(names)) if label not in wanted.labels[shown]]:
        notes.append(f"no head: nothing to learn {some(missing)} from, since half of a class is held out; add photos")
    else:
        scale, x, y = checked_logit_scale(encoder.model), features[shown], wanted.labels[shown]
        shots, note = checked(x, y, texts=texts[SOUP].T, logit_scale=scale, names=names)
        head = best_head(
            shots, kind="both", soup=soup, template=template, class_names=names, encoder=encoder.id, note=note
        )
        rows[HEAD] = Classifier.of_head(head)
    paths = [wanted.paths[i] for i in kept.nonzero()[:, 0].tolist()]
    return Trial(wanted, paths, features[kept], wanted.labels[kept], soup, head, rows, notes)


def _left_out(wanted: Wanted, features: Tensor) -> dict[str, list[int]]:
    """Positions of photos that are left out, by why: unreadable (NaN), pictures in two classes, and further copies."""
    pairs = duplicates(features.double())
    torn = sorted({i for pair in pairs if wanted.labels[pair[0]] != wanted.labels[pair[1]] for i in pair})
    return {
        "could not be read": (~features.isfinite().all(dim=1)).nonzero()[:, 0].tolist(),
        "are left out, since the same pictures lie in two classes": torn,
        "are left out as copies of others": sorted({later for _, later in pairs} - {*torn}),
    }
