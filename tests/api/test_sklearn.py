"""The scikit-learn classifier: the same soup as the functions', and scikit-learn's estimator checks."""

from __future__ import annotations

import warnings
from unittest import SkipTest

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn")

from api_world import DESCRIPTORS, NAMES, WORDS, photos
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator

import wsoup
from wsoup.api.sklearn import SoupClassifier
from wsoup.base.errors import DataError, ParamsError

NOT_OF_A_TEXT_MODEL = {
    "check_classifiers_train": "a soup of five words over random texts need not fit blobs",
    "check_estimators_dtypes": "has a row of zeros, which is no direction",
}
"""Checks that a text model cannot pass, and why."""


@pytest.fixture
def given(tiny_encoder):
    images = photos(tiny_encoder)
    return images.features.numpy(), images.labels.numpy(), (tiny_encoder.model, tiny_encoder.tokenizer)


def test_it_fits_the_same_soup_as_the_function(given):
    features, labels, (model, tokenizer) = given
    fitted = SoupClassifier(model, tokenizer, NAMES, kind="descriptor", pool=DESCRIPTORS).fit(features, labels)
    how = {"class_names": NAMES, "model": model, "tokenizer": tokenizer, "progress": False}
    assert fitted.soup_ == wsoup.descriptor_soup(features, labels, descriptors=DESCRIPTORS, **how)
    accuracy = wsoup.zero_shot_accuracy(features, labels, classifier=fitted.weights_)
    assert fitted.score(features, labels) == accuracy.n_correct / accuracy.n_images
    assert fitted.predict_proba(features).argmax(axis=1).tolist() == fitted.predict(features).tolist()


def test_y_may_hold_names_and_classes_may_have_no_images(given):
    features, labels, (model, tokenizer) = given
    names = [*NAMES, "dragon"]
    fitted = SoupClassifier(model, tokenizer, names, kind="descriptor", pool=DESCRIPTORS)
    predicted = fitted.fit(features, np.array(NAMES)[labels]).predict(features)
    assert set(predicted) <= {*names}
    assert fitted.predict_proba(features).shape == (60, 5)
    with pytest.raises(DataError, match="y holds 'cow', which is not among the 5 class_names"):
        fitted.fit(features, ["cow", *np.array(NAMES)[labels][1:]])
    with pytest.raises(ParamsError, match="kind is 'chain'; expected 'word' or 'descriptor'"):
        SoupClassifier(model, tokenizer, kind="chain").fit(features, labels)


@pytest.mark.parametrize("head", ["both", "ridge"])
def test_a_head_on_the_soup(given, head):
    features, labels, (model, tokenizer) = given
    classifier = SoupClassifier(model, tokenizer, NAMES, kind="descriptor", pool=DESCRIPTORS, head=head)
    fitted = clone(classifier).fit(features, labels)
    alone = wsoup.fit_head(
        *(features, labels),
        soup=fitted.soup_,
        kind=head,
        class_names=NAMES,
        model=model,
        tokenizer=tokenizer,
    )
    assert fitted.head_.kind == alone.kind
    assert fitted.predict(features).tolist() == alone.predict(features).tolist()
    np.testing.assert_allclose(fitted.predict_proba(features), alone.predict_proba(features), atol=1e-4)


def test_it_works_in_cross_validation(given):
    features, labels, (model, tokenizer) = given
    options = {"k0": 4, "k1": 12, "patience": 6, "m": 2}
    classifier = SoupClassifier(model, tokenizer, NAMES, pool=WORDS, options=options)
    assert len(cross_val_score(classifier, features, labels, cv=3)) == 3


class AnySize:
    """A text model with a variable feature size, since the checks use image features of many sizes."""

    def __init__(self, size=2):
        self.size = size

    def encode_text(self, tokens):
        seeds = (tokens * torch.arange(1, tokens.shape[1] + 1)).sum(dim=1).tolist()
        return torch.stack([torch.randn(self.size, generator=torch.Generator().manual_seed(seed)) for seed in seeds])


def letters(texts):
    """Letters as token ids, truncated or padded to 77, with 255 at the end."""
    rows = [[*list(text.encode())[:75], 255] for text in texts]
    return torch.tensor([[1, *row] + [0] * (76 - len(row)) for row in rows])


class OfAnySize(SoupClassifier):
    """The classifier with a model whose feature size follows X."""

    def __init__(self, model=None, *, pool=("a", "b", "c", "d", "e"), options=None):
        super().__init__(model, letters, pool=pool, options=options)

    def fit(self, X, y):
        if np.asarray(X).ndim == 2:
            self.model.size = np.asarray(X).shape[1]
        return super().fit(X, y)


def test_scikit_learns_estimator_checks():
    options = {"k0": 2, "k1": 5, "patience": 3, "m": 2}
    failed = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(OfAnySize(AnySize(), options=options)):
            try:
                check(clone(estimator))
            except SkipTest:
                continue
            except Exception as error:  # whatever a check raises is its verdict
                failed[check.func.__name__] = error
    assert set(failed) == set(NOT_OF_A_TEXT_MODEL), failed
