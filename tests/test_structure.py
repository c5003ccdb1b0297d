"""The walls of the house: who imports what, and that dvc.yaml knows every file a stage runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml
from imports import ROOT, all_imports, direct_imports, with_code_deps

ORDER = [
    *("errors", "project", "artifacts", "draws", "files", "prompts", "scoring", "store", "params", "runtime"),
    *("soup", "datasets", "startup", "encoder_id", "towers", "images", "texts", "search", "api", "finetune"),
    *("evaluate", "report", "classify", "sklearn", "export", "show", "workspace", "bench", "datacheck", "cache"),
    *("profiles", "cli_soups", "cli"),
]
"""The walk along the data path (DESIGN section 3); a package imports only from those before it."""


def modules() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / "wsoup").rglob("*.py"))


def owner(path: Path) -> str:
    """wsoup/finetune/losses.py -> finetune."""
    return path.parts[1].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    """Top-level packages that a file imports."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_a_module_imports_only_from_those_above_it():
    for path in modules():
        if path.name == "__init__.py" and len(path.parts) == 2:
            continue
        for imported in direct_imports(path):
            if owner(imported) != owner(path) and imported.name != "__init__.py":
                assert ORDER.index(owner(imported)) < ORDER.index(owner(path)), f"{path} imports {imported}"


def test_only_towers_and_what_builds_on_its_objects_touch_open_clip():
    assert {owner(p) for p in modules() if "open_clip" in imported_packages(p)} <= {"towers", "prefix", "finetune"}


def test_only_store_imports_zarr():
    assert {owner(p) for p in modules() if "zarr" in imported_packages(p)} == {"store"}


@pytest.mark.parametrize("name", ["search/algorithms", "scoring", "prompts"])
def test_the_core_knows_nothing_of_files(name):
    packages = imported_packages(Path(f"wsoup/{name}.py"))
    assert not packages & {"pathlib", "os", "io", "json", "zarr", "pyarrow", "open_clip"}
    assert not {owner(p) for p in all_imports(Path(f"wsoup/{name}.py"))} & {"store", "datasets", "images", "towers"}


def test_importing_wsoup_is_light():
    assert imported_packages(Path("wsoup/__init__.py")) == set()


def test_every_stage_lists_the_code_it_imports():
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    assert text == with_code_deps(text), "run `python tests/imports.py` to bring the deps in dvc.yaml up to date"


def test_every_stage_has_its_script_and_every_script_its_stage():
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    scripts = {path.stem for path in (ROOT / "stages").glob("*.py")}
    assert scripts <= set(stages)
    for name, stage in stages.items():
        command = stage.get("do", stage)["cmd"]
        script = Path(command.split()[1])
        assert script.parts[0] == "stages"
        assert (ROOT / script).is_file(), name
        assert name.startswith(script.stem), f"stage {name} runs {script}"


def test_selection_names_no_target():
    """A soup may depend on the source's training images only: the graph is the proof."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    for name in ("score", "class_name_soup", "descriptor_soup", "word_soup"):
        deps = [dep for dep in stages[name].get("do", stages[name])["deps"] if dep.startswith("artifacts/")]
        for dep in deps:
            assert "test" not in dep
            assert "${key}" not in dep
            if "embeddings" in dep:
                assert dep == "artifacts/embeddings/pretrained/${source}-train.zarr"
