"""Sections that several stages read: the model (`encoder`, `embed`) and the images (`datasets`, `fewshot`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from wsoup.base.arguments import Flag
from wsoup.core.prompts import checked
from wsoup.params.section import NO_BOOLEAN, Name, Place, PositiveInt, Section, Text

Mean = Annotated[float, Field(ge=-1e6, le=1e6), NO_BOOLEAN]
Deviation = Annotated[float, Field(ge=1e-6, le=1e6), NO_BOOLEAN]


class EncoderParams(Section):
    """The open_clip model whose image and text towers are used."""

    model: Text
    """Any open_clip model name, the stem of `config`, or hf-hub:owner/name or local-dir:FOLDER with its weights."""
    pretrained: Place | None = None
    """A tag of open_clip, or a weights file; null where `model` includes its weights."""
    config: Place | None = None
    """A local open_clip JSON config; null for a model that open_clip knows."""
    quick_gelu: Flag | None = None
    """Whether local weights were trained with QuickGELU, where their config does not say; not needed for a tag."""
    image_mean: tuple[Mean, Mean, Mean] | None = None
    """Mean of red, green and blue for normalising images; null: the model's."""
    image_std: tuple[Deviation, Deviation, Deviation] | None = None
    """Their standard deviation; null: the model's."""
    interpolation: Literal["bicubic", "bilinear"] | None = None
    """How images are resized (the authors: bilinear); null: the model's."""
    decoding: Literal["upright", "stored"] = "upright"
    """upright: apply EXIF rotation and put transparency on white; stored: neither, as the authors' loader."""
    precision: Literal["fp32", "bf16", "fp16", "pure_bf16", "pure_fp16", "reference"]
    """fp32; bf16 or fp16 (autocast); pure_bf16 or pure_fp16 (weights, too); or reference (fp32, TF32 off)."""
    watch: Place
    """What DVC tracks: config and weights file, or their folder; data/nothing_to_watch.txt for a tag."""

    @property
    def comes_with_weights(self) -> bool:
        """Whether the model's name includes its weights: ``hf-hub:owner/name``, ``local-dir:/a/folder``."""
        return self.model.startswith(("hf-hub:", "local-dir:"))

    @property
    def weights_file(self) -> Path | None:
        """`pretrained` if it is a file, None if it is a tag."""
        name = self.pretrained or ""
        is_file = Path(name).suffix in (".safetensors", ".pt", ".pth", ".bin") or os.sep in name
        return Path(name) if is_file else None


class EmbedParams(Section):
    """Image features."""

    batch_size: Annotated[PositiveInt, Field(le=65_536)]
    """Images in one forward pass."""
    on_bad_image: Literal["stop", "skip"]
    """A file that cannot be decoded stops the stage (stop), or is listed and left out (skip)."""


Role = Literal["source", "xd", "dg"]
Half = Literal["base", "new"]


Wording = Literal["text", "code", "sentences"]


class ClassTextFile(NamedTuple):
    """A file of texts for each class.

    Attributes:
        key: of the dataset, which names it.
        path: the file.
        wording: how its texts end, and whether they are whole sentences; None: text, if they are no sentences.
        names: keys of the file, by class, that are not the class's name.
        pairs: a file of such keys; None: there is none.
    """

    key: str
    path: str
    wording: Wording | None
    names: Mapping[str, str]
    pairs: str | None = None

    @property
    def are_sentences(self) -> bool:
        """Whether its texts are prompts themselves."""
        return self.wording == "sentences"


