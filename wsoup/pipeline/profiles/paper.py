"""The paper's params.yaml: its datasets, encoder and methods, and what the user's files add to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wsoup.base.errors import ParamsError
from wsoup.base.processor import has_fast_bf16
from wsoup.datasets.paper import PAPER
from wsoup.paper.settings import Settings
from wsoup.paper.tables import ENCODERS, single_texts
from wsoup.pipeline.params import covers
from wsoup.pipeline.profiles.methods import methods_of, sections_of
from wsoup.pipeline.profiles.templates import filled, template
from wsoup.search.pools.lists import texts_of, waffle_texts

DESCRIPTOR_SOUPS = ("soups.descriptor", "soups.descriptor_sample")
"""Keys removed from the template if there are no descriptors."""
SENTENCES = {
    "imagenet": "imagenet_prompts_full.json",
    "caltech101": "cal_prompts_full.json",
    "oxford_pets": "pets_prompts_full.json",
    "stanford_cars": "cars_prompts_full.json",
    "oxford_flowers": "flower_prompts_full.json",
    "food101": "food_prompts_full.json",
    "fgvc_aircraft": "airplane_prompts_full.json",
    "sun397": "sun_prompts_full.json",
    "dtd": "texture_prompts_full.json",
    "ucf101": "ucf_prompts_full.json",
}
"""CuPL's published file of each dataset (sarahpratt/CuPL, all_prompts/full_prompts), which has none for EuroSAT."""
FAST_BF16 = "# fp32 | bf16 (fast on this processor; docs/performance.md) |"
"""What the comment of `encoder.precision` says on such a processor."""
NEEDS = """\
the paper's descriptors are needed: --gpt-descriptors DIR with the files of gpt_descriptors/ in \
github.com/Chris210634/word_soups (first published in sachit-menon/classify_by_description_release): \
descriptors_imagenet.json is the pool of 4,227 that descriptor soups and random descriptors are drawn from, and each \
dataset's own file (descriptors_pets.json, ...) makes its GPT rows; or --gpt-descriptors none, which leaves out the \
rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their offset trick) and the upper \
bound"""
WITHOUT = """\
# The paper's setting (arXiv 2311.13612) without descriptors, made by `wsoup profile paper --gpt-descriptors none`: the
# rows GPT centroids, GPT score mean, Random descriptors, Descriptor soup (all with their offset trick) and the upper
# bound are left out, and Waffle's characters are not drawn from the authors' pool.
"""


def _template_of_paper() -> str:
    """The paper's template; where this machine multiplies bf16 fast, the comment of `encoder.precision` says so."""
    text = template("paper")
    if not has_fast_bf16():
        return text
    return text.replace("# fp32 | bf16 |", FAST_BF16, 1)


