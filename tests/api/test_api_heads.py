"""Heads and adaptation in Python, with a model in memory."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from api_world import DESCRIPTORS, ENCODER, NAMES, photos

import wsoup
from wsoup.base.errors import DataError, MismatchError, ParamsError
from wsoup.photos import estimation
from wsoup.towers.logit_scale import logit_scale_of


@pytest.fixture
def model(tiny_encoder):
    return {"model": tiny_encoder.model, "tokenizer": tiny_encoder.tokenizer}


@pytest.fixture
def images(tiny_encoder):
    return photos(tiny_encoder)


def test_a_head_on_the_class_name_and_on_a_soup(model, images, tmp_path):
    train, test = slice(0, 16), slice(16, 60)
    features, labels = images.features, images.labels
    plain = wsoup.fit_head(features[train], labels[train], class_names=NAMES, **model)
    assert plain.soup.kind == "class_name"
    assert plain.logit_scale == pytest.approx(float(model["model"].logit_scale.exp()))
    soup = wsoup.descriptor_soup(
        *(features[train], labels[train]), class_names=NAMES, descriptors=DESCRIPTORS, progress=False, **model
    )
    head = wsoup.fit_head(features[train], labels[train], soup=soup, class_names=NAMES, encoder=ENCODER, **model)
    assert (head.soup, head.encoder["model"]) == (soup, "tiny-clip")
    texts = soup.classifier(class_names=NAMES, **model)
    by_texts = wsoup.zero_shot_accuracy(features[test], labels[test], classifier=texts).n_correct

    def n_right(head: wsoup.Head) -> int:
        return int((head.predict(features[test]) == labels[test]).sum())

    averaged = wsoup.fit_head(features[train], labels[train], soup=soup, class_names=NAMES, kind="both", **model)
    assert n_right(averaged) >= by_texts - 1, "a head stays near its texts"
    assert n_right(head) >= by_texts - 2, "so does ridge by itself, the default, a little less"
    head.save(tmp_path / "head.safetensors")
    assert torch.equal(wsoup.Head.load(tmp_path / "head.safetensors").predict(features), head.predict(features))


def test_a_heads_texts_are_the_soups_classifier(model, images):
    """Without the prototypes, a head is the soup's classifier."""
    head = wsoup.fit_head(images.features, images.labels, class_names=NAMES, kind="prototypes", **model)
    means = torch.stack([images.features[images.labels == label].mean(dim=0) for label in range(len(NAMES))])
    texts = head.classifier / head.logit_scale - head.setting["weight"] * torch.nn.functional.normalize(means).T
    classifier = wsoup.Soup.of(head.soup).classifier(class_names=NAMES, **model)
    torch.testing.assert_close(texts, classifier.cpu(), rtol=1e-4, atol=1e-5)


def test_unusable_images_labels_and_models_are_refused(model, images):
    features, labels = images.features, images.labels
    with pytest.raises(DataError, match="no image of 'dragon': a head needs one of each class"):
        wsoup.fit_head(features, labels, class_names=[*NAMES, "dragon"], **model)
    with pytest.raises(ParamsError, match=r"class_names is .* a list of 2 or more"):
        wsoup.fit_head(features, labels * 0, class_names=["cat"], **model)
    with pytest.raises(ParamsError, match="kind is 'forest'"):
        wsoup.fit_head(features, labels, class_names=NAMES, kind="forest", **model)


def test_adaptation_takes_a_classifier_and_a_scale(model, images):
    soup = wsoup.fit_head(images.features, images.labels, class_names=NAMES, **model).soup
    classifier = wsoup.Soup.of(soup).classifier(class_names=NAMES, **model)
    adapted = wsoup.adapt(images.features, classifier=classifier, model=model["model"])
    assert adapted.predict(images.features).shape == (60,)
    by_scale = wsoup.adapt(images.features.numpy(), classifier=classifier.numpy(), logit_scale=1e-3)
    assert not by_scale.adapted
    np.testing.assert_allclose(by_scale.classifier, 1e-3 * classifier, rtol=1e-5)
    with pytest.raises(MismatchError, match="classifier has shape"):
        wsoup.adapt(images.features, classifier=classifier[:5])


def test_a_soup_and_a_head_are_not_confused(model, images, tmp_path):
    head = wsoup.fit_head(images.features, images.labels, class_names=NAMES, **model)
    head.save(tmp_path / "head.safetensors")
    head.soup.save(tmp_path / "soup.json")
    with pytest.raises(MismatchError, match=r"is not a soup but a head, or weights; wsoup\.Head\.load reads a head"):
        wsoup.Soup.load(tmp_path / "head.safetensors")
    with pytest.raises(MismatchError, match="is not a head"):
        wsoup.Head.load(tmp_path / "soup.json")
    with pytest.raises(DataError, match="classifier is a soup; expected its class weights"):
        wsoup.zero_shot_accuracy(images.features, images.labels, classifier=head.soup)
    accuracy = wsoup.zero_shot_accuracy(images.features, images.labels, classifier=head)
    assert accuracy.n_correct == int((head.predict(images.features) == images.labels).sum())


