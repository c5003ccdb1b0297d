"""The descriptors nearest to a class by text features: told by hand from the same features."""

from __future__ import annotations

import torch

from wsoup.evaluate.classifiers import class_rows
from wsoup.evaluate.nearest import nearest_prompts
from wsoup.evaluate.rows import table

POOL = ["which is red", "made of wood", "with four legs", "very old", "which is red"]


def test_each_class_has_its_own_nearest_and_ties_go_by_pool_order(texts, tests):
    made = nearest_prompts(tests, pool=POOL, m=2, encoder=texts)
    assert set(made) == {test.name for test in tests}
    features = texts.encode(POOL)
    for test in tests:
        for name, prompts in zip(test.class_names, made[test.name], strict=True):
            stem = test.template.format(name).removesuffix(".")
            cosines = (texts.encode([f"{stem}."]) @ features.T)[0].tolist()
            nearest = sorted(range(len(POOL)), key=lambda i: -cosines[i])[:2]
            assert prompts == [f"{stem}, {POOL[i]}." for i in nearest]


def test_a_small_pool_is_taken_whole_and_an_empty_one_makes_no_row(texts, photo):
    (whole,) = nearest_prompts([photo], pool=POOL[:3], m=16, encoder=texts).values()
    assert {len(prompts) for prompts in whole} == {3}
    assert nearest_prompts([photo], pool=[], m=16, encoder=texts) == {}
    how = {"rows": table(["word"]), "seeds": [1], "templates": []}
    (row,) = class_rows([photo], nearest={"photo": whole}, **how)["photo"]
    assert (row.method, row.m, row.prompts) == ("nearest_descriptors", 3, whole)
    assert class_rows([photo], **how)["photo"] == []


def test_without_weights_the_first_ones_stand_for_them(photo):
    class Weightless:
        def encode(self, prompts):
            return torch.empty(len(prompts), 4, device="meta")

    (prompts,) = nearest_prompts([photo], pool=POOL, m=1, encoder=Weightless()).values()
    assert prompts == [[f"a photo of a {name}, which is red."] for name in photo.class_names]
