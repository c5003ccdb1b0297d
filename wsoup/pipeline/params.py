"""All of params.yaml, checked as a whole: sections agree, and DVC watches what they read."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import model_validator

from wsoup.base.validation import nearest
from wsoup.evaluate.params import EvaluateParams, LandscapeParams, ReportParams
from wsoup.evaluate.rows import SIMPLE, judged_soups
from wsoup.finetune.params import FinetuneParams
from wsoup.finetune.tune_params import SoftDescriptorsTune
from wsoup.finetune.untrained import untrained
from wsoup.heads.params import Heads
from wsoup.params.inputs import Datasets, EmbedParams, EncoderParams, FewshotParams
from wsoup.params.section import Name, Section, Seeds, load, parse
from wsoup.search.grow.all_kinds import Soups
from wsoup.search.grow.kind import TEMPLATES_IN_CHAINS
from wsoup.search.pools.params import LISTED_TEMPLATES, CandidatesParams, ScoreParams

RESERVED = {
    "datasets": ("method", "m", "variant", "row", "stored", "kind", "text"),
    "soups": ("class_name", "upper_bound"),
    "finetune.methods": ("pretrained", "landscape", "heads"),
    "heads": ("pretrained",),
}
"""Names with a meaning of their own in results, artifacts and columns of tables."""


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
    """The pools of words, of descriptors and of your own."""
    score: ScoreParams
    """How the pools are scored."""
    soups: Soups
    """Definitions by name, any number; `word` and `descriptor` are the paper's."""
    finetune: FinetuneParams
    """Settings that finetuned methods share, and the methods by name."""
    heads: Heads
    """Closed-form heads on the source's few-shot images, by name; {} for none (docs/evidence.md)."""
    evaluate: EvaluateParams
    """Which rows are evaluated."""
    landscape: LandscapeParams
    """The 0-1 loss around tuned soft descriptors, first seed; without methods there is no such stage."""
    report: ReportParams
    """The question that the run answers, and how results are shown."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Params:
        sources = [name for name, dataset in self.datasets.items() if dataset.role == "source"]
        if sources != [self.source]:
            raise ValueError(
                f"source is {self.source!r}, and role: source is on {', '.join(sources) or 'none'} of the datasets; "
                "exactly one dataset has that role, and the key `source` names it"
            )
        return self

    @model_validator(mode="after")
    def _names_are_known(self) -> Params:
        methods = self.finetune.methods
        _check_names("datasets", list(self.datasets))
        _check_roles_as_names(self.datasets)
        _check_names("soups", list(self.soups))
        _check_names("finetune.methods", list(methods))
        _check_names("heads", list(self.heads))
        for name in self.heads:
            if name in methods:
                raise ValueError(f"heads: {name!r} is also a name under finetune.methods; rename one for the tables")
        users = {f"finetune.methods.{name}.soup": method.soup for name, method in methods.items()}
        for name, head in self.heads.items():
            users[f"heads.{name}.soup"] = head.soup
        known = ("class_name", *self.soups)
        if self.landscape.methods:
            users["landscape.soup"] = self.landscape.soup
        for key, soup in users.items():
            if soup not in known:
                raise ValueError(f"{key}: {soup!r} is not among the soups; {nearest(soup, known=known)}")
        judged = judged_soups(list(self.soups))
        if self.report.soup not in judged:
            hint = nearest(self.report.soup, known=judged)
            raise ValueError(f"report.soup: {self.report.soup!r} is not among the soups; {hint}")
        method = self.report.method
        if method is not None and method not in methods:
            hint = nearest(method, known=list(methods)) if methods else "there are none, so leave the key out"
            raise ValueError(f"report.method: {method!r} is not among finetune.methods; {hint}")
        return self

    @model_validator(mode="after")
    def _pools_are_known(self) -> Params:
        known = self.candidates.pools
        users = {f"soups.{name}.pool": soup.pool for name, soup in self.soups.items()}
        users |= {f"score.likelihood[{i}]": pool for i, pool in enumerate(self.score.likelihood)}
        for key, pool in users.items():
            if pool not in known:
                raise ValueError(f"{key}: {pool!r} is not among candidates.pools; {nearest(pool, known=known)}")
        return self

    @model_validator(mode="after")
    def _soups_have_texts(self) -> Params:
        for name, soup in self.soups.items():
            if soup.pool != "words" and not self.candidates.texts(soup.pool).paths:
                raise ValueError(
                    f"soups.{name}: its pool is {soup.pool}, and candidates.{soup.pool}.paths is []; name a file of "
                    "texts there, or take the soup out"
                )
        return self

    @model_validator(mode="after")
    def _templates_are_used_as_they_are(self) -> Params:
        of_templates = {name for name, soup in self.soups.items() if self.candidates.form(soup.pool) == "template"}
        for name in of_templates:
            if self.soups[name].joins:
                raise ValueError(f"soups.{name}: {TEMPLATES_IN_CHAINS}")
        for name, method in self.finetune.methods.items():
            if method.soup in of_templates and not method.tune.keeps_texts:
                raise ValueError(
                    f"finetune.methods.{name}.soup: the members of {method.soup} are templates, and tune.kind "
                    f"{method.tune.kind} learns words in their place; use a soup of texts that follow the class "
                    "name, or a kind that learns none, such as lora"
                )
        if self.landscape.methods and self.landscape.soup in of_templates:
            raise ValueError(
                f"landscape.soup: the members of {self.landscape.soup} are templates, and the plane is of words that "
                "follow the class name; use another soup"
            )
        return self

    @model_validator(mode="after")
    def _likelihoods_are_computed(self) -> Params:
        for name, soup in self.soups.items():
            if soup.reads_k2 and soup.pool not in self.score.likelihood:
                raise ValueError(
                    f"soups.{name}: rank_by: count_k2 reads k2, which score.likelihood computes for "
                    f"{' and '.join(self.score.likelihood) or 'no pool'}; add {soup.pool} there, or set rank_by: count"
                )
        return self

    @model_validator(mode="after")
    def _landscapes_have_one_soft_descriptor(self) -> Params:
        methods = self.finetune.methods
        for name in self.landscape.methods:
            if name not in methods:
                hint = nearest(name, known=list(methods)) if methods else "there are none"
                raise ValueError(f"landscape.methods: {name!r} is not among finetune.methods; {hint}")
            tune = methods[name].tune
            if not isinstance(tune, SoftDescriptorsTune) or tune.members > 1 or tune.prompt_tokens:
                raise ValueError(
                    f"landscape.methods: {name!r} is not a method with tune.kind soft_descriptors, members: 1 and "
                    "prompt_tokens: 0; the plane is of one soft descriptor"
                )
        return self

    @model_validator(mode="after")
    def _all_that_is_tuned_is_trained(self) -> Params:
        for problem in untrained(self.finetune, shots=self.fewshot.shots):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _lists_of_templates_are_there(self) -> Params:
        """Refuse what is neither a list nor a file; a watched file may be elsewhere, where only artifacts are kept."""
        watch = self.candidates.watch
        known = ", ".join((*LISTED_TEMPLATES, SIMPLE))
        for name, path in self.evaluate.template_files.items():
            if not covers(watch, path) and not os.path.exists(path):
                raise ValueError(
                    f"evaluate.templates.{name}: there is no list or file {path!r}; expected a file under "
                    f"candidates.watch ({watch}), or a list under its own name: {known}"
                )
        for name, dataset in self.datasets.items():
            if dataset.templates in (*LISTED_TEMPLATES, SIMPLE):
                raise ValueError(
                    f"datasets.{name}.templates: {dataset.templates!r} is a list that comes with wsoup; expected a "
                    f"file here: set evaluate.templates: {{{dataset.templates}: {dataset.templates}}} for its row"
                )
        return self

    @model_validator(mode="after")
    def _inputs_are_watched(self) -> Params:
        encoder = self.encoder
        model = {"encoder.config": encoder.config}
        if encoder.weights_file is not None:
            model["encoder.pretrained"] = encoder.pretrained
        _check_watched("encoder.watch", encoder.watch, files=model)
        pools = self.candidates
        words = {"candidates.words.path": pools.words.path}
        for name, method in self.finetune.methods.items():
            words[f"finetune.methods.{name}.tune.words"] = getattr(method.tune, "words", None)
        texts = {"candidates.waffle": pools.waffle}
        for pool in pools.pools:
            if pool != "words":
                for i, path in enumerate(pools.files(pool)):
                    texts[f"candidates.{pool}.paths[{i}]"] = path
        for name, dataset in self.datasets.items():
            for given in dataset.class_texts:
                texts[f"datasets.{name}.{given.key}"] = given.path
            # What lies among a dataset's images is watched with them.
            if dataset.templates is None or not covers(dataset.watch, dataset.templates):
                texts[f"datasets.{name}.templates"] = dataset.templates
            texts[f"datasets.{name}.names"] = dataset.names
        texts |= {f"evaluate.templates.{name}": path for name, path in self.evaluate.template_files.items()}
        if pools.words.watch is None:
            texts |= words
        else:
            _check_watched("candidates.words.watch", pools.words.watch, files=words)
        _check_watched("candidates.watch", pools.watch, files=texts)
        return self


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and check params.yaml; raises as `section.load`."""
    return load(Params, path)


