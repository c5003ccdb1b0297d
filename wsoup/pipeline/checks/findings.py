"""The one list of what `wsoup check` looks at: encoder, datasets, pools, and what would stop a run (`preflight`)."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from wsoup.base.errors import one_line
from wsoup.paper.published import own_files
from wsoup.params.graph import DVC_YAML
from wsoup.pipeline.checks.finding import Finding, in_order
from wsoup.pipeline.checks.findings_cache import cached_findings, digest_of, encoder_inputs
from wsoup.pipeline.checks.looked_at import stamps
from wsoup.pipeline.checks.missing_keys import missing_keys
from wsoup.pipeline.lock_file import LOCK, damaged
from wsoup.pipeline.params import Params


def without_model(params: Params, *, deep: bool) -> list[Finding]:
    """Every finding about params.yaml but those about the model, once: facts, then warnings, then errors.

    Args:
        params: its content.
        deep: also decode every image.
    """
    files = stamps(params)
    if deep or files is None:
        return in_order(_without_model(params, deep=deep))
    sections = params.model_dump(mode="json", by_alias=True)
    inputs: list[object] = [sections, encoder_inputs(params), files, own_files()]
    every = cached_findings("files", inputs=inputs, look=lambda: _without_model(params, deep=False))
    return in_order(every)


def _without_model(params: Params, *, deep: bool) -> Iterator[Finding]:
    # Imported here, because where nothing has changed nothing is looked at.
    from wsoup.paper import coverage
    from wsoup.pipeline.checks import preflight
    from wsoup.pipeline.checks.datasets import dataset
    from wsoup.pipeline.checks.roles import foreign_targets

    for name in params.datasets:
        yield from dataset(name, params=params, deep=deep)
    yield from foreign_targets(params)
    for of_authors, text in coverage.pools_of_params(params.model_dump(mode="json", by_alias=True)):
        yield Finding("fact" if of_authors else "warning", "", text)
    for problem in preflight.problems(params):
        yield Finding("error", "", one_line(problem))


def of_files(params: Path) -> list[Finding]:
    """What is wrong with the files themselves: keys that dvc.yaml names and params lack, and a dvc.lock that is cut."""
    keys = [str(params), digest_of(params), digest_of(DVC_YAML)]
    every = cached_findings("keys", inputs=keys, look=lambda: _errors(missing_keys(params)))
    # DVC's schema takes as long to load as all else.
    every += cached_findings("lock", inputs=digest_of(LOCK), look=lambda: _errors(filter(None, [damaged()])))
    return every


def of_model(params: Params, *, said: Collection[Finding]) -> list[Finding]:
    """Every finding about the model, but for those that were said before."""
    every = cached_findings("encoder", inputs=encoder_inputs(params), look=lambda: _encoder(params))
    texts = {finding.text for finding in said}
    return in_order(finding for finding in every if finding.kind != "error" or finding.text not in texts)


def _errors(texts: Iterable[str]) -> Iterator[Finding]:
    for text in texts:
        yield Finding("error", "", text)


def _encoder(params: Params) -> Iterator[Finding]:
    # Imported here, because torch and open_clip take three seconds.
    from wsoup.pipeline.checks.encoder import encoder

    yield from encoder(params)
