"""The plane of two initialisations and a tuned prompt: the corners are ordinary predictions, between them by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from finetune_cases import finetune_params
from torch.nn import functional as F

from wsoup.base.errors import PoolError
from wsoup.core import prompts
from wsoup.evaluate import landscape
from wsoup.evaluate.landscape import PromptPlane, axis, choose_pair, count_row
from wsoup.evaluate.testsets import ClassPrompts, TestSet
from wsoup.finetune.train import Trainer
from wsoup.texts.encoder import PromptEncoder

PAIR = ("sharp nice", "old ears")
TEMPLATES = {"photo": "a photo of a {}.", "pets": "a photo of a {}, a type of pet."}
NAMES = {"photo": ["red", "a rather long name", "blue"], "pets": ["dog", "blue"]}


def words(texts):
    """One token a letter, padded with zeros: lengths are seen at a glance."""
    return torch.tensor([list(text.replace(" ", "").encode().ljust(40, b"\0")) for text in texts])


# ------------------------------------------------------------------------------------------------------ by hand


def test_the_grid_holds_the_corners_and_as_many_steps_beyond_them():
    assert axis(steps=2, margin=1) == [-0.5, 0, 0.5, 1, 1.5]
    assert axis(steps=1, margin=0) == [0, 1]
    assert {0.0, 1.0} < set(axis(steps=7, margin=3))


def test_the_first_two_members_with_as_many_tokens():
    assert choose_pair(["aa", "b b", "ccc"], name="word", tokenizer=words) == ("aa", "b b")
    assert choose_pair(["aa", "bbb", "cc c", "dd"], name="word", tokenizer=words) == ("aa", "dd")


def test_where_no_two_are_as_long_both_are_cut_to_the_longest_that_is():
    assert choose_pair(["a bb cc d", "eee f ggg"], name="word", tokenizer=words) == ("a bb", "eee")
    assert choose_pair(["a a a", "a a bb", "cc"], name="word", tokenizer=words) == (
        "a a",
        "cc",
    )  # "a a" twice is no plane


@pytest.mark.parametrize("soup", [["a b"], ["a b", "a b"], ["aa", "bbb"], []])
def test_a_soup_without_two_such_members_is_refused(soup):
    with pytest.raises(PoolError, match=r"needs two different members of equal length in tokens, the word soup has \["):
        choose_pair(soup, name="word", tokenizer=words)


# ------------------------------------------------------------------------------------------- a prompt trained for real


@pytest.fixture(scope="module")
def tuned(tiny_encoder, colours):
    """CoOp after a few steps, as far from its start as a high rate takes it."""
    shared = finetune_params(iterations=5)
    method = shared.methods["coop"].model_copy(update={"learning_rate": 1.0})
    student = Trainer(tiny_encoder, source=colours, method=method, shared=shared, seed=3).run()
    return dataclasses.replace(tiny_encoder, model=student)


@pytest.fixture(scope="module")
def tests():
    generator, made = torch.Generator().manual_seed(0), []
    for name, names in NAMES.items():
        images = F.normalize(torch.randn(400, 16, generator=generator), dim=1)
        labels = torch.randint(len(names), (400,), generator=generator)
        role = "source" if name == "photo" else "xd"
        made.append(TestSet(name, role, TEMPLATES[name], names, images, labels, np.arange(400), {}))
    return made


def plane(tuned, encoder, tests, **how) -> PromptPlane:
    stems = ClassPrompts(tests).stems
    return PromptPlane(tuned, encoder=encoder, template="a photo of a {}.", pair=PAIR, stems=stems, **how)


def ordinary(encoder, text: str, test: TestSet) -> torch.Tensor:
    """(C, D): what evaluation encodes."""
    texts = PromptEncoder(encoder.model, encoder.tokenizer, device=torch.device("cpu"))
    return texts.encode([prompts.prompt(test.template, name, text) for name in test.class_names])


@pytest.mark.parametrize(("x", "y"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_corner_is_the_ordinary_prediction_with_a_or_b(tiny_encoder, tuned, tests, x, y):
    encoder = tuned if y else tiny_encoder
    point = plane(tuned, tiny_encoder, tests)
    features = dict(zip(ClassPrompts(tests).stems, point.texts(x, y), strict=True))
    counts = count_row(point.texts, y=y, axis=[0.0, 1.0], tests=tests)[x]
    for test, n_correct in zip(tests, counts, strict=True):
        wanted = ordinary(encoder, PAIR[x], test)
        torch.testing.assert_close(torch.stack([features[stem] for stem in test.stems]), wanted, rtol=1e-4, atol=1e-5)
        assert n_correct == int(((test.image_features @ wanted.T).argmax(dim=1) == test.labels).sum())


def test_the_corners_are_four_different_predictions(tiny_encoder, tuned, tests):
    point = plane(tuned, tiny_encoder, tests)
    corners = [point.texts(x, y) for x in (0, 1) for y in (0, 1)]
    assert all(float((a - b).abs().max()) > 1e-3 for i, a in enumerate(corners) for b in corners[:i])


@pytest.mark.parametrize(("x", "y"), [(0.25, 0.5), (-0.5, 1.5), (1.5, -0.25)])
def test_anywhere_else_the_embeddings_are_mixed_by_hand(tiny_encoder, tuned, tests, x, y):
    """`encode_text` of open_clip's model at the full context, its embeddings replaced on their way."""
    point, model, end = plane(tuned, tiny_encoder, tests), tiny_encoder.model, tuned.model.soft_prompt
    stems = ClassPrompts(tests).stems
    a, b = (tiny_encoder.tokenizer([f"{stem}, {text}." for stem in stems]) for text in PAIR)

    def mixed(module, inputs, output):
        embeddings = (1 - x) * module.weight[a] + x * module.weight[b]
        embeddings[:, 1:4] = (1 - y) * point.start + y * end
        return embeddings

    hook = model.token_embedding.register_forward_hook(mixed)
    try:
        with torch.no_grad():
            wanted = F.normalize(model.encode_text(a), dim=-1)
    finally:
        hook.remove()
    torch.testing.assert_close(point.texts(x, y), wanted, rtol=1e-4, atol=1e-5)


def test_texts_in_small_groups_are_the_same(tiny_encoder, tuned, tests):
    small, whole = plane(tuned, tiny_encoder, tests, batch_size=2), plane(tuned, tiny_encoder, tests)
    torch.testing.assert_close(small.texts(0.5, 0.5), whole.texts(0.5, 0.5), rtol=1e-4, atol=1e-5)


def test_the_table_has_a_line_for_each_point_and_dataset(tests):
    rows = [np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]])]
    table = landscape.table(rows, axis=[0.0, 1.0], tests=tests, seed=3)
    assert table.schema.equals(landscape.SCHEMA)
    assert [tuple(line.values()) for line in table.to_pylist()][:5] == [
        (0.0, 0.0, "photo", "source", 3, 1, 400),
        (0.0, 0.0, "pets", "xd", 3, 2, 400),
        (1.0, 0.0, "photo", "source", 3, 3, 400),
        (1.0, 0.0, "pets", "xd", 3, 4, 400),
        (0.0, 1.0, "photo", "source", 3, 5, 400),
    ]


def test_a_class_name_after_which_the_texts_differ_in_length_is_named(tiny_encoder, tuned):
    with pytest.raises(
        PoolError, match=r"after 'a photo of a cat', 'sharp' and 'old nice' differ in length \(tokens\)"
    ):
        PromptPlane(
            tuned,
            encoder=tiny_encoder,
            template="a photo of a {}.",
            pair=("sharp", "old nice"),
            stems=["a photo of a cat"],
        )
