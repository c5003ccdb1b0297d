"""The results of a run, read from the files that its stages wrote."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wsoup.disk import store
from wsoup.disk.files import PRETRAINED
from wsoup.evaluate.params import EvaluateParams, LandscapeParams, ReportParams
from wsoup.evaluate.row_key import files_of_counts
from wsoup.finetune.params import FinetuneParams
from wsoup.paper.settings import Settings
from wsoup.params.inputs import Datasets, EncoderParams, FewshotParams
from wsoup.params.section import Name, Sections, Seeds
from wsoup.report.labels import TableRow, table, template_rows
from wsoup.report.lines import read_lines
from wsoup.report.results import Results
from wsoup.search.grow.all_kinds import Soups
from wsoup.search.pools.params import ALWAYS


class BadImages(Sections):
    """Of section `embed`, the key that decides which images are counted."""

    on_bad_image: str


class RunParams(Sections):
    """The sections of params.yaml that reports depend on."""

    source: Name
    seeds: Seeds
    encoder: EncoderParams
    datasets: Datasets
    fewshot: FewshotParams
    embed: BadImages
    candidates: dict[str, Any]  # only compared, with the paper's and another run's
    soups: Soups
    finetune: FinetuneParams
    heads: dict[Name, dict[str, Any]]  # only names, kinds and soups are needed
    evaluate: EvaluateParams
    landscape: LandscapeParams
    report: ReportParams

    @property
    def own_templates(self) -> list[str]:
        """Datasets that bring their own templates."""
        return [name for name, dataset in self.datasets.items() if dataset.templates]

    @property
    def template_rows(self) -> list[TableRow]:
        """The rows of lists of templates besides OpenAI's 80."""
        return template_rows(self.evaluate.template_lists, own=bool(self.own_templates))

    @property
    def pools(self) -> list[str]:
        """Names of all pools; a run of before there were others has no list of them."""
        return list(self.candidates.get("pools", ALWAYS))


def recorded(sections: Mapping[str, Any]) -> dict[str, Any]:
    """What a record holds of params.yaml: only what the report depends on."""
    kept = {name: sections[name] for name in RunParams.model_fields if name in sections}
    # Another embed.batch_size changes no report.
    if isinstance(kept.get("embed"), Mapping):
        kept["embed"] = {key: value for key, value in kept["embed"].items() if key in BadImages.model_fields}
    return kept


def load_results(folder: Path, *, params: RunParams) -> Results:
    """Read ``pretrained/results.parquet`` and, where they exist, ``<method>.parquet`` and ``heads/<head>.parquet``.

    Raises:
        MissingError, MismatchError: no results of the pretrained model; see `read_lines`.
    """
    files = files_of_counts(folder, methods=params.finetune.methods, heads=params.heads)
    pretrained = store.require(files.pop(PRETRAINED), made_by="evaluate")
    lines = read_lines(pretrained, variant=PRETRAINED, datasets=params.datasets)
    about = store.table_attributes(pretrained)
    trained: dict[str, Mapping[str, Any]] = {}
    for variant, path in files.items():
        # A report of the pretrained rows is useful while a method is still being trained by hand.
        if path.exists():
            lines += read_lines(path, variant=variant, datasets=params.datasets)
            trained[variant] = store.table_attributes(path)
    sections = params.model_dump(mode="json", by_alias=True)
    settings = Settings.of_run(sections, pools=about.get("pools", {}))
    # Heads are fitted in closed form: they have no peak of training, and no log.
    peaks = {name: trained[name]["peak_device_mib"] for name in params.finetune.methods if name in trained}
    training = {variant: each["training"] for variant, each in trained.items() if each.get("training")}
    return Results(
        lines,
        table(list(params.soups), templates=params.template_rows),
        roles={name: dataset.role for name, dataset in params.datasets.items()},
        evaluate=params.evaluate,
        facts=about["datasets"],
        encoder=about["encoder"],
        settings=settings,
        parameters={variant: each["parameters"] for variant, each in trained.items()},
        peak_device_mib=peaks,
        members_kl={variant: each["members_kl"] for variant, each in trained.items()},
        training=training,
        selected={variant: each["selected"] for variant, each in trained.items() if "selected" in each},
    )
