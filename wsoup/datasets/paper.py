"""The paper's 15 datasets: their folders, the authors' templates, and whether a result is comparable with the paper's.

Folders and split files: KaiyangZhou/CoOp, DATASETS.md. Templates: Chris210634/word_soups, source/trainer.py. Numbers
of test images: CoOp's splits, which the paper's tables use.
"""

from dataclasses import dataclass

from wsoup.params.inputs import Role


@dataclass(frozen=True, kw_only=True)
class PaperDataset:
    """One dataset of the paper.

    Attributes:
        title: its name in the paper's tables.
        folder: under the data root.
        images: folder of the images, under `folder`.
        splits: CoOp's JSON split file under `folder`; empty for ImageNet, its shifts and Aircraft.
        template: the authors' prompt template.
        role: source, xd or dg.
        n_classes: number of classes.
        n_test: number of test images.
        gpt: the GPT-descriptor file of classification-by-description, without ``descriptors_`` and ``.json``.
        baseline_template: the authors' template of GPT texts, whose end their prompt ensemble takes, where it differs
            from `template` (source/gpt_helpers.py:53 and :187).
        gpt_wording: how GPT texts end, see ``datasets.<name>.gpt_wording``.
    """

    title: str
    folder: str
    images: str
    splits: str = ""
    template: str = "a photo of a {}."
    role: Role = "xd"
    n_classes: int
    n_test: int
    gpt: str
    baseline_template: str | None = None
    gpt_wording: str = "code"

    @property
    def gpt_names(self) -> dict[str, str]:
        """Classes with another name in the authors' GPT texts (source/gpt_helpers.py:194)."""
        if self.gpt != "imagenet":
            return {}
        return {"newt": "smooth newt", "tights": "maillot"}


PAPER: dict[str, PaperDataset] = {
    "imagenet": PaperDataset(
        title="ImageNet", folder="imagenet", images="images", role="source",
        n_classes=1000, n_test=50_000, gpt="imagenet",
    ),
    "caltech101": PaperDataset(
        title="Caltech101", folder="caltech-101", images="101_ObjectCategories", splits="split_zhou_Caltech101.json",
        n_classes=100, n_test=2_465, gpt="caltech",
    ),
    "oxford_pets": PaperDataset(
        title="OxfordPets", folder="oxford_pets", images="images", splits="split_zhou_OxfordPets.json",
        template="a photo of a {}, a type of pet.", n_classes=37, n_test=3_669, gpt="pets",
    ),
    "stanford_cars": PaperDataset(
        title="StanfordCars", folder="stanford_cars", images="", splits="split_zhou_StanfordCars.json",
        n_classes=196, n_test=8_041, gpt="cars",
    ),
    "oxford_flowers": PaperDataset(
        title="Flowers102", folder="oxford_flowers", images="jpg", splits="split_zhou_OxfordFlowers.json",
        template="a photo of a {}, a type of flower.", n_classes=102, n_test=2_463, gpt="flowers",
    ),
    "food101": PaperDataset(
        title="Food101", folder="food-101", images="images", splits="split_zhou_Food101.json",
        template="a photo of {}, a type of food.", n_classes=101, n_test=30_300, gpt="food101",
        baseline_template="a photo of a {}, a type of food.",
    ),
    "fgvc_aircraft": PaperDataset(
        title="FGVCAircraft", folder="fgvc_aircraft", images="images",
        template="a photo of a {}, a type of aircraft.", n_classes=100, n_test=3_333, gpt="planes",
    ),
    "sun397": PaperDataset(
        title="SUN397", folder="sun397", images="SUN397", splits="split_zhou_SUN397.json",
        n_classes=397, n_test=19_850, gpt="sun",
    ),
    "dtd": PaperDataset(
        title="DTD", folder="dtd", images="images", splits="split_zhou_DescribableTextures.json",
        template="a photo of a {} texture.", n_classes=47, n_test=1_692, gpt="dtd",
    ),
    "eurosat": PaperDataset(
        title="EuroSAT", folder="eurosat", images="2750", splits="split_zhou_EuroSAT.json",
        template="a photo of {}, from a satellite.", n_classes=10, n_test=8_100, gpt="eurosat",
        baseline_template="a photo of a {}, from a satellite.",
    ),
    "ucf101": PaperDataset(
        title="UCF101", folder="ucf101", images="UCF-101-midframes", splits="split_zhou_UCF101.json",
        template="a photo of a person doing {}.", n_classes=101, n_test=3_783, gpt="ucf",
        baseline_template="a photo of a {}, a type of action.",
    ),
    "imagenetv2": PaperDataset(
        title="ImageNet-V2", folder="imagenetv2", images="imagenetv2-matched-frequency-format-val", role="dg",
        n_classes=1000, n_test=10_000, gpt="imagenet",
    ),
    "imagenet_sketch": PaperDataset(
        title="ImageNet-Sketch", folder="imagenet-sketch", images="images", role="dg",
        n_classes=1000, n_test=50_889, gpt="imagenet",
    ),
    "imagenet_a": PaperDataset(
        title="ImageNet-A", folder="imagenet-adversarial", images="imagenet-a", role="dg",
        n_classes=200, n_test=7_500, gpt="imagenet",
    ),
    "imagenet_r": PaperDataset(
        title="ImageNet-R", folder="imagenet-rendition", images="imagenet-r", role="dg",
        n_classes=200, n_test=30_000, gpt="imagenet",
    ),
}  # fmt: skip


def comparable(
    layout: str,
    *,
    dataset: str,
    template: str,
    test_split: str,
    n_test: int | None = None,
    n_classes: int | None = None,
) -> tuple[bool, str]:
    """Whether results on a dataset are comparable with the paper's, and why (not).

    Args:
        layout: as in params; plain ``coop`` means the dataset's name.
        dataset: the dataset's name in params.
        template, test_split: as in params.
        n_test: number of test images; None before a run, when it is unknown.
        n_classes: number of classes; None as above.
    """
    paper = paper_dataset(layout, dataset=dataset)
    if paper is None:
        return False, "not one of the paper's datasets in CoOp's layout"
    if test_split != "test":
        return False, f"test_split: {test_split}, the paper's is test"
    if n_test not in (None, paper.n_test):
        return False, f"{n_test:,} test images, the paper has {paper.n_test:,}"
    if n_classes not in (None, paper.n_classes):
        return False, f"{n_classes:,} classes, the paper has {paper.n_classes:,}"
    # The field of a template may be written in either way, and means the same.
    if template.replace("{c}", "{}") != paper.template:
        return False, f"template {template!r}, the authors' is {paper.template!r}"
    return True, f"CoOp's split, {paper.n_test:,} test images, the authors' template"


def paper_dataset(layout: str, *, dataset: str) -> PaperDataset | None:
    kind, _, name = layout.partition(":")
    if kind == "laion":  # tested on ImageNet
        return PAPER["imagenet"]
    if kind != "coop":
        return None
    return PAPER.get(name or dataset)
