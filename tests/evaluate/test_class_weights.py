"""Trained class weights (2SFS) stand in place of texts for classes of the source, wherever they are."""

from __future__ import annotations

import pytest
import torch
from evaluate_cases import NAMES

from wsoup.core.class_texts import normalize
from wsoup.evaluate.evaluation import mean_texts
from wsoup.evaluate.rows import Row

OWN = Row("class_name", (1,), ("",))
SOUP = Row("word_soup", (1,), ("sharp", "which is red"))


@pytest.fixture
def directions() -> dict[str, torch.Tensor]:
    drawn = normalize(torch.randn(len(NAMES), 16, generator=torch.Generator().manual_seed(3)))
    return dict(zip(NAMES, drawn, strict=True))


def test_a_class_of_the_source_has_its_weights_and_any_other_its_text(texts, tests, directions):
    """On a shift, which has some classes of the source, and on other classes, of which one may be the source's."""
    known = {**directions, "cat": normalize(torch.ones(16))}
    plain = mean_texts([OWN, SOUP], tests=tests, text_encoder=texts)
    trained = plain.with_class_weights(OWN, known)
    for test in tests:
        (_, before), (_, soup_before) = plain.of(test)
        (_, after), (_, soup_after) = trained.of(test)
        for name, old, new in zip(test.class_names, before, after, strict=True):
            torch.testing.assert_close(new, known.get(name, old))
        assert torch.equal(soup_before, soup_after), "the row of other texts stays as it is"
    assert not torch.equal(plain.means, trained.means)


def test_only_the_direction_of_a_mean_text_is_replaced(texts, tests, directions):
    """A score mean is as long as its texts agree, for trained and other classes alike."""
    plain = mean_texts([SOUP], tests=tests, text_encoder=texts)
    trained = plain.with_class_weights(SOUP, directions)
    torch.testing.assert_close(trained.means.norm(dim=-1), plain.means.norm(dim=-1))
    assert float(plain.means.norm(dim=-1).max()) < 1 - 1e-4
    ((_, means),) = trained.of(tests[0])
    torch.testing.assert_close(normalize(means), torch.stack([directions[name] for name in NAMES]))
