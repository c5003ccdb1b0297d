"""A pool of one's own in a real run of DVC, as docs/pipeline.md has it: file, ranking, soup, rows in the results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.compute as pc
from project import Project
from yaml_in_c import safe_load

from wsoup.disk import store
from wsoup.evaluate.right import random_beside

ROOT = Path(__file__).parents[2]
FACTS = ["which is found in forests", "which is soft", "as seen at night", "which shines", "painted by hand"]


def example() -> dict:
    """The block of docs/pipeline.md."""
    _, _, section = (ROOT / "docs/pipeline.md").read_text().partition("## A pool of your own")
    block = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return safe_load(block[1])


def test_a_pool_of_ones_own_is_ranked_searched_evaluated_and_shown(project: Project) -> None:
    project.edit("candidates.words", watch="pools/words.txt")  # finetuning depends on it, and not on other pools
    project.run("dvc", "commit", "--force")  # the same words, so every out is as it would be
    assert project.changed() == set()
    (project.folder / "pools/facts.txt").write_text("".join(f"{fact}\n" for fact in FACTS))
    block = example()
    block["candidates"]["descriptors"]["period"] = False  # as they were ranked
    params = safe_load((project.folder / "params.yaml").read_text())
    params["candidates"] |= block["candidates"]
    params["soups"] |= block["soups"]
    project.write_params(params)
    ran = project.repro()
    assert {"candidates", "score@facts", "soup@facts", "evaluate", "report"} <= ran
    others = {"score@words", "score@descriptors", "soup@word", "soup@descriptor", "finetune@ce"}
    assert ran & others == set()

    artifacts = project.folder / "artifacts"
    assert (artifacts / "pools/facts.txt").read_text().splitlines() == FACTS
    scores = store.read_table(artifacts / "scores/facts.parquet")
    assert set(scores["text"].to_pylist()) == {"", *FACTS}
    assert store.table_attributes(artifacts / "scores/facts.parquet")["period"] is True
    results = store.read_table(artifacts / "results/pretrained/results.parquet")
    of_soup = results.filter(pc.equal(results["method"], "facts_soup"))
    assert set(of_soup["dataset"].to_pylist()) == {"photo", "other", "dim"}
    right = store.read_table(artifacts / "results/pretrained/right.parquet", columns=["method"])
    assert {"facts_soup", random_beside("facts")} <= set(right["method"].to_pylist())
    for table in ("zero_shot.md", "finetuned.md"):
        assert "oup facts" in (project.folder / "reports/tables" / table).read_text(), table
    assert "scores of facts" in (project.folder / "reports/tables/memory.md").read_text()
    points = json.loads((project.folder / "reports/plots/candidates.json").read_text())
    assert {"words", "descriptors", "facts"} <= {point["pool"] for point in points}