@dataclass(frozen=True)
class Paper:
    """The paper's params.yaml, by the options of `wsoup profile paper`; no file needs to be there yet.

    Attributes:
        data_root: the folder that holds CoOp's folders.
        gpt_descriptors: folder of ``descriptors_*.json``; None leaves out all rows that need them.
        methods: one of `GROUPS`.
        source: one of the paper's datasets with training images, or ``laion:FOLDER``, the folder of LAION's images by
            ImageNet class (`wsoup.datasets.coop`).
        words: text file of common words, one per line, wherever it lies: the pool of words, and what the soft
            descriptors of ProDA and the CoOp ensemble start from; None takes wordfreq's and the tokenizer's, and the
            report marks rows that depend on them.
        waffle: the authors' list of Waffle's texts; None makes them of the pools, and the report marks their rows.
        fewshot_pickles: folder with CoOp's ``shot_16-seed_<k>.pkl``, the authors' draws of ImageNet; None draws anew.
        model: open_clip's name of one of the paper's encoders, or of any other, whose rows are marked.
        pretrained: its tag in open_clip, or a weights file; None: the paper's weights for the model.
        sentences: folder with CuPL's published files (`SENTENCES`), for its row, and their files of pairs; None leaves
            the row out.
    """

    data_root: str
    gpt_descriptors: str | None = None
    methods: str = "core"
    source: str = "imagenet"
    words: str | None = None
    waffle: str | None = None
    fewshot_pickles: str | None = None
    model: str | None = None
    pretrained: str | None = None
    sentences: str | None = None

    def text(self) -> str:
        """The file; raises as `values`."""
        head = WITHOUT if self.gpt_descriptors is None else None
        return filled(_template_of_paper(), self.values(), head=head)

    def values(self) -> dict[str, object]:
        """What differs from the template, by dotted key; None for a key that is left out.

        Raises:
            ParamsError: an unknown source, group or model, or options that do not fit together.
        """
        gpt = self.gpt_descriptors
        datasets = self._datasets()
        soups = ["word", "word_curve"]
        if gpt is not None:
            soups.append("descriptor")
        source = next(iter(datasets))
        chosen = methods_of(self.methods, soups=soups)
        if self.fewshot_pickles is not None:
            if source != "imagenet":
                raise ParamsError(f"--fewshot-pickles has the authors' draws of imagenet, and --source is {source}")
            datasets[source]["fewshot_pickles"] = self.fewshot_pickles
        values: dict[str, object] = {
            "source": source,
            "datasets": datasets,
            "evaluate.texts": [text for text in single_texts(source) if text],
            **sections_of(chosen),
        }
        if self.words is not None:
            values |= self._words(self.words)
            for method in chosen.values():
                # ProDA and the CoOp ensemble start from words too: from the same list as the pool.
                if method["tune"]["kind"] == "soft_descriptors":
                    method["tune"] = method["tune"] | {"words": self.words}
        values |= self._encoder()
        values |= self._waffle()
        if self.sentences is not None:
            values |= self._sentences(self.sentences, datasets=datasets)
        if gpt is None:
            return values | dict.fromkeys(DESCRIPTOR_SOUPS)
        values["candidates.descriptors.paths"] = [f"{gpt}/descriptors_imagenet.json"]
        values["candidates.watch"] = gpt
        return values

    def _encoder(self) -> dict[str, object]:
        """Values for `filled`: the model and its weights, if they are not the template's."""
        if self.model is None and self.pretrained is None:
            return {}
        model = self.model or ENCODERS[0][0]
        pretrained = self.pretrained
        if pretrained is None:
            tags: dict[str, str] = dict(ENCODERS)
            if model not in tags:
                raise ParamsError(
                    f"--model {model} is not one of the paper's, {', '.join(tags)}: give --pretrained, its tag in "
                    "open_clip or a weights file"
                )
            pretrained = tags[model]
        values: dict[str, object] = {"encoder.model": model, "encoder.pretrained": pretrained}
        if Path(pretrained).is_file():
            values["encoder.watch"] = pretrained
        return values

    def _waffle(self) -> dict[str, object]:
        """Values for `filled`: the authors' list of Waffle's texts, which must be where DVC watches descriptors."""
        if self.waffle is None:
            return {}
        watch = self.waffle if self.gpt_descriptors is None else self.gpt_descriptors
        if not covers(watch, self.waffle):
            raise ParamsError(
                f"--waffle {self.waffle} must lie in the folder of --gpt-descriptors, {watch}, which DVC watches: copy "
                "it there"
            )
        if Path(self.waffle).is_file():
            waffle_texts(self.waffle)  # raises at once for the authors' file of torch
        return {"candidates.waffle": self.waffle, "candidates.watch": watch}

    def _sentences(self, folder: str, *, datasets: Mapping[str, dict[str, object]]) -> dict[str, object]:
        """Set the sentences of every dataset that CuPL has, each with its file of pairs if there is one.

        Raises:
            ParamsError: the folder is not where DVC watches descriptors, or has none of the files.
        """
        watch = folder if self.gpt_descriptors is None else self.gpt_descriptors
        if not covers(watch, folder):
            raise ParamsError(
                f"--sentences {folder} must lie in the folder of --gpt-descriptors, {watch}, which DVC watches: copy "
                "it there"
            )
        if not any((Path(folder) / file).is_file() for file in SENTENCES.values()):
            raise ParamsError(
                f"--sentences {folder} has none of CuPL's files, such as {SENTENCES['stanford_cars']}; they are in "
                "all_prompts/full_prompts of github.com/sarahpratt/CuPL"
            )
        for name, section in datasets.items():
            of_classes = "imagenet" if PAPER.get(name, PAPER["imagenet"]).gpt == "imagenet" else name
            file = Path(folder) / SENTENCES.get(of_classes, "")
            if not file.is_file():
                continue
            section["sentences"] = str(file)
            pairs = file.with_suffix(".names.txt")
            if pairs.is_file():
                section["names"] = str(pairs)
        return {"candidates.watch": watch}

    @staticmethod
    def _words(path: str) -> dict[str, object]:
        """Values for `filled`: the whole list of words, with the authors' count if the file does not exist yet."""
        count = Settings.of_paper().pools["words"]["count"]
        if Path(path).is_file():
            count = len(texts_of(path))
        return {"candidates.words.path": path, "candidates.words.watch": path, "candidates.words.count": count}

    def _datasets(self) -> dict[str, dict[str, object]]:
        """Section datasets, the source first. With another source ImageNet is a target, and its shifts are left out."""
        source, _, laion = self.source.partition(":")
        sources = [name for name, known in PAPER.items() if known.role != "dg"]  # the shifts have test images only
        is_known = source in sources or source == "laion"
        # LAION's images may lie anywhere, and no other source has a folder of its own.
        needs_folder = source == "laion"
        if not is_known or needs_folder != bool(laion):
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
        first = sections.pop(source)
        first["role"] = "source"
        if single_texts(source):
            first["template"] = PAPER["imagenet"].template
        return {source: first, **sections}

    def _dataset(self, name: str) -> dict[str, object]:
        known = PAPER[name]
        # DVC watches the one file that lists the images, not 1.3 million images.
        watched = known.splits or "classnames.txt"
        if name == "fgvc_aircraft":
            watched = "variants.txt"
        section: dict[str, object] = {
            "role": known.role,
            "layout": f"coop:{name}",
            "root": self.data_root,
            "watch": f"{self.data_root}/{known.folder}/{watched}",
            "template": known.template,
        }
        if known.baseline_template is not None:
            section["baseline_template"] = known.baseline_template
        if self.gpt_descriptors is not None:
            section["gpt_descriptors"] = f"{self.gpt_descriptors}/descriptors_{known.gpt}.json"
            section["gpt_wording"] = known.gpt_wording
        if known.gpt_names:
            section["gpt_names"] = known.gpt_names
        return section
