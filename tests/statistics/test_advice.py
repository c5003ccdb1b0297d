"""Which row to use: decided on arrays of right images whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from wsoup.statistics.advice import advise


def right(n_right: int, *, of: int = 200) -> dict[str, np.ndarray]:
    """A row that gets the first `n_right` of `of` photos right."""
    return {"photos": np.arange(of) < n_right}


def advised(*, n_classes: int = 4, of: int = 200, **n_right: int):
    rows = {name.replace("_", " "): right(n, of=of) for name, n in n_right.items()}
    return advise(rows, n_classes={"photos": n_classes}, confidence=0.95)


def test_the_best_row_wins_whichever_it_is():
    assert advised(class_name=100, templates=130, soup=115, head=110).use == "templates"
    assert advised(class_name=100, templates=115, soup=130, head=110).use == "soup"
    assert advised(class_name=100, templates=110, soup=115, head=180).use == "head"
    assert advised(class_name=150, templates=110, soup=115, head=120).use == "class name"


def test_a_head_wins_a_doubt_and_the_sentence_says_so():
    advice = advised(class_name=131, soup=100, head=131)
    assert advice.use == "head"
    assert advice.sentence == "Use the head: 65.5 %, the same as the class name."
    photos = np.arange(2000)
    rows = {"class name": photos < 1310, "head": (photos >= 100) & (photos < 1406)}  # 106 only one, 100 only the other
    behind = advise({row: {"photos": hits} for row, hits in rows.items()}, n_classes={"photos": 4}, confidence=0.95)
    said = "Use the head: 65.3 %; the class name (65.5 %) is not reliably ahead."
    assert (behind.use, behind.sentence) == ("head", said)
    assert advised(class_name=131, soup=100, head=129).use == "head", "two images and no more"
    assert advised(class_name=131, soup=100, head=124).use == "head", "seven images: two, and twice the root of seven"
    assert advised(class_name=131, soup=100, head=123).use == "class name"
    assert advised(class_name=100, templates=131, soup=130).use == "templates"


def test_a_lead_of_two_images_that_is_more_than_noise_is_not_called_unreliable():
    """Over 20 seeds the head misses 2.5 of 2,000 photos, always others: 0.125 points."""
    head = np.ones((20, 2000), dtype=bool)
    n_missed = 0
    for seed in range(20):
        n_of_seed = 2 + seed % 2
        head[seed, n_missed : n_missed + n_of_seed] = False
        n_missed += n_of_seed
    rows = {"class name": {"photos": np.arange(2000) >= 0}, "head": {"photos": head}}
    advice = advise(rows, n_classes={"photos": 4}, confidence=0.95)
    assert n_missed == 50
    assert advice.use == "head"
    assert advice.sentence == "Use the head: 99.9 %; the class name (100.0 %) is ahead, but only by 0.1 points."


def test_a_likely_gain_is_used_but_not_called_more_than_noise():
    advice = advised(class_name=100, soup=103)
    assert advice.use == "soup"
    assert not advice.gains["soup"].sure
    assert advice.sentence.endswith("which may be noise.")


def test_where_nothing_is_better_the_class_name_stays():
    assert advised(class_name=150, soup=140).sentence == "Keep the class name alone: 75.0 %; nothing is better."
    assert advised(class_name=150, soup=150).use == "class name"


def test_accuracy_at_chance_is_said_first():
    """Random weights on four classes: everything is called the same class, or none is right."""
    advice = advised(class_name=0, soup=50)
    assert advice.sentence == (
        "No better than guessing: soup gets 25.0 % of 200 images, the most of the rows compared here, and chance is "
        "25.0 %; if anything, use the soup."
    )
    assert advised(class_name=0, soup=50, n_classes=20).sentence.startswith("Use the soup")
    assert advised(class_name=0, soup=55).sentence.startswith("No better than guessing")  # by no more than noise


def test_a_head_is_not_advised_for_being_close_to_a_row_that_guesses():
    advice = advised(class_name=55, head=54)
    assert advice.use == "class name"
    assert advice.sentence.endswith("if anything, use the class name.")


def test_gains_are_corrected_for_the_number_of_rows():
    alone, among_three = advised(a=100, b=112), advised(a=100, b=112, c=101, d=99)
    assert among_three.gains["b"].p == pytest.approx(3 * alone.gains["b"].p)
    assert among_three.gains["b"].low < alone.gains["b"].low


def test_rows_of_one_seed_compete_with_rows_of_several_on_several_datasets():
    generator = np.random.default_rng(0)
    bits = {name: generator.random((3, n)) < 0.7 for name, n in {"a": 40, "b": 60}.items()}
    flat = {name: hits[0] & (generator.random(hits.shape[1]) < 0.5) for name, hits in bits.items()}
    advice = advise({"class name": flat, "head": bits}, n_classes={"a": 5, "b": 2}, confidence=0.95)
    assert advice.use == "head"
    none = {name: hits & False for name, hits in flat.items()}
    assert "chance is 35.0 %" in advise({"none": none}, n_classes={"a": 5, "b": 2}, confidence=0.95).sentence
    assert advice.accuracy["head"] == pytest.approx(np.mean([100 * hits.mean() for hits in bits.values()]))


def test_few_held_out_photos_leave_the_decision_to_all_labelled_ones():
    """Of 16 held-out photos the templates get 14 and the head 4; in turn, the head gets 30 of 40 and they get 20."""
    held_out = {"class name": right(4, of=16), "templates": right(14, of=16), "head": right(4, of=16)}
    in_turn = {"class name": right(10, of=40), "templates": right(20, of=40), "head": right(30, of=40)}
    advice = advise(held_out, n_classes={"photos": 2}, confidence=0.95, in_turn=in_turn)
    assert advise(held_out, n_classes={"photos": 2}, confidence=0.95).use == "templates"
    assert advice.use == "head"
    assert advice.accuracy == {"class name": 25.0, "templates": 87.5, "head": 25.0}
    assert advice.gains["templates"].mean == pytest.approx(62.5)
    assert advice.sentence.startswith(
        "Use the head: 75.0 % instead of 25.0 % with the class name alone, +50.0 points ["
    )
    assert advice.sentence.endswith("With only 16 photos held out, this is judged on 40 labelled photos in turn.")
    assert advice.in_turn.accuracy == {"class name": 25.0, "templates": 50.0, "head": 75.0}


@pytest.mark.parametrize(
    ("head", "doubt"),
    [
        (slice(18, 40), "The templates may be as good, and even 1,000 more labelled photos may not settle it."),
        (slice(17, 40), "The templates may be as good: about 600 more labelled photos would settle it."),
        (slice(14, 40), "The templates may be as good: about 110 more labelled photos would settle it."),
        (slice(0, 40), "labelled photos in turn."),
    ],
)
def test_the_sentence_says_what_would_settle_a_doubt(head, doubt):
    """Of 40 photos the templates get the first 20, and the head leads by 2, 3, 6 and 20.

    With 6, 34 photos change, so the standard error is 14.4 points of a lead of 15, and 1.96 of them would be 15 points
    with 40 (28.2 / 15)^2 = 141 photos: 101 more, and some for Student's t.
    """
    photos = np.zeros(40, dtype=bool)
    photos[head] = True
    in_turn = {"class name": right(0, of=40), "templates": right(20, of=40), "head": {"photos": photos}}
    rows = {name: {"photos": hits["photos"][:8]} for name, hits in in_turn.items()}
    advice = advise(rows, n_classes={"photos": 4}, confidence=0.95, in_turn=in_turn)
    assert advice.use == "head"
    assert advice.sentence.endswith(doubt)


def test_the_row_that_comes_closest_says_what_would_settle_a_doubt():
    """As above with a lead of 6 photos, and with one of 8 over another row, which 50 more would settle."""
    photos = {"class name": np.arange(40) < 20, "templates": np.arange(40) < 18, "head": np.arange(40) >= 14}
    in_turn = {name: {"photos": hits} for name, hits in photos.items()}
    rows = {name: {"photos": hits[:8]} for name, hits in photos.items()}
    sentence = advise(rows, n_classes={"photos": 4}, confidence=0.95, in_turn=in_turn).sentence
    assert sentence.endswith(
        "The class name and the templates may be as good: about 110 more labelled photos would settle it."
    )


def test_an_interval_that_just_reaches_zero_leaves_a_doubt():
    """The head gets four photos of 100 more, and none fewer: [-0.3, 8.3] points; the lead has to be 1.08 as long."""
    templates, head = np.arange(100) >= 4, np.ones(100, dtype=bool)
    in_turn = {
        name: {"photos": hits} for name, hits in (("class name", ~head), ("templates", templates), ("head", head))
    }
    rows = {name: {"photos": hits["photos"][:8]} for name, hits in in_turn.items()}
    advice = advise(rows, n_classes={"photos": 4}, confidence=0.95, in_turn=in_turn)
    assert advice.sentence.endswith("The templates may be as good: about 20 more labelled photos would settle it.")


def test_every_row_that_may_be_as_good_is_named():
    """Of 40 photos the head gets the last 22; the class name gets the first 20, the templates one more, the soup 2."""
    in_turn = {"class name": right(20, of=40), "templates": right(21, of=40), "soup": right(2, of=40)}
    in_turn["head"] = {"photos": ~right(18, of=40)["photos"]}
    rows = {name: {"photos": hits["photos"][:8]} for name, hits in in_turn.items()}
    sentence = advise(rows, n_classes={"photos": 4}, confidence=0.95, in_turn=in_turn).sentence
    assert sentence.startswith("Use the head: 55.0 %")
    assert "The class name and the templates may be as good, and even 1,000" in sentence


def test_equal_rows_are_equal_whatever_their_last_bits_and_the_simplest_is_kept():
    """1, 3 and 5 of 7 images on three datasets: a mean in another order is larger by one bit."""
    names = ("cars", "pets", "food")
    rows = {}
    for row, counts in (("class name", (1, 3, 5)), ("templates", (1, 5, 3))):
        rows[row] = {name: (np.arange(7) < n)[None] for name, n in zip(names, counts, strict=True)}
    advice = advise(rows, n_classes=dict.fromkeys(names, 100), confidence=0.95)
    assert advice.accuracy["templates"] > advice.accuracy["class name"]
    assert advice.use == "class name"
