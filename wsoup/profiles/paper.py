"""params.yaml for the paper's datasets: with ImageNet or another dataset as the source."""

from pathlib import Path
from typing import Any

from wsoup.base.errors import ParamsError
from wsoup.check.whole import covers
from wsoup.datasets.paper import PAPER
from wsoup.paper import coverage
from wsoup.paper.tables import ENCODERS as PAPER_ENCODERS
from wsoup.paper.tables import single_texts
from wsoup.profiles.files import LANDSCAPES, descriptor_pool, filled, of_paper, template
from wsoup.search.rank.pools import texts_of

ENCODERS = dict(PAPER_ENCODERS)
"""Models of the paper with their weights."""
DESCRIPTOR_SOUPS = ("soups.descriptor", "soups.descriptor_sample")
"""Keys removed from the template if there are no descriptors."""
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
    waffle: str | None = None,
) -> str:
    """params.yaml of the paper; no file needs to be there yet.

    Args:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of ``descriptors_*.json``; None only with `without_descriptors`.
        without_descriptors: leave out all rows that need them.
        methods: one of `wsoup.profiles.files.GROUPS`.
        encoder: one of `ENCODERS`.
        source: one of the paper's datasets with training images, or ``laion``.
        fewshot_pickles: folder with CoOp's ``shot_16-seed_1.pkl`` of the source; None draws the splits, and the report
            marks rows that depend on them.
        laion: folder of LAION's images by ImageNet class, if the source is ``laion`` (`wsoup.datasets.coop`).
        words: text file of common words, one per line, wherever it lies: the pool of words, and what the soft
            descriptors of ProDA and the CoOp ensemble start from; None takes wordfreq's and the tokenizer's, and the
            report marks rows that depend on them.
        waffle: text file with the authors' list of Waffle's texts, inside `gpt_descriptors`; None
            makes them of the pools, and the report marks their rows.

    Raises:
        ParamsError: descriptors neither given nor left out; an unknown encoder, source or group of methods.
    """
    if (gpt_descriptors is None) != without_descriptors:
        raise ParamsError(
            NEEDS if gpt_descriptors is None else "give either --gpt-descriptors or --without-descriptors, not both"
        )
    if encoder not in ENCODERS:
        raise ParamsError(f"--encoder {encoder!r} is not one of the paper's: {', '.join(ENCODERS)}")
    soups = ("word", "word_curve") if without_descriptors else ("descriptor", "word", "word_curve")
    chosen = of_paper(methods, soups=soups)
    datasets = _datasets(source, data_root=data_root, gpt=gpt_descriptors, laion=laion)
    if fewshot_pickles is not None:
        datasets[source]["fewshot_pickles"] = fewshot_pickles
    values: dict[str, Any] = {
        "source": source,
        "encoder.model": encoder,
        "encoder.pretrained": ENCODERS[encoder],
        "datasets": datasets,
        "finetune.methods": chosen,
        "evaluate.texts": [text for text in single_texts(source) if text],
        "landscape.methods": [name for name in LANDSCAPES if name in chosen],
    }
    if words is not None:
        values |= _words(words)
        for method in chosen.values():
            if method["tune"].get("start") == "words":
                method["tune"] = method["tune"] | {"words": words}
    if waffle is not None:
        if gpt_descriptors is None:
            raise ParamsError("--waffle needs --gpt-descriptors, the folder that it lies in and that DVC watches")
        if not covers(gpt_descriptors, waffle):
            raise ParamsError(
                f"--waffle {waffle} must lie in the folder of --gpt-descriptors, which DVC watches: put it into "
                f"{gpt_descriptors}"
            )
        values["candidates.waffle"] = waffle
    if gpt_descriptors is None:
        return filled(template("paper"), {**values, **dict.fromkeys(DESCRIPTOR_SOUPS)}, head=WITHOUT)
    pool = descriptor_pool(f"{gpt_descriptors}/descriptors_imagenet.json", watch=gpt_descriptors)
    return filled(template("paper"), {**values, **pool})


def _words(path: str) -> dict[str, Any]:
    """Values for `filled`: the whole list of words, with the authors' count if the file does not exist yet."""
    count = len(texts_of(path)) if Path(path).is_file() else coverage.authors()["words"]["count"]
    return {"candidates.words.path": path, "candidates.words.watch": path, "candidates.words.count": count}


def _datasets(source: str, *, data_root: str, gpt: str | None, laion: str | None) -> dict[str, dict[str, Any]]:
    """Section datasets, the source first. With another source ImageNet is a target, and its shifts are left out."""
    if (source == "laion") != (laion is not None):
        raise ParamsError(
            "--source laion needs --laion FOLDER, the folder of its images by ImageNet class; no other source takes it"
        )
    of_imagenet = source in ("imagenet", "laion")
    if not of_imagenet:
        _check_source(source, option="--source")
    names = [name for name, known in PAPER.items() if of_imagenet or known.role != "dg"]
    sections = {name: _dataset(name, data_root=data_root, gpt=gpt) for name in names}
    if source == "laion":  # which is tested on ImageNet's test images
        sections["laion"] = sections.pop("imagenet") | {"layout": f"laion:{laion}"}
    elif source != "imagenet":
        sections["imagenet"]["role"] = "xd"
    # The paper's single texts follow the plain template (the authors' main_crossdataset.alignment.py:74).
    changes = {"role": "source"} | ({"template": PAPER["imagenet"].template} if single_texts(source) else {})
    return {source: sections.pop(source) | changes, **sections}


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
            f"{option} {name!r} is not one of the paper's datasets with training images: {', '.join(sources)}"
        )
