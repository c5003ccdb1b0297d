"""Facts about `benchmarks/heads`: rivals by hand, and what a folder is divided into."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from heads_cases import on_a_circle
from small_world import COLOURS, write_image_folder
from torch.nn import functional as F

from benchmarks.heads import rivals
from benchmarks.heads.folders import folders
from benchmarks.heads.judging import CLASS_NAME, HEAD, ON_CLASS_NAME, judged
from benchmarks.heads.paired import paired
from benchmarks.heads.photos import photo_set
from benchmarks.heads.tables import tables
from wsoup.base.errors import MismatchError
from wsoup.heads.fewshot import FewShot

SHOTS = FewShot(on_a_circle(0, 20, 90, 110), torch.tensor([0, 0, 1, 1]), on_a_circle(10, 100).T, 10.0)
FURTHER = (on_a_circle(5, 95), torch.tensor([0, 1]))


@pytest.mark.parametrize("name", list(rivals.RIVALS))
def test_every_rival_tells_two_clear_classes_apart(name):
    logits = rivals.RIVALS[name](SHOTS, FURTHER)
    assert logits(on_a_circle(12, 99)).argmax(dim=1).tolist() == [0, 1]


def test_tip_adapter_by_hand():
    """A photo at 0 degrees: 100 times the cosine of each text, and exp(5.5 (cosine - 1)) of each photo."""
    of_photos = math.exp(0) + math.exp(5.5 * (math.cos(math.radians(20)) - 1))
    expected = 100 * math.cos(math.radians(10)) + of_photos
    assert float(rivals.tip_adapter(SHOTS, FURTHER)(on_a_circle(0))[0, 0]) == pytest.approx(expected)


def test_logistic_regression_is_a_minimum_of_its_loss():
    """Its gradient is 0: each class counts the same, and biases have no penalty."""
    weights = rivals._regression(SHOTS.features, SHOTS.labels, 2, 10.0).requires_grad_()
    x = torch.cat([SHOTS.features, torch.ones(4, 1, dtype=torch.float64)], dim=1)
    loss = torch.nn.functional.cross_entropy(x @ weights, SHOTS.labels, reduction="sum")
    (loss + weights[:-1].square().sum() / 20).backward()
    assert float(weights.grad.abs().max()) < 1e-2


def test_clap_descends_its_loss_as_torch_does():
    """Cross entropy, and each class's squared distance from its text by the mean probability that texts give it."""
    generator = torch.Generator().manual_seed(1)
    features, texts = (torch.randn(n, 4, generator=generator).double() for n in (30, 3))
    features, texts = (F.normalize(rows, dim=1) for rows in (features, texts))
    labels = torch.arange(30) % 3
    shots = FewShot(features, labels, texts.T.contiguous(), 5.0)
    draws = np.random.default_rng(2)
    orders = [draws.permutation(600) for _ in range(rivals.EPOCHS)]
    left = iter(orders)
    weights = rivals.clap_weights(shots, length=2.0, order=lambda n_rows: next(left))
    held = (5 * features @ texts.T).softmax(dim=1)
    holds = torch.stack([held[labels == c, c].mean() for c in range(3)])
    plain = torch.nn.Parameter(2 * texts)
    optimizer = torch.optim.SGD([plain], lr=0.1, momentum=0.9)
    for epoch, order in enumerate(orders):
        optimizer.param_groups[0]["lr"] = 1e-5 if epoch == 0 else 0.05 * (1 + math.cos(math.pi * (epoch - 1) / 300))
        batch = torch.from_numpy(order[:256]) % 30
        loss = F.cross_entropy(5 * features[batch] @ F.normalize(plain, dim=1).T, labels[batch])
        loss = loss + (holds * (plain - 2 * texts).square().sum(dim=1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(weights, plain.detach())


@pytest.fixture
def photos(tiny_encoder, tmp_path):
    root = write_image_folder(tmp_path / "photos", splits={"train": 12}, classes=COLOURS)
    return photo_set(str(root), encoder=tiny_encoder, cache=tmp_path / "cache")


def test_no_photo_has_two_uses(photos):
    n_photos = len(photos.labels)
    for folder in folders([photos], targets=[photos], draws=range(1), cones=[0.0]):
        parts = [folder.shown, folder.held_out, folder.fresh]
        together = torch.cat([features for features, _ in parts])
        assert len(together.unique(dim=0)) == len(together) < n_photos, "a fifth is for the texts"
        assert not folder.styles, "a set is no other style of itself"


def test_a_judged_folder_makes_a_table(photos):
    drawn = folders([photos], targets=[], draws=range(1), cones=[0.0])
    results = [judged(folder, rivals=[]) for folder in drawn]
    assert {one.use for one in results} <= {*results[0].own, HEAD}
    (first, *_) = tables(results)
    assert f"| own style: {CLASS_NAME} | " in first


def test_in_a_cone_texts_answer_as_before(photos):
    """With c = 1 all cosines of photos are halfway to 1, and those of photos and texts are halved."""
    plain, lifted = list(folders([photos], targets=[], draws=range(1), cones=[0.0, 1.0]))[:2]
    assert (plain.kind.cone, lifted.kind.cone) == (0, 1)
    before, now = plain.fresh[0], lifted.fresh[0]
    torch.testing.assert_close(now @ now.T, (before @ before.T + 1) / 2)
    logits = plain.logit_scale * before @ plain.texts[CLASS_NAME].T
    torch.testing.assert_close(lifted.logit_scale * now @ lifted.texts[CLASS_NAME].T, logits)
    in_both = tables([judged(folder, rivals=[]) for folder in (plain, lifted)])
    assert "|  | cone 0 | cone 1 |" in in_both[-1]


def write_results(file, heads, *, texts=40.0):
    """One folder a line, all of one cell, with its texts and a head."""
    kind = {"shots": 2, "equal": True, "strength": 0.0}
    lines = []
    for head in heads:
        own = {CLASS_NAME: texts, ON_CLASS_NAME: head}
        lines.append(json.dumps({"source": "photos", "kind": kind, "own": own, "styles": {}}))
    file.write_text("\n".join(lines))
    return file


def test_gains_are_paired_by_folder(tmp_path):
    """Gains of 1 and 3 points: 2 in the mean, with a standard deviation of the square root of 2."""
    before = write_results(tmp_path / "before", [50, 60])
    own, styles = paired(before, write_results(tmp_path / "after", [51, 63]))
    assert "| 0, equal | - | +2.0 +- 2.0 | - | - | - | +2.0 +- 2.0 |" in own
    assert "+2.0" not in styles, "no folder has another style"


def test_other_folders_are_not_paired(tmp_path):
    before = write_results(tmp_path / "before", [50, 60])
    with pytest.raises(MismatchError, match=r"line 1 .* of different folders; type the paths of photos alike"):
        paired(before, write_results(tmp_path / "after", [50, 60], texts=41.0))
    with pytest.raises(MismatchError, match=r"has 2 folders and .* 1; run benchmarks.heads with the same photos"):
        paired(before, write_results(tmp_path / "after", [50]))
