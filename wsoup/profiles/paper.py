"""params.yaml for the paper's datasets: ImageNet as the source, or one of its targets, or half of one's classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from wsoup.check import paper_pools
from wsoup.check.watch import covers
from wsoup.core.errors import ParamsError
from wsoup.datasets.paper import PAPER
from wsoup.evaluate.encoders import ENCODERS as PAPER_ENCODERS
from wsoup.profiles.common import block, descriptors, filled, lines, one_line, template
from wsoup.profiles.toy import of_paper
from wsoup.search.rank.pools import texts_of

ENCODERS = dict(PAPER_ENCODERS)
"""Models of the paper with their weights."""
LANDSCAPES = ("soft_random", "soft_word_diverse")
"""Methods of the paper's figure of the loss landscape."""
SINGLE_TEXTS = {
    "oxford_pets": ["a type of pet"],
    "dtd": ["a type of texture"],
}
"""Single descriptors that the paper counts alone, of the sources that they are about: behind the plain template there
(the authors' main_crossdataset.alignment.py:74), so that "a type of pet" is said once."""
DESCRIPTOR_SOUPS = ("soups.descriptor", "soups.descriptor_sample")
"""What is taken out of the template where there are no descriptors."""
DATASET_OF_HALVES = "shapes"
"""The toy world's dataset that base-to-new takes where none is named."""
HALVES = """\
# Base-to-new generalisation on {dataset} (`wsoup profile base_to_new --help`), the protocol of CoCoOp: the first half
# of the classes is the source that soups are selected and models finetuned on, the other half is a target.
# reports/tables/base_to_new.md has both and their harmonic mean. All else is as in profile {profile}.
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
# The paper's setting (arXiv 2311.13612) without descriptors, made by `wsoup profile paper --without-descriptors`: the
# rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their offset trick) and the upper
# bound are left out, and Waffle's characters are not drawn from the authors' pool.
"""


def paper(
    data_root: str,
    *,
    gpt_descriptors: str | None = None,
    without_descriptors: bool = False,
    methods: str = "core",
    encoder: str = "ViT-B-16",
    source: str = "imagenet",
    fewshot_pickles: str | None = None,
    laion: str | None = None,
    words: str | None = None,
) -> str:
    """params.yaml of the paper; no file needs to be there yet.

    Args:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of ``descriptors_*.json``; None only together with `without_descriptors`.
        without_descriptors: leave out all rows that need them.
        methods: one of `wsoup.profiles.toy.GROUPS`.
        encoder: one of `ENCODERS`.
        source: one of the paper's datasets that has training images, or ``laion``.
        fewshot_pickles: folder with CoOp's ``shot_16-seed_1.pkl`` of the source; None draws the splits, and the report
            marks what depends on them.
        laion: the folder of LAION's images by ImageNet class, where the source is ``laion`` (`wsoup.datasets.laion`).
        words: text file of common words, one a line, below `gpt_descriptors` where that is given; None takes
            wordfreq's, and the report marks what depends on them.

    Raises:
        ParamsError: descriptors neither given nor left out, or no such encoder, source or group of methods.
    """
    if (gpt_descriptors is None) != without_descriptors:
        raise ParamsError(
            NEEDS if gpt_descriptors is None else "give either --gpt-descriptors or --without-descriptors, not both"
        )
    if encoder not in ENCODERS:
        raise ParamsError(f"--encoder {encoder!r} is none of the paper's: {', '.join(ENCODERS)}")
    soups = ("word", "word_curve") if without_descriptors else ("descriptor", "word", "word_curve")
    chosen = of_paper(methods, soups=soups)
    datasets = _datasets(source, data_root=data_root, gpt=gpt_descriptors, laion=laion)
    if fewshot_pickles is not None:
        datasets[source]["fewshot_pickles"] = fewshot_pickles
    values: dict[str, str | None] = {
        "source": source,
        "encoder.model": encoder,
        "encoder.pretrained": ENCODERS[encoder],
        "datasets": block(datasets),
        "finetune.methods": lines(chosen, indent=4),
        "evaluate.texts": one_line(SINGLE_TEXTS.get(source, [])),
        "landscape.methods": one_line([name for name in LANDSCAPES if name in chosen]),
    }
    if words is not None:
        values |= _words(words, beside=gpt_descriptors)
    if gpt_descriptors is None:
        return filled(template("paper"), {**values, **dict.fromkeys(DESCRIPTOR_SOUPS)}, head=WITHOUT)
    pool = descriptors(f"{gpt_descriptors}/descriptors_imagenet.json", watch=gpt_descriptors)
    return filled(template("paper"), {**values, **pool})


