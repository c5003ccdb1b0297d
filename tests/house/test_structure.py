"""Which rooms import which, and what dvc.yaml names of each stage."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from project import ROOT, stage_module
from yaml_in_c import safe_load

from wsoup.disk import code
from wsoup.params.graph import CODE, read_graph
from wsoup.pipeline import packages
from wsoup.search.grow.all_kinds import SoupParams

ORDER = ["base", "disk", "core", "params", "statistics", "runtime", "towers", "datasets", "images", "texts"]
ORDER += ["search", "finetune", "heads", "evaluate", "paper", "report", "api", "photos", "pipeline", "cli", "__main__"]
"""The rooms along the data path; each imports only from those before it."""


SECOND_WING = {"heads", "photos"}
"""What one folder of photos should use. A reader of the paper's method never meets it."""
THE_METHOD = {"core", "texts", "images", "search", "finetune", "evaluate", "paper"}


def modules() -> list[Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / "wsoup").rglob("*.py"))


@cache
def named_modules(path: Path) -> frozenset[Path]:
    """Modules of wsoup in a file's imports, also in those for type checkers alone."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = {Path(name.replace(".", "/")).with_suffix(".py") for name in names if name.startswith("wsoup.")}
    return frozenset(file for file in files if (ROOT / file).is_file())


def all_imports(path: Path) -> set[Path]:
    return {file.relative_to(ROOT) for file in code.modules(ROOT / path)} - {path}


def owner(path: Path) -> str:
    """The room of a file: wsoup/finetune/losses.py -> finetune."""
    return path.parts[1].removesuffix(".py")


def stages() -> dict[str, dict]:
    """Every stage of dvc.yaml; of a foreach, its `do`."""
    sections = safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    return {name: stage.get("do", stage) for name, stage in sections.items()}


def without_type_checking(node: ast.AST) -> Iterator[ast.AST]:
    """As `ast.walk`, without what stands under `if TYPE_CHECKING`."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
                part.body = []
            waiting.append(part)


