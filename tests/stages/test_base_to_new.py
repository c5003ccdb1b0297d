"""Base to new classes through all stages: nothing but base classes is learned from, and the report has the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from project import call_stage, miniature_params, search_soups, write_miniature, write_params

from wsoup.disk import store


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory, tiny_encoder_files: dict[str, str]) -> Path:
    """The miniature's photos of four colours, two as source and two as target, run to the report."""
    root = tmp_path_factory.mktemp("halves")
    write_miniature(root, encoder=tiny_encoder_files)
    params = miniature_params(tiny_encoder_files)
    photo = params["datasets"]["photo"]
    params["datasets"] = {
        "photo": photo | {"classes": "base"},
        "photo_new": photo | {"role": "xd", "classes": "new"},
    }
    params["finetune"]["methods"].pop("ce")
    write_params(root, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.delenv("WSOUP_CACHE", raising=False)
        patch.setenv("WSOUP_DEVICE", "cpu")
        search_soups(params["datasets"])
        call_stage("finetune", "coop_diverse")
        call_stage("head", "ridge")
        call_stage("survey")
        call_stage("evaluate")
        call_stage("evaluate_tuned", "coop_diverse")
        (root / "data").mkdir()
        call_stage("report")
    return root


def test_only_base_classes_are_learned_from(halves: Path) -> None:
    base, new = (
        store.table_attributes(halves / f"artifacts/manifests/{name}.parquet") for name in ("photo", "photo_new")
    )
    assert (base["class_names"], new["class_names"]) == (["blue", "green"], ["red", "white"])
    shots = store.read_table(halves / "artifacts/splits/photo/seed1.parquet")["path"].to_pylist()
    assert {path.split("/")[1] for path in shots} == {"blue", "green"}


def test_soups_and_finetuned_methods_have_the_harmonic_mean(halves: Path) -> None:
    table = (halves / "reports/tables/base_to_new.md").read_text().splitlines()
    assert table[2] == "| method | m | base | new | H |"
    rows = {line.split(" | ")[0].removeprefix("| ") for line in table[4:] if line.startswith("|")}
    assert {"Class name only", "Word soup", "Descriptor soup", "Word soup, AutoCLIP"} < rows
    assert {"coop_diverse + Word soup", "coop_diverse"} < rows
