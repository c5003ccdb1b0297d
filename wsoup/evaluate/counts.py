"""Counts of rows: what each makes of every dataset in every mode, as lines of a table."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from wsoup.core.modes import MODES
from wsoup.evaluate.answers import Answers
from wsoup.evaluate.testsets import COUNTS, WHERE
from wsoup.texts.tokens import Tokenizer, token_lengths

SCHEMA = pa.schema(
    [
        ("method", pa.string()),
        ("variant", pa.string()),
        ("mode", pa.string()),
        ("m", pa.int64()),  # null if it differs by class
        ("offsets", pa.int64()),  # token offsets at which each member is repeated; see Row.n_offsets
        ("texts", pa.float64()),  # texts per class, averaged over classes: the paper's column m
        ("text", pa.string()),  # null except for single texts
        ("stored", pa.int64()),  # integers needed to store the members, one per token; null for prompts by class
        ("seed", pa.int64()),
        *WHERE,
        *COUNTS,
        ("alignment", pa.float64()),  # `wsoup.core.alignment.mean_cosines`
        ("uniformity", pa.float64()),
        ("calibration_error", pa.float64()),  # `wsoup.core.calibration`, at the model's logit scale
        ("log_likelihood", pa.float64()),
    ]
)


def count(answers: Answers, *, sizes: Mapping[str, int]) -> Iterator[dict[str, object]]:
    """Lines of rows on one dataset; `sizes` are `tokens_stored` of their texts."""
    test = answers.test
    for r, row in enumerate(answers.rows):
        # A single text has one score, so both modes predict the same.
        modes = list(answers.by_mode) if row.text is None else MODES[:1]
        for mode in modes:
            in_mode = answers.by_mode[mode]
            stored = None
            if not row.prompts:
                stored = sum(sizes[text] for text in row.texts)
            line: dict[str, object] = {
                "method": row.method,
                "mode": mode,
                "m": row.m,
                "offsets": row.n_offsets,
                "texts": row.texts_per_class,
                "text": row.text,
                "stored": stored,
                **test.where,
                "n_correct": int(in_mode.right_by_class[r].sum()),
                "n_images": len(test.labels),
                "alignment": in_mode.alignment[r],
                "uniformity": in_mode.uniformity[r],
                "calibration_error": in_mode.calibration_error[r],
                "log_likelihood": in_mode.log_likelihood[r],
            }
            for seed in row.seeds:
                yield {**line, "seed": seed}


def tokens_stored(texts: Sequence[str], *, tokenizer: Tokenizer) -> dict[str, int]:
    """Tokens of each text: a soup is stored as one integer per token of its members."""
    empty, *lengths = token_lengths(["", *texts], tokenizer=tokenizer).tolist()
    return {text: length - empty for text, length in zip(texts, lengths, strict=True)}