class DatasetParams(Section):
    """One dataset: its place, its layout and its role."""

    role: Role
    """source (soups are selected on it), xd (cross-dataset target) or dg (domain generalisation)."""
    layout: Text = "imagefolder"
    """Its layout on disk: imagefolder, coop:NAME, manifest:FILE, ... (docs/datasets.md)."""
    watch: Place
    """What DVC tracks: the folder of the images, or a small file such as the split file."""
    root: Place = Field(default_factory=lambda known: known.get("watch", ""))
    """Its folder, where `watch` is a file; otherwise the same as `watch`."""
    template: Annotated[Text, AfterValidator(checked)]
    """The prompt template, with one {} for the class name."""
    test_split: Text = "test"
    """The split to evaluate."""
    test_fraction: Annotated[float, Field(gt=0, lt=1), NO_BOOLEAN] | None = None
    """Share of images to test on, drawn by digest, of an imagefolder with at most one of train/, val/ and test/, or of
    a list without splits (docs/datasets.md); null: its folders or its list divide it."""
    classes: Half | None = None
    """base: only the first half of the classes, in label order; new: only the other half (CoOp's base-to-new protocol:
    base classes as source, new ones as target; docs/datasets.md); null: all."""
    class_names: Place | None = None
    """A file that names classes, one per line: folder, a tab, class name; or, of a list, names in label order."""
    gpt_descriptors: Place | None = None
    """JSON of {class: [descriptor, ...]} for the GPT baselines; under candidates.watch."""
    gpt_names: dict[Text, Text] | None = None
    """Classes that take another key of gpt_descriptors, both its name and its descriptors. The authors' for ImageNet:
    {newt: smooth newt, tights: maillot} (gpt_helpers.py:194); null: none."""
    gpt_wording: Wording | None = None
    """How descriptors end. `text`: with one period; a class without descriptors has its name alone. `code`: as in the
    authors' code (loading_helpers.py:55), "etc.."; a class without descriptors has "..., which has .". `sentences`:
    whole sentences, as CuPL's, are used as they are, without a template. null: text, if they are no sentences."""
    sentences: Place | None = None
    """JSON of {class: [sentence, ...]} for CuPL's row, whole sentences without a template; under candidates.watch."""
    names: Place | None = None
    """A file that says which key of gpt_descriptors or sentences is which class, where it is not the class's name: one
    a line, key, tab, class. `wsoup texts match` proposes it; under candidates.watch."""
    templates: Place | None = None
    """A file of this dataset's own prompt templates, one a line, each with one {}, for a row of each dataset's own;
    under candidates.watch, or among the images that `watch` names; null: its template alone."""
    baseline_template: Annotated[Text, AfterValidator(checked)] | None = None
    """The template of the GPT rows; the prompt ensemble takes its ending, too; null: template. The authors' GPT texts
    all begin with "a photo of a" (gpt_helpers.py:187), and UCF's classes are "a type of action" there (:53)."""
    fewshot_pickles: Place | None = None
    """A folder with CoOp's own few-shot draws (shot_16-seed_1.pkl, ...)."""
    verify: Flag = False
    """DVC checks the images themselves at every run: watch is their folder."""

    @model_validator(mode="after")
    def _names_are_of_a_file(self) -> DatasetParams:
        if self.names is not None and self.gpt_descriptors is None and self.sentences is None:
            raise ValueError(
                f"names: {self.names!r} names keys of gpt_descriptors or sentences, and neither is set; set one, or "
                "take names out"
            )
        return self

    @property
    def class_texts(self) -> Iterator[ClassTextFile]:
        """The files of texts for each class that it names."""
        if self.gpt_descriptors is not None:
            yield ClassTextFile(
                "gpt_descriptors", self.gpt_descriptors, self.gpt_wording, self.gpt_names or {}, self.names
            )
        if self.sentences is not None:
            yield ClassTextFile("sentences", self.sentences, "sentences", {}, self.names)


def source_of(datasets: Mapping[str, DatasetParams]) -> str:
    """The name of the dataset whose role is source."""
    return next(name for name, dataset in datasets.items() if dataset.role == "source")


class FewshotParams(Section):
    """The few-shot training images for selecting soups."""

    shots: Annotated[PositiveInt, Field(le=100_000)]
    """Training images per class and seed; all, of a class that has fewer."""


Datasets = Annotated[dict[Name, DatasetParams], Field(min_length=1)]
"""Section `datasets`: by name."""
