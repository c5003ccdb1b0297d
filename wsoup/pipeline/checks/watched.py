"""What DVC is to watch of each dataset, and whether it is there."""

import os
from collections.abc import Iterator

from wsoup.base.nearest_path import nearest_path
from wsoup.disk.files import shown
from wsoup.params.inputs import DatasetParams
from wsoup.pipeline.checks.brought import made_by_dvc
from wsoup.pipeline.params import Params


def missing_watch(section: DatasetParams) -> str:
    """That a dataset's `watch` does not exist, with the nearest path that does; "" if it exists."""
    if os.path.exists(section.watch):
        return ""
    step = nearest_path(section.watch) or "name a file or folder for `dvc repro` to watch"
    return f"watch: {shown(section.watch)} does not exist; {step}"


def missing_watches(params: Params) -> Iterator[str]:
    """A line for each dataset whose `watch` does not exist and is not DVC's to bring."""
    for name, section in params.datasets.items():
        problem = missing_watch(section)
        if problem and not made_by_dvc(section.watch):
            yield f"datasets.{name}.{problem}"
