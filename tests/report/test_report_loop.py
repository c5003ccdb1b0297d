"""The loop that wsoup exists for, on the miniature: edit k0, `dvc repro`, and see what changed on one screen."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from yaml_in_c import safe_load

from wsoup.report.compare import compare
from wsoup.report.page import write_page
from wsoup.report.ran import what_was_run
from wsoup.report.record import digest, is_page, load_record
from wsoup.report.sentences import printed

WIDTH = 100


def fits(printed: str, *, lines: int) -> str:
    shown = printed.rstrip().splitlines()
    assert len(shown) <= lines, printed
    assert max(map(len, shown)) <= WIDTH, printed
    return printed


@pytest.fixture(scope="module")
def loop(project, tmp_path_factory):
    """A copy whose first run is committed, with a page, after k0 was edited and `dvc repro`."""
    copy = project.copy(tmp_path_factory.mktemp("loop") / "project")
    write_page(copy.folder / "reports/index.html", root=copy.folder)
    copy.edit("soups.word", k0=8, m=3)
    before = copy.run("wsoup", "results")
    assert "params.yaml has changed since (run `dvc repro`): soups.word.k0 4 -> 8, soups.word.m 2 -> 3" in before
    copy.printed = copy.run("dvc", "repro")
    return copy


def test_the_last_stage_prints_the_answer_and_results_what_to_do(loop):
    printed = loop.printed.partition("> python stages report\n")[2]
    assert printed.startswith("Source. ")
    *_, last = loop.run("wsoup", "results").splitlines()
    assert last == "These results are not those of HEAD: `wsoup compare` shows what changed."


def test_a_page_of_other_results_is_removed_and_a_users_own_stays(loop):
    page = loop.folder / "reports/index.html"
    assert not page.exists()
    page.write_text("mine")
    loop.run("dvc", "repro", "--force", "--single-item", "report")
    assert page.read_text() == "mine"
    page.unlink()


def test_metrics_are_at_most_fifteen_and_their_diff_fits_a_screen(loop):
    metrics = json.loads((loop.folder / "reports/metrics.json").read_text())
    assert set(metrics) == {"class_name", "templates", "soup", "finetuned", "head"}
    assert sum(map(len, metrics.values())) <= 15
    printed = fits(loop.run("dvc", "metrics", "diff"), lines=14)
    assert "class_name" not in printed, "k0 cannot touch it"


def test_results_are_what_was_run_then_the_answer(loop):
    """The sentences have the figures of its table, which is behind an option."""
    shown = fits(loop.run("wsoup", "results"), lines=14)
    record = load_record(loop.folder)
    answered = printed([what_was_run(record), *record.answer, record.intervals], [])
    assert shown.splitlines()[:-1] == answered
    assert shown.startswith(f"Run on {sum(record.images.values())} test images of 3 datasets. Encoder: tiny-clip / ")
    assert not any("\n" in sentence or sentence.startswith(" ") for sentence in record.answer)
    assert record.answer[0].endswith("."), "sentences, not lines"
    as_json = json.loads(loop.run("wsoup", "results", "--json"))
    assert as_json == record.model_dump(mode="json"), "data alone"
    of_class_name = as_json["metrics"]["pretrained"]["class_name"]
    assert 0 <= of_class_name["calibration_error"]["source"] <= 1
    assert of_class_name["log_likelihood"]["xd"] < 0
    everything = loop.run("wsoup", "results", "--all")
    assert everything.startswith(
        "\n".join(printed([what_was_run(record), *record.answer, record.intervals], record.accuracy))
    )
    assert "# Is it more than noise?" in everything
    assert "# Zero-shot accuracy" in everything


def test_a_figure_has_a_name_of_its_own_and_is_written_again_unless_it_was_edited(loop):
    drawn = loop.folder / "reports/gains.svg"
    for _ in range(2):
        assert loop.run("wsoup", "report", "--figure", "gains").strip() == "reports/gains.svg"
    drawn.write_text("mine")
    refused = loop.run("wsoup", "report", "--figure", "gains", good=False)
    assert "reports/gains.svg exists" in refused
    assert drawn.read_text() == "mine"
    drawn.unlink()


def test_compare_shows_params_the_soup_its_members_and_what_to_conclude(loop):
    """Signs and figures are those of two runs' own counts; images are paired from DVC's cache."""
    printed = fits(loop.run("wsoup", "compare"), lines=15)
    assert printed.startswith("It ")
    assert "\nparams: soups.word.k0 4 -> 8, soups.word.m 2 -> 3\n" in printed
    assert "another machine" not in printed
    assert "from counts" not in printed
    old = json.loads(loop.git("show", "HEAD:reports/metrics.json"))["soup"]
    new = json.loads((loop.folder / "reports/metrics.json").read_text())["soup"]
    for role, title in (("source", "source"), ("xd", "XD mean"), ("dg", "DG mean")):
        (line,) = [line for line in printed.splitlines() if line.startswith(f"word soup, {title} ")]
        figures = line.removeprefix(f"word soup, {title}").split()[:3]
        assert [float(figure) for figure in figures] == pytest.approx(
            [old[role], new[role], new[role] - old[role]], abs=0.011
        )
    assert "members that came (" in printed
    came = printed.partition("members that came (")[2].partition("): ")[2].partition("\n")[0].split(", ")
    assert set(came[:-1]) <= set(load_record(loop.folder).members)  # the last may be cut
    assert "every other row that changed:" in loop.run("wsoup", "compare", "--all")


def test_plots_are_drawn_once_each_with_their_template(loop):
    shown = json.loads(loop.run("dvc", "plots", "show", "--json"))["data"]
    assert set(shown) == {f"reports/plots/{path.name}" for path in (loop.folder / "reports/plots").iterdir()}
    loop.run("dvc", "plots", "diff", "-o", "diffed")
    assert (loop.folder / "diffed/index.html").is_file()
    shutil.rmtree(loop.folder / "diffed")


@pytest.mark.long
def test_an_experiment_ends_in_one_consistent_state_and_can_be_taken_back(loop):
    reports, params = load_record(loop.folder), (loop.folder / "params.yaml").read_text()
    loop.git("checkout", "-q", "--", ".")
    loop.run("dvc", "checkout", "-q")
    first = load_record(loop.folder)
    assert first.params["soups"]["word"]["k0"] == 4
    assert "params.yaml has changed" not in loop.run("wsoup", "results")
    loop.run("dvc", "exp", "run", "--name", "more", "-S", "soups.word.k0=8", "-S", "soups.word.m=3")
    assert load_record(loop.folder) == reports, "the same as by hand"
    assert safe_load((loop.folder / "params.yaml").read_text()) == safe_load(params)
    table = loop.run(
        "dvc",
        "exp",
        "show",
        "--only-changed",
        "--drop",
        ".*/.*|params.yaml|head.*|Created",
        "--no-pager",
        COLUMNS="200",
    )
    assert max(map(len, table.splitlines())) <= WIDTH, table
    assert "more" in table
    loop.git("checkout", "-q", "--", ".")
    loop.run("dvc", "checkout", "-q")
    assert load_record(loop.folder) == first
    assert "soups.word.k0 4 -> 8" in loop.run("wsoup", "compare", "HEAD", "more")
    loop.run("dvc", "exp", "apply", "more")
    assert load_record(loop.folder) == reports


def test_a_clone_without_the_cache_says_that_figures_are_another_machines(loop, tmp_path):
    clone = Path(tmp_path / "clone")
    loop.git("clone", "-q", ".", str(clone))
    shutil.copytree(loop.folder / "reports", clone / "reports", dirs_exist_ok=True)
    other = type(loop).at(clone)
    edit, _, caveat, *_ = fits(other.run("wsoup", "compare"), lines=15).splitlines()
    assert edit.startswith("params.yaml has changed since (run `dvc repro`): ")
    assert caveat.startswith("HEAD holds another machine's figures (DVC has no results of it here)")


def test_a_commit_of_params_that_were_not_run_is_said(project, tmp_path):
    copy = project.copy(tmp_path / "project")
    copy.edit("soups.word", k0=9)
    copy.commit("k0, not run")
    lines = compare("HEAD~1", "HEAD", root=copy.folder).splitlines()
    assert "results of HEAD are of other params than its params.yaml: soups.word.k0 4 -> 9" in lines
    assert not [line for line in lines if line.startswith("results of HEAD~1")]


def test_a_page_that_somebody_edited_is_kept(project, tmp_path):
    """As `wsoup init` keeps changed files; a page as `wsoup report` wrote it is written again."""
    copy = project.copy(tmp_path / "project")
    page = copy.folder / "reports/index.html"
    write_page(page, root=copy.folder)
    assert is_page(page)
    assert is_page(page, of=digest(copy.folder))
    write_page(page, root=copy.folder)
    page.write_text(page.read_text().replace("</body>", "<p>mine</p></body>", 1) + "<!-- mine -->")
    assert not is_page(page)
    printed = copy.run("wsoup", "report", good=False)
    assert "--out reports/index.html exists already; give another name, or --force to replace a file" in printed


def test_unknown_revisions_and_revisions_without_a_report_are_named(loop):
    for revision, message in (
        ("nowhere", "'nowhere' is neither a revision nor an experiment here; see `git log` and `dvc exp list`"),
        ("HEAD~1", "reports/verdict.json is not in revision HEAD~1; commit reports/ after `dvc repro`"),
    ):
        assert message in loop.run("wsoup", "compare", revision, good=False)


FED = [
    ("soups.word.k0", 9, ["word soup", "coop_diverse", "head ridge"]),
    ("soups.word.k1", 9, ["word soup", "coop_diverse", "head ridge"]),
    ("soups.word.patience", 9, ["word soup", "coop_diverse", "head ridge"]),
    ("soups.word.m", 9, ["word soup", "coop_diverse", "head ridge"]),
    ("soups.descriptor.m", 9, ["descriptor soup"]),
    ("finetune.methods.coop_diverse.loss.lambda", 0.5, ["coop_diverse"]),
    ("finetune.methods.coop_diverse.loss.teacher_logit_scale", 20, ["coop_diverse"]),
    ("finetune.methods.ce.learning_rate", 0.5, ["ce"]),
    ("finetune.iterations", 9, ["coop_diverse", "ce"]),
    ("heads.ridge.kind", "prototypes", ["head ridge"]),
    ("datasets.other.template", "art of a {}.", ["word soup", "coop_diverse", "head ridge"]),
    ("fewshot.shots", 1, ["word soup", "coop_diverse", "head ridge"]),
    ("seeds", [1, 2, 3], ["word soup", "coop_diverse", "head ridge"]),
    ("evaluate.baseline_m", 1, ["random texts", "Waffle"]),
    ("report.gallery", 1, ["word soup", "coop_diverse", "head ridge"]),
]


@pytest.mark.parametrize(("param", "value", "first"), FED, ids=[param for param, _, _ in FED])
def test_compare_shows_first_what_an_edited_param_feeds(param, value, first, project, tmp_path):
    """Every row by image, in the workspace that a run with another value would leave; here with the same figures."""
    copy = project.copy(tmp_path / "project")
    file = copy.folder / "reports/verdict.json"
    record = json.loads(file.read_text())
    params = safe_load((copy.folder / "params.yaml").read_text())
    *sections, key = param.split(".")
    for place in (record["params"], params):
        for name in sections:
            place = place[name]
        place[key] = value
    file.write_text(json.dumps(record))
    copy.write_params(params)
    shown = compare(root=copy.folder).splitlines()
    assert shown[0] == "The runs are identical: the same images are right, and no count differs."
    assert shown[1].startswith(f"params: {param} ")
    places = [line.partition(", ") for line in shown if re.search(r"\+0\.00 +identical$", line)]
    assert list(dict.fromkeys(title for title, _, _ in places)) == first
    assert not any("from counts" in line for line in shown)
    (others,) = [line for line in shown if line.startswith("all other rows: ")]
    assert re.fullmatch(r"all other rows: 0 of \d+ changed", others)


def test_what_a_run_is_about_may_have_had_another_name(project, tmp_path):
    """The run's method is compared with the one before, and a soup that was not there is named."""
    copy = project.copy(tmp_path / "project")
    file = copy.folder / "reports/verdict.json"
    record = json.loads(file.read_text())
    record["params"]["report"]["method"] = "ce"
    file.write_text(json.dumps(record))
    (row,) = [line for line in compare(root=copy.folder).splitlines() if line.startswith("ce, source")]
    metrics = json.loads((copy.folder / "reports/metrics.json").read_text())
    assert float(row.removeprefix("ce, source").split()[0]) == metrics["finetuned"]["source"]
