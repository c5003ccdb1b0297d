"""`wsoup try`: class names alone, 80 templates, a soup, class means or a head on a folder of labelled photos?

Class means and the head learn from up to a number (shots) of each class's training photos; the head starts from class
names: from a soup it is no better on such photos (docs/notes/evidence.md). The test photos judge. Which photos are
which is decided as for the pipeline (`wsoup.datasets.division`). The soup is a random sample of common words, which on
photographs gained as much as any selection (docs/evidence.md), so that no row has seen a test photo.
`wsoup.statistics.advice` decides, as for a pipeline's run; where few photos are held out, on all labelled ones in turn
(`wsoup.heads.in_turn`).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
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
from wsoup.base.errors import DataError, one_line
from wsoup.base.number_of import number_of
from wsoup.core.member import Member
from wsoup.core.scoring import Scores
from wsoup.core.soup import Soup
from wsoup.datasets.listing import some
from wsoup.disk.csv_rows import Cell, write_rows
from wsoup.disk.store import write_bytes
from wsoup.heads.duplicates import originals
from wsoup.heads.fewshot import FewShot, checked
from wsoup.heads.head import Head, best_head
from wsoup.heads.in_turn import CLASS_MEANS, FEW, judged_in_turn
from wsoup.heads.zero_shot import class_texts
from wsoup.photos.classify import Classifier, built_in_texts
from wsoup.photos.files import Photo
from wsoup.photos.labelled import LabelledPhotos
from wsoup.photos.sheet import write_sheet
from wsoup.report.labels import random_soup
from wsoup.search.grow.sample import drawn_from
from wsoup.statistics.advice import HEAD, Advice, advise
from wsoup.statistics.words import in_words
from wsoup.texts.encoder import PromptEncoder
from wsoup.towers.encoder import Encoder

FILES = (
    "predictions.csv",
    "soup.json",
    "head.safetensors",
    "class_means.safetensors",
    "classes.txt",
    "encoder.yaml",
    "sheet.html",
)
"""What a trial writes into its folder."""
WORDS = 64
"""Words in the soup."""
HEAD_FILES = {CLASS_MEANS: "class_means.safetensors", HEAD: "head.safetensors"}
"""Rows that have seen labelled photos, and their files: class means are a head, too, of a kind without texts."""
HEAD_KINDS = {CLASS_MEANS: "means", HEAD: "ridge"}
CONFIDENCE = 0.95
COPIES = "are left out as copies of others"
CLASS_NAME = "class name"
TEMPLATES = "80 templates"
SOUP = random_soup(WORDS, pool="words")
WIDTH = 24
"""Columns of a row's name."""
FEWEST = 5
"""Held-out photos of a class from which its name is judged."""


