"""Evaluation in one reading: texts of a row -> class weights -> right images -> counts.

CLIP_benchmark evaluates one set of templates on one dataset (benchmark/metrics/zeroshot_classification.py): the mean
text feature of each class, its direction as class weights, the class with the highest score for each image, and how
often that is right. Here it is the same for every row of the tables (a set of texts for each class) on every dataset:

1. `mean_texts`: the mean text feature of each class, by row. Either way of using a row needs no more: the centroid is
   its direction, and the score mean is the score with the mean itself (`wsoup.core.class_texts`).
2. `answers_of`: class weights and images meet; of each image it is known whether a row gets it right.
3. `evaluate`: counts, as lines of a table.

What is beneath is there for speed and memory: each distinct text is encoded once (`text_plan`, `class_means`), and test
images go by in blocks (`answers`).
"""

from collections.abc import Sequence

import pyarrow as pa

from wsoup.evaluate.answers import Answers, answer
from wsoup.evaluate.counts import SCHEMA, count, tokens_stored
from wsoup.evaluate.rows import Row
from wsoup.evaluate.testsets import TestSet
from wsoup.evaluate.text_plan import Classifiers, plan_texts
from wsoup.texts.encoder import PromptEncoder
from wsoup.texts.tokens import Tokenizer
from wsoup.towers.run import Run


def mean_texts(
    rows: Sequence[Row],
    *,
    tests: Sequence[TestSet],
    text_encoder: PromptEncoder,
    weighed: Sequence[Row] = (),
    run: Run | None = None,
    label: str = "",
) -> Classifiers:
    """Compute the mean text features of all rows.

    Args:
        rows: all rows.
        tests: the datasets.
        text_encoder: encodes the texts.
        weighed: those of the rows of which the features of every text are kept; of rows with prompts by class, each
            class must have as many.
        run: keeps finished parts for a run after a kill; its encoder is the model of `text_encoder`. None keeps none.
        label: of the progress bar.

    Raises:
        PoolError: a text exceeds the model's context, see `check_rows`.
    """
    plan = plan_texts(rows, tests=tests, text_encoder=text_encoder, weighed=weighed)
    if run is not None:
        return plan.finished(run, label=label)
    return plan.joined({key: part.compute() for key, part in plan.parts.items()})


def answers_of(
    classifiers: Classifiers,
    *,
    tests: Sequence[TestSet],
    soups: Sequence[str] = (),
    drawn: int | None = None,
    shown: Sequence[Row] = (),
) -> list[Answers]:
    """What the rows make of each dataset, whose image features are of the model that encoded them.

    The other arguments are those of `wsoup.evaluate.answers.answer`.
    """
    answers = []
    for test in tests:
        made = answer(
            classifiers.of(test),
            test=test,
            logit_scale=classifiers.logit_scale,
            soups=soups,
            drawn=drawn,
            shown=shown,
        )
        answers.append(made)
    return answers


def evaluate(answers: Sequence[Answers], *, tokenizer: Tokenizer, variant: str) -> pa.Table:
    """Count what every row gets right on every dataset, in every mode (single texts in the only one they have).

    Args:
        answers: of all rows, by dataset.
        tokenizer: the model's tokenizer, which determines what a soup takes to store.
        variant: ``pretrained`` or the name of a finetuned method.

    Returns:
        One line per dataset, row, mode and seed, with the columns of `SCHEMA`.
    """
    texts: set[str] = set()
    for of_dataset in answers:
        for row in of_dataset.rows:
            texts.update(row.texts)
    sizes = tokens_stored(sorted(texts), tokenizer=tokenizer)
    lines = []
    for of_dataset in answers:
        for line in count(of_dataset, sizes=sizes):
            lines.append({**line, "variant": variant})
    return pa.Table.from_pylist(lines, schema=SCHEMA)
