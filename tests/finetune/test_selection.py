"""A learning rate chosen on held-out images: which images these are, and which rate wins."""

from __future__ import annotations

import pytest
import torch
from finetune_cases import draw_colours, finetune_params
from torch.nn import functional as F

from wsoup.base.errors import ParamsError
from wsoup.finetune.rates import Tried, best_rate
from wsoup.finetune.selection import count_right, divided
from wsoup.finetune.train import Trainer
from wsoup.images.decode import load_rgb


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    return draw_colours(tmp_path_factory.mktemp("colours"))


def test_the_most_correct_images_win_and_the_lower_rate_among_equals():
    tried = [Tried(0.1, 5, 9), Tried(0.01, 7, 9), Tried(1.0, 7, 9)]
    assert best_rate(tried) == 0.01


def test_half_of_each_class_is_held_out_and_nothing_is_in_both(colours):
    """Three images of four classes: two to train on, one that judges; another seed holds out others."""
    shown, held = divided(colours, seed=1)
    assert sorted([*shown.paths, *held.paths]) == sorted(colours.paths)
    assert shown.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert held.labels.tolist() == [0, 1, 2, 3]
    for part in (shown, held):
        assert [colours.digests[colours.paths.index(path)] for path in part.paths] == part.digests
    assert divided(colours, seed=1)[1].paths == held.paths
    assert any(divided(colours, seed=seed)[1].paths != held.paths for seed in (2, 3, 4))


def test_a_class_of_one_image_is_refused_with_what_to_do(colours):
    _, one_each = divided(colours, seed=1)
    with pytest.raises(ParamsError, match=r"class 'blue' has one with seed 7; take fewshot.shots: 2 or more"):
        divided(one_each, seed=7)


@pytest.mark.parametrize("name", ["coop", "ce", "coop_ensemble", "both_stages"])
def test_held_out_images_are_counted_as_by_a_plain_loop(tiny_encoder, colours, name):
    shared = finetune_params()
    trainer = Trainer(tiny_encoder, source=colours, method=shared.methods[name], shared=shared, seed=1)
    student = trainer.run()
    is_soft = student.soft_descriptors is not None
    soup = [""] if is_soft else ["", "ears"]
    counted = count_right(student, tiny_encoder, held=colours, soup=soup)
    members = []
    for text in soup:
        endings = [f"a photo of a {name}{', ' + text if text else ''}." for name in colours.class_names]
        members.append(F.normalize(student.encode_text(tiny_encoder.tokenizer(endings)), dim=1))
    pixels = torch.stack([tiny_encoder.preprocess(load_rgb(path)) for path in colours.paths])
    classifier = F.normalize(torch.stack(members).mean(dim=0), dim=1)
    if name == "both_stages":
        classifier = F.normalize(student.class_weights, dim=1)
    predicted = (student.encode_image(pixels) @ classifier.T).argmax(dim=1)
    assert counted == int((predicted == torch.from_numpy(colours.labels)).sum())
