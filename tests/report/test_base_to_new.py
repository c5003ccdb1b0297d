"""The table of base and new classes: harmonic means by hand, and when there is none."""

from __future__ import annotations

import pytest
from report_made import line, results

from wsoup.params.inputs import DatasetParams
from wsoup.params.section import parse
from wsoup.report.base_to_new import base_to_new, pair_of

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


@pytest.mark.parametrize("classes", [{}, {"pets": "base"}, {"pets_new": "new"}, {"pets": "base", "cars": "new"}])
def test_without_both_halves_of_one_dataset_there_are_no_rows(classes):
    datasets = sections(**classes)
    assert pair_of(datasets) is None
    assert base_to_new(results(), datasets=datasets).rows == []
