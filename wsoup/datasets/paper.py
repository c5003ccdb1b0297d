"""The paper's 15 datasets: where CoOp keeps them, the authors' templates, and what makes a result comparable.

Folders and split files: KaiyangZhou/CoOp, DATASETS.md. Templates: Chris210634/word_soups, source/trainer.py. Test
sizes: CoOp's splits; the paper's tables are on these images.
"""

from __future__ import annotations

from dataclasses import dataclass

from wsoup.core.params.datasets import Role


@dataclass(frozen=True)
class PaperDataset:
    """One dataset of the paper.

    Attributes:
        title: as the paper's tables call it.
        folder: under the data root.
        images: folder of the images, under `folder`.
        splits: CoOp's JSON split file under `folder`; empty for ImageNet, its shifts and Aircraft.
        template: the authors' prompt template.
        role: source, xd or dg.
        n_classes: number of classes.
        n_test: number of test images.
        gpt: the GPT-descriptor file of classification-by-description, without ``descriptors_`` and ``.json``.
        baseline_template: the authors' template of GPT texts, whose end their prompt ensemble takes, where it is
            another (source/gpt_helpers.py:53 and :187).
    """

    title: str
    folder: str
    images: str
    splits: str
    template: str
    role: Role
    n_classes: int
    n_test: int
    gpt: str
    baseline_template: str | None = None

    gpt_wording = "code"  # of all

    @property
    def gpt_names(self) -> dict[str, str]:
        """Classes that the authors call otherwise in GPT texts (source/gpt_helpers.py:194)."""
        return {"newt": "smooth newt", "tights": "maillot"} if self.gpt == "imagenet" else {}


_PLAIN = "a photo of a {}."


def _shift(title: str, folder: str, images: str, *, n_classes: int, n_test: int) -> PaperDataset:
    return PaperDataset(title, folder, images, "", _PLAIN, "dg", n_classes, n_test, "imagenet")


def _target(
    title: str,
    folder: str,
    images: str,
    splits: str,
    *,
    template: str = _PLAIN,
    n_classes: int,
    n_test: int,
    gpt: str,
    baseline: str | None = None,
) -> PaperDataset:
    return PaperDataset(title, folder, images, splits, template, "xd", n_classes, n_test, gpt, baseline)


PAPER: dict[str, PaperDataset] = {
    "imagenet": PaperDataset("ImageNet", "imagenet", "images", "", _PLAIN, "source", 1000, 50_000, "imagenet"),
    "caltech101": _target(
        "Caltech101", "caltech-101", "101_ObjectCategories", "split_zhou_Caltech101.json",
        n_classes=100, n_test=2_465, gpt="caltech",
    ),
    "oxford_pets": _target(
        "OxfordPets", "oxford_pets", "images", "split_zhou_OxfordPets.json",
        template="a photo of a {}, a type of pet.", n_classes=37, n_test=3_669, gpt="pets",
    ),
    "stanford_cars": _target(
        "StanfordCars", "stanford_cars", "", "split_zhou_StanfordCars.json",
        n_classes=196, n_test=8_041, gpt="cars",
    ),
    "oxford_flowers": _target(
        "Flowers102", "oxford_flowers", "jpg", "split_zhou_OxfordFlowers.json",
        template="a photo of a {}, a type of flower.", n_classes=102, n_test=2_463, gpt="flowers",
    ),
    "food101": _target(
        "Food101", "food-101", "images", "split_zhou_Food101.json",
        template="a photo of {}, a type of food.", n_classes=101, n_test=30_300, gpt="food101",
        baseline="a photo of a {}, a type of food.",
    ),
    "fgvc_aircraft": _target(
        "FGVCAircraft", "fgvc_aircraft", "images", "",
        template="a photo of a {}, a type of aircraft.", n_classes=100, n_test=3_333, gpt="planes",
    ),
    "sun397": _target(
        "SUN397", "sun397", "SUN397", "split_zhou_SUN397.json", n_classes=397, n_test=19_850, gpt="sun"
    ),
    "dtd": _target(
        "DTD", "dtd", "images", "split_zhou_DescribableTextures.json",
        template="a photo of a {} texture.", n_classes=47, n_test=1_692, gpt="dtd",
    ),
    "eurosat": _target(
        "EuroSAT", "eurosat", "2750", "split_zhou_EuroSAT.json",
        template="a photo of {}, from a satellite.", n_classes=10, n_test=8_100, gpt="eurosat",
        baseline="a photo of a {}, from a satellite.",
    ),
    "ucf101": _target(
        "UCF101", "ucf101", "UCF-101-midframes", "split_zhou_UCF101.json",
        template="a photo of a person doing {}.", n_classes=101, n_test=3_783, gpt="ucf",
        baseline="a photo of a {}, a type of action.",
    ),
    "imagenetv2": _shift(
        "ImageNet-V2", "imagenetv2", "imagenetv2-matched-frequency-format-val", n_classes=1000, n_test=10_000
    ),
    "imagenet_sketch": _shift("ImageNet-Sketch", "imagenet-sketch", "images", n_classes=1000, n_test=50_889),
    "imagenet_a": _shift("ImageNet-A", "imagenet-adversarial", "imagenet-a", n_classes=200, n_test=7_500),
    "imagenet_r": _shift("ImageNet-R", "imagenet-rendition", "imagenet-r", n_classes=200, n_test=30_000),
}  # fmt: skip


def comparable(
    layout: str,
    *,
    dataset: str,
    template: str,
    classes: str,
    test_split: str,
    n_test: int | None = None,
    n_classes: int | None = None,
) -> tuple[bool, str]:
    """Whether results on a dataset stand beside the paper's, and why (not).

    Args:
        layout: as in params; plain ``coop`` goes by the dataset's name.
        dataset: the dataset's name in params.
        template, classes, test_split: as in params.
        n_test: test images found; None before a run, when nobody knows.
        n_classes: classes found; None as above.
    """
    paper = _of(layout, dataset=dataset)
    if paper is None:
        return False, "not one of the paper's datasets in CoOp's layout"
    if classes != "all":
        return False, f"classes: {classes}, half of them; the paper's tables are on all classes"
    if test_split != "test":
        return False, f"test_split: {test_split}, the paper's is test"
    if n_test not in (None, paper.n_test):
        return False, f"{n_test:,} test images, the paper has {paper.n_test:,}"
    if n_classes not in (None, paper.n_classes):
        return False, f"{n_classes:,} classes, the paper has {paper.n_classes:,}"
    if template.replace("{c}", "{}") != paper.template:
        return False, f"template {template!r}, the authors' is {paper.template!r}"
    return True, f"CoOp's split, {paper.n_test:,} test images, the authors' template"


def expected_n_test(layout: str, *, dataset: str) -> int | None:
    """Test images of the paper, where the dataset is one of its 15."""
    paper = _of(layout, dataset=dataset)
    return None if paper is None else paper.n_test


def _of(layout: str, *, dataset: str) -> PaperDataset | None:
    kind, _, name = layout.partition(":")
    if kind == "laion":  # tested on ImageNet
        return PAPER["imagenet"]
    return PAPER.get(name or dataset) if kind == "coop" else None