def parse_params(raw: Mapping[str, object], *, origin: str) -> Params:
    """Check a mapping that is already loaded; `origin` names it in errors."""
    return parse(Params, raw, origin=origin)


def _check_names(section: str, names: Sequence[str]) -> None:
    """Raise ValueError for a name that means something else, or two that are one on some file systems.

    These ignore case, or in which of its forms Unicode writes an accent.
    """
    spelled: dict[str, str] = {}
    for name in names:
        # `wsoup soup show word-seed1` is the soup of one seed.
        of_one_seed = section == "soups" and re.search(r"-seed\d+$", name)
        if of_one_seed or name in RESERVED.get(section, ()):
            raise ValueError(f"{section}: the name {name!r} is taken by wsoup itself; choose another")
        other = spelled.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if other != name:
            raise ValueError(
                f"{section}: {other!r} and {name!r} differ by case alone, and would share files; rename one"
            )


def _check_roles_as_names(datasets: Datasets) -> None:
    """Raise ValueError for a dataset named like a role that others have, too: tables have a column for their mean."""
    for name in datasets:
        others = [other for other, section in datasets.items() if section.role == name and other != name]
        if others:
            raise ValueError(
                f"datasets: the name {name!r} is a role, and {others[0]!r} has it; the mean of that role has this name "
                "in tables, so choose another"
            )


