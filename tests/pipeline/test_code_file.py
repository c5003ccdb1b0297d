"""A stage runs the code that artifacts/code.yaml is of, from its start to its end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from processes import run_stage
from project import Project, write_params
from yaml_in_c import safe_load

from wsoup.base.errors import ChangedError, MismatchError
from wsoup.disk import code
from wsoup.finetune.params import FinetuneParams
from wsoup.params.graph import CODE, Param, Stage, read_graph
from wsoup.params.reading import read_yaml
from wsoup.params.section import load
from wsoup.pipeline import code_file
from wsoup.pipeline.code_file import as_yaml, check_code, check_code_unchanged, code_files, digest_of
from wsoup.pipeline.params import Params

SCORE = Stage("score@words", "python stages score", (Param(CODE, "score"),), (), ())


@pytest.fixture
def tree(in_tmp: Path, monkeypatch) -> Path:
    """A tree of one stage and one module, whose digest stage `code` has written."""
    monkeypatch.setattr(code, "ROOT", in_tmp)
    for name, text in {"stages/score.py": "from wsoup.core import x\n", "wsoup/core/x.py": "X = 1\n"}.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    Path("artifacts").mkdir()
    Path(CODE).write_bytes(as_yaml(code.digests(in_tmp / "stages")))
    return in_tmp


def test_the_code_that_was_digested_may_run_and_a_comment_changes_nothing(tree):
    check_code(SCORE, stages=tree / "stages")
    Path("wsoup/core/x.py").write_text("# One.\nX = (1)\n")
    check_code(SCORE, stages=tree / "stages")
    check_code(None, stages=tree / "stages")


def test_other_code_may_not_and_neither_without_the_file(tree):
    Path("wsoup/core/x.py").write_text("X = 2\n")
    with pytest.raises(MismatchError, match=r"artifacts/code\.yaml is of other code than stage score@words would run"):
        check_code(SCORE, stages=tree / "stages")
    Path(CODE).unlink()
    with pytest.raises(MismatchError, match=r"does not exist; run `dvc repro code` before `python stages score`"):
        check_code(SCORE, stages=tree / "stages")


def test_an_edit_during_a_run_counts_if_it_means_something(tree):
    since = code_files(SCORE, stages=tree / "stages")
    assert {path.name for path in since} == {"score.py", "x.py"}
    check_code_unchanged(SCORE, stages=tree / "stages", since=since)
    Path("wsoup/core/x.py").write_text("X = 1  # one\n")
    check_code_unchanged(SCORE, stages=tree / "stages", since=since)
    Path("wsoup/core/x.py").write_text("X = 1 + 1\n")
    with pytest.raises(ChangedError, match=r"core/x\.py changed while score@words ran: its results do not belong"):
        check_code_unchanged(SCORE, stages=tree / "stages", since=since)


def test_the_code_of_a_soup_is_that_of_its_stage_and_of_its_kind():
    """A stage soup@word of kind chains runs no other kind, though one script makes all of them."""
    stages = code.ROOT / "stages"
    grow = code.ROOT / "wsoup/search/grow"
    files_of = {}
    for kind in ("chains", "greedy"):
        stage = Stage("soup@word", "python stages soup", (Param(CODE, f"soup.{kind}"),), (), ())
        files_of[kind] = set(code_files(stage, stages=stages))
        assert digest_of(stage, stages=stages) == code.digest(code.modules(stages / "soup.py", grow / f"{kind}.py"))
    assert grow / "chains.py" in files_of["chains"] - files_of["greedy"]
    assert grow / "greedy.py" in files_of["greedy"] - files_of["chains"]
    assert stages / "soup.py" in files_of["chains"] & files_of["greedy"]


class Longer(FinetuneParams):
    """Section `finetune` with a setting that yesterday's params.yaml does not have."""

    added_later: int = 0


class LongerParams(Params):
    """All of params.yaml with that section."""

    finetune: Longer


def test_a_setting_that_params_may_lack_counts_as_code_unless_it_has_its_default(in_tmp, monkeypatch):
    """So an added setting makes no stage stale, and one that is used makes stale the stages of its section alone."""
    monkeypatch.setattr(code_file, "load_params", lambda: load(LongerParams))
    shutil.copy(code.ROOT / "dvc.yaml", "dvc.yaml")
    stages = code.ROOT / "stages"
    params = safe_load((code.ROOT / "params.yaml").read_text())
    del params["evaluate"]["templates"]  # which is one, too

    def digested(**settings: object) -> dict[str, object]:
        write_params(in_tmp, {**params, "finetune": {**params["finetune"], **settings}})
        digests = code_file.digests(stages)
        for name in ("finetune@coop", "score@words"):
            stage = read_graph().stages[name]
            assert digests[str(stage.code_key)] == digest_of(stage, stages=stages)
        return digests

    before = digested()
    assert before == code.digests(stages)
    assert digested(added_later=0) == before
    five, six = digested(added_later=5), digested(added_later=6)
    assert {name for name in before if five[name] != before[name]} == {"finetune"}
    assert len({str(digests["finetune"]) for digests in (before, five, six)}) == 3


def test_a_bad_value_of_any_section_is_refused_by_the_first_stage(project: Project, tmp_path) -> None:
    """Stage `code` depends on params.yaml, so DVC has removed no out by then."""
    copy = project.copy(tmp_path / "project")
    params = safe_load((copy.folder / "params.yaml").read_text())
    params["finetune"]["methods"]["coop_diverse"]["loss"]["lambda"] = 2.5
    copy.write_params(params)
    assert "code" in copy.changed()
    refused = copy.run("dvc", "repro", good=False)
    assert "finetune.methods.coop_diverse.loss.lambda: 2.5 is not valid" in refused
    assert "failed to reproduce 'code'" in refused
    assert (copy.folder / "artifacts/finetuned/coop_diverse/seed1/config.json").is_file()


def test_a_stage_that_is_run_by_hand_after_an_edit_says_what_to_run(project: Project) -> None:
    project.edit_code("wsoup/core/scoring.py", "wins = own > best", "wins = own >= best")
    refused = run_stage(project.folder, "score", "words", code=1, root=project.folder)
    assert refused.count("\n") == 1
    assert "run `dvc repro score@words`, which runs stage code before it" in refused
    run_stage(project.folder, "embed", "photo", root=project.folder)


def test_a_digest_that_looks_like_a_number_stays_a_text(in_tmp):
    """Of sixteen hex digits one may be an e and the others 0 to 9: a number to YAML 1.2, for DVC as for `wsoup`."""
    digests = {"candidates": "4279269422e21659", "fewshot": "1234567890123456", "soup": {"top": "0123456789012345"}}
    Path("code.yaml").write_bytes(as_yaml(digests))
    assert read_yaml("code.yaml") == digests
    usual = {"candidates": "37810dc214536cd8"}
    assert as_yaml(usual).decode().endswith("candidates: 37810dc214536cd8\n")
