"""README's figures are those that the commands beside them printed, and the tables of soups are by hand's."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
import torch
from project import ROOT
from small_world import COLOURS, write_image_folder

from benchmarks import authors_counts, soups
from benchmarks.heads.photos import PhotoSet, photo_set
from wsoup.search.candidates.pools import common_words
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.held_out import HeldOutSoup

NOTES = ROOT / "docs/notes"
PRINTED = (NOTES / "readme_figures.md", NOTES / "authors_counts.md", ROOT / "reports/verdict.json")
"""What commands that README names printed or wrote."""
OF_NO_COMMAND = {"6.1", "0.7", "1.0"}
"""Size of .venv on a disk, and the paper's own figures of finetuning."""


def figures(text: str) -> set[str]:
    """Numbers with a point."""
    return set(re.findall(r"(?<![\w./-])\d+\.\d+(?![\w/])", text))


def test_the_page_of_the_authors_counts_is_what_its_command_prints():
    assert (NOTES / "authors_counts.md").read_text().endswith(f"\n\n{authors_counts.page()}\n")


def test_readme_has_no_figure_that_a_command_did_not_print():
    """Up to the digits that README shows; a block of `wsoup compare` is of the run that the text above it names."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"```(python|bash)\n.*?```|```text\n[^`]*95% interval.*?```", "", readme, flags=re.DOTALL)
    known: set[str] = set()
    for page in PRINTED:
        for figure in figures(page.read_text(encoding="utf-8")):
            # 10.95 may read as 11.0: the page rounds, too.
            shorter = Decimal(figure).quantize(Decimal("0.1"), ROUND_HALF_UP)
            known |= {figure, f"{float(figure):.1f}", str(shorter)}
    assert figures(text) - known - OF_NO_COMMAND == set()
    assert len(figures(text)) > 20


def test_which_and_evidence_have_the_figures_that_their_commands_printed():
    which = (ROOT / "docs/which.md").read_text(encoding="utf-8")
    authors = figures((NOTES / "authors_counts.md").read_text(encoding="utf-8"))
    searches, _ = (NOTES / "evidence.md").read_text(encoding="utf-8").split("\n## A search that beats random words\n")
    assert figures(which) <= {f"{float(figure):.1f}" for figure in authors | figures(searches)}
    evidence = (ROOT / "docs/evidence.md").read_text(encoding="utf-8")
    rows = [line for line in evidence.splitlines() if " minus " in line]
    assert len(rows) == len(soups.COMPARED)
    assert figures("\n".join(rows)) <= figures(searches)


def labelled(name: str, names: list[str]) -> PhotoSet:
    labels = torch.arange(40) % len(names)
    return PhotoSet(name, names, torch.ones(40, 2), labels, {}, 1.0, {"model": "m", "pretrained": None})


def test_shots_are_of_each_class_and_differ_by_draw():
    photos = labelled("pets", ["cat", "dog"])
    first, again, other = (soups.shots(photos, draw) for draw in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert torch.bincount(photos.labels[first]).tolist() == [soups.SHOTS, soups.SHOTS]


@pytest.mark.parametrize("row", ["held_out", "64 random words"])
def test_targets_are_averaged_over_their_sources_and_styles_are_told_from_other_classes(row):
    """Two styles of pets and one set of cars: 3 of 4 and 1 of 4 images where the source is another style."""
    classes = {"photo": ["cat", "dog"], "sketch": ["cat", "dog"], "cars": ["bus"]}
    many, few = np.array([1.0, 1, 1, 0]), np.array([0.0, 0, 0, 1])
    made = []
    for draw in (0, 1):
        rows = {each: {"sketch": few, "cars": few} for each, _ in soups.COMPARED}
        rows |= {each: {"sketch": few, "cars": few} for _, each in soups.COMPARED}
        rows["held_out"] = {"sketch": many, "cars": few}
        made.append(soups.Searched("photo", draw, rows, {"ranking": 3.0}))
        to_pets = {each: {"sketch": few, "photo": few} for each in rows}
        made.append(soups.Searched("cars", draw, to_pets, {"ranking": 5.0}))
    right = soups.on_targets(made, row=row, counts=lambda source, target: True)
    expected = (many + few) / 2 if row == "held_out" else few
    assert right["sketch"].tolist() == [expected.tolist()] * 2
    every, styles, others = soups.tables(made, classes=classes)
    assert re.search(r"\| held_out minus 64 random words \| \+50\.00 \[", styles)
    assert re.search(r"\| held_out minus 64 random words \| \+0\.00 \[", others)
    assert re.search(r"\| held_out minus 64 random words \| \+8\.33 \[", every)
    assert soups.costs(made) == "Processor seconds of one source: ranking 4."


def test_a_source_is_searched_once_and_every_other_folder_is_answered(tiny_encoder, tmp_path, monkeypatch):
    chains = ChainsSoup(kind="chains", pool="words", k0=4, k1=8, patience=2, m=2, max_words=2)
    held_out = HeldOutSoup(kind="held_out", pool="words", k1=None, m=4, per_split=2)
    monkeypatch.setattr(soups, "SEARCHED", {"Algorithm 2": chains, "held_out": held_out})
    monkeypatch.setattr(soups, "RANDOM", {"8 random words": 2, "64 random words": 4})
    folders = []
    for name, n_photos in (("photo", 6), ("sketch", 3)):
        folders.append(str(write_image_folder(tmp_path / name, splits={"train": n_photos}, classes=COLOURS)))
    cache = tmp_path / "cache"
    source, target = (photo_set(root, encoder=tiny_encoder, cache=cache) for root in folders)
    about = {"sets": [source, target], "pool": common_words(12), "encoder": tiny_encoder, "cache": cache}
    made = soups._kept(source, 0, **about)
    monkeypatch.setattr(soups, "_searched", None)
    again = soups._kept(source, 0, **about)
    assert set(made.right) == {row for pair in soups.COMPARED for row in pair}
    for row, right in made.right.items():
        assert list(right) == [target.name], "a source does not answer its own photos"
        assert np.array_equal(right[target.name], again.right[row][target.name])
        assert right[target.name].shape == (len(target.labels),)
    assert set(made.seconds) == {"ranking", "Algorithm 2", "held_out"}
