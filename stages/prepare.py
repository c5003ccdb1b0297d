"""A dataset on disk -> its manifest, a table of the images that a run uses."""

from pathlib import Path

from wsoup.base.class_names import shared_names
from wsoup.base.errors import DataError
from wsoup.base.templates import oddity
from wsoup.datasets import manifest, roles
from wsoup.datasets.class_lines import stripped_lines
from wsoup.datasets.copies import without_copies
from wsoup.datasets.few_images import only_class, thin_classes
from wsoup.datasets.left_out import left_out
from wsoup.datasets.shape import shape_of
from wsoup.disk import store
from wsoup.disk.files import Artifacts
from wsoup.disk.shards import Owner
from wsoup.params.inputs import Datasets, FewshotParams
from wsoup.params.section import Sections, Seeds, load, one_of
from wsoup.pipeline import stage
from wsoup.pipeline.checks import preflight
from wsoup.pipeline.params import covers, load_params


class Wanted(Sections):
    """The sections of params.yaml that this stage reads."""

    seeds: Seeds
    datasets: Datasets
    fewshot: FewshotParams


def main(owner: Owner, dataset: str) -> None:
    """Write the manifest of DATASET, a name in params.yaml."""
    # A run begins here, and the stage that would meet a problem may come hours later.
    problem = next(preflight.problems(load_params()), None)
    if problem is not None:
        raise problem
    params = load(Wanted)
    section = one_of("datasets", params.datasets, dataset)
    listing = manifest.read_listing(dataset, params=section)
    built = manifest.build(listing, name=dataset, params=section, shots=params.fewshot.shots, seeds=list(params.seeds))
    heads = load_params().heads
    built, copies = without_copies(built, for_heads=bool(heads) and section.role == "source")
    lines = [*listing.notes, *copies, *thin_classes(listing, params=section, shots=params.fewshot.shots)]
    if section.layout == "imagefolder":
        lines += [shape_of(section.root).taken_for(section.test_split), *left_out(section.root)]
    lines.append(roles.foreign(dataset, class_names=listing.class_names, datasets=params.datasets))
    lines.append(shared_names(listing.class_names))
    if section.role == "source" and len(listing.class_names) < 2:
        raise DataError(only_class(listing.class_names))
    lines.append(oddity(section.template))
    for line in filter(None, lines):
        print(f"{dataset}: {line}")
    attributes = built.attributes
    if section.templates is not None and covers(section.watch, section.templates):
        # DVC shows the folder of the images to this stage alone; stage evaluated takes them from here.
        attributes = {**attributes, "templates": stripped_lines(Path(section.templates), hint="correct templates")}
    store.write_table(Artifacts().manifest(dataset), built.table, attributes=attributes)


if __name__ == "__main__":
    stage.run(main)
