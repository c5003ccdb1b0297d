"""What would stop a run, found before the first image is embedded: pool sizes, missing files, limits of the model.

Stage prepare, where a run begins, looks at this, so a k1 larger than the pool is reported when a run starts and not
hours later. A missing file is not a problem if what was made from it is there (a node may hold the artifacts and not
the data), or if DVC is going to make it, as it makes the toy world's encoder.
"""

from collections.abc import Iterator

from wsoup.base.errors import WsoupError
from wsoup.pipeline.checks.hidden import hidden_from_dvc
from wsoup.pipeline.checks.model_limits import of_model
from wsoup.pipeline.checks.pool_sizes import of_pools
from wsoup.pipeline.checks.text_files import of_descriptors, of_templates
from wsoup.pipeline.params import Params


def problems(params: Params) -> Iterator[WsoupError]:
    """One error for each thing that would stop a run, as the stage that meets it would raise it."""
    yield from of_pools(params)
    yield from of_descriptors(params)
    yield from of_templates(params)
    for dataset in params.datasets.values():
        yield from hidden_from_dvc(dataset.root)
    yield from of_model(params)
