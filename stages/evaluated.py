"""Stage evaluated: what params.yaml says of datasets and soups to the stages that evaluate, and GPT descriptors.

Sections `datasets` and `soups` say more than that. Evaluation depends on this file instead, so a dataset that moved or
a soup that came out as before evaluates nothing again.
"""

from __future__ import annotations

from typing import Any

from wsoup.core.disk import store
from wsoup.core.disk.artifacts import Artifacts
from wsoup.core.disk.shards import Owner
from wsoup.core.params.datasets import Datasets
from wsoup.core.params.section import Name, Sections, load
from wsoup.pipeline import stage
from wsoup.search.rank import gpt


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    datasets: Datasets
    soups: dict[Name, dict[str, Any]]  # what kinds there are is no matter here


def main(owner: Owner) -> None:
    """Write {datasets: [{name, role, baseline_template, gpt_names, gpt}], soups: [{name, pool}]}, in params' order.

    gpt: {class name: [descriptor, ...]}, null where the dataset names no file in gpt_descriptors.
    """
    params, artifacts = load(Wanted), Artifacts()
    datasets = []
    for name, dataset in params.datasets.items():
        path, matched, called = dataset.gpt_descriptors, None, dataset.gpt_names or {}
        if path is not None:
            manifest = store.require(artifacts.manifest(name), made_by=f"prepare@{name}")
            class_names = store.table_attributes(manifest)["class_names"]
            said = gpt.read(path, wording=dataset.gpt_wording)
            matched = gpt.matched(said, class_names=class_names, origin=path, called=called)
        about = {"role": dataset.role, "baseline_template": dataset.baseline_template, "gpt_names": called}
        datasets.append({"name": name, **about, "gpt": matched})
    soups = [{"name": name, "pool": soup["pool"]} for name, soup in params.soups.items()]
    store.write_json(artifacts.evaluated, {"datasets": datasets, "soups": soups})


if __name__ == "__main__":
    stage.run(main)
