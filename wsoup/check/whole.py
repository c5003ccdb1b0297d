"""All of params.yaml, checked as one: what `wsoup` reads, and what refuses a run before its first stage starts.

``python -m wsoup.check.whole`` brings data/params.schema.json up to date, by which editors complete and explain keys;
a test compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import model_validator

from wsoup.adapt.params import Adaptations
from wsoup.check import watch
from wsoup.core.params.datasets import Datasets, FewshotParams
from wsoup.core.params.encoder import EmbedParams, EncoderParams
from wsoup.core.params.section import Name, Section, Seeds, load, parse
from wsoup.evaluate.params import EvaluateParams, LandscapeParams, ReportParams
from wsoup.evaluate.rows import judged_soups
from wsoup.finetune.params import FinetuneParams, PromptTune, SoftDescriptorsTune
from wsoup.heads.params import Heads
from wsoup.search.grow.params import Soups
from wsoup.search.rank.params import CandidatesParams, ScoreParams

SCHEMA = Path(__file__).parents[2] / "data" / "params.schema.json"
"""Named in the first line of params.yaml and of every profile."""
RESERVED = {
    "soups": ("class_name", "upper_bound"),
    "finetune.methods": ("pretrained", "landscape", "heads", "adapted"),
    "heads": ("pretrained",),
}
"""Names that results and artifacts use themselves."""


class Params(Section):
    """All of params.yaml."""

    source: Name
    """The dataset that soups are selected and models finetuned on; its role is source."""
    seeds: Seeds
    """Each seed draws its own few-shot images, soups and training."""
    encoder: EncoderParams
    """The open_clip model."""
    datasets: Datasets
    """The source and the targets, by name."""
    fewshot: FewshotParams
    """How many images soups are selected on."""
    embed: EmbedParams
    """How images go through the model."""
    candidates: CandidatesParams
    """The pools of words and descriptors."""
    score: ScoreParams
    """How the pools are scored."""
    soups: Soups
    """Definitions by name, any number; `word` and `descriptor` are the paper's."""
    finetune: FinetuneParams
    """What finetuned methods share, and the methods by name."""
    heads: Heads
    """Closed-form heads on the source's few-shot images, by name; {} for none (docs/heads.md)."""
    adapt: Adaptations
    """Adaptation to each target's images without labels, by name; {} for none (docs/heads.md)."""
    evaluate: EvaluateParams
    """Which rows are evaluated."""
    landscape: LandscapeParams
    """The 0-1 error over the plane of two initialisations and a tuned prompt, first seed."""
    report: ReportParams
    """What the run is asked, and how results are shown."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Params:
        if self.source not in self.datasets:
            raise ValueError(f"source {self.source!r} is not among the datasets: {', '.join(self.datasets)}")
        sources = [name for name, dataset in self.datasets.items() if dataset.role == "source"]
        if sources != [self.source]:
            raise ValueError(
                f"exactly one dataset has role: source, and it is {self.source!r} (the key `source`); "
                f"found role: source on {sources or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _names_are_known(self) -> Params:
        methods, heads = self.finetune.methods, self.heads
        for section, names in (("soups", self.soups), ("finetune.methods", methods), ("heads", heads)):
            for name in RESERVED[section]:
                if name in names:
                    raise ValueError(f"{section}: the name {name!r} is taken by wsoup itself; choose another")
        for name in (name for name in heads if name in methods):
            raise ValueError(f"heads: {name!r} is a name under finetune.methods, too; tables could not tell them apart")
        known = ("class_name", *self.soups)
        users = {f"finetune.methods.{name}.soup": m.soup for name, m in methods.items()}
        users |= {f"heads.{name}.soup": head.soup for name, head in heads.items()}
        users |= {f"adapt.{name}.soup": one.soup for name, one in self.adapt.items()}
        if self.landscape.methods:
            users["landscape.soup"] = self.landscape.soup
        for key, soup in users.items():
            if soup not in known:
                raise ValueError(f"{key}: {soup!r} is not among the soups: {', '.join(known)}")
        judged = judged_soups(list(self.soups))
        if self.report.soup not in judged:
            raise ValueError(f"report.soup: {self.report.soup!r} is not among the soups: {', '.join(judged)}")
        return self

    @model_validator(mode="after")
    def _landscapes_are_of_trained_prompts(self) -> Params:
        known = self.finetune.methods
        for name in self.landscape.methods:
            if name not in known:
                raise ValueError(f"landscape.methods: {name!r} is not among finetune.methods: {', '.join(known)}")
            tune = known[name].tune
            soft = isinstance(tune, SoftDescriptorsTune) and tune.members == 1 and not tune.prompt_tokens
            if not (soft or isinstance(tune, PromptTune)):
                raise ValueError(
                    f"landscape.methods: {name!r} has tune.kind {tune.kind}; the plane is of a trained prompt or of "
                    "one soft descriptor: list methods with tune.kind prompt, or soft_descriptors with members: 1"
                )
        return self

    @model_validator(mode="after")
    def _what_is_read_is_watched(self) -> Params:
        encoder, pools = self.encoder, self.candidates
        files = {"encoder.config": encoder.config, "encoder.pretrained": encoder.weights_file and encoder.pretrained}
        watch.check("encoder.watch", encoder.watch, files={key: path for key, path in files.items() if path})
        read = {f"candidates.descriptors.paths[{i}]": path for i, path in enumerate(pools.descriptors.paths)}
        read |= {"candidates.words.path": pools.words.path} if pools.words.path else {}
        given = {f"datasets.{name}.gpt_descriptors": dataset.gpt_descriptors for name, dataset in self.datasets.items()}
        read |= {key: path for key, path in given.items() if path}
        watch.check("candidates.watch", pools.watch, files=read)
        return self

    @model_validator(mode="after")
    def _soups_fit_the_pool_and_what_races_keep(self) -> Params:
        count = self.candidates.words.count
        for name, soup in self.soups.items():
            problem = None
            if soup.pool == "words":
                problem = soup.shortage(count, where=f"candidates.words.count is {count}", otherwise="raise that")
            race = () if soup.pool == "mixed" or soup.unranked else self.score.race(soup.pool)
            if race and not problem:
                where = f"the last round of score.racing.{soup.pool} keeps {race[-1].keep}"
                problem = soup.shortage(race[-1].keep, where=where, otherwise="keep more")
            if problem:
                raise ValueError(f"soups.{name}.{problem}")
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and check params.yaml; raises as `section.load`."""
    return load(Params, path)


def parse_params(raw: Mapping[str, Any], *, origin: str) -> Params:
    """Check an already loaded mapping; `origin` names it in errors."""
    return parse(Params, raw, origin=origin)


def schema() -> str:
    """params.yaml as JSON Schema, by the keys that stand in the file."""
    return json.dumps(Params.model_json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    from wsoup.check import reference

    SCHEMA.write_text(schema(), encoding="utf-8")
    reference.PAGE.write_text(reference.markdown(json.loads(schema())), encoding="utf-8")
