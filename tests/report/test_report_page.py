"""The page of a real run, opened in a browser if one is installed."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from wsoup.base.errors import MissingError
from wsoup.report.page import FIGURES, script_json, write_page

WITHOUT_DATA = {"landscape"}
"""Figures that the miniature has no data for."""
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium: install the Debian package `chromium`")

LOOK = """
<script>
const frame = document.createElement("iframe");
frame.style = "border:0;height:900px;width:WIDTHpx";
frame.srcdoc = PAGE;
document.body.append(frame);
const seen = { errors: [] };
frame.addEventListener("load", async () => {
  const page = frame.contentDocument;
  frame.contentWindow.addEventListener("error", (event) => seen.errors.push(event.message));
  for (let i = 0; i < 200 && !page.body.dataset.ready; i++) await new Promise((done) => setTimeout(done, 50));
  seen.figures = Object.fromEntries([...page.querySelectorAll("[data-figure]")].map((f) =>
    [f.dataset.figure, f.querySelectorAll("svg .mark-line path, svg .mark-symbol path").length]));
  const table = page.querySelector("table[data-name=paired]");
  const column = [...table.querySelectorAll("th")].findIndex((head) => head.textContent === "difference");
  const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[column].dataset.sort));
  const button = table.querySelectorAll("th button")[column];
  button.click();
  seen.falling = values();
  button.click();
  seen.rising = values();
  seen.sort = button.parentElement.getAttribute("aria-sort");
  const tricks = [...page.querySelectorAll("table[data-name=zero_shot] tr.extra")];
  const extras = () => tricks.filter((row) => row.offsetParent).length;
  seen.hidden = extras();
  page.getElementById("all").click();
  seen.shown = extras();
  const names = page.querySelector("table[data-name=zero_shot] tbody td");
  const left = () => names.getBoundingClientRect().left;
  const before = left();
  names.closest(".scroll").scrollLeft = 200;
  seen.moved = Math.abs(left() - before);
  seen.first = [...page.querySelectorAll("[data-figure], table")][0].id;
  seen.overflow = page.documentElement.scrollWidth - frame.clientWidth;
  seen.outside = [...page.querySelectorAll("[src],[href]")].map((e) => e.getAttribute("src") ?? e.getAttribute("href"))
    .filter((address) => !address.startsWith("#") && !address.startsWith("data:"));
  seen.pictures = page.querySelectorAll("#gallery img").length;
  page.getElementById("all").click();
  for (const details of page.querySelectorAll("details")) details.open = true;
  const width = page.documentElement.clientWidth;
  const right = (e) => e.checkVisibility() ? e.getBoundingClientRect().right : 0;
  const place = (e) => e.closest("[data-name], [data-figure], section, header")?.outerHTML.slice(0, 60);
  seen.wide = [...page.body.querySelectorAll("*")].filter((e) => right(e) > width + 1)
    .map((e) => `${e.tagName} to ${right(e)} of ${width} in ${place(e)}`).slice(0, 5);
  seen.ground = getComputedStyle(page.body).backgroundColor;
  const result = document.createElement("output");
  result.textContent = JSON.stringify(seen);
  document.body.replaceChildren(result);
});
</script>
"""


@pytest.fixture(scope="module")
def page(project, tmp_path_factory) -> Path:
    """The page of the miniature project after its first run."""
    out = tmp_path_factory.mktemp("page") / "index.html"
    return write_page(out, params_file=project.folder / "params.yaml", root=project.folder)


def look(page: Path, *, width: int, dark: bool, folder: Path) -> tuple[dict, list[str]]:
    """Open the page in a frame of this width: what a script in the browser found, and the console's messages."""
    text = script_json(page.read_text(encoding="utf-8"))
    wrapper = folder / "wrapper.html"
    wrapper.write_text(
        f"<!doctype html><html><body>{LOOK.replace('PAGE', text, 1).replace('WIDTH', str(width), 1)}</body></html>"
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    options += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    options += ["--virtual-time-budget=30000", f"--user-data-dir={folder / 'browser'}", "--dump-dom"]
    browser = subprocess.run([str(BROWSER), *options, wrapper.as_uri()], capture_output=True, text=True, timeout=120)
    output = re.search(r"<output>(.*)</output>", browser.stdout, flags=re.DOTALL)
    assert output, browser.stdout[-2000:] + browser.stderr[-2000:]
    return json.loads(html.unescape(output[1])), [line for line in browser.stderr.splitlines() if "CONSOLE" in line]


@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280], ids=["phone", "desktop"])
def test_the_page_opens_sorts_draws_and_fits_the_window(page, width, dark, tmp_path):
    seen, console = look(page, width=width, dark=dark, folder=tmp_path)
    assert console == []
    assert seen["errors"] == []
    assert set(seen["figures"]) == set(FIGURES) - WITHOUT_DATA
    assert all(marks > 0 for marks in seen["figures"].values())
    assert seen["falling"] == sorted(seen["falling"], reverse=True)
    assert seen["rising"] == sorted(seen["rising"])
    assert len(set(seen["rising"])) > 1
    assert seen["sort"] == "ascending"
    assert seen["overflow"] <= 0
    assert seen["wide"] == []
    assert (seen["ground"] == "rgb(20, 24, 29)") is dark
    assert seen["hidden"] == 0 < seen["shown"]
    assert seen["moved"] < 1  # row names stay in place
    assert seen["first"] == "figure-gains"
    assert seen["outside"] == []


