"""The page of a real run, opened in a browser if one is installed."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from run_cli import run

from wsoup.base.errors import MissingError, ParamsError
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.report import page as answer_of_page
from wsoup.report.figures import FIGURES
from wsoup.report.page import script_json, write_page
from wsoup.report.pictures import worst_errors
from wsoup.report.svg import TEXT, is_figure, write_figure
from wsoup.report.tables import cell
from wsoup.statistics.words import signed

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
  seen.height = page.querySelector("main").getBoundingClientRect().top;
  const edges = (e) => [Math.round(e.getBoundingClientRect().left), Math.round(e.getBoundingClientRect().right)];
  seen.grid = ["h1", "table[data-name=main]", "#figure-gains", ".said"].map((name) => edges(page.querySelector(name)));
  seen.main = [...page.querySelectorAll("table[data-name=main] td")].filter((e) => e.checkVisibility()).map(edges);
  seen.open = [...page.querySelectorAll("main > details[open] table")].map((table) => table.dataset.name);
  const verdicts = [...page.querySelectorAll("table[data-name^=verdict]")];
  seen.columns = verdicts.map((table) => table.rows[0].cells.length);
  for (const details of page.querySelectorAll("details")) details.open = true;
  const drawn = () => [...page.querySelectorAll(".figure")].map((f) =>
    [f.id, f.querySelectorAll("svg .mark-line path, svg .mark-symbol path").length]);
  for (let i = 0; i < 99 && drawn().some(([, marks]) => !marks); i++) await new Promise((done) => setTimeout(done, 50));
  seen.figures = Object.fromEntries(drawn());
  const isNarrow = (figure) => figure.querySelector("svg")?.clientWidth < 200;
  seen.narrow = [...page.querySelectorAll(".figure")].filter(isNarrow).map((figure) => figure.id);
  const texts = [...page.querySelectorAll("svg text, td, th, p, dd, dt, li")].filter((e) => e.textContent.trim());
  seen.small = texts.filter((e) => e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < 12)
    .map((e) => e.textContent).slice(0, 5);
  const lies = (e, place) => { const [a, b] = [e.getBoundingClientRect(), place.getBoundingClientRect()];
    return a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1; };
  seen.hidden = [...page.querySelectorAll("svg .mark-symbol path, svg text")]
    .filter((e) => e.checkVisibility() && !lies(e, e.closest("svg"))).map((e) => e.outerHTML.slice(0, 90));
  seen.cut = [...page.querySelectorAll("svg text")].map((t) => t.textContent).filter((t) => t.endsWith("…"));
  const table = page.querySelector("table[data-name=zero_shot]");
  const column = [...table.querySelectorAll("th")].findIndex((head) => head.textContent === "XD mean");
  const values = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[column].dataset.sort));
  const button = table.querySelectorAll("th button")[column];
  button.click();
  seen.falling = values();
  button.click();
  seen.rising = values();
  seen.sort = button.parentElement.getAttribute("aria-sort");
  seen.overflow = page.documentElement.scrollWidth - frame.clientWidth;
  seen.outside = [...page.querySelectorAll("[src],[href]")].map((e) => e.getAttribute("src") ?? e.getAttribute("href"))
    .filter((address) => !address.startsWith("#") && !address.startsWith("data:"));
  const width = page.documentElement.clientWidth;
  const right = (e) => e.checkVisibility() ? e.getBoundingClientRect().right : 0;
  const place = (e) => e.closest("[data-name], .figure, details, header")?.outerHTML.slice(0, 60);
  const free = [...page.body.querySelectorAll("*")].filter((e) => !e.parentElement.closest(".scroll"));
  seen.wide = free.filter((e) => right(e) > width + 1)
    .map((e) => `${e.tagName} to ${right(e)} of ${width} in ${place(e)}`).slice(0, 5);
  seen.ground = getComputedStyle(page.body).backgroundColor;
  const result = document.createElement("output");
  result.textContent = JSON.stringify(seen);
  document.body.replaceChildren(result);
});
</script>
"""


PANELS = [{"method": "soft", "mean": mean} for mean in ("training images", "mean of the targets")]
CORNERS = [{"x": x, "y": y, "error": 40 + x + 2 * y} for x, y in ((0, 0), (0, 1), (1, 0), (1, 1))]
ENDS = [{"line": "to B, the soup", "place": place, "error": 40 + place} for place in (0, 1)]
MADE = {
    "landscape": [panel | corner for panel in PANELS for corner in CORNERS],
    "landscape_lines": [panel | end for panel in PANELS for end in ENDS],
}
"""Data of the figures that the miniature has none for."""