@cache  # several tests ask it of every module
def imported_packages(path: Path) -> frozenset[str]:
    """Top-level packages that a file imports."""
    names = set()
    for node in without_type_checking(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return frozenset(names)


def test_a_module_imports_only_from_rooms_above():
    for path in modules():
        for imported in named_modules(path) if path.name != "__init__.py" else ():
            if owner(imported) != owner(path):
                assert ORDER.index(owner(imported)) < ORDER.index(owner(path)), f"{path} imports {imported}"


def test_the_papers_method_imports_nothing_of_the_second_wing():
    for path in modules():
        if owner(path) in THE_METHOD:
            of_photos = {file.as_posix() for file in named_modules(path) if owner(file) in SECOND_WING}
            assert not of_photos, f"{path} imports {', '.join(of_photos)}: what both wings need goes to a room above"


def test_an_init_file_holds_only_a_docstring():
    """DVC and resume keys ignore `__init__.py`, so no result may depend on it."""
    for path in modules():
        if path.name == "__init__.py" and path.parent.name != "wsoup":
            body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
            assert [type(node) for node in body] == [ast.Expr], path


def test_imports_are_found_at_any_depth(tmp_path):
    """In a function, a branch, a handler, a case: anywhere in a file."""
    written = tmp_path / "script.py"
    written.write_text(
        "import a\ndef f():\n async def g():\n  from b import x\n"
        "class C:\n with c:\n  for _ in c:\n   import d.e\n  else:\n   import f\n"
        "try:\n pass\nexcept E:\n import g\nelse:\n import h\nfinally:\n import i\n"
        "match m:\n case 1 if m:\n  import j\nwhile m:\n if m:\n  import k\n elif m:\n  import l\n"
        "if TYPE_CHECKING:\n import annotations\nelse:\n import m\n"
    )
    for path in (written, *modules(), *(ROOT / "stages").glob("*.py")):
        assert code.source(ROOT / path).packages == imported_packages(path), path
    assert imported_packages(written) == set("abdfghijklm"), "those for annotations are never executed"


def test_only_towers_texts_and_finetune_import_open_clip():
    assert {owner(p) for p in modules() if "open_clip" in imported_packages(p)} <= {"towers", "texts", "finetune"}


def test_only_one_module_imports_torchvision():
    """Whoever imports it first decides whether torch's compiler is loaded with it, a second of every process."""
    assert [p.as_posix() for p in modules() if "torchvision" in imported_packages(p)] == ["wsoup/towers/library.py"]


def test_only_features_imports_zarr():
    assert [p.as_posix() for p in modules() if "zarr" in imported_packages(p)] == ["wsoup/towers/features.py"]


@pytest.mark.parametrize("name", ["search/grow/greedy", "search/grow/chains", "core/scoring", "core/prompts"])
def test_the_core_knows_nothing_of_files(name):
    path = Path(f"wsoup/{name}.py")
    assert not imported_packages(path) & {"pathlib", "os", "io", "json", "zarr", "pyarrow", "open_clip"}
    below = named_modules if "grow" in name else all_imports  # a kind of soup has its params, too
    assert not {owner(p) for p in below(path)} & {"datasets", "images", "towers", "disk", "params"}


def test_nothing_is_imported_by_string_but_the_public_names():
    """But for one: `wsoup.__getattr__` loads the names of `wsoup.__all__` on first use."""
    calls = ("import_module", "__import__", "find_spec")
    named = {p.as_posix() for p in modules() if any(f"{call}(" in (ROOT / p).read_text() for call in calls)}
    packages = {"wsoup/towers/config.py", "wsoup/towers/library.py", "wsoup/runtime/fork_server.py"}
    assert named == {"wsoup/__init__.py"} | packages, "three load packages"


def unfollowed(text: str) -> set[str]:
    """What a source imports of wsoup that is neither a module nor a name inside one: what a digest cannot follow."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if not is_module(alias.name)}
        elif isinstance(node, ast.ImportFrom) and node.module and not is_module(node.module):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in inner if not is_module(name)}
    return {name for name in names if name.partition(".")[0] in ("wsoup", "stages")}


def is_module(name: str) -> bool:
    return (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()


def test_every_import_of_wsoup_names_a_module():
    """The public face and rooms load modules that no digest would follow; only version and place are asked of it."""
    for path in (*modules(), *(ROOT / "stages").glob("*.py")):
        text = (ROOT / path).read_text(encoding="utf-8")
        named = unfollowed(text)
        if "wsoup" in named:
            asked = {
                node.attr
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "wsoup"
            }
            assert asked <= {"__file__", "__version__"}, path
        assert named <= {"wsoup", "wsoup.__version__"}, path


@pytest.mark.parametrize(
    "planted",
    ["from wsoup import heads", "from wsoup import fit_head", "import wsoup.heads", "from wsoup.heads import *"],
)
def test_an_import_that_stops_at_a_room_is_noticed(planted):
    assert unfollowed(planted)
    assert not unfollowed("from wsoup.heads import head\nfrom wsoup.heads.head import Head\nimport numpy.random")


def test_no_stage_imports_another_stages_script():
    """A digest follows modules of wsoup from its own script."""
    for path in (*modules(), *(ROOT / "stages").glob("*.py")):
        assert "stages" not in code.source(ROOT / path).packages, path


def test_importing_wsoup_is_light():
    assert imported_packages(Path("wsoup/__init__.py")) <= {"sys", "types", "wsoup"}


def test_deps_are_data_alone_but_those_of_stage_code():
    for name, stage in stages().items():
        named = {dep for dep in stage["deps"] if dep.startswith(("wsoup", "stages"))}
        assert named == ({"wsoup", "stages"} if name == "code" else set()), name


@pytest.mark.parametrize("name", sorted(set(stages()) - {"code"}))
def test_a_stage_names_what_its_own_code_means(name):
    """That of a soup is named by its kind, so that another kind of soup runs no soup again."""
    expected = "soup.${item.kind}" if name == "soup" else name
    assert [param[CODE] for param in stages()[name]["params"] if CODE in param] == [[expected]]


def test_each_kind_of_soup_is_the_module_of_its_name():
    """By which artifacts/code.yaml knows it; and no stage follows the list of kinds."""
    by_name = {}
    for kind in get_args(SoupParams):
        (name,) = get_args(kind.model_fields["kind"].annotation)
        by_name[name] = Path(inspect.getfile(kind))
    assert by_name == code.kinds()


@pytest.mark.parametrize("name", sorted(set(stages()) - {"code"}))
def test_a_stage_lists_the_packages_its_result_depends_on(name):
    file = packages.VERSIONS.as_posix()
    [listed] = [param[file] for param in stages()[name]["params"] if file in param]
    deciding = set(code.packages(ROOT / f"stages/{name}.py"))
    groups = {group for group, members in packages.GROUPS.items() if deciding & set(members) - {"numpy"}}
    assert set(listed) == (groups if "models" in groups else {"numpy", *groups}), "models includes numpy"


def test_every_stage_has_its_script_and_every_script_its_stage():
    """No command contains a name of params.yaml, which a shell might run."""
    scripts = {path.stem for path in (ROOT / "stages").glob("*.py")} - {"__init__", "__main__"}
    assert scripts == set(stages())
    assert {name: stage["cmd"] for name, stage in stages().items()} == {s: f"python stages {s}" for s in scripts}


def test_dvc_lock_names_no_stage_that_is_gone(monkeypatch):
    """DVC never drops one by itself, and writes the whole file anew after every stage."""
    monkeypatch.chdir(ROOT)
    locked = safe_load((ROOT / "dvc.lock").read_text(encoding="utf-8"))["stages"]
    assert set(locked) == set(read_graph().stages)


@pytest.mark.parametrize("name", sorted(set(stages()) - {"code"}))
def test_a_stages_params_in_dvc_yaml_are_the_sections_that_it_reads(name):
    listed = {param.partition(".")[0] for param in stages()[name]["params"] if isinstance(param, str)}
    assert listed == set(stage_module(name).Wanted.model_fields)


def test_selection_names_no_target():
    """A soup may depend only on the source's training images; the graph proves it.

    Stage `head` also evaluates, so it depends on targets; `tests/stages/test_head.py` shows that fitting sees none.
    """
    for name in ("score", "soup", "embed_train", "finetune"):
        deps = [dep for dep in stages()[name]["deps"] if dep.startswith("artifacts/")]
        assert deps
        for dep in deps:
            assert "test" not in dep
            assert "${key}" not in dep
            if "embeddings" in dep:
                assert dep == "artifacts/embeddings/pretrained/${source}-train.zarr"
            if "manifests" in dep:
                assert dep == "artifacts/manifests/${source}.parquet"
