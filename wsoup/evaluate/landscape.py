"""The loss landscape: 0-1 error over the plane of two initialisations and the tuned point.

The paper spans its figure of the loss landscape by two initialisations and what was trained. Here a point is (prompt,
descriptor), each a row of token embeddings, of a method that trains the prompt alone (CoOp):

* x moves the descriptor from member A of a soup (x = 0) to member B (x = 1), token by token and linearly;
* y moves the prompt from the template's own embeddings (y = 0) to the trained ones (y = 1).

So (0, 0) and (1, 0) are the two initialisations "a photo of a {class}, {A}." and "a photo of a {class}, {B}.", and
(0, 1) is the tuned point with A. At the four corners the features are those of the pretrained and of the tuned model
for a text that they encode anyway, up to rounding. A and B must be equally long in tokens: see `choose_pair`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.core import prompts
from wsoup.core.disk import store
from wsoup.core.errors import PoolError
from wsoup.core.scoring import count_correct
from wsoup.evaluate.testsets import COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.finetune.params import PromptTune
from wsoup.finetune.text_tower import Texts, TextState, TrainableTextTower
from wsoup.finetune.tuners import make_student
from wsoup.texts.tokens import token_lengths
from wsoup.towers.encoder import Encoder

Tokenizer = Callable[[Sequence[str]], Tensor]
TextsAt = Callable[[float, float], Tensor]
"""Features (S, D) of every class prompt at a point (x, y): `Plane.texts`, or that of `wsoup.evaluate.soft_plane`."""
CLASSES_PER_PASS = 256
"""Texts in one pass: on a GPU enough to keep it busy, and some 200 MiB of activations in ViT-B."""
SCHEMA = pa.schema([("x", pa.float64()), ("y", pa.float64()), *WHERE, ("seed", pa.int64()), *COUNTS])


def axis(*, steps: int, margin: int) -> list[float]:
    """Coordinates of the grid in both directions: `steps` from 0 to 1, and `margin` more of them on either side.

    0 and 1 are among them exactly, so that the initialisations and the tuned point are measured and not interpolated.

    >>> axis(steps=2, margin=1)
    [-0.5, 0.0, 0.5, 1.0, 1.5]
    """
    return [i / steps for i in range(-margin, steps + margin + 1)]


def choose_pair(soup: Sequence[str], *, name: str, tokenizer: Tokenizer) -> tuple[str, str]:
    """The texts A and B: the first two members of a soup that are equally long in tokens.

    Where no two are, the longest beginnings, in whole words, of the first two members that have such beginnings: the
    beginning of a word chain is an earlier stage of its search, and as good a text to start from.

    Args:
        soup: its members.
        name: of the soup, for the error.
        tokenizer: of the model.

    Raises:
        PoolError: there are no two members, or no two with beginnings of equal length.
    """
    pairs = list(combinations(dict.fromkeys(soup), 2))
    texts = [text for member in soup for text in _beginnings(member)]
    size = dict(zip(texts, token_lengths(texts, tokenizer=tokenizer).tolist(), strict=True))
    for a, b in pairs:
        if size[a] == size[b]:
            return a, b
    for a, b in pairs:
        for begun in _beginnings(a):
            same = [other for other in _beginnings(b) if size[other] == size[begun] and other != begun]
            if same:
                return begun, same[0]
    raise PoolError(
        f"a landscape needs two different members of equal length in tokens, the {name} soup has {list(soup)}; "
        f"raise soups.{name}.m, or name another soup as landscape.soup"
    )


def _beginnings(text: str) -> list[str]:
    """The text and its beginnings in whole words, the longest first."""
    words = text.split()
    return [" ".join(words[:n]) for n in range(len(words), 0, -1)]


def starting_prompt(encoder: Encoder, *, tuned: Encoder, template: str) -> Tensor:
    """The prompt of a tuned model before training, the embeddings of the template's first tokens: (n, width)."""
    tune = PromptTune(kind="prompt", tokens=len(tuned.model.soft_prompt))  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)  # nothing of a prompt is drawn
    student = make_student(
        encoder.model, tokenizer=encoder.tokenizer, tune=tune, template=template, generator=generator
    )
    assert student.soft_prompt is not None
    return student.soft_prompt.detach()