@dataclass(frozen=True)
class Trial:
    """Five rows on the held-out photos.

    Attributes:
        photos: the folder.
        paths: files of the H held-out photos that could be read.
        features, labels: (H, D) and (H,) of them.
        soup: the soup.
        heads: the head and the class means, by row; none if a class has no photo to learn from.
        classifiers: of each row, the simplest first.
        notes: what was left out and why, one line each.
        in_turn: how right each row is on all labelled photos, if few are held out.
    """

    photos: LabelledPhotos
    paths: list[str]
    features: Tensor
    labels: Tensor
    soup: Soup
    heads: dict[str, Head]
    classifiers: dict[str, Classifier]
    notes: list[str]
    in_turn: dict[str, np.ndarray] | None

    @cached_property
    def answers(self) -> dict[str, Tensor]:
        """Labels (H,) that each row gives."""
        answers = {}
        for row, one in self.classifiers.items():
            (answers[row],) = Scores(self.features, one.weights.T[None]).predicted()
        return answers

    @cached_property
    def advice(self) -> Advice:
        """Which row to use."""
        right = {row: {"photos": (answers == self.labels).numpy()} for row, answers in self.answers.items()}
        in_turn = None
        if self.in_turn is not None:
            in_turn = {row: {"photos": shares} for row, shares in self.in_turn.items()}
        return advise(right, n_classes={"photos": len(self.photos.names)}, confidence=CONFIDENCE, in_turn=in_turn)

    def lines(self) -> list[str]:
        """A line on each row, what the names of classes do, and the advice."""
        # The sentence and the lines above it are about the same photos.
        advice = self.advice.in_turn or self.advice
        lines = []
        for row in self.answers:
            line = f"{row:<{WIDTH}} {advice.accuracy[row]:.1f} % {self._of(row)}"
            if row in advice.gains:
                line += f", {in_words(advice.gains[row])}"
            lines.append(line)
        cosines = self.features @ self.classifiers[CLASS_NAME].weights
        hurting = [self.photos.class_names[label] for label in hurting_names(cosines, self.labels)]
        if hurting:
            lines.append(
                f"these names tell little of their own photos, other words may help (--classes): {some(hurting)}"
            )
        return [*lines, "", self.advice.sentence]

    def _of(self, row: str) -> str:
        """Of which photos a row's accuracy is: ``(10 of 16)``, or all labelled ones if these judge in turn."""
        n_right = int((self.answers[row] == self.labels).sum())
        counted = f"{n_right} of {len(self.labels)}"
        if self.in_turn is None:
            return f"({counted})"
        return f"of {len(self.in_turn[row])} photos in turn ({counted} held out)"

    def save(self, out: Path, *, options: EncoderOptions) -> None:
        """Write `FILES`; encoder.yaml says how the encoder is loaded."""
        self.soup.save(out / "soup.json")
        encoder_yaml = yaml.safe_dump({"encoder": options.section()})
        write_bytes(out / "encoder.yaml", encoder_yaml.encode())
        for row, head in self.heads.items():
            head.save(out / HEAD_FILES[row])
        lines = [f"{folder}\t{name}\n" for folder, name in self.photos.names.items()]
        write_bytes(out / "classes.txt", "".join(lines).encode())
        names = self.photos.class_names
        photos = []
        for path, label in zip(self.paths, self.labels.tolist(), strict=True):
            photos.append(Photo(path, names[label]))
        rows = []
        for i, photo in enumerate(photos):
            rows.append({"path": photo.path, "label": photo.label, **self._answers_of(i)})
        write_rows(out / "predictions.csv", rows)
        recommended = self.classifiers[self.advice.use]
        top = min(3, len(names))
        predictions = list(recommended.answers(photos, self.features, top=top))
        write_sheet(out / "sheet.html", predictions, title=self.advice.sentence)

    def _answers_of(self, i: int) -> dict[str, Cell]:
        """What each row answers for a photo: the class's name, and where two classes share one, its position, too."""
        names = self.photos.class_names
        given = {row: int(labels[i]) for row, labels in self.answers.items()}
        cells: dict[str, Cell] = {row: names[label] for row, label in given.items()}
        if len({*names}) < len(names):
            cells["label_index"] = int(self.labels[i])
            cells |= {f"{row}_index": label for row, label in given.items()}
        return cells

    def command(self, out: Path) -> str:
        """The command that classifies photos with the row to use."""
        soup_of_row = {CLASS_NAME: "class_name", TEMPLATES: "templates", SOUP: str(out / "soup.json")}
        soup = soup_of_row.get(self.advice.use)
        words = ["--soup", soup or str(out / HEAD_FILES[self.advice.use]), "--params", str(out / "encoder.yaml")]
        # A head knows its classes and its template.
        if soup is not None:
            words += ["--classes", str(out / "classes.txt"), "--template", self.photos.template]
        return f"wsoup classify PHOTOS {shlex.join(words)} --out predictions.csv"


def hurting_names(cosines: Tensor, labels: Tensor) -> list[int]:
    """Classes whose own photos have more than half of the other names nearer than theirs, the worst first.

    Args:
        cosines: of photos and class texts (H, C).
        labels: (H,); a class with fewer than `FEWEST` photos is not judged.
    """
    n_classes = cosines.shape[1]
    own = cosines.gather(1, labels[:, None])
    is_nearer = cosines > own
    share_nearer = is_nearer.float().mean(dim=1) * n_classes / (n_classes - 1)  # (H,), of the other classes
    n_photos = torch.bincount(labels, minlength=n_classes)
    sums = torch.zeros(n_classes).index_add(0, labels, share_nearer)
    shares = sums / n_photos.clamp(min=1)
    hurting = []
    for label in shares.argsort(descending=True).tolist():
        if n_photos[label] >= FEWEST and shares[label] > 0.5:
            hurting.append(label)
    return hurting


