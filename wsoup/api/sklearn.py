"""A soup as a scikit-learn classifier over image features: `pip install 'wsoup[sklearn]'`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from wsoup.api.heads import fit_head
from wsoup.api.soups import TEMPLATE, descriptor_soup, word_soup
from wsoup.core.errors import DataError, ParamsError, needing
from wsoup.texts.classes import logit_scale_of

with needing():
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data


class SoupClassifier(ClassifierMixin, BaseEstimator):
    """Fits a soup to image features, and classifies image features by it.

    Args:
        model, tokenizer: as in `wsoup.word_soup`; `clone` copies them, as it copies any parameter that is no estimator.
        class_names: C names in label order, where y holds labels 0 to C - 1 or names; classes without images may be
            among them. None: the labels of y are the names.
        kind: ``"word"`` (Algorithm 2) or ``"descriptor"`` (Algorithm 1).
        pool: words or descriptors to search; None: wsoup's own.
        template: prompt template with one ``{}``.
        seed: of the draws.
        head: a kind of head of `wsoup.fit_head` on the soup, or ``"any"`` to choose; every class then needs an image.
            None: the soup alone.
        options: further arguments of `wsoup.word_soup` or `wsoup.descriptor_soup`, such as ``{"k0": 50, "m": 4}``.

    Attributes:
        soup_: the `Soup`.
        classes_: (C,) what `predict` gives: names, or labels where y held numbers.
        weights_: (D, C) float32, as `Soup.classifier`.
        head_: the `Head`, None without one.
        n_features_in_: D.

    Rows of X are normalised to length 1, as cosines need it. Of scikit-learn's checks of estimators all pass but those
    that take X to be something else than image features of one model; tests/api/test_sklearn.py lists them.
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        class_names: Sequence[str] | None = None,
        *,
        kind: str = "word",
        pool: Iterable[str] | None = None,
        template: str = TEMPLATE,
        seed: int = 0,
        head: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model, self.tokenizer, self.class_names = model, tokenizer, class_names
        self.kind, self.pool, self.template, self.seed, self.options = kind, pool, template, seed, options
        self.head = head

    def fit(self, X: Any, y: Any) -> SoupClassifier:
        """Search a soup on image features (N, D) with labels or class names (N,)."""
        if self.kind not in ("word", "descriptor"):
            raise ParamsError(f"kind is {self.kind!r}; expected 'word' or 'descriptor'")
        features, y = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(y)
        names, labels = self._labels(y)
        given: dict[str, Any] = {
            "class_names": names,
            "model": self.model,
            "tokenizer": self.tokenizer,
            "template": self.template,
            "seed": self.seed,
            "progress": False,
            **(self.options or {}),
        }
        search: Any = word_soup if self.kind == "word" else descriptor_soup
        given["words" if self.kind == "word" else "descriptors"] = self.pool
        self.soup_ = search(_unit(features), labels, **given)
        classifier = self.soup_.classifier(class_names=names, model=self.model, tokenizer=self.tokenizer)
        self.weights_ = classifier.cpu().numpy()
        self.logit_scale_ = logit_scale_of(self.model)
        self.head_ = None
        if self.head is not None:
            how = {name: given[name] for name in ("class_names", "model", "tokenizer")}
            kind = None if self.head == "any" else self.head
            self.head_ = fit_head(_unit(features), labels, soup=self.soup_, kind=kind, **how)
        return self

    def _labels(self, y: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Class names, and labels (N,) that count from 0; sets `classes_`."""
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

    def decision_function(self, X: Any) -> np.ndarray:
        """Cosines with the classes, a head's logits: (N, C), or of two classes their difference (N,)."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Softmax of the cosines times the model's logit scale, of a head's logits at its temperature: (N, C)."""
        scores = self._scores(X)
        scale = self.logit_scale_ if self.head_ is None else 1 / self.head_.temperature
        logits = scale * (scores - scores.max(axis=1, keepdims=True))
        chances = np.exp(logits)
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The class of each image: (N,)."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    def _scores(self, X: Any) -> np.ndarray:
        """Cosines, or a head's logits, (N, C) float64: the answer for an image does not depend on those beside it."""
        check_is_fitted(self)
        x = _unit(validate_data(self, X, dtype=np.float64, reset=False))
        if self.head_ is None:
            return x @ self.weights_.astype(np.float64)
        return self.head_.fitted.to(torch.float64).logits(torch.from_numpy(x)).numpy()


def _unit(features: np.ndarray) -> np.ndarray:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths == 0, 1, lengths)
