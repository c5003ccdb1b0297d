"""The settings of datasets and soups that evaluation needs, GPT descriptors and lists of templates.

Evaluation depends on this file rather than on the sections `datasets`, `soups` and `candidates`, so it does not run
again for a dataset that moved, or for a soup that came out the same.
"""

from wsoup.disk import store
from wsoup.disk.files import Artifacts, evaluated_soups
from wsoup.disk.shards import Owner
from wsoup.evaluate.params import EvaluateParams
from wsoup.evaluate.rows import SIMPLE
from wsoup.params.inputs import Datasets
from wsoup.params.section import Name, Sections, load
from wsoup.pipeline import stage
from wsoup.search.candidates import gpt_classes
from wsoup.search.candidates.templates import checked_templates, templates_of
from wsoup.search.pools import lists
from wsoup.search.pools.params import CandidatesParams


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    evaluate: EvaluateParams
    datasets: Datasets
    soups: dict[Name, dict[str, object]]  # the kinds do not matter here
    candidates: CandidatesParams


def main(owner: Owner) -> None:
    """Write {datasets: [{name, role, baseline_template, gpt_names, gpt}], soups: [{name, pool}], waffle: [text]}.

    All are in the order of params.yaml. gpt: {class name: [descriptor, ...]}, or null if gpt_descriptors is null;
    gpt_sentences: true stands beside it if they are whole sentences. sentences: {class name: [sentence, ...]}, if a
    file of them is given.

    Beside it the lists of templates, {lists: {name: [template]}, datasets: {name: [template]}}, on which stage evaluate
    alone depends.
    """
    params = load(Wanted)
    artifacts = Artifacts()
    datasets = []
    for name, dataset in params.datasets.items():
        by_key = {}
        for given in dataset.class_texts:
            manifest = store.require(artifacts.manifest(name), made_by=f"prepare@{name}")
            class_names = store.table_attributes(manifest)["class_names"]
            by_key[given.key] = gpt_classes.texts_of(given, class_names=class_names)
        gpt_names = dataset.gpt_names or {}
        about = {"role": dataset.role, "baseline_template": dataset.baseline_template, "gpt_names": gpt_names}
        datasets.append({"name": name, **about, "gpt": by_key.get("gpt_descriptors")})
        if dataset.gpt_wording == "sentences":
            datasets[-1]["gpt_sentences"] = True
        if "sentences" in by_key:
            datasets[-1]["sentences"] = by_key["sentences"]
    waffle: list[str] = []
    if params.candidates.waffle is not None:
        waffle = lists.waffle_texts(params.candidates.waffle)
    lists_of_rows = {}
    for name, source in params.evaluate.template_lists.items():
        lists_of_rows[name] = [] if source == SIMPLE else templates_of(source)
    of_datasets = {}
    for name, each in params.datasets.items():
        if each.templates:
            manifest = store.require(artifacts.manifest(name), made_by=f"prepare@{name}")
            among_images = store.table_attributes(manifest).get("templates")
            if among_images is None:
                of_datasets[name] = templates_of(each.templates)
            else:
                of_datasets[name] = checked_templates(among_images, origin=each.templates)
    store.write_checked_object(artifacts.templates, {"lists": lists_of_rows, "datasets": of_datasets})
    soups = evaluated_soups(params.soups)
    store.write_checked_object(artifacts.evaluated, {"datasets": datasets, "soups": soups, "waffle": waffle})


if __name__ == "__main__":
    stage.run(main)
