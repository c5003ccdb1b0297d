"""What `wsoup check` says of published figures: which datasets of a run will have one to be compared with."""

from collections.abc import Iterator
from pathlib import Path

from wsoup.paper.published import IN_WORDS, dataset_of, of_encoder
from wsoup.pipeline.params import Params


def figure_of(name: str, *, params: Params, n_images: int, n_classes: int) -> Iterator[str]:
    """A line on the figure of one dataset and the run's encoder, or on why it is of other images; none without one.

    Args:
        name: of the dataset.
        params: all of params.yaml.
        n_images, n_classes: of its test images.
    """
    section = params.datasets[name]
    known = dataset_of(name, layout=section.layout)
    if known is None or section.classes is not None:
        return
    tag = Path(params.encoder.pretrained or "").name
    # As `wsoup.report.published_beside`: the activation goes by the tag.
    published, _ = of_encoder(params.encoder.model, tag, quick_gelu=True)
    if published is None or known.name not in published.accuracy:
        return
    figure = f"{published.accuracy[known.name]:.2f} % ({IN_WORDS[known.metric]}, {published.title})"
    differs = known.differs(n_images=n_images, n_classes=n_classes)
    if differs:
        yield f"its published figure, {figure}, is of other images: {differs}"
    else:
        yield f"published figure: {figure}; `wsoup verify published` compares it"
