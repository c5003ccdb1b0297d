"""The loss landscape: 0-1 error over the plane through two initialisations and a tuned point.

`SoftDescriptorPlane` is the paper's figure, for methods that tune one soft descriptor. A point (x, y) is a descriptor
of n soft tokens, T + x (B - T) + y (A - T), as in the authors' code (Chris210634/word_soups,
figures/python_scripts/main_cross_dataset.wise_errors.2d.py): the tuned tokens T at (0, 0), the first member B of a word
soup at (1, 0), and random words A at (0, 1). The figure shows the 0-1 loss on training images, and its mean over the
ten cross-dataset test sets.

`PromptPlane` is the analogue for methods that tune the prompt alone (CoOp): x moves the descriptor linearly, token by
token, from member A of a soup (x = 0) to member B (x = 1), and y moves the prompt from the embeddings of the template
(y = 0) to the tuned ones (y = 1). Up to rounding, the corners are ordinary text features of the pretrained and of the
tuned model. A and B must have equally many tokens, see `choose_pair`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import cast

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn import functional as F

from wsoup.base.errors import PoolError
from wsoup.core import prompts
from wsoup.core.draws import named_seed
from wsoup.core.scoring import count_correct
from wsoup.disk import store
from wsoup.evaluate.testsets import COUNTS, WHERE, ClassPrompts, TestSet
from wsoup.finetune.params import PromptTune, SoftDescriptorsTune
from wsoup.finetune.student import Student
from wsoup.finetune.towers import Texts, TextState, TrainableTextTower
from wsoup.finetune.tuners import make_student
from wsoup.search.rank.source import Source
from wsoup.texts.tokens import token_lengths
from wsoup.towers.encoder import Encoder

Tokenizer = Callable[[Sequence[str]], Tensor]
TextsAt = Callable[[float, float], Tensor]
"""(x, y) -> features (S, D) of every class prompt: `PromptPlane.texts` or `SoftDescriptorPlane.texts`."""
CLASSES_PER_PASS = 256
"""Texts in one forward pass: enough to keep a GPU busy, with some 200 MiB of activations in ViT-B."""
SCHEMA = pa.schema([("x", pa.float64()), ("y", pa.float64()), *WHERE, ("seed", pa.int64()), *COUNTS])


def axis(*, steps: int, margin: int) -> list[float]:
    """Coordinates of the grid, the same in both directions: `steps` from 0 to 1, and `margin` more on either side.

    They include 0 and 1 exactly, so the initialisations and the tuned point are measured rather than interpolated.

    >>> axis(steps=2, margin=1)
    [-0.5, 0.0, 0.5, 1.0, 1.5]
    """
    return [i / steps for i in range(-margin, steps + margin + 1)]


def count_row(texts: TextsAt, *, y: float, axis: Sequence[float], tests: Sequence[TestSet]) -> np.ndarray:
    """Count the correct images of each dataset at each point of one grid row: (points, datasets) int64.

    Args:
        texts: text features for the class prompts of `tests`.
        y, axis: the row, and the x of its points.
        tests: the datasets, with image features of the pretrained model.
    """
    classes = ClassPrompts(tests)

    def at(x: float) -> list[int]:
        features = texts(x, y)
        return [count_correct(test.image_features, test.labels, features[classes.of(test)]) for test in tests]

    return np.array([at(x) for x in axis], dtype=np.int64)


def table(rows: Sequence[np.ndarray], *, axis: Sequence[float], tests: Sequence[TestSet], seed: int) -> pa.Table:
    """All rows of the grid, counted by `count_row`; columns of `SCHEMA`."""
    lines = [
        {"x": x, "y": y, **test.where, "seed": seed, "n_correct": int(n_correct), "n_images": len(test.labels)}
        for y, row in zip(axis, rows, strict=True)
        for x, counts in zip(axis, row, strict=True)
        for test, n_correct in zip(tests, counts, strict=True)
    ]
    return pa.Table.from_pylist(lines, schema=SCHEMA)


def identity(tests: Sequence[TestSet]) -> list[object]:
    """What determines the counts on these datasets, as JSON values for the resume key."""

    def images(test: TestSet) -> str:
        return store.fingerprint([test.labels.tolist(), test.image_features.double().sum(dim=1).tolist()])

    return [[test.name, test.template, test.class_names, images(test)] for test in tests]


def choose_pair(soup: Sequence[str], *, name: str, tokenizer: Tokenizer) -> tuple[str, str]:
    """Choose A and B: the first two members of a soup with equally many tokens.

    If there are none, the longest prefixes, in whole words, of the first two members that have such prefixes: a prefix
    of a word chain is an earlier state of its search, and just as good a text to start from.

    Args:
        soup: members of the soup.
        name: name of the soup, for the error.
        tokenizer: the model's tokenizer.

    Raises:
        PoolError: no two different members, or none with prefixes of equal length.
    """
    pairs = list(combinations(dict.fromkeys(soup), 2))
    texts = [text for member in soup for text in _prefixes(member)]
    size = dict(zip(texts, token_lengths(texts, tokenizer=tokenizer).tolist(), strict=True))
    for a, b in pairs:
        if size[a] == size[b]:
            return a, b
    for pair in pairs:
        for a, b in product(*map(_prefixes, pair)):
            if size[a] == size[b] and a != b:
                return a, b
    raise PoolError(
        f"a landscape needs two different members of equal length in tokens, the {name} soup has {list(soup)}; "
        f"raise soups.{name}.m, or name another soup as landscape.soup"
    )


def _prefixes(text: str) -> list[str]:
    """Prefixes of the text in whole words, the whole text first."""
    words = text.split()
    return [" ".join(words[:n]) for n in range(len(words), 0, -1)]


class PromptPlane:
    """Text features on the plane of two texts and a tuned prompt.

    Interpolates embeddings of whole texts rather than of the descriptor alone: tokens shared by the texts with A and B
    stay what they are, however the tokenizer splits a class name and the comma after it.

    Args:
        tuned: an encoder of which only the prompt was tuned.
        encoder: the pretrained one.
        template: the source's, whose first tokens the prompt started from.
        pair: A and B, with equally many tokens.
        stems: S class prompts without their final period.
        batch_size: texts in one forward pass.

    Raises:
        PoolError: after some class name the two texts differ in length.
    """

    def __init__(
        self,
        tuned: Encoder,
        *,
        encoder: Encoder,
        template: str,
        pair: tuple[str, str],
        stems: Sequence[str],
        batch_size: int = CLASSES_PER_PASS,
    ) -> None:
        model = cast(Student, tuned.model)
        self.encoder, self.tower = tuned, TrainableTextTower(model.model)
        assert model.soft_prompt is not None
        tune = PromptTune(kind="prompt", tokens=len(model.soft_prompt))
        unused = torch.Generator()  # a prompt starts from the template
        student = make_student(
            encoder.model, tokenizer=encoder.tokenizer, tune=tune, template=template, generator=unused
        )
        assert student.soft_prompt is not None
        self.start, self.end = student.soft_prompt.detach(), model.soft_prompt  # (n, width) each
        groups = [stems[i : i + batch_size] for i in range(0, len(stems), batch_size)]
        self._groups = [self._prepare(group, pair=pair) for group in groups]

    def _prepare(self, stems: Sequence[str], *, pair: tuple[str, str]) -> tuple[Texts, Texts]:
        """The texts with A and those with B, prepared alike; their common prefix is computed once."""
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
        """Features of every class prompt at a point: (S, D) float32, L2-normalised."""
        prompt = torch.lerp(self.start, self.end, y)[None]  # (1, n, width); `lerp` is exact at 0 and 1
        last = len(self.tower.blocks) - 1
        parts = []
        for a, b in self._groups:
            with self.encoder.autocast():
                at_a, at_b = self.tower.start(a, prompts=prompt), self.tower.start(b, prompts=prompt)
                state = TextState(at_a.head, torch.lerp(at_a.tail, at_b.tail, x))
                features = self.tower.finish(self.tower.run(state, a, first=0, stop=last), a)
            parts.append(F.normalize(features.float(), dim=-1))
        return torch.cat(parts)


class SoftDescriptorPlane:
    """Text features on the plane of two initialisations and a tuned soft descriptor.

    Args:
        tuned: an encoder of which only one soft descriptor was tuned.
        encoder: the pretrained one.
        template: the source's.
        seed: names the random words A, which are those that a method with a random start would begin with.
        soup: a word soup, whose first member is B.
        stems: S class prompts without their final period.
        batch_size: texts in one forward pass.
    """

    def __init__(
        self,
        tuned: Encoder,
        *,
        encoder: Encoder,
        template: str,
        seed: int,
        soup: Sequence[str],
        stems: Sequence[str],
        batch_size: int = CLASSES_PER_PASS,
    ) -> None:
        model = cast(Student, tuned.model)
        self.encoder, self.tower = tuned, TrainableTextTower(model.model)
        end = model.soft_descriptors[0].detach().clone()

        def start(texts: Sequence[str]) -> Tensor:
            student = make_student(
                encoder.model,
                tokenizer=encoder.tokenizer,
                tune=SoftDescriptorsTune(
                    kind="soft_descriptors",
                    members=1,
                    tokens=len(end),
                    start="soup" if texts else "random",
                    prompt_tokens=0,
                ),
                template=template,
                generator=torch.Generator().manual_seed(named_seed(seed, "start")),
                soup=texts,
            )
            return student.soft_descriptors[0].detach()

        self.corners = start(()), start(soup[:1]), end  # A, B and T: (n, width) each
        tokens = tuned.tokenizer([f"{stem}." for stem in stems]).to(tuned.device)
        moved, positions = model.with_descriptor(tokens)
        groups = [slice(i, i + batch_size) for i in range(0, len(stems), batch_size)]
        self._groups = [
            (self.tower.prepare(moved[group], before=int(positions[group].min())), positions[group]) for group in groups
        ]

    @torch.no_grad()
    def texts(self, x: float, y: float) -> Tensor:
        """Features of every class prompt at a point: (S, D) float32, L2-normalised."""
        a, b, tuned = self.corners
        # Corners are exact; the sum would round.
        exact = {(0.0, 0.0): tuned, (1.0, 0.0): b, (0.0, 1.0): a}
        soft = exact.get((x, y), tuned + x * (b - tuned) + y * (a - tuned))
        parts = []
        for texts, positions in self._groups:
            with self.encoder.autocast():
                features = self.tower(texts, soft=(positions, soft))
            parts.append(F.normalize(features.float(), dim=-1))
        return torch.cat(parts)


def shown_datasets(tests: Sequence[TestSet], *, source: Source, seed: int) -> list[TestSet]:
    """The datasets of the paper's figure: the source's few-shot training images of one seed, and the XD targets."""
    images, labels = source.images_of(seed)
    rows = source.subsets[seed].cpu().numpy()
    return [
        replace(test, name=f"{test.name} (training images)", image_features=images, labels=labels, rows=rows)
        if test.role == "source"
        else test
        for test in tests
        if test.role in ("source", "xd")
    ]
