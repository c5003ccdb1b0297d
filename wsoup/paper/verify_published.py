"""`wsoup verify published`: zero-shot accuracy with OpenAI's templates beside the figure that open_clip publishes.

Nothing depends on a soup: test images, and the texts with which the figure was made (data/published). A difference may
be rounding: the published figures are of half precision, and four decimal places. Where images are resized otherwise
than the model's own preprocessing does, more of them change. What is left has a cause, which is looked for by counting
again: by the other metric, with the names or templates that the figure is not of. What none of that explains is said
from the pattern of the differences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wsoup.evaluate.testsets import TestSet
from wsoup.paper.published import IN_WORDS, Metric, PublishedDataset, PublishedEncoder, templates_of
from wsoup.paper.published_counts import count, recounts
from wsoup.texts.encoder import PromptEncoder

NEARER = 1 / 3
"""A recount names a cause if at most this share of the difference is left."""
LARGE = 1.0
"""Points by which every row is lower where the activation or the weights are others."""


@dataclass(frozen=True)
class Compared:
    """A figure of theirs and ours, per cent.

    Attributes:
        dataset: its name in params.yaml.
        of: its name in data/published.
        metric: what both are.
        theirs, ours: the figures.
        within, resized: points that half precision explains, and that another resizing explains.
        other_images: why the test images are others; "" if they are not.
        because: what else was counted that gives their figure, nearest first.
    """

    dataset: str
    of: str
    metric: Metric
    theirs: float
    ours: float
    within: float
    resized: float
    other_images: str = ""
    because: tuple[str, ...] = ()

    @property
    def difference(self) -> float:
        return self.ours - self.theirs

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= self.within

    @property
    def differs(self) -> bool:
        """Whether images are the same and figures are not."""
        return not self.other_images and not self.agrees


def compare(
    tests: Mapping[str, tuple[TestSet, PublishedDataset]],
    *,
    text_encoder: PromptEncoder,
    published: PublishedEncoder,
) -> Iterator[Compared]:
    """Compare each dataset that has a figure.

    Args:
        tests: by name in params.yaml, with the dataset that it is.
        text_encoder: the text side of the encoder.
        published: its figures.
    """
    for name, (test, dataset) in tests.items():
        theirs = published.accuracy.get(dataset.name)
        if theirs is None:
            continue
        counted = count(test, text_encoder=text_encoder, names=test.class_names, templates=templates_of(dataset))
        line = Compared(
            name,
            dataset.name,
            dataset.metric,
            theirs,
            counted.figure(dataset.metric),
            within=counted.within(dataset.metric, resized=False),
            resized=counted.within(dataset.metric, resized=True),
            other_images=dataset.differs(n_images=len(test.labels), n_classes=len(test.class_names)),
        )
        if line.differs:
            again = recounts(test, dataset, text_encoder=text_encoder, counted=counted)
            line = _with_causes(line, again)
        yield line


def _with_causes(line: Compared, again: Iterator[tuple[str, float]]) -> Compared:
    """A line with the recounts that give their figure, nearest first; those hardly nearer than ours are left out."""
    near = []
    for words, figure in again:
        off = abs(figure - line.theirs)
        if off <= line.within and off < NEARER * abs(line.difference):
            near.append((off, words))
    return replace(line, because=tuple(words for _, words in sorted(near)))


def shown(lines: Sequence[Compared], *, published: PublishedEncoder, twin: PublishedEncoder | None) -> Iterator[str]:
    """A line for each dataset, then how many agree."""
    yield f"{published.title} with OpenAI's templates, as open_clip publishes it (data/published)"
    if twin is not None:
        yield f"the same weights with another activation are published as {twin.title}: {_on_imagenet(twin)}"
    for line in lines:
        figures = f"theirs {line.theirs:.2f} %, ours {line.ours:.2f} % ({round(line.difference, 2) + 0.0:+.2f})"
        verdict = "agrees" if line.agrees else "differs"
        if line.other_images:
            verdict = f"not comparable: {line.other_images}"
        yield (
            f"{line.dataset}, {IN_WORDS[line.metric]}: {figures}; half precision explains {line.within:.2f}, another "
            f"resizing {line.resized:.2f}: {verdict}"
        )
    compared = [line for line in lines if not line.other_images]
    yield f"{sum(line.agrees for line in compared)} of {len(compared)} figures agree"


def _on_imagenet(published: PublishedEncoder) -> str:
    return f"ImageNet {published.accuracy['imagenet']:.2f} %" if "imagenet" in published.accuracy else "other figures"


def usual_causes(lines: Sequence[Compared], *, given: Sequence[str], twin: PublishedEncoder | None) -> list[str]:
    """What makes figures differ, in the order in which the differences point to it.

    First what counting again has shown; then of the encoder, if all rows differ; then of single datasets.

    Args:
        lines: all of them.
        given: keys of section encoder that change what images and texts become, with their values.
        twin: the same weights as published with another activation.
    """
    wrong = [line for line in lines if line.differs]
    causes: dict[str, list[str]] = {}
    for line in wrong:
        for words in line.because[:1]:
            causes.setdefault(words, []).append(line.dataset)
    shown = [f"{', '.join(of)}: {words}" for words, of in sorted(causes.items(), key=lambda each: -len(each[1]))]
    left = [line for line in wrong if not line.because]
    compared = [line for line in lines if not line.other_images]
    if left and len(left) == len(compared):
        return shown + _of_encoder(left, given=given, twin=twin)
    by_little = [line for line in left if given and abs(line.difference) <= line.resized]
    if by_little:
        shown.append(f"{', '.join(line.dataset for line in by_little)}: {_images(given)}")
    single = [line for line in left if line not in by_little]
    return shown + [f"{line.dataset} alone: {_of_dataset(line)}" for line in single]


def _of_encoder(lines: Sequence[Compared], *, given: Sequence[str], twin: PublishedEncoder | None) -> list[str]:
    """Causes where every dataset differs."""
    if twin is not None and all(_is_twins(line, twin) for line in lines):
        return [f"activation: these are the figures of {twin.title}, the same weights with another activation"]
    resizing = [_images(given)]
    weights = ["activation (QuickGELU goes by the tag of the weights), or other weights"]
    # Other means and deviations of channels may cost any number of points, another resizing only a few.
    is_large = all(line.difference < -LARGE and abs(line.difference) > line.resized for line in lines)
    if is_large and not any(key.startswith("encoder.image_") for key in given):
        return weights + resizing
    return resizing + weights


def _images(given: Sequence[str]) -> str:
    """Other images than theirs: by keys of section encoder, if it has any."""
    if not given:
        return "images: resizing, decoding (encoder.decoding) or normalisation"
    return f"images: {', '.join(given)}; their images are as the model's own preprocessing makes them"


def _is_twins(line: Compared, twin: PublishedEncoder) -> bool:
    """Whether ours is the figure of the same weights with another activation."""
    return line.of in twin.accuracy and abs(line.ours - twin.accuracy[line.of]) <= line.within


def _of_dataset(line: Compared) -> str:
    """Causes where other datasets agree."""
    if abs(line.difference) <= line.resized:
        return "resizing or decoding of its images, or some of its labels"
    return "its test images or labels, its class names, or another version of it"
