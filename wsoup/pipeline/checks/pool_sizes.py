"""Pools that cannot be read, and soups and draws that need more texts than their pool has."""

import os
from collections.abc import Iterator, Mapping, Sequence

from wsoup.base.errors import MissingError, PoolError, WsoupError
from wsoup.disk.files import Artifacts
from wsoup.pipeline.checks.brought import made_by_dvc
from wsoup.pipeline.params import Params
from wsoup.search.candidates import pools
from wsoup.search.pools import lists

MANY_WORDS = 50_000
"""wordfreq has more common words than this; only larger counts are checked with it, since it takes a second to load."""


def of_pools(params: Params) -> Iterator[WsoupError]:
    """An error for each pool that cannot be read, then for each key that asks a pool for too much."""
    sizes: dict[str, int] = {}
    for pool in params.candidates.pools:
        files = params.candidates.files(pool)
        try:
            sizes[pool] = _size(params, pool=pool, files=files)
        except MissingError as error:
            if not any(made_by_dvc(file) for file in files):
                yield error
        except WsoupError as error:
            yield error
    yield from _shortages(params, sizes=sizes)


def _size(params: Params, *, pool: str, files: Sequence[str]) -> int:
    """Texts in a pool: of its files, or of the artifact made from files that are elsewhere."""
    candidates = params.candidates
    artifact = Artifacts().pool(pool)
    # The files decide as long as they are there: an artifact may be of params of before.
    if artifact.exists() and not all(os.path.exists(file) for file in files):
        return len(lists.read_pool(artifact))
    if pool == "words" and not files and candidates.words.count <= MANY_WORDS:
        return candidates.words.count
    return len(pools.texts_of_pool(candidates, pool))


def _shortages(params: Params, *, sizes: Mapping[str, int]) -> Iterator[WsoupError]:
    """Soups and draws that need more texts than their pool has; `sizes` lacks pools that cannot be read."""
    for name, soup in params.soups.items():
        if soup.pool in sizes:
            problem = soup.shortage(sizes[soup.pool])
            if problem:
                yield PoolError(f"soups.{name}.{problem}")
    evaluate = params.evaluate
    draws = [
        ("baseline_m", evaluate.baseline_m, "descriptors"),
        ("survey.chain_length", evaluate.survey.chain_length, "words"),
    ]
    if params.finetune.methods:
        draws.append(("tuned_baseline_m", evaluate.tuned_baseline_m, "descriptors"))
    for key, drawn, pool in draws:
        # A pool without any text is not an error: the rows that draw from it are left out.
        size = sizes.get(pool, 0)
        if 0 < size < drawn:
            step = "lower it, or give more texts"
            yield PoolError(f"evaluate.{key} is {drawn} but the pool {pool} holds {size}; {step}")
