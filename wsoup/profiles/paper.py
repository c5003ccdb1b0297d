"""params.yaml for the paper's datasets: ImageNet as the source, or one of its targets, or half of one's classes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from wsoup.core.errors import ParamsError
from wsoup.datasets.paper import ENCODERS as PAPER_ENCODERS
from wsoup.datasets.paper import PAPER
from wsoup.profiles import methods
from wsoup.profiles.common import NOTHING_TO_WATCH, block, descriptors, filled, lines, one_line, template

ENCODERS = dict(PAPER_ENCODERS)
"""Models of the paper with their weights."""
LANDSCAPES = ("soft_random", "soft_word_diverse")
"""Methods of the paper's figure of the loss landscape."""
SINGLE_TEXTS = {
    "oxford_pets": ["a type of pet"],
    "dtd": ["a type of texture"],
}
"""Single descriptors that the paper counts alone, of the sources that they are about."""
DATASET_OF_HALVES = "shapes"
"""The toy world's dataset that base-to-new takes where none is named."""
HALVES = """\
# yaml-language-server: $schema=data/params.schema.json
# Base-to-new generalisation on @DATASET@ (`wsoup profile base_to_new --help`), the protocol of CoCoOp: the first half
# of the classes is the source that soups are selected and models finetuned on, the other half is a target.
# reports/tables/base_to_new.md has both and their harmonic mean. All else is as in profile @PROFILE@.
"""
"""What stands above params.yaml of a base-to-new run."""
NEEDS = """\
the paper's descriptors are needed: --gpt-descriptors DIR with the files of gpt_descriptors/ in \
github.com/Chris210634/word_soups (first published in sachit-menon/classify_by_description_release): \
descriptors_imagenet.json is the pool of 4,227 that descriptor soups and random descriptors are drawn from, and each \
dataset's own file (descriptors_pets.json, ...) makes its GPT rows; or --without-descriptors, which leaves out the \
rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their offset trick) and the upper \
bound"""
WITHOUT = """\
# Without descriptors: the rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their
# offset trick) and the upper bound are left out, and Waffle's characters are not drawn from the authors' pool.
"""
DESCRIPTOR_SOUP = """\
  descriptor:              # Algorithm 1: the best text, then each next one that makes the centroid better
    kind: greedy
    pool: descriptors      # words | descriptors
    m: 64                  # members at most
"""
DESCRIPTOR_SAMPLE = """\
  descriptor_sample:       # any m of the top k1 descriptors: what the descriptor soup must beat
    {kind: sample, pool: descriptors, m: 64, k1: 1000}
"""


@dataclass(frozen=True)
class Choices:
    """What the one who runs it brings and wants.

    Attributes:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of ``descriptors_*.json``; None only together with `without_descriptors`.
        without_descriptors: leave out all rows that need them.
        methods: one of `wsoup.profiles.methods.GROUPS`.
        encoder: one of `ENCODERS`.
        source: one of the paper's datasets that has training images, or `laion`.
        fewshot_pickles: folder with CoOp's ``shot_16-seed_1.pkl`` of the source; None draws the splits, and the report
            marks what depends on them.
        laion: the folder of LAION's images by ImageNet class, where the source is `laion` (`wsoup.datasets.laion`).
    """

    data_root: str
    gpt_descriptors: str | None = None
    without_descriptors: bool = False
    methods: str = "core"
    encoder: str = "ViT-B-16"
    source: str = "imagenet"
    fewshot_pickles: str | None = None
    laion: str | None = None


def paper(choices: Choices) -> str:
    """params.yaml of the paper; no file needs to be there yet.

    Raises:
        ParamsError: descriptors neither given nor left out, or no such encoder, source or group of methods.
    """
    if (choices.gpt_descriptors is None) != choices.without_descriptors:
        raise ParamsError(
            NEEDS if choices.gpt_descriptors is None else "give either --gpt-descriptors or --without-descriptors"
        )
    if choices.encoder not in ENCODERS:
        raise ParamsError(f"--encoder {choices.encoder!r} is none of the paper's: {', '.join(ENCODERS)}")
    gpt = choices.gpt_descriptors
    soups = ("word", "word_curve") if gpt is None else ("descriptor", "word", "word_curve")
    pool = [] if gpt is None else [f"{gpt}/descriptors_imagenet.json"]
    found = methods.of_paper(choices.methods, soups=soups)
    text = filled(
        template("paper"),
        SOURCE=choices.source,
        MODEL=f"{choices.encoder:<16}",
        TAG=f"{ENCODERS[choices.encoder]:<16}",
        DATASETS=block(_datasets(choices)),
        DESCRIPTORS=descriptors(pool, watch=gpt or NOTHING_TO_WATCH),
        DESCRIPTOR_SOUP=DESCRIPTOR_SOUP if gpt else "",
        DESCRIPTOR_SAMPLE=DESCRIPTOR_SAMPLE if gpt else "",
        METHODS=lines(found, indent=4),
        TEXTS=one_line(SINGLE_TEXTS.get(choices.source, [])),
        LANDSCAPES=f"[{', '.join(name for name in LANDSCAPES if name in found)}]",
    )
    first, rest = text.split("\n", 1)
    return text if gpt else f"{first}\n{WITHOUT}{rest}"


