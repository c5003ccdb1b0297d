"""The worked examples of CONTRIBUTING.md, applied to a copy of the library, do what they say."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import textwrap
from pathlib import Path

import pytest
import torch
from processes import ROOT, run_module

HELPERS = ROOT / "tests/helpers"
FACTS = {
    "a soup kind": """
        import json
        import math
        import numpy as np
        import torch
        from types import SimpleNamespace
        from wsoup.search.grow.all_kinds import Soups
        from wsoup.search.grow.search import Search
        from wsoup.core.member import NOTHING
        from wsoup.search.rank.ranking import Ranked
        from wsoup.search.rank import meter
        from pydantic import TypeAdapter
        brief = TypeAdapter(Soups).validate_python({"b": {"kind": "shortest", "pool": "words", "m": 2, "k1": 3}})["b"]
        ranked = Ranked(["sharp", "red", "wet", "a"], np.array([4, 3, 2, 1]), np.zeros(4), False, NOTHING)
        class Images:
            subsets = {1: [0, 1]}
            encoder = SimpleNamespace(device=torch.device("cpu"))
            def images_of(self, seed):
                return torch.eye(2), torch.arange(2)
        degrees = {"red": (0, 210), "wet": (210, 60), "sharp": (90, 90), "": (0, 0)}  # of both classes, on a circle
        def features(its, texts):
            angles = torch.tensor([degrees[text] for text in texts]) * math.pi / 180
            return torch.stack([angles.cos(), angles.sin()], dim=-1)
        meter.Meter.features = features
        meter.Meter.blocks = lambda its, texts: iter([features(its, texts)])
        meter.Meter.count = lambda its, texts: np.ones(len(texts), int)  # of each text alone
        meter.Meter.cost = lambda its: NOTHING
        members = json.loads(Search(brief, ranked, Images(), 1).part(0))["members"]
        assert [(member["text"], member["n_correct"]) for member in members] == [("red", 1), ("wet", 2)]
    """,
    "a loss": """
        import torch
        from wsoup.finetune import losses, objective
        from wsoup.finetune.loss_params import FocalLoss
        logits, labels = torch.tensor([[0.0, 0.0]]), torch.tensor([1])
        assert torch.isclose(losses.focal(logits, labels, gamma=2.0), torch.tensor(0.25 * 0.6931472))
        assert objective.FocalLoss is FocalLoss
    """,
    "a setting of training": """
        import json
        import sys
        from pathlib import Path
        sys.path.append(sys.argv[3])
        import torch
        from finetune_cases import draw_colours, finetune_params
        from wsoup.finetune.params import FinetuneParams
        from wsoup.finetune.train import Trainer
        from wsoup.params.inputs import EncoderParams
        from wsoup.towers.encoder import load_encoder
        assert "forget_every" not in FinetuneParams(methods={}).meant()
        encoder = load_encoder(EncoderParams(**json.loads(sys.argv[2])), device=torch.device("cpu"))
        source = draw_colours(Path(sys.argv[1]))
        def trained(name, **settings):
            shared = finetune_params(iterations=4, **settings)
            method = shared.methods[name]
            run = Trainer(encoder, source=source, method=method, shared=shared, seed=1).run()
            return [weights.detach().clone() for weights in run.trained().values()]
        def same(ours, theirs):
            return all(map(torch.equal, ours, theirs))
        assert same(trained("coop"), trained("coop", forget_every=4))
        assert not same(trained("coop"), trained("coop", forget_every=2))
        assert same(trained("coop", momentum=0.0), trained("coop", forget_every=1))
        # Two soft descriptors of two iterations each: the third iteration is the first of the second one's turn.
        assert same(trained("coop_ensemble"), trained("coop_ensemble", forget_every=2))
    """,
    "a tuner": """
        import torch
        from wsoup.finetune.tune_params import NormsTune
        from wsoup.finetune.tuners import make_student
        from wsoup.towers.models import random_model
        model, tokenizer = random_model("ViT-S-32-alt", seed=0)
        draw = torch.Generator().manual_seed(0)
        options = {"tokenizer": tokenizer, "template": "a photo of a {}.", "generator": draw}
        student = make_student(model, tune=NormsTune(kind="norms", blocks=1), **options)
        assert len(student.trained_names) == 8 and all(".ln_" in name for name in student.trained_names)
    """,
    "a baseline": """
        import sys
        from pathlib import Path
        import numpy as np
        import torch
        from wsoup.evaluate.classifiers import class_rows, pretrained_rows
        from wsoup.evaluate.params import EvaluateParams
        from wsoup.evaluate.rows import Material
        from wsoup.evaluate.testsets import TestSet
        from wsoup.report.labels import table
        from wsoup.search.candidates import gpt, gpt_classes
        soups = {"word": {1: ["sharp"]}}
        given = Material((1,), words=["and", "the"] * 4, descriptors=["red"] * 4, waffle=["x"] * 4, soups=soups)
        survey = {"descriptors": 1, "chains": 1, "chain_length": 1, "m": 1}
        sizes = {"m": [1], "baseline_m": 2, "tuned_baseline_m": 2, "offsets": [0], "offset_formula": "wording"}
        switches = {"ensemble": False, "weighed": False}
        rows = pretrained_rows(given, params=EvaluateParams(**sizes, **switches, texts=[], survey=survey))
        assert ("frequent_words", ("and", "the")) in [(row.method, row.texts) for row in rows]
        assert {"Frequent words", "Bare class name"} < {row.label for row in table(["word"])}
        file = Path(sys.argv[1]) / "cupl.json"
        file.write_text('{"Cat": ["It purrs."], "Dog": ["It barks.", " It  runs. "]}')
        names = ["cat", "dog"]
        sentences = gpt.read_descriptors(file, wording="sentences")
        said = gpt_classes.matched(sentences, class_names=names, origin="cupl.json")
        images = (torch.eye(2), torch.arange(2), np.arange(2))
        test = TestSet("pets", "xd", "a {}.", names, *images, {}, gpt=said, gpt_sentences=True)
        by_name = {row.method: row for row in class_rows(given, [test])}
        assert [list(texts) for texts in by_name["gpt"].prompts] == [["It purrs."], ["It barks.", "It runs."]]
        assert by_name["bare_name"].prompts == [["cat"], ["dog"]]
    """,
    "a column of scores": """
        import torch
        from wsoup.search.rank.image_set import ImageSet
        from wsoup.search.rank.statistics import COLUMNS, statistics
        images, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0, 1])
        texts = torch.stack([torch.eye(2), torch.tensor([[1.0, 0.0], [0.8, -0.6]])])
        few = ImageSet(images, labels=labels, n_classes=2, subsets=[torch.arange(3), torch.arange(2)])
        scored = statistics(few, texts, baseline_right=torch.zeros(3, dtype=torch.bool))
        assert scored["classes"].tolist() == [[2, 1], [1, 1]] and set(scored) == set(COLUMNS)
    """,
    "a metric of a row": """
        import sys
        from pathlib import Path
        import numpy as np
        import torch
        from wsoup.disk import store
        from wsoup.evaluate.answers import answer
        from wsoup.evaluate.counts import SCHEMA
        from wsoup.evaluate.evaluation import evaluate
        from wsoup.evaluate.rows import Row
        from wsoup.evaluate.testsets import TestSet
        from wsoup.report.counts import counts
        from wsoup.report.labels import table
        from wsoup.report.lines import read_lines
        from wsoup.report.results import Results
        from wsoup.report.row_metrics import row_metrics
        images, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        test = TestSet("pets", "xd", "a {}.", ["cat", "dog"], images, labels, np.arange(4), {})
        answers = answer([(Row("class_name", (1,), ("",)), torch.eye(2))], test=test, logit_scale=100.0)
        tokenizer = lambda texts: torch.ones(len(texts), 3, dtype=int)
        of_rows = evaluate([answers], tokenizer=tokenizer, variant="pretrained")
        line = of_rows.to_pylist()[0]
        assert (line["n_correct"], line["macro_accuracy"]) == (3, (1.0 + 0.5) / 2)
        file = Path(sys.argv[1]) / "results.parquet"
        store.write_table(file, of_rows)
        lines = read_lines(file, variant="pretrained", datasets=["pets"])
        results = Results(lines, table(["word"]), {"pets": "xd"}, None, {"pets": {}}, {}, None)
        assert ",3,4,,0.75," in counts(results, together={}).as_csv().splitlines()[1]
        assert counts(results, together={}).columns[-3] == "macro_accuracy"
        header, _, row = row_metrics(results).as_markdown().splitlines()[2:5]
        assert header.startswith("| method | XD mean: macro_accuracy | XD mean: calibration_error |"), header
        assert row.startswith("| Class name only | 0.750 | 0.250 |"), row
    """,
    "a table of the page": """
        import sys
        from pathlib import Path
        import pyarrow as pa
        from wsoup.disk import store
        from wsoup.disk.files import PRETRAINED, Artifacts
        from wsoup.report import run
        artifacts = Artifacts(Path(sys.argv[1]))
        about = {"class_names": ["cat", "dog"]}
        cells = [("pets", 0, 0, 1, 2), ("pets", 0, 1, 0, 3), ("pets", 1, 1, 1, 4), ("cars", 0, 0, 0, 9)]
        lines = [dict(zip(("dataset", "label", "before", "after", "n_images"), cell)) for cell in cells]
        store.write_table(artifacts.results / PRETRAINED / "confusion.parquet", pa.Table.from_pylist(lines))
        store.write_table(artifacts.manifest("pets"), pa.table({"path": ["x"]}), attributes=about)
        table = run.by_class(artifacts, source="pets")
        assert [list(row.values()) for row in table.rows] == [["cat", 3, 2, 5], ["dog", 4, 4, 4]]
    """,
    "a dataset layout": """
        import sys
        from pathlib import Path
        from wsoup.datasets import manifest
        from wsoup.params.inputs import DatasetParams
        root = Path(sys.argv[1])
        for name in ("red cat-1.png", "dog-2.png", "dog-10.png", "notes.txt"):
            (root / name).write_bytes(b"x")
        params = DatasetParams(role="xd", layout="flat", root=str(root), watch=str(root), template="a {}.")
        listing = manifest.read_listing("mine", params=params)
        assert listing.class_names == ["dog", "red cat"]
        assert listing.splits["test"].labels.tolist() == [0, 0, 1]
    """,
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the library with all examples applied."""
    copy = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "wsoup", copy / "wsoup", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", copy)
    shutil.copytree(ROOT / "data/profiles", copy / "data/profiles")
    for block in re.findall(r"```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S):
        name, *lines = block.splitlines()
        old = "\n".join(line[1:] for line in lines if line.startswith("-"))
        new = "\n".join(line[1:] for line in lines if line.startswith("+"))
        file = copy / name
        if not old:
            assert not file.exists(), name
            file.write_text(f"{new}\n")
            continue
        assert file.read_text().count(old) == 1, f"{name} does not have exactly once: {old}"
        file.write_text(file.read_text().replace(old, new))
    return copy


@pytest.mark.parametrize("fact", FACTS)
def test_the_worked_example_of(fact, tree, tmp_path, tiny_encoder_files):
    (tree / "fact.py").write_text(textwrap.dedent(FACTS[fact]))
    encoder = json.dumps(tiny_encoder_files)
    code, printed = run_module("fact", str(tmp_path), encoder, str(HELPERS), folder=tree, root=tree)
    assert code == 0, printed


def test_the_small_change_gives_the_wrong_number_that_contributing_names(tmp_path):
    steps, _, _ = (ROOT / "CONTRIBUTING.md").read_text().partition("## How")
    wrong, right = re.findall(r"`(label_smoothing[^`]*)`", steps)
    source = (ROOT / "wsoup/finetune/losses.py").read_text()
    assert source.count(right) == 1
    changed = tmp_path / "losses.py"
    changed.write_text(source.replace(right, wrong))
    smooth_targets = runpy.run_path(str(changed))["smooth_targets"]
    targets = smooth_targets(torch.tensor([2]), n_classes=4, label_smoothing=0.3)
    torch.testing.assert_close(targets, torch.tensor([[0.075, 0.075, 0.7, 0.075]]))
    assert "a greatest difference of 0.025 (0.075 where 0.1 is right)" in " ".join(steps.split())
