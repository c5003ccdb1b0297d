"""Soups of a model in memory: equal to the pipeline's to the byte, with the same classifier as open_clip's."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import open_clip
import pyarrow as pa
import pytest
import torch
import yaml
from api_world import DESCRIPTORS, ENCODER, NAMES, SMALL, WORDS, photos

import wsoup
from stages import score as score_stage
from stages import soup as soup_stage
from wsoup.api import soups as api_soups
from wsoup.api.arguments import checked_labels
from wsoup.base.errors import DataError, MismatchError, ModelError, ParamsError, PoolError
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.search.pools.lists import write_pool
from wsoup.towers.features import ImageFeatures, write_features

TEMPLATES = ["a photo of a {}.", "art of  the {c}.", "itap of my {}.", "a {} in a game"]


@pytest.fixture
def given(tiny_encoder):
    """Arguments of every search."""
    images = photos(tiny_encoder)
    return {
        "features": images.features,
        "labels": images.labels,
        "class_names": NAMES,
        "model": tiny_encoder.model,
        "tokenizer": tiny_encoder.tokenizer,
        "progress": False,
    }


def run_stages(tiny_encoder, encoder_files, *, seed: int) -> Artifacts:
    """Stages score and soup on the same images, in the working folder."""
    images, artifacts = photos(tiny_encoder), Artifacts()
    params = {
        "source": "photo",
        "seeds": [seed],
        "encoder": encoder_files,
        "candidates": {
            "pools": ["words", "descriptors"],
            "words": {"path": None, "count": len(WORDS), "period": False},
            "descriptors": {"paths": ["descriptors.txt"], "period": True},
            "watch": "descriptors.txt",
        },
        "score": {"shard_size": 500},
        "soups": {
            "word": {"kind": "chains", "pool": "words", **SMALL},
            "descriptor": {"kind": "greedy", "pool": "descriptors", "m": 16},
        },
    }
    Path("params.yaml").write_text(yaml.safe_dump(params))
    write_pool(artifacts.pool("words"), WORDS)
    write_pool(artifacts.pool("descriptors"), DESCRIPTORS)
    about = {"class_names": NAMES, "template": "a photo of a {}.", "encoder": tiny_encoder.id}
    rows = torch.arange(len(images.labels)).numpy()
    features = ImageFeatures(images.features.numpy(), images.labels.numpy(), rows, about)
    write_features(artifacts.features("photo", split="train"), features)
    store.write_table(artifacts.split("photo", seed=seed), pa.table({"row": rows}))
    for stage, items in ((score_stage, ("words", "descriptors")), (soup_stage, ("word", "descriptor"))):
        for item in items:
            stage.main(Owner.of(Path(stage.__file__), name=item), item)
    return artifacts


def test_the_soup_equals_the_pipelines_byte_for_byte(in_tmp, given, tiny_encoder, tiny_encoder_files):
    artifacts = run_stages(tiny_encoder, tiny_encoder_files, seed=3)
    wsoup.word_soup(**given, words=WORDS, seed=3, encoder=ENCODER, **SMALL).save("word.json")
    wsoup.descriptor_soup(**given, descriptors=DESCRIPTORS, seed=3, encoder=ENCODER).save("descriptor.json")
    for name in ("word", "descriptor"):
        assert Path(f"{name}.json").read_bytes() == artifacts.soup(name, seed=3).read_bytes()
    assert len(wsoup.Soup.load("word.json").members) == SMALL["m"]


def test_scores_equal_those_of_stage_score(in_tmp, given, tiny_encoder, tiny_encoder_files):
    artifacts = run_stages(tiny_encoder, tiny_encoder_files, seed=1)
    table = store.read_table(artifacts.scores("words"))
    columns = wsoup.score_texts(**given, texts=["", *WORDS], period=False)
    for column, values in columns.items():
        assert table[column].to_pylist() == values


def test_the_classifier_equals_open_clips_from_the_templates(given, tiny_encoder):
    soup = wsoup.word_soup(**given, words=WORDS, seed=1, **SMALL)
    model, tokenizer, names = tiny_encoder.model, tiny_encoder.tokenizer, ["fir tree", "a {curly} name"]
    ours = soup.classifier(class_names=names, model=model, tokenizer=tokenizer)
    theirs = open_clip.build_zero_shot_classifier(model, tokenizer, names, soup.templates())
    assert ours.shape == (16, 2)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def test_a_model_is_used_in_eval_mode_and_restored(given, tiny_encoder):
    model = tiny_encoder.model
    expected = wsoup.descriptor_soup(**given, descriptors=DESCRIPTORS)
    model.train()
    model.visual.eval()
    try:
        assert wsoup.descriptor_soup(**given, descriptors=DESCRIPTORS) == expected
        assert model.training
        assert not model.visual.training
    finally:
        model.eval()


class Wrapped:
    """A model of another library: not a module itself."""

    def __init__(self, model):
        self.inner = model

    def encode_text(self, tokens):
        return 3 * self.inner.encode_text(tokens)


@pytest.mark.parametrize("state", ["dtype", "autocast", "device"])
def test_what_others_set_in_torch_changes_nothing(given, state, tiny_encoder):
    how = {"class_names": NAMES, "model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}
    features, labels = given["features"], given["labels"]

    def results():
        soup = wsoup.descriptor_soup(**given, descriptors=DESCRIPTORS)
        classifier = soup.classifier(**how)
        head = wsoup.fit_head(features, labels, soup=soup, **how)
        adapted = wsoup.adapt(features, classifier=classifier)
        accuracy = wsoup.zero_shot_accuracy(features, labels, classifier=classifier, baseline=head)
        return soup.texts, accuracy, [classifier, head.classifier, adapted.predict(features)]

    texts, accuracy, tensors = results()
    with ExitStack() as stack:
        if state == "dtype":
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float64)
        elif state == "autocast":
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        else:
            stack.callback(torch.set_default_device, None)
            torch.set_default_device("meta")
        again_texts, again_accuracy, again = results()
    assert (again_texts, again_accuracy) == (texts, accuracy)
    for one, other in zip(tensors, again, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other)


def test_words_with_the_tokens_of_another_are_left_out_and_said(given):
    expected = wsoup.word_soup(**given, words=WORDS, seed=1, **SMALL)
    with pytest.warns(UserWarning, match="2 of the words have another's tokens and are left out: 'Time', 'DAY'"):
        assert wsoup.word_soup(**given, words=[*WORDS, "Time", "DAY"], seed=1, **SMALL) == expected


def test_a_class_without_any_photo_is_said(given):
    names = [*given["class_names"], "unseen", "missing"]
    with pytest.warns(UserWarning, match="no image is of class 'unseen', 'missing'; add images, or leave it out"):
        wsoup.descriptor_soup(**(given | {"class_names": names}), descriptors=DESCRIPTORS)


def test_any_object_with_encode_text_is_a_model(given):
    expected = wsoup.descriptor_soup(**given, descriptors=DESCRIPTORS)
    soup = wsoup.descriptor_soup(**given | {"model": Wrapped(given["model"])}, descriptors=DESCRIPTORS)
    assert soup.members == expected.members
    assert soup.encoder["model"] == "Wrapped"


def test_the_default_pools_are_wsoups_own(given, monkeypatch):
    assert wsoup.common_words(5) == ["the", "to", "and", "of", "in"]
    assert len(wsoup.common_words()) == 10_000
    monkeypatch.setattr(api_soups, "COMMON_WORDS", 20)
    soup = wsoup.word_soup(**given, seed=1, **SMALL)
    assert set(" ".join(soup.texts).split()) <= set(wsoup.common_words(20))


def test_labels_may_be_names_and_arrays_of_any_kind(given):
    expected = wsoup.score_texts(**given, texts=DESCRIPTORS)
    names = [NAMES[label] for label in given["labels"]]
    for features in (given["features"].numpy(), given["features"].double(), given["features"].tolist()):
        for labels in (names, np.array(names), np.array(names, dtype=object), given["labels"].numpy()):
            assert wsoup.score_texts(**given | {"features": features, "labels": labels}, texts=DESCRIPTORS) == expected


def broken(features, *, row, value):
    features = features.clone()
    features[row] = value
    return features


@pytest.mark.parametrize(
    ("changed", "error", "text"),
    [
        ({"features": torch.zeros(60)}, DataError, r"features has shape \(60,\); expected \(N, D\)"),
        ({"features": torch.zeros(0, 16)}, DataError, r"features has shape \(0, 16\)"),
        ({"features": torch.ones(60, 16, dtype=torch.long)}, DataError, "features holds torch.int64; expected floats"),
        ({"features": [["a"]]}, DataError, "features is not an array of numbers"),
        ({"features": (7, float("nan"))}, DataError, "features has NaN or infinity in rows 7; leave these images out"),
        ({"features": (slice(0, 5), 0.0)}, DataError, r"nothing but zeros in rows 0, 1, 2 and 2 more"),
        ({"features": torch.eye(60)}, MismatchError, "image features have 60 dimensions, the model's texts 16"),
        ({"labels": torch.zeros(59, dtype=torch.long)}, DataError, r"labels has shape \(59,\) .*expected \(60,\)"),
        ({"labels": torch.full((60,), 0.5)}, DataError, "holds torch.float32; .* a whole number"),
        ({"labels": torch.full((60,), float("inf"))}, DataError, "holds torch.float32; .* a whole number"),
        ({"labels": torch.full((60,), 4)}, DataError, r"labels\[0\] is 4, outside of the 4 class_names, .*from 0 to 3"),
        (
            {"labels": ["cat"] * 59 + ["cow"]},
            DataError,
            "holds 'cow', which is not .* 4 class_names; give class_names=",
        ),
        ({"labels": torch.zeros(60, dtype=torch.long)}, DataError, "60 images of one class: a search needs a handful"),
        ({"class_names": "cat"}, ParamsError, "class_names is 'cat'; expected a list"),
        ({"class_names": ["cat", " ", "a", "b"]}, ParamsError, r"class_names\[1\] is ' '; expected plain text"),
        ({"class_names": []}, ParamsError, r"class_names is \[\]; "),
        ({"class_names": ["blue", "a", "b", "Blue"]}, DataError, "'a photo of a blue' and .* are the same tokens"),
        ({"words": ["!~" * 45 + " a", *WORDS]}, PoolError, "does not fit the model's context of 77 tokens"),
        ({"model": object()}, ModelError, "model is object, which has no encode_text"),
        ({"tokenizer": None}, ParamsError, "tokenizer is None; expected a function"),
        ({"template": "a photo"}, ParamsError, "must hold exactly one placeholder"),
        (
            {"precision": "fp8"},
            ParamsError,
            "precision is 'fp8'; expected one of fp32, bf16, fp16, reference",
        ),
        ({"encoder": {"name": "x"}}, ParamsError, "encoder has 'name'; expected model and pretrained"),
        ({"seed": -1}, ParamsError, "seed is -1; expected 0 or more"),
        ({"k0": 20}, ParamsError, r"word_soup: .*k0 \(20\) must not exceed k1 \(12\)"),
        ({"m": 0}, ParamsError, "m is 0; expected 1 or more"),
        ({"words": "time"}, ParamsError, "words is 'time'; expected a list"),
        ({"words": ["a", "a"]}, PoolError, "words holds 'a' more than once"),
    ],
)
def test_arguments_are_checked_before_any_work(given, changed, error, text):
    for key in changed:
        if isinstance(changed[key], tuple):
            row, value = changed[key]
            changed = {key: broken(given["features"], row=row, value=value)}
    with pytest.raises(error, match=text) as raised:
        wsoup.word_soup(**{**given, "seed": 1, "words": WORDS, **SMALL, **changed})
    assert "\n" not in str(raised.value)


def test_progress_false_is_silent(given, capfd):
    wsoup.word_soup(**given, words=WORDS, seed=1, **SMALL)
    assert capfd.readouterr().err == ""
    wsoup.word_soup(**given | {"progress": True}, words=WORDS, seed=1, **SMALL)
    assert "score words" in capfd.readouterr().err


def test_public_names_exist_and_are_in_the_stub():
    stub = Path(wsoup.__file__).with_suffix(".pyi").read_text()
    for name in wsoup.__all__:
        assert f"from {wsoup._MODULES[name]} import {name} as {name}\n" in stub
        assert getattr(wsoup, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'wsoup' has no attribute 'soups_of_words'"):
        _ = wsoup.soups_of_words
    assert {"word_soup", "Soup"} <= set(dir(wsoup))


def test_labels_may_be_whole_numbers_in_floats():
    """What a table of pandas gives whose column had a missing cell."""
    labels = checked_labels(np.array([0.0, 2.0, 1.0]), n_images=3, class_names=["a", "b", "c"])
    assert (labels.tolist(), labels.dtype) == ([0, 2, 1], torch.int64)


def test_a_list_of_words_shorter_than_k1_is_used_whole(given):
    sizes = {**SMALL, "k0": 40, "k1": 1000}
    with pytest.warns(UserWarning, match="k1 is 1000, but there are 13 words: all of them are used"):
        soup = wsoup.word_soup(**given, words=WORDS, seed=1, **sizes)
    assert soup.members == wsoup.word_soup(**given, words=WORDS, seed=1, **{**sizes, "k0": 13, "k1": 13}).members


def test_a_template_soup_is_a_greedy_soup_of_whole_prompts(given):
    """Each member raises the count of the centroid of all prompts before it, and classifies as in open_clip."""
    soup = wsoup.template_soup(**given, templates=TEMPLATES, m=3)
    assert soup.kind == "greedy"
    assert set(soup.texts) <= {template.replace("{c}", "{}") for template in TEMPLATES}
    assert soup.templates("a sketch of a {}.") == soup.texts, "nothing is added to a template"
    counts = [member.n_correct for member in soup.members]
    for m, n_correct in enumerate(counts, start=1):
        classifier = open_clip.build_zero_shot_classifier(
            given["model"], given["tokenizer"], NAMES, soup.texts[:m], use_tqdm=False
        )
        right = (given["features"] @ classifier).argmax(1) == given["labels"]
        assert int(right.sum()) == n_correct
    assert sorted(set(counts)) == counts
    ours = soup.classifier(class_names=NAMES, model=given["model"], tokenizer=given["tokenizer"], progress=False)
    torch.testing.assert_close(ours, classifier, atol=1e-6, rtol=0)


def test_templates_are_openais_80_by_default(given):
    soup = wsoup.template_soup(**given, m=2)
    assert set(soup.texts) <= {fill("{}") for fill in open_clip.OPENAI_IMAGENET_TEMPLATES}
    table = wsoup.score_texts(**given, texts=[*TEMPLATES[:2], "which is bright", ""])
    assert len(table["n_correct"]) == 4


def test_templates_that_nobody_selected(given, in_tmp):
    soup = wsoup.Soup.from_templates(TEMPLATES)
    assert soup.texts == ["a photo of a {}.", "art of the {}.", "itap of my {}.", "a {} in a game"]
    soup.save("templates.json")
    again = wsoup.Soup.load("templates.json")
    assert again == soup
    towers = {"model": given["model"], "tokenizer": given["tokenizer"], "progress": False}
    theirs = open_clip.build_zero_shot_classifier(
        given["model"], given["tokenizer"], NAMES, soup.templates(), use_tqdm=False
    )
    torch.testing.assert_close(again.classifier(class_names=NAMES, **towers), theirs, atol=1e-6, rtol=0)
    weighed = again.autoclip(class_names=NAMES, **towers)
    torch.testing.assert_close(weighed.classifier, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("templates", "text"),
    [
        (["a {}", "a photo"], "templates, template 2: 'a photo' must hold exactly one placeholder"),
        (["{} and {}"], "template 1: .* exactly one"),
        ([], "templates is empty"),
        (["a {}", "a {c}"], r"templates holds 'a \{\}' more than once \(templates 1, 2\)"),
    ],
)
def test_templates_are_checked(given, templates, text):
    for make in (wsoup.Soup.from_templates, lambda some: wsoup.template_soup(**given, templates=some)):
        with pytest.raises(PoolError, match=text):
            make(templates)


def test_no_word_can_follow_a_template(given):
    with pytest.raises(PoolError, match="no word can follow; use another kind, such as greedy"):
        wsoup.word_soup(**given, words=[*WORDS[:-1], "art of the {}."], seed=1, **SMALL)
