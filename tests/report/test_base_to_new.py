"""The table of base and new classes: harmonic means by hand, and when there is none."""

from __future__ import annotations

import pytest
from report_made import line, results

from wsoup.params.inputs import DatasetParams
from wsoup.params.section import parse
from wsoup.report.base_to_new import base_to_new

ROLES = {"pets": "source", "cars": "xd", "pets_new": "xd"}


def sections(**classes: str) -> dict[str, DatasetParams]:
    made = {}
    for name, role in ROLES.items():
        raw = {"role": role, "watch": name.removesuffix("_new"), "template": "a {}.", "classes": classes.get(name)}
        made[name] = parse(DatasetParams, raw, origin="params.yaml")
    return made


def test_harmonic_means_by_hand():
    """60 and 30 have 40, 80 and 20 have 32: mean 36. A tuned model that forgets the new classes has 0."""
    counts = {("pets", 1): 60, ("pets_new", 1): 30, ("pets", 2): 80, ("pets_new", 2): 20}
    lines = [line("class_name", name, seed, n) for (name, seed), n in counts.items()]
    lines += [line("class_name", name, seed, 99 * (name == "pets"), variant="coop") for name, seed in counts]
    lines += [
        line("class_name", "cars", seed, 5, variant=variant) for seed in (1, 2) for variant in ("pretrained", "coop")
    ]
    table = base_to_new(results(lines, roles=ROLES), datasets=sections(pets="base", pets_new="new"))
    plain, tuned = table.rows
    assert (plain["base"], plain["new"], plain["H"]) == (70, 25, pytest.approx(36))
    assert plain["H (std)"] == pytest.approx(32**0.5)
    assert (tuned["method"], tuned["base"], tuned["H"]) == ("coop", 99, 0)
    assert "| Class name only | 1 | 70.00 ± 14.14 | 25.00 ± 7.07 | 36.00 ± 5.66 |" in table.as_markdown()


@pytest.mark.parametrize(
    ("classes", "why"),
    [
        (
            {"pets": "base"},
            "the source, pets, has the base classes, and no target has classes: new with its layout and ",
        ),
        ({"pets": "base", "cars": "new"}, "no target has classes: new with its layout and root (pets)."),
        ({"pets": "new", "pets_new": "base"}, "the source, pets, has the new classes; with classes: base there, and "),
        ({"pets_new": "new"}, "the source, pets, has all classes; with classes: base there, and classes: new on a"),
    ],
)
def test_without_both_halves_of_one_dataset_the_table_says_why(classes, why):
    table = base_to_new(results(), datasets=sections(**classes))
    assert table.rows == []
    (note,) = table.notes
    assert why in note


def test_without_half_of_any_dataset_there_is_nothing_to_say():
    table = base_to_new(results(), datasets=sections())
    assert (table.rows, table.notes) == ([], [])


def test_each_target_with_the_new_classes_has_its_rows():
    datasets = sections(pets="base", pets_new="new")
    datasets["pets_again"] = datasets["pets_new"]
    roles = {**ROLES, "pets_again": "xd"}
    counts = {"pets": 60, "pets_new": 30, "cars": 5, "pets_again": 20}
    lines = [line("class_name", name, seed, n) for name, n in counts.items() for seed in (1, 2)]
    table = base_to_new(results(lines, roles=roles), datasets=datasets)
    assert [(row["new classes"], row["new"], row["H"]) for row in table.rows] == [
        ("pets_new", 30, pytest.approx(40)),
        ("pets_again", 20, pytest.approx(30)),
    ]
    assert "| method | m | new classes | base | new | H |" in table.as_markdown()
