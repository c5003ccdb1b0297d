"""The one list of what `wsoup check` looks at: encoder, datasets, pools, and what would stop a run (`preflight`)."""

from collections.abc import Iterator

from wsoup.base.errors import one_line
from wsoup.paper import coverage
from wsoup.pipeline import preflight
from wsoup.pipeline.check_datasets import dataset
from wsoup.pipeline.check_roles import foreign_targets
from wsoup.pipeline.finding import Finding, in_order
from wsoup.pipeline.findings_cache import cached_findings, encoder_inputs
from wsoup.pipeline.params import Params


def findings(params: Params, *, deep: bool) -> list[Finding]:
    """Every finding about params.yaml once: facts, then warnings, then errors; `deep` also decodes every image."""
    every = cached_findings("encoder", inputs=encoder_inputs(params), look=lambda: _encoder(params))
    for name in params.datasets:
        every += dataset(name, params=params, deep=deep)
    every += foreign_targets(params)
    for of_authors, text in coverage.pools_of_params(params.model_dump(mode="json", by_alias=True)):
        every.append(Finding("fact" if of_authors else "warning", "", text))
    for problem in preflight.problems(params):
        every.append(Finding("error", "", one_line(problem)))
    return in_order(every)


def _encoder(params: Params) -> Iterator[Finding]:
    # Imported here, because torch and open_clip take three seconds.
    from wsoup.pipeline.check_encoder import encoder

    yield from encoder(params)