def trial(photos: LabelledPhotos, *, encoder: Encoder) -> Trial:
    """Make a soup and a head, and let all rows answer the held-out photos.

    Raises:
        DataError: no photo to hold out can be read.
    """
    names = photos.class_names
    notes = list(photos.notes)
    soup = _sampled_soup(photos, encoder=encoder)
    # The texts come before the photos, so that a name that is too long is said at once.
    texts = _texts_of_rows(photos, soup=soup, encoder=encoder)
    classifiers = {}
    for row, class_features in texts.items():
        classifiers[row] = Classifier.of_texts(class_features, class_names=names, encoder=encoder)
    features = encode_images(photos.paths, model=encoder.model, preprocess=encoder.preprocess, on_bad_image="nan")
    usable = torch.ones(len(features), dtype=torch.bool)
    not_used = _left_out(photos, features)
    for why, positions in not_used.items():
        usable[positions] = False
        if positions:
            listed = some([photos.paths[i] for i in positions], limit=5)
            notes.append(one_line(f"{number_of(len(positions), 'photo')} {why}: {listed}"))
    in_train = torch.arange(len(features)) < photos.n_train
    shown = in_train & usable
    held_out = ~in_train & usable
    if not held_out.any():
        raise _nothing_held_out(photos, not_used=not_used)
    heads: dict[str, Head] = {}
    unseen = [names[label] for label in range(len(names)) if label not in photos.labels[shown]]
    if unseen:
        notes.append(
            f"no head: nothing to learn {some(unseen)} from, as no training photo of it can be used; add photos"
        )
    else:
        shots, note = _few_shot(photos, features, shown=shown, texts=texts[CLASS_NAME], encoder=encoder)
        for row, kind in HEAD_KINDS.items():
            heads[row] = _head(photos, shots, kind=kind, soup=soup.class_name_soup(), note=note)
            classifiers[row] = Classifier.of_head(heads[row])
    in_turn = None
    if heads and int(held_out.sum()) < FEW:
        judged = judged_in_turn(
            features[usable],
            photos.labels[usable],
            in_train=in_train[usable],
            head=heads[HEAD],
            texts=texts,
            of_head=CLASS_NAME,
            seed=photos.seed,
        )
        in_turn = {row: shares.numpy() for row, shares in judged.items()}
    paths = [photos.paths[i] for i in held_out.nonzero()[:, 0].tolist()]
    return Trial(photos, paths, features[held_out], photos.labels[held_out], soup, heads, classifiers, notes, in_turn)


def _nothing_held_out(photos: LabelledPhotos, *, not_used: Mapping[str, Sequence[int]]) -> DataError:
    """The error if no photo is left to test on: most often the same photos lie in train/ and in test/."""
    n_test = len(photos.paths) - photos.n_train
    copies = [i for i in not_used[COPIES] if i >= photos.n_train]
    if copies:
        return DataError(
            f"{len(copies)} of {n_test} photos to test on are copies of photos to learn from, such as "
            f"{photos.paths[copies[0]]}, and none is left; put other photos into the test folder"
        )
    return DataError("no photo that could be read is left to be held out; add some to test/, or lower --shots")


def _sampled_soup(photos: LabelledPhotos, *, encoder: Encoder) -> Soup:
    """A soup of common words drawn at random."""
    words = common_words(COMMON_WORDS)
    positions = drawn_from(words, m=WORDS, seed=photos.seed)
    members = tuple(Member(words[i]) for i in positions)
    return Soup("sample", photos.seed, photos.template, encoder.id, members, preprocessing=encoder.preprocessing)


def _texts_of_rows(photos: LabelledPhotos, *, soup: Soup, encoder: Encoder) -> dict[str, Tensor]:
    """Class texts (C, D) of each row but the head."""
    names = photos.class_names
    template = photos.template
    return {
        CLASS_NAME: built_in_texts("class_name", class_names=names, template=template, encoder=encoder),
        TEMPLATES: built_in_texts("templates", class_names=names, template=template, encoder=encoder),
        SOUP: class_texts(soup, class_names=names, template=template, text_encoder=PromptEncoder.of(encoder)),
    }


def _few_shot(
    photos: LabelledPhotos, features: Tensor, *, shown: Tensor, texts: Tensor, encoder: Encoder
) -> tuple[FewShot, str]:
    """The photos that are shown, (N,) bool, with the texts (C, D) of the class names, and a note; see `checked`."""
    scale = checked_logit_scale(encoder.model)
    return checked(features[shown], photos.labels[shown], texts=texts.T, logit_scale=scale, names=photos.class_names)


def _head(photos: LabelledPhotos, shots: FewShot, *, kind: str, soup: Soup, note: str) -> Head:
    """A head of a kind, which starts from the texts of a soup."""
    names = photos.class_names
    return best_head(
        shots, kind=kind, soup=soup, template=soup.template, class_names=names, encoder=soup.encoder, note=note
    )


def _left_out(photos: LabelledPhotos, features: Tensor) -> dict[str, list[int]]:
    """Positions of photos that are left out, by why: unreadable (NaN), pictures in two classes, and further copies."""
    unreadable = (~features.isfinite().all(dim=1)).nonzero()[:, 0].tolist()
    firsts = originals(features)
    of_two_classes = firsts[photos.labels[firsts] != photos.labels]
    in_two_classes = torch.isin(firsts, of_two_classes)
    copies = (firsts != torch.arange(len(firsts))) & ~in_two_classes
    return {
        "could not be read": unreadable,
        "are left out, since the same pictures lie in two classes": in_two_classes.nonzero()[:, 0].tolist(),
        COPIES: copies.nonzero()[:, 0].tolist(),
    }
