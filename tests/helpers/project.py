"""A copy of the project's pipeline with miniature data, to run DVC on."""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from py_compile import PycInvalidationMode
from types import ModuleType

import yaml
from processes import ROOT, run_module, warm_python
from repository import commit, git, new_repository
from small_world import COLOURS, write_image_folder
from yaml_in_c import safe_load

from wsoup.disk import code
from wsoup.disk.shards import Owner
from wsoup.pipeline import packages

RATES = {"learning_rate": 1e-4, "prompt_factor": 10}
LAST, PROMPT = {"kind": "last_blocks", "blocks": 1, "prompt_tokens": 3}, {"kind": "prompt", "tokens": 3}
DIVERSE = {"kind": "cross_entropy", "lambda": 0.25, "teacher_logit_scale": 10}
METHODS = {
    "ce": {"tune": LAST, "loss": {"kind": "cross_entropy"}, "soup": "class_name", **RATES},
    "coop_diverse": {"tune": PROMPT, "loss": DIVERSE, "soup": "word", **RATES, "snapshots": {"every": 2, "images": 4}},
}
SOFT = {
    "tune": {"kind": "soft_descriptors", "members": 1, "tokens": 4, "prompt_tokens": 0},
    "loss": {"kind": "cross_entropy"},
    "soup": "class_name",
    **RATES,
}
"""The method of the landscape, which the miniature's params leave out."""
PLANE = {"steps": 2, "margin": 1, "soup": "word", "methods": ["soft"]}
WORDS = ["time", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state", "family"]
DESCRIPTORS = ["which is bright", "which has corners", "which is flat", "which is seen at night", "which is plain"]


def miniature_params(encoder: dict[str, str]) -> dict:
    """The project's own params in small: one source, one cross-dataset target, one shift, two methods."""
    params = safe_load((ROOT / "params.yaml").read_text())
    params.update(source="photo", seeds=[1, 2], encoder=encoder)
    params["datasets"] = {
        name: {"role": role, "layout": "imagefolder", "root": name, "watch": name, "template": "a photo of a {}."}
        for name, role in (("photo", "source"), ("other", "xd"), ("dim", "dg"))
    }
    params["fewshot"] = {"shots": 2}
    params["candidates"] = {
        "pools": ["words", "descriptors"],
        "words": {"path": "pools/words.txt", "watch": "pools", "count": len(WORDS), "period": False},
        "descriptors": {"paths": ["pools/descriptors.txt"], "period": False},
        "watch": "pools",
    }
    params["score"]["shard_size"] = 5
    params["soups"] = {name: params["soups"][name] for name in ("descriptor", "word")}
    params["soups"]["descriptor"]["m"] = 2
    params["soups"]["word"].update(k0=4, k1=12, patience=6, m=2, max_words=3)
    params["finetune"].update(iterations=3, batch_size=4, methods=METHODS)
    params["evaluate"].update(m=[1, 2], baseline_m=2, tuned_baseline_m=2, offsets=[0, 5], weighed=True)
    params["evaluate"]["survey"] = {"descriptors": 4, "chains": 4, "chain_length": 2, "m": 2}
    return params


def write_miniature(folder: Path, *, encoder: dict[str, str]) -> None:
    """Write images, pools and params.yaml of the miniature: everything that stages read but the code."""
    write_image_folder(folder / "photo", splits={"train": 5, "test": 3}, classes=COLOURS)
    halves = {name: (r // 2, g // 2, b // 2) for name, (r, g, b) in COLOURS.items()}
    write_image_folder(folder / "dim", splits={"test": 3}, classes=halves)
    write_image_folder(folder / "other", splits={"test": 3}, classes={"sky": (120, 180, 250), "soil": (90, 60, 30)})
    (folder / "pools").mkdir()
    (folder / "pools/words.txt").write_text("\n".join(WORDS))
    (folder / "pools/descriptors.txt").write_text("\n".join(DESCRIPTORS))
    write_params(folder, miniature_params(encoder))


def write_params(folder: Path, params: dict) -> None:
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))


def stage_module(name: str) -> ModuleType:
    """A stage script, imported; its signals and its command line stay out of it."""
    spec = importlib.util.spec_from_file_location(f"stage_{name}", ROOT / "stages" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # pydantic looks annotations up there
    spec.loader.exec_module(module)
    return module


def call_stage(name: str, *item: str) -> None:
    """What a stage does, in this process and in the working folder."""
    owner = Owner.of(ROOT / "stages" / f"{name}.py", name="@".join([name, *item]))
    stage_module(name).main(owner, *item)
    shutil.rmtree(owner.folder, ignore_errors=True)


def search_soups(datasets: Iterable[str]) -> None:
    """The stages from the datasets to the soups `word` and `descriptor`, as `call_stage`."""
    for name in datasets:
        call_stage("prepare", name)
        call_stage("embed", name)
    for name in ("fewshot", "embed_train", "candidates", "evaluated"):
        call_stage(name)
    for pool, soup in (("words", "word"), ("descriptors", "descriptor")):
        call_stage("score", pool)
        call_stage("soup", soup)


def copy_pipeline(folder: Path) -> None:
    """Copy what makes the pipeline: no data of the toy world, no params.yaml."""
    for name in ("stages", "wsoup", "data", ".dvc"):
        ignored = shutil.ignore_patterns("__pycache__", "cache", "tmp", "world", "encoder", "toy")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("dvc.yaml", ".dvcignore", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    compile_code(folder)


def compile_code(folder: Path) -> None:
    """Compile the code once for all processes that run here or in a copy of the folder.

    A file is compiled again if its bytes differ. Python compares sizes, and times in whole seconds, so it could miss an
    edit that is undone at once.
    """
    for name in ("stages", "wsoup"):
        compileall.compile_dir(folder / name, quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def _copied_or_linked(source: str, target: str) -> None:
    """Copy a file, or link compiled code: Python replaces it whole, so the other project keeps its own."""
    if source.endswith(".pyc"):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


class Project:
    """A copy of the project's pipeline with miniature data, in its own git repository."""

    def __init__(self, folder: Path, *, encoder: dict[str, str]) -> None:
        self.folder = folder
        copy_pipeline(folder)
        (folder / packages.VERSIONS).write_text(packages.versions_yaml(code.installed()))
        write_miniature(folder, encoder=encoder)
        new_repository(folder)
        self.commit("data")

    @classmethod
    def at(cls, folder: Path) -> Project:
        """An existing one."""
        project = cls.__new__(cls)
        project.folder = folder
        return project

    def copy(self, folder: Path) -> Project:
        """A copy with its history and DVC's cache, for a test that changes it."""
        ignored = shutil.ignore_patterns("tmp")
        shutil.copytree(self.folder, folder, symlinks=True, ignore=ignored, copy_function=_copied_or_linked)
        return Project.at(folder)

    def write_params(self, params: dict) -> None:
        write_params(self.folder, params)

    def edit(self, where: str, **values: object) -> None:
        """Set keys of a section of params.yaml, such as ``soups.word``."""
        section = params = safe_load((self.folder / "params.yaml").read_text())
        for name in where.split("."):
            section = section[name]
        section.update(values)
        self.write_params(params)

    def edit_code(self, path: str, old: str, new: str) -> None:
        """Replace a passage that a file must contain once."""
        text = (self.folder / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} holds {old!r} {text.count(old)} times"
        (self.folder / path).write_text(text.replace(old, new), encoding="utf-8")

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def commit(self, message: str) -> None:
        commit(self.folder, message)

    def run(self, *command: str, good: bool = True, **variables: str) -> str:
        """Run a command as a user would, in the project's folder; everything it printed."""
        environment = {**os.environ, **warm_python(), **variables}
        environment.pop("WSOUP_CACHE", None)
        program, *arguments = command
        if program == "python" or {"--temp", "--run-all"} & {*arguments}:  # these start `dvc` again by its file
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            done = subprocess.run(command, cwd=self.folder, env=environment, **pipes)
            code, printed = done.returncode, done.stdout
        else:
            code, printed = run_module(program, *arguments, folder=self.folder, variables=environment)
        assert (code == 0) is good, printed
        return printed

    def repro(self, *arguments: str) -> set[str]:
        """Run `dvc repro`; the stages that really ran."""
        return set(re.findall(r"Running stage '([^']+)'", self.run("dvc", "repro", *arguments)))

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command in its own process group; its output is `stdout`."""
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, **warm_python(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def changed(self) -> set[str]:
        """The stages that `dvc status` would run again."""
        return set(json.loads(self.run("dvc", "status", "--json")))

    def outs(self) -> dict[str, str]:
        """Every out in dvc.lock with its hash."""
        lock = safe_load((self.folder / "dvc.lock").read_text())
        return {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage.get("outs", [])}
