"""Files of descriptors by class and of templates that are missing or cannot be read."""

from collections.abc import Iterator

from wsoup.base.errors import MissingError, WsoupError
from wsoup.disk.files import Artifacts
from wsoup.disk.store import read_checked_object
from wsoup.pipeline.checks.brought import made_by_dvc
from wsoup.pipeline.params import Params
from wsoup.search.candidates import gpt
from wsoup.search.candidates.templates import templates_of


def of_descriptors(params: Params) -> Iterator[WsoupError]:
    """Files of texts for each class that are missing or cannot be read."""
    wordings: dict[str, str | None] = {}
    for dataset in params.datasets.values():
        for given in dataset.class_texts:
            wordings[given.path] = wordings.get(given.path) or given.wording
    for path, wording in sorted(wordings.items()):
        try:
            gpt.read_descriptors(path, wording=wording)
        except MissingError as error:
            if not Artifacts().evaluated.exists() and not made_by_dvc(path):
                yield error
        except WsoupError as error:
            yield error


def of_templates(params: Params) -> Iterator[WsoupError]:
    """Files of templates that are missing or cannot be read."""
    of_datasets = {name: dataset.templates for name, dataset in params.datasets.items() if dataset.templates}
    made = Artifacts().templates
    is_kept: dict[str, bool] = {}
    try:
        kept = read_checked_object(made) if made.exists() else {"lists": {}, "datasets": {}}
    except WsoupError as error:
        yield error
        return
    for group, files in (("lists", params.evaluate.template_files), ("datasets", of_datasets)):
        for name, path in files.items():
            is_kept[path] = is_kept.get(path, True) and name in kept[group]
    for path in sorted(is_kept):
        try:
            templates_of(path)
        except MissingError as error:
            if not is_kept[path] and not made_by_dvc(path):
                yield error
        except WsoupError as error:
            yield error
