"""Texts that would not fit the model's context: refused by dataset and class, where a tokenizer cuts them in silence.

A class whose name is cut before it ends is another class, and a soup whose members are cut after a long class name is
another soup: its count would be that of other texts than those that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from wsoup.core import prompts
from wsoup.core.errors import PoolError
from wsoup.evaluate.classifiers import ClassRow, Row
from wsoup.evaluate.testsets import TestSet
from wsoup.texts.tokens import token_lengths

Tokenizer = Callable[[Sequence[str]], Tensor]
SPARE = 8
"""Tokens that a tokenizer may add to those of the letters: a token holds a byte at least."""


def check_texts(texts: Sequence[str], *, tests: Sequence[TestSet], tokenizer: Tokenizer, token_offset: int = 0) -> None:
    """Raise PoolError where the longest of `texts` does not fit the context behind the longest class of a dataset.

    Args:
        texts: P texts, bare.
        tests: the datasets.
        tokenizer: texts -> (P, context) int64.
        token_offset: null tokens between the two.
    """
    if not texts:
        return
    context = tokenizer([""]).shape[1]
    endings = [prompts.ending(text, period=True).removeprefix(",") for text in texts]
    behind = token_lengths(endings, tokenizer=tokenizer)
    longest = texts[int(behind.argmax())]
    for test in tests:
        before = token_lengths([f"{stem}," for stem in test.stems], tokenizer=tokenizer)
        if int(before.max()) + int(behind.max()) - 2 + token_offset > context:  # both have a start and an end
            c = int(before.argmax())
            _refuse(test, c, prompts.prompt(test.template, test.class_names[c], longest), tokenizer, token_offset)


def check_rows(
    rows: Sequence[Row], *, class_rows: Mapping[str, Sequence[ClassRow]], tests: Sequence[TestSet], tokenizer: Tokenizer
) -> None:
    """`check_texts` of all rows with shared texts, `check_prompts` of those with prompts by class."""
    for offset in sorted({offset for row in rows for offset in row.offsets}):
        texts = sorted({text for row in rows if offset in row.offsets for text in row.texts})
        check_texts(texts, tests=tests, tokenizer=tokenizer, token_offset=offset)
    for test in tests:
        for row in class_rows.get(test.name, ()):
            check_prompts(row.prompts, test=test, tokenizer=tokenizer)


def check_prompts(lists: Sequence[Sequence[str]], *, test: TestSet, tokenizer: Tokenizer) -> None:
    """Raise PoolError for the first prompt of a dataset's C lists, one a class, that does not fit the context."""
    context = tokenizer([""]).shape[1]
    for c, texts in enumerate(lists):
        for text in texts:
            if len(text.encode()) + SPARE > context:
                _refuse(test, c, text, tokenizer, 0)


def _refuse(test: TestSet, c: int, text: str, tokenizer: Tokenizer, token_offset: int) -> None:
    """Raise PoolError where the whole text, tokenised, fills the context: of such a one nobody knows what was cut."""
    context = tokenizer([""]).shape[1]
    if int(token_lengths([text], tokenizer=tokenizer)) + token_offset >= context:
        shift = f" with token offset {token_offset}" if token_offset else ""
        raise PoolError(
            f"dataset {test.name}, class {test.class_names[c]!r}: {text!r}{shift} does not fit the model's context of "
            f"{context} tokens; shorten the name (datasets.{test.name}.class_names), or leave such long texts out of "
            "the pool"
        )