def test_a_model_without_a_logit_scale_has_clips():
    """CLIP's is 100; a model's own is the exponential of what it learns."""
    assert logit_scale_of(object()) == 100
    assert logit_scale_of(SimpleNamespace(logit_scale=torch.tensor(0.0))) == 1


@pytest.mark.parametrize("logarithm", [torch.nan, torch.inf, -torch.inf, 80.0])
def test_a_logit_scale_that_no_softmax_can_use_is_refused(model, images, logarithm):
    """One check for heads and for adaptation; e^80 is beyond what float32 multiplies and divides by."""
    broken = copy.deepcopy(model["model"])
    broken.logit_scale.data.fill_(logarithm)
    texts = torch.eye(images.features.shape[1], 5)
    with pytest.raises(ParamsError, match=r"logit_scale is .*expected a finite number above 0"):
        wsoup.adapt(images.features, classifier=texts, model=broken)
    names = [f"class {i}" for i in range(int(images.labels.max()) + 1)]
    with pytest.raises(ParamsError, match=r"logit_scale is .*expected a finite number above 0"):
        wsoup.fit_head(images.features, images.labels, class_names=names, model=broken, tokenizer=model["tokenizer"])


def test_what_is_no_classifier_is_named(model, images):
    head = wsoup.fit_head(images.features, images.labels, class_names=NAMES, **model)
    adapted = wsoup.adapt(images.features, classifier=head.classifier, model=model["model"])
    for given, message in [
        (head, "classifier is Head; expected class weights"),
        (adapted, "classifier is Adapted; expected class weights"),
        (head.soup, "classifier is a soup; expected its class weights"),
        (wsoup, r"classifier is not an array of numbers \(module holds objects, or is one\)"),
    ]:
        with pytest.raises(DataError, match=message) as raised:
            wsoup.adapt(images.features, classifier=given, model=model["model"])
        assert "numpy.object_" not in str(raised.value)


def test_a_head_and_an_adapted_classifier_are_shown_in_one_line(model, images):
    head = wsoup.fit_head(images.features, images.labels, class_names=NAMES, **model)
    assert repr(head) == f"<ridge head, 4 classes, {head.n_correct} of 60 left-out images correct>"
    one_each = wsoup.fit_head(images.features[:4], images.labels[:4], class_names=NAMES, **model)
    assert repr(one_each).endswith(f"0 of 0 left-out images correct, {one_each.note}>")
    kept = wsoup.adapt(images.features[:4], classifier=head.classifier, model=model["model"])
    assert repr(kept) == f"<zero-shot classifier, 4 classes: {kept.note}>"


@pytest.mark.parametrize("length", [17.0, 0.05])
def test_features_of_any_length_are_treated_alike_at_every_door(model, images, monkeypatch, length):
    """As `model.encode_image` gives them: normalised, with one warning, also where answers are made in blocks."""
    monkeypatch.setattr(estimation, "LOGITS_PER_BLOCK", 35)
    features = images.features
    head = wsoup.fit_head(features, images.labels, class_names=NAMES, **model)
    soup = wsoup.Soup.from_templates(["a photo of a {}.", "a drawing of a {}.", "one {}"])
    classifier = soup.classifier(class_names=NAMES, **model)
    adapted = wsoup.adapt(features, classifier=classifier, logit_scale=40.0)
    assert adapted.adapted
    assert adapted.bias.abs().min() > 1, "it would be lost beside long features"
    weighed = soup.autoclip(class_names=NAMES, **model)

    def counted(by):
        return lambda given: wsoup.zero_shot_accuracy(given, images.labels, classifier=by).n_correct

    doors = [
        head.logits,
        head.predict_proba,
        head.predict,
        lambda given: head.predict(given, at_least=0.9),
        adapted.logits,
        adapted.predict_proba,
        adapted.predict,
        weighed.scores,
        weighed.predict,
        lambda given: wsoup.adapt(given, classifier=classifier, logit_scale=40.0).bias,
        *map(counted, (head, adapted, weighed, classifier)),
    ]
    for door in doors:
        expected = door(features)
        with pytest.warns(UserWarning, match="features are not of length 1") as warned:
            answers = door(length * features)
        assert len(warned) == 1
        torch.testing.assert_close(answers, expected, rtol=1e-4, atol=1e-4)
        with pytest.raises(DataError, match="features holds nothing but zeros in rows 0"):
            door(0 * features)
