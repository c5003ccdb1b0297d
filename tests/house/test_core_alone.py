"""The core works without the packages of extras, and names the extra of one that is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import tomllib

import pytest
from project import ROOT

from wsoup.base.errors import EXTRAS, PackageError, needing

WITHOUT = """
import sys
for name in ("dvc", "zarr", "pyarrow", "jinja2", "vl_convert", "onnx", "transformers", "datasets", "ray"):
    sys.modules[name] = None
"""
FACTS = {
    "importing wsoup loads nothing else": """
        before = set(sys.modules)
        import wsoup
        assert {name.split(".")[0] for name in set(sys.modules) - before} <= {"wsoup", *sys.stdlib_module_names}
        assert "torch" not in sys.modules
    """,
    "a soup is made, saved and used": """
        import torch, wsoup
        from wsoup.towers.models import random_model
        model, tokenizer = random_model("ViT-S-32-alt", seed=0)
        features = torch.nn.functional.normalize(torch.randn(9, 256), dim=1)
        how = {"class_names": ["cat", "dog"], "model": model, "tokenizer": tokenizer, "progress": False}
        soup = wsoup.descriptor_soup(features, torch.arange(9) % 2, descriptors=["sharp", "flat"], **how)
        soup.save("soup.json")
        wsoup.Soup.load("soup.json").classifier(class_names=["a", "b"], model=model, tokenizer=tokenizer)
        import wsoup.api.images, wsoup.photos.classify, wsoup.photos.export, wsoup.photos.sheet
        import wsoup.photos.trial
    """,
    "photos without train/ and test/ are divided": """
        from pathlib import Path
        from wsoup.photos.labelled import look
        for name in ("cat", "dog"):
            Path("photos", name).mkdir(parents=True)
            for i in range(2):
                Path("photos", name, f"{i}.png").write_bytes(name.encode() + bytes([i]))
        photos = look("photos", shots=1, seed=1, template="a {}.", classes=None)
        assert (photos.n_train, photos.labels.tolist()) == (2, [0, 1, 0, 1])
    """,
    "the command line says what is missing": """
        from wsoup.cli import app
        sys.argv = ["wsoup", "report"]
        try:
            app.main()
        except SystemExit as stop:
            assert stop.code == 1
    """,
}


FORKS = """
import json, os, traceback
codes = {}
for name, fact in json.loads(sys.argv[1]).items():
    child = os.fork()
    if not child:
        os.dup2(os.open(f"{len(codes)}.txt", os.O_WRONLY | os.O_CREAT), 2)
        try:
            exec(compile(fact, name, "exec"))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    codes[name] = os.waitpid(child, 0)[1]
    import torch
print(json.dumps(codes))
"""
"""Runs each fact in a process of its own: in the first, torch is not there yet, and the others share its import."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict[str, tuple[int, str]]:
    """Each fact's exit code and errors."""
    folder = tmp_path_factory.mktemp("facts")
    facts = {name: textwrap.dedent(fact) for name, fact in FACTS.items()}
    command = [sys.executable, "-c", WITHOUT + FORKS, json.dumps(facts)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    return {name: (code, (folder / f"{i}.txt").read_text()) for i, (name, code) in enumerate(codes.items())}


@pytest.mark.parametrize("fact", FACTS)
def test_that(fact, ended):
    code, errors = ended[fact]
    assert code == 0, errors
    if "missing" in fact:
        says = "error: jinja2 is not installed, and this needs it: pip install jinja2 vl-convert-python"
        assert errors == f"{says} (wsoup's extra `report`)\n"


def test_every_extra_names_its_packages():
    with (
        pytest.raises(PackageError, match="this needs it: pip install dvc dvc-data networkx pyarrow zarr "),
        needing(),
    ):
        raise ModuleNotFoundError("No module named 'zarr.core'", name="zarr.core")
    with pytest.raises(ModuleNotFoundError, match="nothing of ours"), needing():
        raise ModuleNotFoundError("nothing of ours", name="nothing")
    assert set(EXTRAS) == {"pipeline", "report", "hf", "ray", "onnx"}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        names = {re.split("[<>=;]", requirement)[0] for requirement in declared[extra]}
        assert set(packages.values()) == names - {"ruamel.yaml.clib"}, "which only makes another package faster"
