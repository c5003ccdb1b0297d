"""Which texts of the pools do not fit the model's context: all of them, before a run comes to the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wsoup.check.whole import Params
from wsoup.core import prompts
from wsoup.core.errors import WsoupError, one_line
from wsoup.search.rank import pools
from wsoup.texts.fits import too_long
from wsoup.towers.encoder import tokenizer_of


def problems(params: Params, *, class_names: Sequence[str]) -> Iterator[str]:
    """A line for each descriptor, and each word of a list of one's own, that is too long behind the source's classes.

    Args:
        params: the whole params.yaml.
        class_names: of the source; none where its images are not there.
    """
    if params.candidates.on_long_text == "skip":
        return
    words, named = params.candidates.words.path, params.candidates.descriptors.paths
    try:
        tokenizer = tokenizer_of(params.encoder.model)
        texts = {"descriptors": pools.descriptors(named)}
        if words is not None:
            texts["words"] = pools.words_from_file(words, count=params.candidates.words.count)
    except WsoupError:  # a pool or a model that is not there is said elsewhere
        return
    stems = prompts.stems(params.datasets[params.source].template, class_names)
    for pool, candidates in texts.items():
        for stem, text in too_long(candidates, stems=stems, tokenizer=tokenizer):
            after = one_line(stem, limit=160)
            yield (
                f"candidates.{pool}: {one_line(text, limit=160)!r} does not fit the model's context after {after!r}; "
                "shorten it or leave it out, or set candidates.on_long_text: skip"
            )
