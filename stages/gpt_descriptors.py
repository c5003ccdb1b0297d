"""Stage gpt_descriptors: GPT-descriptor files -> every dataset's descriptors by its own class names."""

from __future__ import annotations

from wsoup.disk import store
from wsoup.disk.artifacts import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.base.datasets import Datasets
from wsoup.params.base.section import Sections, load
from wsoup.pipeline import stage
from wsoup.search.rank import gpt


class Wanted(Sections):
    """What this stage reads of params.yaml."""

    datasets: Datasets


def main(owner: Owner) -> None:
    """Write {dataset: {class name: [descriptor, ...]}} for the datasets that name a file in gpt_descriptors."""
    by_dataset, artifacts = {}, Artifacts()
    for name, dataset in load(Wanted).datasets.items():
        if dataset.gpt_descriptors is not None:
            manifest = store.require(artifacts.manifest(name), made_by=f"prepare@{name}")
            class_names = store.table_attributes(manifest)["class_names"]
            path = dataset.gpt_descriptors
            called = dataset.gpt_names or {}
            said = gpt.read(path, wording=dataset.gpt_wording)
            by_dataset[name] = gpt.matched(said, class_names=class_names, origin=path, called=called)
    store.write_json(artifacts.gpt, by_dataset)


if __name__ == "__main__":
    stage.run(main)
