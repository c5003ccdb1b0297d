"""What a run ran on: which images, how many, and which encoder. `wsoup results` and the page begin with it."""

from collections.abc import Mapping

from wsoup.base.number_of import number_of
from wsoup.report.record import Record
from wsoup.report.results import ROLES

DRAWN = "data/toy/world/"
"""Where the toy world's images are drawn."""
NOT_EVIDENCE = "drawn by wsoup (the toy world): no evidence for or against soups"


def is_drawn(record: Record) -> bool:
    """Whether all images of a run are the toy world's."""
    folders = [about.get("root") or about["watch"] for about in record.params["datasets"].values()]
    return all(folder.startswith(DRAWN) for folder in folders)


def what_was_run(record: Record) -> str:
    """Data and encoder: ``Run on 2,384 test images of 8 datasets. Encoder: ViT-B-32 / openai.``"""
    data = f"{test_images(record.images)} of {_datasets(record)}"
    if is_drawn(record):
        data = f"{data}, {NOT_EVIDENCE}"
    return f"Run on {data}. Encoder: {encoder(record)}."


def datasets_by_role(record: Record) -> dict[str, list[str]]:
    """Role -> ``counts (300)`` for each of its datasets; without numbers in a record that has none."""
    by_role: dict[str, list[str]] = {}
    for role in ROLES:
        for name, about in record.params["datasets"].items():
            if about["role"] == role:
                n_images = record.images.get(name)
                shown = name if n_images is None else f"{name} ({n_images:,})"
                by_role.setdefault(role, []).append(shown)
    return by_role


def test_images(images: Mapping[str, int]) -> str:
    """``2,384 test images``; older records do not know their number."""
    if not images:
        return "test images"
    return number_of(sum(images.values()), "test image")


def encoder(record: Record) -> str:
    """``ViT-B-32 / openai``; a model that includes its weights stands alone."""
    about = record.params["encoder"]
    parts = [about["model"], about.get("pretrained")]
    return " / ".join(part for part in parts if part)


def _datasets(record: Record) -> str:
    names = list(record.params["datasets"])
    if len(names) == 1:
        return f"dataset {names[0]}"
    return f"{len(names)} datasets"