def _datasets(choices: Choices) -> dict[str, dict[str, Any]]:
    """Section datasets, the source first. The shifts are ImageNet's: beside another source ImageNet is a target."""
    if (choices.source == "laion") != (choices.laion is not None):
        raise ParamsError("--source laion and --laion FOLDER, that of its images by ImageNet class, go together")
    if choices.source in ("imagenet", "laion"):
        names = list(PAPER)
    else:
        _check_source(choices.source, option="--source")
        names = [choices.source, *(n for n, d in PAPER.items() if d.role != "dg" and n != choices.source)]
    found = {name: _dataset(name, data_root=choices.data_root, gpt=choices.gpt_descriptors) for name in names}
    if choices.laion is not None:  # tested on ImageNet, so that takes its place
        section = {**found.pop("imagenet"), "layout": f"laion:{choices.laion}"}
        found = {"laion": section, **found}
    elif choices.source != "imagenet":
        found["imagenet"]["role"] = "xd"
    found[choices.source]["role"] = "source"
    if choices.fewshot_pickles is not None:
        found[choices.source]["fewshot_pickles"] = choices.fewshot_pickles
    return found


def _dataset(name: str, *, data_root: str, gpt: str | None) -> dict[str, Any]:
    found = PAPER[name]
    listed = "variants.txt" if name == "fgvc_aircraft" else found.splits or "classnames.txt"
    section = {
        "role": found.role,
        "layout": f"coop:{name}",
        "root": data_root,
        "watch": f"{data_root}/{found.folder}/{listed}",
        "template": found.template,
    }
    return section | ({"gpt_descriptors": f"{gpt}/descriptors_{found.gpt}.json"} if gpt else {})


def _check_source(name: str, *, option: str) -> None:
    sources = [known for known, found in PAPER.items() if found.role != "dg"]  # the shifts have test images only
    if name not in sources:
        raise ParamsError(
            f"{option} {name!r} is none of the paper's datasets with training images: {', '.join(sources)}"
        )


def base_to_new(
    dataset: str | None = None,
    *,
    data_root: str | None = None,
    gpt_descriptors: str | None = None,
    without_descriptors: bool = False,
) -> str:
    """params.yaml of base-to-new generalisation: one dataset's first half of classes is the source, the rest a target.

    All else is as in `paper`, or for the toy world as in the demo profile.

    Args:
        dataset: one of the paper's that has training images; None: the toy world's shapes.
        data_root, gpt_descriptors, without_descriptors: as in `Choices`; only with `dataset`.

    Raises:
        ParamsError: no such dataset, one without training images, or `dataset` and `data_root` not together.
    """
    if dataset is None:
        if data_root is not None or gpt_descriptors is not None or without_descriptors:
            raise ParamsError(
                "--data-root, --gpt-descriptors and --without-descriptors need --dataset, for example --dataset dtd"
            )
        dataset, profile, text = DATASET_OF_HALVES, "demo", template("demo")
        section = yaml.safe_load(text)["datasets"][DATASET_OF_HALVES]
    else:
        _check_source(dataset, option="--dataset")
        if data_root is None:
            raise ParamsError(f"--dataset {dataset} needs --data-root, the folder that holds CoOp's folders")
        section = _dataset(dataset, data_root=data_root, gpt=gpt_descriptors)
        choices = Choices(data_root, gpt_descriptors=gpt_descriptors, without_descriptors=without_descriptors)
        profile, text = "paper", paper(choices)
    halves = {
        f"{dataset}_{half}": section | {"role": role, "classes": half}
        for half, role in (("base", "source"), ("new", "xd"))
    }
    text = re.sub(r"\A(#.*\n)+", lambda _: filled(HALVES, DATASET=dataset, PROFILE=profile), text)
    text = re.sub(r"(?m)^source: \w+ *", lambda _: f"{f'source: {dataset}_base':<26} ", text, count=1)
    return re.sub(r"(?ms)(^datasets:[^\n]*\n).*?(?=^\w)", lambda head: f"{head[1]}{block(halves)}\n", text, count=1)
