"""Texts that would not fit the model's context are refused by dataset and class (`wsoup.texts.fits`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wsoup.evaluate.classifiers import ClassRow, Row
from wsoup.evaluate.testsets import TestSet
from wsoup.texts import fits
from wsoup.texts.tokens import Tokenizer


def check_texts(texts: Sequence[str], *, tests: Sequence[TestSet], tokenizer: Tokenizer, token_offset: int = 0) -> None:
    """Raise PoolError where one of `texts` does not fit the context after the longest class name of a dataset."""
    for test in tests:
        fits.check_fits(
            texts,
            stems=test.stems,
            tokenizer=tokenizer,
            origin=f"dataset {test.name}",
            step=_step(test),
            token_offset=token_offset,
        )


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


def check_prompts(prompts: Sequence[Sequence[str]], *, test: TestSet, tokenizer: Tokenizer) -> None:
    """Raise PoolError for the first prompt of a dataset's C lists, one a class, that does not fit the context."""
    for name, texts in zip(test.class_names, prompts, strict=True):
        origin = f"dataset {test.name}, class {name!r}"
        fits.check_prompts(texts, tokenizer=tokenizer, origin=origin, step=_step(test))


def _step(test: TestSet) -> str:
    return f"shorten the name (datasets.{test.name}.class_names), or leave such long texts out of the pool"
