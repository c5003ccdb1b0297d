"""Every command and block of README and docs runs here, or runs elsewhere, or has a reason not to."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import click
import pytest
import typer
from project import ROOT
from pydantic import TypeAdapter
from run_cli import commands, run
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.cli import app as cli
from wsoup.params.inputs import DatasetParams
from wsoup.pipeline.params import Params

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ELSEWHERE = {
    "the miniature project": ["make repro", "dvc repro"],
    "the shell, git, a person": [
        "make test",
        "source .venv/bin/activate",
        "git clone",
        "cd wsoup",
        "git commit",
        "$EDITOR",
    ],
    "the registry; .ci/wheel installs the wheel": ["pip install"],
    "tests/report/test_report_loop.py": ["dvc metrics diff", "wsoup compare", "dvc exp show"],
    "DVC, whose queue needs a repository; tests/report/test_report_loop.py has one experiment": [
        "dvc exp run --queue",
        "dvc queue start",
    ],
    "tests/api, with a model whose weights are here": [
        "wsoup try",
        "wsoup classify new --soup head",
        "wsoup soup export word --format onnx",
    ],
    "tests/paper/test_paper_soups.py, with a model whose weights are here": ["wsoup classify new --soup paper"],
    "tests/search/test_matching.py, test_questions.py": ["wsoup texts"],
    "tests/pipeline/test_plan.py": ["wsoup plan"],
    "tests/cli/test_verify_published_command.py": ["wsoup verify published"],
    "tests/pipeline/test_profiles.py": ["wsoup profile own"],
    "tests/cli/test_check.py": ["wsoup check"],
    "tests/runtime/test_on_ray.py": ["WSOUP_EXECUTOR=ray dvc repro", "export WSOUP_EXECUTOR=ray", "ray st"],
    "SLURM": ["head=$(scontrol", "export RAY", "srun", "--num-cpus"],
    "tests/benchmarks/test_benchmarks.py": ["python -m benchmarks"],
}
"""Where commands run, or would run, that do not run here -> their beginnings."""
OPTIONS_OF_OTHERS = {
    "git": "--allow-empty --directory --exclude-standard --is-inside-work-tree --others --porcelain --quiet --short "
    "--verify",
    "dvc": "--drop --name --only-changed --queue --set-param --single-item --targets --temp",
    "pip, ruff": "--fix --force-reinstall",
    "pytest and benchmarks, here": "--authors --cache --cone --draws --even --first --information --mixed --no-rivals "
    "--odd --precision --random --rivals --target",
    "SLURM, Ray, docker": "--address --cpus --cpus-per-task --exclusive --gpus-per-node --head --include-dashboard "
    "--min-nodes --nodes --ntasks-per-node --num-cpus --num-gpus --port",
    "CLIP_benchmark, the authors' scripts": "--custom_template_file --score_averaging",
}
"""Options that pages, help and messages name, and that are not options of `wsoup`."""
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*\w")
BEGINNINGS = tuple(start for starts in ELSEWHERE.values() for start in starts)
PYTHON = {"README.md", "python.md", "report.md"}
"""Pages with Python, for test_docs_python.py."""


def test_what_runs_elsewhere_runs_in_a_test_that_is_there():
    for where in ELSEWHERE:
        place, _, _ = where.partition(",")
        assert not place.startswith("tests/") or (ROOT / place).exists(), place


def blocks(language: str) -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for text in re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            yield page.name, text


def lines_of_commands() -> list[tuple[str, str]]:
    """(page, command) for all commands in shell blocks, without comments."""
    commands = []
    for page, block in blocks("bash"):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.split(" # ")[0].split("   #")[0].strip()
            if command and not command.startswith("#"):
                commands += [(page, part.strip()) for part in command.split("&&")]
    return commands


HERE = [(page, line) for page, line in lines_of_commands() if not line.startswith(BEGINNINGS)]


def test_every_block_has_a_language_that_is_tested():
    kinds = {kind for page in PAGES for kind in re.findall(r"^```(\w+)", page.read_text(), flags=re.MULTILINE)}
    assert kinds == {"bash", "python", "text", "yaml", "diff", "mermaid"}  # text: output; diff: test_contributing.py
    assert {page for page, _ in blocks("python")} <= PYTHON
    outside = [re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE) for page in PAGES]
    assert not any(re.search(r"\n\n    \w", text) for text in outside)  # no block without a language
    unused = [start for start in BEGINNINGS if not any(line.startswith(start) for _, line in lines_of_commands())]
    assert [start for start in unused if start not in ("python -m benchmarks", "--num-cpus", "export RAY")] == []
    assert len(HERE) >= 12


@pytest.fixture(scope="module")
def used(project, tmp_path_factory) -> Path:
    """The miniature project after its first run, with new photos."""
    folder = tmp_path_factory.mktemp("docs") / "used"
    shutil.copytree(project.folder, folder, ignore=shutil.ignore_patterns(".git", "cache", "tmp"), symlinks=True)
    write_image_folder(folder / "new", splits={"x": 1}, classes=COLOURS)
    (folder / "names.txt").write_text("cat\nred panda\n" + "\n".join(COLOURS) + "\n")
    return folder


@pytest.mark.parametrize(("page", "line"), HERE, ids=[line[:60] for _, line in HERE])
def test_commands_in_the_docs_run(page: str, line: str, used: Path, monkeypatch):
    monkeypatch.chdir(used)
    words = shlex.split(line.split(" | ")[0])
    if ">" in words:
        words = words[: words.index(">")]
    assert words[0] == "wsoup", f"{page}: {line}: add to ELSEWHERE where this runs"
    if words[:2] == ["wsoup", "profile"]:
        words[words.index("--out") + 1] = "other.yaml"
    if "--out" in words:  # several pages write a file of the same name
        Path(words[words.index("--out") + 1]).unlink(missing_ok=True)
    code, printed, errors = run(*words[1:])
    assert code == 0, errors
    assert printed or errors or "--out" in words


def test_commands_in_the_text_exist_with_their_options():
    known = commands(typer.main.get_command(cli.app))  # type: ignore[arg-type]
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        spans = re.findall(r"`(wsoup [^`]+)`", text) + [line for _, line in lines_of_commands()]
        for span in (" ".join(span.split()) for span in spans):
            if not span.startswith("wsoup "):
                continue
            name = max((name for name in known if f"{span} ".startswith(f"{name} ")), key=len, default=None)
            groups = {name.rpartition(" ")[0] for name in known}
            if name is None:
                wrong += [] if span in groups else [f"{page.name}: {span}"]
                continue
            options = {option for parameter in known[name].params for option in parameter.opts}
            used = re.findall(r"(?<!\S)(--[a-z-]+)", span)
            wrong += [f"{page.name}: {span}: {option}" for option in used if option not in options]
    assert wrong == []


def test_every_command_is_in_the_table_of_commands():
    known = commands(typer.main.get_command(cli.app))  # type: ignore[arg-type]
    text = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(wsoup [a-z -]+)` \|", text, flags=re.MULTILINE)) == set(known)


def test_yaml_in_the_docs_is_valid_params():
    sections = Params.model_fields
    items = [item for _, block in blocks("yaml") for item in safe_load(block).items()]
    own = safe_load((ROOT / "params.yaml").read_text())
    del own["candidates"]["templates"]  # a pool that the pages do not name
    for key, shown in items:  # a section of params.yaml, or one dataset
        value = shown
        if key in ("candidates", "evaluate"):  # the page shows only what a reader adds
            value = own[key] | shown
        TypeAdapter(sections[key].annotation if key in sections else DatasetParams).validate_python(value)
    assert {"soups", "photos"} <= {key for key, _ in items}


def test_the_picture_of_the_pipeline_is_the_graph_of_dvc_yaml():
    """Its arrows lead from every stage to exactly those that depend on it, directly or through others."""
    (picture,) = [text for page, text in blocks("mermaid") if page == "pipeline.md"]
    drawn = set()
    for line in picture.splitlines()[1:]:
        groups = [re.findall(r"\w+", part) for part in line.split("-->")]
        drawn |= {pair for first, second in pairwise(groups) for pair in product(first, second)}
    made = safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    stages = {name: stage.get("do", stage) for name, stage in made.items()}
    outs = {(name, out) for name, stage in stages.items() for out in stage["outs"] if isinstance(out, str)}
    deps = {(name, dep) for name, stage in stages.items() for dep in stage["deps"] if dep.startswith("artifacts/")}
    assert closure(drawn) == closure({(a, b) for (a, out), (b, dep) in product(outs, deps) if feeds(out, dep)})


def feeds(out: str, dep: str) -> bool:
    """Whether an out of dvc.yaml is a dep, lies in it or holds it, for some items of a foreach."""
    return lies_in(out, dep) or lies_in(dep, out)


def lies_in(path: str, folder: str) -> bool:
    pattern = r"[^./]*".join(map(re.escape, re.split(r"\$\{[^}]*\}", folder)))
    return re.fullmatch(f"{pattern}(/.*)?", re.sub(r"\$\{[^}]*\}", "item", path)) is not None


def closure(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs, and those that follow by going through others."""
    while more := {(a, d) for (a, b), (c, d) in product(pairs, pairs) if b == c} - pairs:
        pairs = pairs | more
    return pairs


def test_links_in_the_docs_exist():
    broken = []
    for page in (*PAGES, *(ROOT / "docs" / "notes").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


def options_of(command: click.Command) -> set[str]:
    """All options of a command and of those below it."""
    options = {"--help"}
    for parameter in command.params:
        options.update(parameter.opts, parameter.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        options |= options_of(inner)
    return options


def named_options() -> dict[str, set[str]]:
    """Options that pages and texts of the code name -> where."""
    texts = []
    for page in [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs/notes").glob("*.md"))]:
        texts.append((page, page.read_text(encoding="utf-8")))
    for script in [*(ROOT / "wsoup").rglob("*.py"), *(ROOT / "stages").glob("*.py")]:
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append((script, node.value))
    named: dict[str, set[str]] = {}
    for place, text in texts:
        for option in OPTION.findall(text):
            named.setdefault(option, set()).add(place.name)
    return named


def test_every_option_that_is_named_exists() -> None:
    own = options_of(typer.main.get_command(cli.app))
    others = set(" ".join(OPTIONS_OF_OTHERS.values()).split())
    named = named_options()
    assert {option: places for option, places in named.items() if option not in own | others} == {}
    assert others <= named.keys(), "the list names an option that nothing names any more"