class Plane:
    """Text features anywhere on the plane.

    Embeddings of whole texts are mixed, not of the descriptor alone: where the texts with A and B have the same token
    the mixture is that token, whatever the tokenizer makes of a class name and the comma after it.

    Args:
        tuned: an encoder whose prompt alone was trained.
        start: (n, width) the prompt before training.
        pair: A and B, equally long in tokens.
        stems: S class prompts without their final period.
        batch_size: texts in one pass.

    Raises:
        PoolError: after some class name the two texts are not equally long.
    """

    def __init__(
        self,
        tuned: Encoder,
        *,
        start: Tensor,
        pair: tuple[str, str],
        stems: Sequence[str],
        batch_size: int = CLASSES_PER_PASS,
    ) -> None:
        model: Any = tuned.model  # a Student, which stands in for open_clip's model
        self.encoder, self.tower = tuned, TrainableTextTower(model.model)
        self.start, self.end = start, model.soft_prompt
        groups = [stems[i : i + batch_size] for i in range(0, len(stems), batch_size)]
        self._groups = [self._prepare(group, pair=pair) for group in groups]

    def _prepare(self, stems: Sequence[str], *, pair: tuple[str, str]) -> tuple[Texts, Texts]:
        """The texts with A and those with B, cut alike; what all of them begin with is computed once."""
        whole = [stem + prompts.ending(text, period=True) for text in pair for stem in stems]
        tokens = self.encoder.tokenizer(whole).to(self.encoder.device)
        both = self.tower.prepare(tokens, n_prompt=len(self.start))
        a, b = torch.arange(2 * len(stems), device=tokens.device).split(len(stems))
        differs = (both.ends[a] != both.ends[b]).nonzero()
        if len(differs):
            first = stems[int(differs[0])]
            raise PoolError(f"after {first!r}, {pair[0]!r} and {pair[1]!r} differ in length (tokens); rename the class")
        return both.take(a), both.take(b)

    @torch.no_grad()
    def texts(self, x: float, y: float) -> Tensor:
        """Features of every class prompt at one point: (S, D) float32, L2-normalised."""
        prompt = torch.lerp(self.start, self.end, y)[None]  # (1, n, width); `lerp` is exact at 0 and 1
        last = len(self.tower.blocks) - 1
        parts = []
        for a, b in self._groups:
            with self.encoder.autocast():
                begun, other = self.tower.start(a, prompts=prompt), self.tower.start(b, prompts=prompt)
                state = TextState(begun.head, torch.lerp(begun.tail, other.tail, x))
                features = self.tower.finish(self.tower.run(state, a, first=0, stop=last), a)
            parts.append(F.normalize(features.float(), dim=-1))
        return torch.cat(parts)


def count_row(texts: TextsAt, *, y: float, axis: Sequence[float], tests: Sequence[TestSet]) -> np.ndarray:
    """Correct images of each dataset at each x of one row of the grid: (points, datasets) int64.

    Args:
        texts: over the class prompts of `tests`.
        y, axis: the row, and its points.
        tests: the datasets, with the image features of the pretrained model, which a trained prompt leaves alone.
    """
    classes = ClassPrompts(tests)

    def at(x: float) -> list[int]:
        features = texts(x, y)
        return [count_correct(test.image_features, test.labels, features[classes.of(test)]) for test in tests]

    return np.array([at(x) for x in axis], dtype=np.int64)


def table(rows: Sequence[np.ndarray], *, axis: Sequence[float], tests: Sequence[TestSet], seed: int) -> pa.Table:
    """All rows of the grid, each as `count_row` counts it, with the columns of `SCHEMA`."""
    lines = [
        {"x": x, "y": y, **test.where, "seed": seed, "n_correct": int(n_correct), "n_images": len(test.labels)}
        for y, row in zip(axis, rows, strict=True)
        for x, counts in zip(axis, row, strict=True)
        for test, n_correct in zip(tests, counts, strict=True)
    ]
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def identity(tests: Sequence[TestSet]) -> list[object]:
    """What decides every count on these datasets, as JSON values: names the resume folder."""
    return [
        [
            test.name,
            test.template,
            test.class_names,
            store.fingerprint([test.labels.tolist(), test.image_features.double().sum(dim=1).tolist()]),
        ]
        for test in tests
    ]