def _check_watched(key: str, watch: str, *, files: Mapping[str, str | None]) -> None:
    """Raise ValueError if `watch` does not cover a file, or covers the whole run, whose own results would change it.

    Args:
        key: of `watch`, for the message.
        watch: a file or a folder.
        files: paths by the keys that name them, None where a key names none; they need not exist.
    """
    paths = {where: path for where, path in files.items() if path}
    distinct = sorted(set(paths.values()))
    step = f"put the {len(distinct)} files of its section into a folder without results, and set {key} to that"
    if len(distinct) == 1:
        step = f"set {key} to {distinct[0]}"
    # Results are made in the folder of params.yaml, so each run would make all stages out of date.
    if paths and _inside(os.path.realpath("."), os.path.realpath(watch)):
        raise ValueError(f"{key}: {watch!r} contains the whole run, results included; {step}")
    for where, path in paths.items():
        if not covers(watch, path):
            raise ValueError(
                f"{key}: {watch!r} does not cover {path!r} ({where}), so DVC would not notice a change of it; {step}"
            )


def covers(watch: str, path: str) -> bool:
    """Whether a path is `watch` or inside it, with relative paths and links resolved.

    DVC hashes what a link to a file leads to, so such a link counts both where it is and where it leads. DVC skips
    folders that are links, so those count only where they lead.
    """
    top = os.path.realpath(watch)
    place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return any(_inside(spelling, top) for spelling in (place, os.path.realpath(path)))


def _inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or below it."""
    return os.path.commonpath([path, folder]) == folder