def test_the_page_shows_the_run(page, project):
    text = page.read_text(encoding="utf-8")
    for part in (
        "Zero-shot accuracy",
        "Accuracy after finetuning",
        "Word soup, seed 1",
        "tiny-clip",
        "Descriptor soup, seed 2",
        "What the word soup (centroid, all seeds) changed",
        "over the class name only",
        "no longer taken for",
        "Class name only: ",
        "max_words:",
    ):
        assert part in text
    soup = json.loads((project.folder / "artifacts/soups/word/seed1.json").read_text())
    assert soup["members"][0]["trace"][0]["added"] in text


def test_classify_uses_the_soup_that_was_judged(page, project):
    """The headline's accuracy on the source's test images is that of `wsoup classify`."""
    metrics = json.loads((project.folder / "reports/metrics.json").read_text())
    judged = metrics["verdict"]["all_seeds"]["over_class_name"]["source"]["accuracy"]
    classes = sorted(path.name for path in (project.folder / "photo/test").iterdir())
    printed = project.run("wsoup", "classify", "photo/test", "--classes", ",".join(classes))
    assert float(re.search(r"accuracy ([0-9.]+) %", printed)[1]) == pytest.approx(judged, abs=0.005)
    for shown in (page.read_text(encoding="utf-8"), project.run("wsoup", "results")):
        assert metrics["headline"] in shown


def test_each_figure_is_also_written_as_svg(page):
    assert {path.stem for path in (page.parent / "figures").glob("*.svg")} == set(FIGURES) - WITHOUT_DATA


def test_data_cannot_close_their_script_element():
    assert "<" not in script_json({"text": "</script><script>alert(1)</script>"})
    assert json.loads(script_json({"text": "</script>"})) == {"text": "</script>"}


def test_a_page_without_a_run_names_the_stage(in_tmp, project):
    with pytest.raises(MissingError, match="made by stage 'evaluate'"):
        write_page("index.html", params_file=project.folder / "params.yaml", root=in_tmp)


def test_compare_reads_commits_and_the_workspace(project, in_tmp):
    from wsoup.report.compare import compare

    params, accuracies = compare("HEAD", root=project.folder)
    assert params.rows == []
    assert accuracies.rows == []
    assert "rows are the same in both" in accuracies.notes[-1]
