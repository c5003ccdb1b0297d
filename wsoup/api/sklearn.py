"""A soup as a scikit-learn classifier over image features: `pip install 'wsoup[sklearn]'`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wsoup.api.arguments import TextModel
from wsoup.api.heads import fit_head
from wsoup.api.model import Tokenizer
from wsoup.api.soups import TEMPLATE, descriptor_soup, word_soup
from wsoup.base.errors import DataError, ParamsError, needing
from wsoup.texts.classes import logit_scale_of

with needing():
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data


class SoupClassifier(ClassifierMixin, BaseEstimator):
    """Selects a soup on image features, and classifies image features with it.

    Rows of X are normalised to length 1. All of scikit-learn's estimator checks pass except those for which X cannot be
    image features of the model; tests/api/test_sklearn.py lists them.

    Args:
        model, tokenizer: as in `wsoup.word_soup`; `clone` copies them, like all parameters that are not estimators.
        class_names: C names in label order, if y holds labels 0 to C - 1 or names; classes without images are allowed.
            None: the labels in y are the names.
        kind: ``"word"`` (Algorithm 2) or ``"descriptor"`` (Algorithm 1).
        pool: words or descriptors to search (default: wsoup's own).
        template: prompt template with one ``{}``.
        seed: of the draws.
        head: a kind of head of `wsoup.fit_head` on the soup, such as ``"both"``; every class then needs an image. None:
            the soup alone.
        options: further arguments of `wsoup.word_soup` or `wsoup.descriptor_soup`, such as ``{"k0": 50, "m": 4}``.

    Attributes:
        soup_: the `Soup`.
        classes_: (C,) outputs of `predict`: names, or labels if y held numbers.
        weights_: (D, C) float32, as `Soup.classifier`.
        head_: the `Head`, or None.
        n_features_in_: D.
    """

    def __init__(
        self,
        model: TextModel | None = None,
        tokenizer: Tokenizer | None = None,
        class_names: Sequence[str] | None = None,
        *,
        kind: Literal["word", "descriptor"] = "word",
        pool: Iterable[str] | None = None,
        template: str = TEMPLATE,
        seed: int = 0,
        head: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.tokenizer, self.class_names = model, tokenizer, class_names
        self.kind, self.pool, self.template, self.seed, self.options = kind, pool, template, seed, options
        self.head = head

    def fit(self, X: ArrayLike, y: ArrayLike) -> SoupClassifier:
        """Select a soup on image features (N, D) with labels or class names (N,)."""
        if self.kind not in ("word", "descriptor"):
            raise ParamsError(f"kind is {self.kind!r}; expected 'word' or 'descriptor'")
        features, answers = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(answers)
        names, labels = self._labels(answers)
        towers: dict[str, Any] = {"class_names": names, "model": self.model, "tokenizer": self.tokenizer}
        search, pool = (word_soup, "words") if self.kind == "word" else (descriptor_soup, "descriptors")
        options = {pool: self.pool, "template": self.template, "seed": self.seed, "progress": False}
        self.soup_ = search(_unit(features), labels, **{**towers, **options, **(self.options or {})})
        self.weights_ = self.soup_.classifier(**towers).cpu().numpy()
        self.logit_scale_ = logit_scale_of(self.model)
        self.head_ = None
        if self.head is not None:
            self.head_ = fit_head(_unit(features), labels, soup=self.soup_, kind=self.head, **towers)
        return self

    def _labels(self, y: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Class names, and labels (N,) counted from 0; sets `classes_`."""
        labels = unique_labels(y)
        if self.class_names is None:
            self.classes_ = labels
            return [str(name) for name in labels], np.searchsorted(labels, y)
        names = list(self.class_names)
        if y.dtype.kind in "iub":
            self.classes_ = np.arange(len(names))
            return names, y
        unknown = sorted({*map(str, labels)} - {*names})
        if unknown:
            raise DataError(f"y holds {unknown[0]!r}, which is not among the {len(names)} class_names")
        self.classes_ = np.array(names)
        return names, np.array([names.index(str(name)) for name in y])

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Cosines with the classes, or a head's logits: (N, C); for two classes their difference, (N,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Softmax of the scaled cosines, or of a head's logits at its temperature: (N, C)."""
        scores = self._scores(X)
        scale = self.logit_scale_ if self.head_ is None else 1 / self.head_.temperature
        logits = scale * (scores - scores.max(axis=1, keepdims=True))
        exponentials = np.exp(logits)
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Class of each image: (N,)."""
        best = self._scores(X).argmax(axis=1)  # first, since it raises if unfitted
        return self.classes_[best]

    def _scores(self, X: ArrayLike) -> np.ndarray:
        """Cosines, or a head's logits, (N, C) float64, so that answers do not depend on the other images."""
        check_is_fitted(self)
        x = _unit(validate_data(self, X, dtype=np.float64, reset=False))
        weights = self.weights_ if self.head_ is None else self.head_.classifier.numpy()
        return x @ weights.astype(np.float64)


def _unit(features: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; rows of zeros are kept."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths == 0, 1, lengths)
