"""Sections `datasets` and `fewshot`: where images lie, what part they play, and how many are trained on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from wsoup.core.arguments import Flag
from wsoup.core.params.section import Name, Place, PositiveInt, Section, Text
from wsoup.core.prompts import checked

Role = Literal["source", "xd", "dg"]


class DatasetParams(Section):
    """One dataset: where it lies, how it is laid out, and what part it plays."""

    role: Role
    """source (soups are selected on it), xd (cross-dataset target) or dg (domain generalisation)."""
    layout: Text
    """How it lies on disk: imagefolder, coop:NAME, manifest:FILE, webdataset, ... (`wsoup data layouts`)."""
    root: Place
    """The folder that holds it."""
    watch: Place
    """What DVC watches: the folder of the images, or a small file such as the split file."""
    template: Annotated[Text, AfterValidator(checked)]
    """The prompt template, with one {} for the class name."""
    test_split: Text = "test"
    """The split that is evaluated."""
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of test images, by their digests, of an imagefolder without train/ and test/; null: it has a split."""
    classes: Literal["all", "base", "new"] = "all"
    """All classes, or the first (base) or second (new) half of them."""
    class_names: Place | None = None
    """A file that renames classes: folder, a space, class name."""
    gpt_descriptors: Place | None = None
    """JSON of {class: [descriptor, ...]} for the GPT baselines; under candidates.watch."""
    gpt_names: dict[Text, Text] | None = None
    """Classes that go by another key of gpt_descriptors, with its name and its descriptors. The authors' of ImageNet:
    {newt: smooth newt, tights: maillot} (gpt_helpers.py:194); null: none."""
    gpt_wording: Literal["text", "code"] | None = None
    """How descriptors end: `text`, in one period, and where there are none in the class name; `code` as the authors'
    code has it (loading_helpers.py:55): "etc..", and "..., which has ." where there are none; null: text."""
    baseline_template: Annotated[Text, AfterValidator(checked)] | None = None
    """The template of the GPT rows, whose end the prompt ensemble takes, too; null: template. The authors' GPT texts
    all begin with "a photo of a" (gpt_helpers.py:187), and UCF's classes are "a type of action" there (:53)."""
    fewshot_pickles: Place | None = None
    """A folder with CoOp's own few-shot draws, shot_16-seed_1.pkl and so on."""
    verify: Flag = False
    """DVC looks at the images themselves at every run: watch is their folder."""
    download: Flag = False
    """Let torchvision fetch it."""


class FewshotParams(Section):
    """The few-shot training images that soups are selected on."""

    shots: Annotated[PositiveInt, Field(le=100_000)]
    """Training images per class and seed."""


Datasets = Annotated[dict[Name, DatasetParams], Field(min_length=1)]
"""Section `datasets`: by name."""