@pytest.fixture(scope="module")
def page(project, tmp_path_factory) -> Path:
    """The page of the miniature project after its first run."""
    out = tmp_path_factory.mktemp("page") / "index.html"
    plots = project.folder / "reports/plots"
    empty = {name: (plots / f"{name}.json").read_bytes() for name in MADE}
    for name, points in MADE.items():
        (plots / f"{name}.json").write_text(json.dumps(points))
    write_page(out, root=project.folder)
    for name, content in empty.items():
        (plots / f"{name}.json").write_bytes(content)
    return out


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
    assert set(seen["figures"]) == {f"figure-{name}" for name in FIGURES}
    assert all(marks > 0 for marks in seen["figures"].values())
    assert seen["narrow"] == []
    assert seen["falling"] == sorted(seen["falling"], reverse=True)
    assert seen["rising"] == sorted(seen["rising"])
    assert len(set(seen["rising"])) > 1
    assert seen["sort"] == "ascending"
    assert seen["overflow"] <= 0
    assert seen["wide"] == []
    assert (seen["ground"] == "rgb(20, 24, 29)") is dark
    assert seen["cut"] == []
    assert width < 1280 or seen["height"] <= 1000, "what was run, the table and the figure are one screen"
    assert seen["small"] == [], "text is at least 12 pixels high"
    assert seen["hidden"] == [], "points and labels lie within their figures"
    assert len(set(map(tuple, seen["grid"]))) == 1, "title, table, figure and text have the same edges"
    left, right = seen["grid"][0]
    assert all(left <= first and last <= right for first, last in seen["main"])
    assert seen["open"] == ["verdict"], "of the verdicts the answer's are open, each soup's are folded"
    assert max(seen["columns"]) <= 7
    assert seen["outside"] == []


def test_the_page_shows_the_run_under_the_params_that_made_it(page, project, tmp_path):
    text = page.read_text(encoding="utf-8")
    for part in (
        "Zero-shot accuracy",
        "Accuracy after finetuning",
        "tiny-clip",
        "max_words:",
        "The worst errors of the",
    ):
        assert part in text
    before = write_page(tmp_path / "before.html", root=project.folder).read_text(encoding="utf-8")
    project.edit("soups.word", k0=9)
    after = write_page(tmp_path / "after.html", root=project.folder).read_text(encoding="utf-8")
    project.git("checkout", "-q", "--", "params.yaml")
    assert after == before


def test_classify_uses_the_soup_that_was_judged(project):
    """Its accuracy on the source's test images is that of `wsoup classify`."""
    judged = json.loads((project.folder / "reports/metrics.json").read_text())["soup"]["source"]
    classes = sorted(path.name for path in (project.folder / "photo/test").iterdir())
    printed = project.run("wsoup", "classify", "photo/test", "--classes", ",".join(classes))
    assert float(re.search(r"accuracy ([0-9.]+) %", printed)[1]) == pytest.approx(judged, abs=0.005)


def test_data_cannot_close_their_script_element():
    assert "<" not in script_json({"text": "</script><script>alert(1)</script>"})
    assert json.loads(script_json({"text": "</script>"})) == {"text": "</script>"}