def _words(path: str, *, beside: str | None) -> dict[str, str]:
    """What `filled` puts in for a list of words: all of it; as many as theirs has where it is not there yet."""
    if beside is not None and not covers(beside, path):
        raise ParamsError(
            f"--words {path} must lie in the folder of --gpt-descriptors, which DVC watches: put it into {beside}"
        )
    count = len(texts_of(path)) if Path(path).is_file() else paper_pools.authors()["words"]["count"]
    pool = {"path": path, "count": count, "period": False}
    return {"candidates.words": one_line(pool)} | ({} if beside else {"candidates.watch": one_line(path)})


def _datasets(source: str, *, data_root: str, gpt: str | None, laion: str | None) -> dict[str, dict[str, Any]]:
    """Section datasets, the source first. The shifts are ImageNet's: beside another source ImageNet is a target."""
    if (source == "laion") != (laion is not None):
        raise ParamsError("--source laion and --laion FOLDER, that of its images by ImageNet class, go together")
    of_imagenet = source in ("imagenet", "laion")
    if not of_imagenet:
        _check_source(source, option="--source")
    names = [name for name, known in PAPER.items() if of_imagenet or known.role != "dg"]
    sections = {name: _dataset(name, data_root=data_root, gpt=gpt) for name in names}
    if source == "laion":  # tested on ImageNet, so that takes its place
        sections["laion"] = sections.pop("imagenet") | {"layout": f"laion:{laion}"}
    elif source != "imagenet":
        sections["imagenet"]["role"] = "xd"
    about = {"role": "source"} | ({"template": PAPER["imagenet"].template} if source in SINGLE_TEXTS else {})
    return {source: sections.pop(source) | about, **sections}


def _dataset(name: str, *, data_root: str, gpt: str | None) -> dict[str, Any]:
    known = PAPER[name]
    listed = "variants.txt" if name == "fgvc_aircraft" else known.splits or "classnames.txt"
    section: dict[str, Any] = {
        "role": known.role,
        "layout": f"coop:{name}",
        "root": data_root,
        "watch": f"{data_root}/{known.folder}/{listed}",
        "template": known.template,
    }
    if known.baseline_template is not None:
        section["baseline_template"] = known.baseline_template
    if gpt:
        section |= {"gpt_descriptors": f"{gpt}/descriptors_{known.gpt}.json", "gpt_wording": known.gpt_wording}
    return section | ({"gpt_names": known.gpt_names} if known.gpt_names else {})


def _check_source(name: str, *, option: str) -> None:
    sources = [known for known, dataset in PAPER.items() if dataset.role != "dg"]  # the shifts have test images only
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
        data_root, gpt_descriptors, without_descriptors: as in `paper`; only with `dataset`.

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
        profile = "paper"
        text = paper(data_root, gpt_descriptors=gpt_descriptors, without_descriptors=without_descriptors)
        section = _dataset(dataset, data_root=data_root, gpt=gpt_descriptors)
    base, new = f"{dataset}_base", f"{dataset}_new"
    halves = {base: {**section, "role": "source", "classes": "base"}, new: {**section, "role": "xd", "classes": "new"}}
    head = HALVES.format(dataset=dataset, profile=profile)
    return filled(text, {"source": base, "datasets": block(halves)}, head=head)
