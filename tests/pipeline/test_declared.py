"""What dvc.yaml declares is what a stage reads: its params, and its files.

DVC skips a stage whose declared inputs are as they were, so one that is missing from dvc.yaml leaves stale results.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from project import PLANE, SOFT, Project, call_stage, write_params
from yaml_in_c import safe_load

from wsoup.params.graph import Stage, graph_of, read_graph
from wsoup.params.reading import read_yaml
from wsoup.params.section import Section, Sections

ENCODER = {"pretrained": "encoder/tiny.safetensors", "config": "encoder/tiny-clip.json", "watch": "encoder"}
"""The encoder's files inside of the project: a stage without the dep does not have them."""
ITEMS = {"prepare": "photo", "embed": "photo", "score": "words", "soup": "word", "head": "ridge", "landscape": "soft"}
"""One item of each kind of stage, but both of the finetuned methods and all three."""
WITHOUT_INPUTS = ("code",)


def stage_names() -> list[str]:
    names = [f"{stage}@{item}" for stage, item in ITEMS.items()]
    for stage in ("finetune", "evaluate_tuned"):
        names += [f"{stage}@{method}" for method in ("ce", "coop_diverse", "soft")]
    return [*names, "fewshot", "embed_train", "candidates", "evaluated", "evaluate", "survey", "report"]


@pytest.fixture(scope="module")
def complete(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The miniature with a landscape, and with all that its stages make."""
    copy = project.copy(tmp_path_factory.mktemp("declared") / "project")
    params = safe_load((copy.folder / "params.yaml").read_text())
    params["finetune"]["methods"]["soft"] = {**SOFT, "tune": {**SOFT["tune"], "words": "pools/words.txt"}}
    params["landscape"].update(PLANE)
    params["candidates"]["on_long_text"] = "skip"
    copy.write_params(params)
    copy.repro()
    return copy


def test_every_stage_is_tried(complete, monkeypatch):
    monkeypatch.chdir(complete.folder)
    tried = {name.partition("@")[0] for name in stage_names()}
    assert tried == {name.partition("@")[0] for name in read_graph().stages} - {*WITHOUT_INPUTS}


# ------------------------------------------------------------------------------------------------------------- params


class Reads:
    """Which values of params.yaml code reads, by dotted key, from the moment that a stage has loaded its sections."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._places: dict[int, str] = {}
        self._held: list[object] = []  # or another object might get the id of one that is gone

    def of(self, owner: object, name: str, value: object) -> None:
        """Note an attribute of a section."""
        is_root = isinstance(owner, Sections) and id(owner) not in self._places
        place = "" if is_root else self._places.get(id(owner))
        if place is None or name not in type(owner).model_fields:  # type: ignore[attr-defined]
            return
        field = type(owner).model_fields[name]  # type: ignore[attr-defined]
        self._note(f"{place}.{field.alias or name}".removeprefix("."), value)

    def whole(self, owner: Section | Sections, *, but: Iterable[str]) -> None:
        """Note all values of a section."""
        for name in type(owner).model_fields.keys() - set(but):
            value = vars(owner)[name]
            self.of(owner, name, value)
            parts = value.values() if isinstance(value, Mapping) else [value]
            for part in parts:
                if isinstance(part, Section | Sections):
                    self.whole(part, but=())

    def _note(self, key: str, value: object) -> None:
        if isinstance(value, Section | Sections):
            self._places[id(value)] = key
            self._held.append(value)
        elif isinstance(value, Mapping) and any(isinstance(part, Section) for part in value.values()):
            for name, part in value.items():
                self._note(f"{key}.{name}", part)
        else:
            self.keys.add(key)


@pytest.fixture
def reads(monkeypatch) -> Iterator[Reads]:
    """What is read while a test runs."""
    noted = Reads()
    plain = Section.__getattribute__
    dump = Section.model_dump

    def getattribute(self: Any, name: str) -> Any:
        value = plain(self, name)
        if not name.startswith(("_", "model_")):
            noted.of(self, name, value)
        return value

    def model_dump(self: Any, *arguments: Any, **options: Any) -> Any:
        noted.whole(self, but=options.get("exclude", ()))
        return dump(self, *arguments, **options)

    for kind in (Section, Sections):
        monkeypatch.setattr(kind, "__getattribute__", getattribute)
        monkeypatch.setattr(kind, "model_dump", model_dump)
    return noted


def lies_in(key: str, section: str) -> bool:
    return f"{key}.".startswith(f"{section}.")


@pytest.mark.parametrize("name", stage_names())
def test_a_stage_reads_what_dvc_yaml_lists_and_makes_the_same_without_anything_else(
    complete, name, tmp_path, monkeypatch, reads
):
    """Its params, each of which it reads; its deps, with which alone it makes the same bytes."""
    alone = tmp_path / "alone"
    stage = copy_inputs(name, alone, project=complete.folder)
    monkeypatch.chdir(alone)
    monkeypatch.delenv("WSOUP_CACHE", raising=False)
    call_stage(*name.split("@"))
    # That its item is among these is why there is such a stage.
    items = safe_load((complete.folder / "dvc.yaml").read_text())["stages"][name.partition("@")[0]].get("foreach")
    for key in reads.keys - {str(items)[2:-1]}:
        assert any(lies_in(key, listed) for listed in stage.own_keys), f"{name} reads {key}: add it to dvc.yaml"
    for listed in stage.own_keys:
        assert any(lies_in(key, listed) or lies_in(listed, key) for key in reads.keys), f"{name} never reads {listed}"
    for out in stage.outs:
        assert content_of(alone / out) == content_of(complete.folder / out), out


def copy_inputs(name: str, folder: Path, *, project: Path) -> Stage:
    """Give a stage a folder with params.yaml and its deps, and nothing else of a project."""
    params = safe_load((project / "params.yaml").read_text())
    encoder = Path(params["encoder"]["watch"])
    if name != "report":  # which writes all params down
        params["encoder"].update(ENCODER)
    stage = graph_of(read_yaml(project / "dvc.yaml"), params=params).stages[name]
    folder.mkdir()
    write_params(folder, params)
    inputs = {"data/packages.yaml", *stage.deps}
    if name.startswith("prepare"):  # where a run begins: all that later stages need is looked for
        inputs |= {"pools", "encoder"}
    if any(dep.startswith("artifacts/manifests") for dep in stage.deps):  # which have digests of all images
        inputs |= {dataset["watch"] for dataset in params["datasets"].values()}
    if "encoder" in inputs:
        shutil.copytree(encoder, folder / "encoder")
    for path in sorted(inputs - {"encoder"}):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if (project / path).is_dir():
            shutil.copytree(project / path, folder / path, copy_function=os.link, dirs_exist_ok=True)
        elif not (folder / path).exists():
            shutil.copy(project / path, folder / path)
    return stage


def content_of(out: Path) -> dict[str, bytes]:
    """The bytes of a file, or of each file of a folder."""
    files = [path for path in [out, *out.rglob("*")] if path.is_file()]
    assert files, f"{out} was not made"
    return {path.relative_to(out.parent).as_posix(): path.read_bytes() for path in files}
