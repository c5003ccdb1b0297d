"""Published encoders to choose from: accuracy beside cost, and which are best for what they cost."""

from collections.abc import Collection, Sequence

from wsoup.paper.published import PublishedEncoder

FAMILIES = {
    "openai": "OpenAI",
    "laion": "LAION",
    "datacomp": "DataComp",
    "commonpool": "CommonPool",
    "dfn": "DFN",
    "webli": "SigLIP",
    "metaclip": "MetaCLIP",
    "merged2b": "EVA",
}
"""Part of a tag -> where its weights were trained, for the colours of the figure; the first that fits."""
OTHERS = "others"
LEAST = 0.5
"""Points on ImageNet by which an encoder that costs more must be better, to be named in the figure."""


def rows(encoders: Sequence[PublishedEncoder], *, here: Collection[str]) -> list[dict[str, str | float]]:
    """Rows of `wsoup models`; `here` holds the titles of those whose weights are on this machine."""
    return [
        {
            "model": each.model,
            "pretrained": each.pretrained,
            "parameters_millions": each.parameters,
            "gflops": each.flops,
            "imagenet": round(each.accuracy["imagenet"], 2),
            "average_of_38": round(each.average, 2),
            "downloaded": "yes" if each.title in here else "no",
        }
        for each in encoders
        if "imagenet" in each.accuracy
    ]


def points(encoders: Sequence[PublishedEncoder]) -> list[dict[str, str | float]]:
    """Points of the figure: {model, family, parameters, gflops, imagenet, label}; the best for their cost are named."""
    best = {each.title for each in front(encoders)}
    drawn: list[dict[str, str | float]] = []
    for each in encoders:
        if "imagenet" in each.accuracy:
            family = next((title for part, title in FAMILIES.items() if part in each.pretrained), OTHERS)
            drawn.append(
                {
                    "model": each.title,
                    "family": family,
                    "parameters": each.parameters,
                    "gflops": each.flops,
                    "imagenet": round(each.accuracy["imagenet"], 2),
                    "label": each.title if each.title in best else "",
                }
            )
    return drawn


def front(encoders: Sequence[PublishedEncoder]) -> list[PublishedEncoder]:
    """By rising FLOPs, each encoder that is better on ImageNet than all cheaper ones, by `LEAST` points at least."""
    best: list[PublishedEncoder] = []
    known = [each for each in encoders if "imagenet" in each.accuracy]
    for each in sorted(known, key=lambda one: (one.flops, -one.accuracy["imagenet"])):
        if not best or each.accuracy["imagenet"] >= best[-1].accuracy["imagenet"] + LEAST:
            best.append(each)
    return best
