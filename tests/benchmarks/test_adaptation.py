"""Facts about `benchmarks/adaptation`: what a pile holds, a cone, and tables by hand."""

from __future__ import annotations

import pytest
import torch
from adapt_cases import pile as around_centres

from benchmarks.adaptation.judging import Judged, judged
from benchmarks.adaptation.piles import KINDS, STRENGTHS, Pile, every_other, in_cone, piles, together, with_random_texts
from benchmarks.adaptation.tables import tables
from benchmarks.heads.photos import PhotoSet
from wsoup.photos.trial import CLASS_NAME, TEMPLATES

N_CLASSES = 6
OF_A_CLASS = 90


@pytest.fixture
def photos() -> PhotoSet:
    images = around_centres(counts=(OF_A_CLASS,) * N_CLASSES)
    names = [f"thing {label}" for label in range(N_CLASSES)]
    texts = {row: images.texts.T.contiguous() for row in (CLASS_NAME, TEMPLATES)}
    return PhotoSet("things", names, images.features, images.labels, texts, 20.0, {})


def by_kind(photos: PhotoSet) -> dict[str, Pile]:
    """The last pile of each kind, which has the whole set's classes where it may, and the strongest texts."""
    return {pile.kind: pile for pile in piles([photos], draws=range(2))}


def test_every_kind_has_the_classes_that_its_name_says(photos):
    there = by_kind(photos)
    assert set(there) == set(KINDS)
    occurring = {kind: len(pile.labels[pile.labels >= 0].unique()) for kind, pile in there.items()}
    n_classes = {kind: pile.texts.shape[1] for kind, pile in there.items()}
    assert occurring["equal"] == n_classes["equal"]
    assert occurring["half"] == (n_classes["half"] + 1) // 2
    assert (occurring["few"], occurring["one"]) == (2, 1)
    counts = torch.bincount(there["one + 10 %"].labels)
    assert int(counts.max()) / int(counts.sum()) == pytest.approx(0.9, abs=0.05)
    for kind, share in (("foreign 1/5", 0.2), ("foreign 1/2", 0.5)):
        is_foreign = there[kind].labels < 0
        assert float(is_foreign.double().mean()) == pytest.approx(share, abs=0.02)


def test_photos_that_strengthen_texts_are_in_no_pile(photos):
    """A sixth of each class; and piles of one draw differ in their texts alone."""
    for pile in piles([photos], draws=range(1)):
        counts = torch.bincount(pile.labels[pile.labels >= 0])
        assert int(counts.max()) <= OF_A_CLASS - OF_A_CLASS // 6
        assert pile.texts.norm(dim=0).tolist() == pytest.approx([1.0] * pile.texts.shape[1])
    first, *others = list(piles([photos], draws=range(1)))[: len(STRENGTHS)]
    assert all(other.features.equal(first.features) for other in others)
    assert not others[-1].texts.equal(first.texts)


def test_a_cone_keeps_the_texts_logits_and_the_adapted_answers():
    """Photos become more alike: mean cosines of 0.60 and more, as CLIP's."""
    images = around_centres(off=1.2, seed=2)
    plain = Pile("", "equal", CLASS_NAME, images.features, images.labels, images.texts, 20.0)
    before = judged(plain)
    assert before.after > before.before
    for length in (1.0, 2.0):
        there = in_cone(plain, length=length)
        assert there.features.norm(dim=1).tolist() == pytest.approx([1.0] * len(images.labels))
        cosine = (plain.features @ plain.features.T + length**2) / (1 + length**2)
        torch.testing.assert_close(there.features @ there.features.T, cosine)
        logits = there.logit_scale * there.features @ there.texts
        torch.testing.assert_close(logits, 20.0 * plain.features @ plain.texts, rtol=1e-4, atol=1e-4)
        assert judged(there).after == before.after


def test_random_texts_are_drawn_once_for_a_pile():
    images = around_centres(off=1.2, seed=2)
    plain = Pile("", "equal", CLASS_NAME, images.features, images.labels, images.texts, 20.0)
    drawn = with_random_texts(plain)
    assert drawn.texts.shape == plain.texts.shape
    assert drawn.texts.norm(dim=0).tolist() == pytest.approx([1.0] * 5)
    assert torch.equal(drawn.texts, with_random_texts(plain).texts)
    assert judged(drawn).before < judged(plain).before


def test_sets_are_cut_by_class_and_put_together(photos):
    odd = every_other(photos, first=1)
    assert odd.class_names == ["thing 1", "thing 3", "thing 5"]
    assert odd.features.equal(photos.features[photos.labels % 2 == 1])
    assert odd.texts[CLASS_NAME].equal(photos.texts[CLASS_NAME][1::2])
    assert len(together([photos, photos]).labels) == 2 * len(photos.labels)


def test_a_table_by_hand():
    """Gains of 2 and -6: -2 on average, and half of the piles lost more than 5."""
    results = [
        Judged("things", "one", CLASS_NAME, 50, 5, 60.0, after, note, False)
        for after, note in ((62.0, ""), (54.0, "kept"))
    ]
    by_cell, by_source, summary = tables(results)
    assert f"| {CLASS_NAME} | - | - | - | - | -2.00, 50.0 (-6, 2) | - | - | - | -2.00, 50.0 (-6, 2) |" in by_cell
    assert "| things | -2.00, 50.0 (-6, 2) | - | - | - |" in by_source
    assert summary == (
        "2 piles, 1 adapted; of 1 cells 1 have more than 1.5 % that lost more than 5 points (50.0 % at most), and 1 "
        "lost on average"
    )
