"""params.yaml for the paper's datasets: with ImageNet or another dataset as the source."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsoup.base.errors import ParamsError
from wsoup.check.whole import covers
from wsoup.datasets.paper import PAPER
from wsoup.paper.settings import Settings
from wsoup.paper.tables import ENCODERS as PAPER_ENCODERS
from wsoup.paper.tables import single_texts
from wsoup.profiles.files import descriptor_pool, filled, of_paper, template
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


@dataclass(frozen=True)
class Paper:
    """The paper's params.yaml, by the options of `wsoup profile paper`; no file needs to be there yet.

    Attributes:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of ``descriptors_*.json``; None leaves out all rows that need them.
        methods: one of `wsoup.profiles.files.GROUPS`.
        encoder: one of `ENCODERS`.
        source: one of the paper's datasets with training images, or ``laion:FOLDER``, the folder of LAION's images by
            ImageNet class (`wsoup.datasets.coop`).
        fewshot_pickles: folder with CoOp's ``shot_16-seed_1.pkl`` of the source; None draws the splits, and the report
            marks rows that depend on them.
        words: text file of common words, one per line, wherever it lies: the pool of words, and what the soft
            descriptors of ProDA and the CoOp ensemble start from; None takes wordfreq's and the tokenizer's, and the
            report marks rows that depend on them.
        waffle: text file with the authors' list of Waffle's texts, inside `gpt_descriptors`; None makes them of the
            pools, and the report marks their rows.
    """

    data_root: str
    gpt_descriptors: str | None = None
    methods: str = "core"
    encoder: str = "ViT-B-16"
    source: str = "imagenet"
    fewshot_pickles: str | None = None
    words: str | None = None
    waffle: str | None = None

    def text(self) -> str:
        """The file; raises ParamsError for an unknown encoder, source or group, or a file in the wrong folder."""
        if self.encoder not in ENCODERS:
            raise ParamsError(f"--encoder {self.encoder!r} is not one of the paper's: {', '.join(ENCODERS)}")
        soups = ("word", "word_curve") if self.gpt_descriptors is None else ("descriptor", "word", "word_curve")
        chosen, datasets = of_paper(self.methods, soups=soups), self._datasets()
        source = next(iter(datasets))
        if self.fewshot_pickles is not None:
            datasets[source]["fewshot_pickles"] = self.fewshot_pickles
        values: dict[str, Any] = {
            "source": source,
            "encoder.model": self.encoder,
            "encoder.pretrained": ENCODERS[self.encoder],
            "datasets": datasets,
            "finetune.methods": chosen,
            "evaluate.texts": [text for text in single_texts(source) if text],
        }
        if self.words is not None:
            values |= self._words(self.words)
            for method in chosen.values():
                if method["tune"].get("start") == "words":
                    method["tune"] = method["tune"] | {"words": self.words}
        gpt = self.gpt_descriptors
        if self.waffle is not None:
            if gpt is None or not covers(gpt, self.waffle):
                where = f"put it into {gpt}" if gpt else "name that folder"
                raise ParamsError(
                    f"--waffle {self.waffle} must lie in the folder of --gpt-descriptors, which DVC watches: {where}"
                )
            values["candidates.waffle"] = self.waffle
        if gpt is None:
            return filled(template("paper"), {**values, **dict.fromkeys(DESCRIPTOR_SOUPS)}, head=WITHOUT)
        pool = descriptor_pool(f"{gpt}/descriptors_imagenet.json", watch=gpt)
        return filled(template("paper"), {**values, **pool})

    @staticmethod
    def _words(path: str) -> dict[str, Any]:
        """Values for `filled`: the whole list of words, with the authors' count if the file does not exist yet."""
        count = len(texts_of(path)) if Path(path).is_file() else Settings.of_paper().pools["words"]["count"]
        return {"candidates.words.path": path, "candidates.words.watch": path, "candidates.words.count": count}

    def _datasets(self) -> dict[str, dict[str, Any]]:
        """Section datasets, the source first. With another source ImageNet is a target, and its shifts are left out."""
        source, _, laion = self.source.partition(":")
        sources = [name for name, known in PAPER.items() if known.role != "dg"]  # the shifts have test images only
        if (source == "laion") != bool(laion) or source not in (*sources, "laion"):
            raise ParamsError(
                f"--source {self.source!r} is not one of the paper's datasets with training images: "
                f"{', '.join(sources)}; or laion:FOLDER, the folder of LAION's images by ImageNet class"
            )
        of_imagenet = source in ("imagenet", "laion")
        names = [name for name, known in PAPER.items() if of_imagenet or known.role != "dg"]
        sections = {name: self._dataset(name) for name in names}
        if source == "laion":  # which is tested on ImageNet's test images
            sections["laion"] = sections.pop("imagenet") | {"layout": self.source}
        elif source != "imagenet":
            sections["imagenet"]["role"] = "xd"
        # The paper's single texts follow the plain template (the authors' main_crossdataset.alignment.py:74).
        changes = {"role": "source"} | ({"template": PAPER["imagenet"].template} if single_texts(source) else {})
        return {source: sections.pop(source) | changes, **sections}

    def _dataset(self, name: str) -> dict[str, Any]:
        known, root, gpt = PAPER[name], self.data_root, self.gpt_descriptors
        listed = "variants.txt" if name == "fgvc_aircraft" else known.splits or "classnames.txt"
        section: dict[str, Any] = {
            "role": known.role,
            "layout": f"coop:{name}",
            "root": root,
            "watch": f"{root}/{known.folder}/{listed}",
            "template": known.template,
        }
        if known.baseline_template is not None:
            section["baseline_template"] = known.baseline_template
        if gpt is not None:
            section |= {"gpt_descriptors": f"{gpt}/descriptors_{known.gpt}.json", "gpt_wording": known.gpt_wording}
        return section | ({"gpt_names": known.gpt_names} if known.gpt_names else {})