def test_texts_on_the_page_turn_no_others_round(project, tmp_path):
    """A class's name comes from a folder that somebody else may have named; here the title does."""
    write_page(tmp_path / "page.html", root=project.folder, title="gnp\u202etac\u2066 \x1b[31m")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>gnp\\u202etac\\u2066 \\x1b[31m" in text
    assert not any(odd in text for odd in "\u202e\u2066\x1b")


def test_a_page_without_a_run_names_the_stage(in_tmp):
    with pytest.raises(MissingError, match="made by stage 'report'"):
        write_page("index.html", root=in_tmp)


def test_a_file_that_is_no_page_of_a_run_stays(in_tmp):
    Path("notes.html").write_text("mine")
    Path("params.yaml").write_text(run("profile", "demo")[1])  # a pipeline folder
    assert run("report", "--out", "notes.html")[2].startswith("error: --out notes.html exists already")
    assert Path("notes.html").read_text() == "mine"


NAMES = ["cat", "dog", "fox"]
#         label, before, after, images
COUNTS = [(0, 1, 0, 2), (0, 2, 1, 1), (0, 0, 0, 7), (1, 1, 2, 1), (1, 1, 1, 2), (1, 2, 2, 1), (2, 2, 2, 4)]


def test_errors_are_sorted_by_their_share_of_the_class(tmp_path):
    """2 of 4 dogs are taken for a fox, one of them also by the class name alone; 1 of 10 cats for a dog."""
    artifacts = Artifacts(tmp_path)
    keys = ("label", "before", "after", "n_images")
    lines = [{"dataset": "pets", **dict(zip(keys, line, strict=True))} for line in COUNTS]
    store.write_table(artifacts.results / "pretrained/confusion.parquet", pa.Table.from_pylist(lines))
    store.write_table(artifacts.manifest("pets"), pa.table({"label": [0]}), attributes={"class_names": NAMES})
    table = worst_errors(artifacts, params=SimpleNamespace(datasets={"pets": None}))
    assert [list(row.values()) for row in table.rows] == [
        ["dog", "fox", "pets", 2, 1, 4],
        ["cat", "dog", "pets", 1, 2, 10],
    ]


def test_errors_of_a_soup_that_is_advised_against_are_not_the_first_table(page, project, tmp_path, monkeypatch):
    def is_first(use: str | None) -> bool:
        place = SimpleNamespace(use=use)
        monkeypatch.setattr(answer_of_page, "_is_about_soup", lambda judged: is_about_soup(judged_with(place)))
        text = write_page(tmp_path / "page.html", root=project.folder).read_text(encoding="utf-8")
        assert text.count("The worst errors of the") == 1
        return text.index("The worst errors of the") < text.index("What the soup says")

    is_about_soup = answer_of_page._is_about_soup
    assert [is_first(use) for use in (None, "soup", "head", "templates")] == [True, True, False, False]


def judged_with(place: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(answers={"source": place})


def test_a_figure_is_an_svg_with_the_runs_rows(project, tmp_path):
    """Its text is neither black nor white, and its ground is see-through: it is read on light and on dark pages."""
    written = write_figure(tmp_path / "gains.svg", name="gains", root=project.folder).read_text(encoding="utf-8")
    assert written.startswith("<svg")
    for text in ("word soup, all seeds", "80 templates", "points gained"):
        assert text in written
    assert f'fill="{TEXT}"' in written
    assert 'fill="black"' not in written
    assert is_figure(tmp_path / "gains.svg")
    (tmp_path / "gains.svg").write_text(written.replace("points gained", "mine"), encoding="utf-8")
    assert not is_figure(tmp_path / "gains.svg"), "a user's edit is not ours to replace"
    with pytest.raises(ParamsError, match="--figure 'gain' must be one of gains, candidates"):
        write_figure(tmp_path / "gain.svg", name="gain", root=project.folder)


@pytest.mark.parametrize("name", ["candidates", "members_kl"])
def test_a_figure_that_fills_the_page_is_as_wide_in_a_file(name, project, tmp_path):
    """560 pixels and the axis's labels; without the page's column it would be as narrow as its marks allow."""
    written = write_figure(tmp_path / "figure.svg", name=name, root=project.folder).read_text(encoding="utf-8")
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)"', written)
    assert float(width) > 600


def test_the_page_says_which_run_it_shows_and_what_the_soup_says(page, project):
    text = page.read_text(encoding="utf-8")
    commit = project.git("rev-parse", "--short", "HEAD").strip()
    assert f"UTC, git revision {commit}</dd>" in text
    assert "The word soup has 4 texts with the members of all seeds:</p>" in text
    folded = text.index("<details", text.index("<main>"))
    assert text.index("What the soup says") < folded
    assert text.index("now right") < folded
    assert "hangs on" not in text


def test_the_first_table_is_the_papers_with_the_figures_of_the_answer(page, project):
    """Texts, soups, what was trained; each said in a few words; the run's soup with its gain over the class name."""
    text = page.read_text(encoding="utf-8")
    table = text[text.index('data-name="main"') : text.index("By dataset, with")]
    rows = [re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", row)).strip() for row in table.split("<tr")[2:]]
    metrics = json.loads((project.folder / "reports/metrics.json").read_text())
    soup = metrics["soup"]["source"]
    gain = soup - metrics["class_name"]["source"]
    (own,) = [row for row in rows if "word soup, all seeds" in row]
    assert f"Algorithm 2: chains of words 4 {soup:.1f} {signed(gain)} " in own
    weighed = [row for row in rows if "weighed for each image by its own scores" in row]
    titles = ("80 prompt templates, AutoCLIP", "random descriptors, AutoCLIP", "word soup, AutoCLIP")
    assert [title in row for row, title in zip(weighed, titles, strict=True)] == [True, True, True]
    names = [name for name in ("class name", "80 templates", "word soup, all seeds", "head") if f">{name}<" in table]
    assert names == ["class name", "80 templates", "word soup, all seeds", "head"]
    assert (
        table.index(">class name<") < table.index(">80 templates<") < table.index(">word soup") < table.index(">head<")
    )


def test_what_a_run_ran_on_is_said_first(page, project):
    """The miniature's photos are no drawn world; datasets with their numbers of images, encoder, labelled images."""
    text = page.read_text(encoding="utf-8")
    first = text[: text.index("<table")]
    counts = (project.folder / "reports/tables/counts.csv").read_text(encoding="utf-8").splitlines()[1:]
    n_images = {line.split(",")[2]: int(line.split(",")[6]) for line in counts}
    assert f"<dd>{sum(n_images.values()):,} test images</dd>" in first
    for name, n in n_images.items():
        assert f"{name} ({n})" in first
    assert "tiny-clip / " in first
    assert "labelled images of each class, seeds 1, 2" in first
    assert "drawn by wsoup" not in first


def test_a_small_p_value_and_too_few_datasets_are_said_in_words():
    assert [cell({"p": value}, "p") for value in (0.0, 0.0004, 0.0123, 1.0)] == ["< 0.001", "< 0.001", "0.012", "1.000"]
