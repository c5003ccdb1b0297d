"""What the rows of the page's first table are, in a few words beside their names."""

from wsoup.base.number_of import number_of
from wsoup.evaluate.rows import CLASS_NAME, OWN_TEMPLATES, TEMPLATES
from wsoup.finetune.params import MethodParams
from wsoup.report.labels import soup_title
from wsoup.report.load import RunParams
from wsoup.search.grow.all_kinds import SoupParams
from wsoup.search.grow.chains import ChainsSoup
from wsoup.search.grow.greedy import GreedySoup
from wsoup.search.grow.held_out import HeldOutSoup
from wsoup.search.grow.sample import SampleSoup
from wsoup.search.grow.top import TopSoup

TEXTS = {
    "ensemble": "OpenAI's prompt templates",
    "gpt_centroids": "GPT descriptors of each class",
    "cupl": "whole sentences of each class",
    "random_descriptors": "drawn from the pool of descriptors",
    "waffle": "random words and characters",
    "random_chains": "as many random words as the soup has",
}

LISTS = {
    "openai7": "chosen by OpenAI from the 80, on ImageNet",
    "simple": "the same as the class name alone",
}
WEIGHTS = {
    "autoclip": "weighed for each image by its own scores",
    "zpe": "weighed by all test images, without labels",
    "zpe_selection": "weighed likewise, and only the best texts",
}


def about_texts(name: str, *, template: str) -> str:
    """Of a row of texts that nobody searched; the class name's is its template on the source.

    A baseline that somebody adds is known by its label.
    """
    return template if name == CLASS_NAME.name else TEXTS.get(name, "")


def about_templates(row: str, *, params: RunParams) -> str:
    """Of a row of a list of templates: where they are from."""
    name = row.removesuffix(TEMPLATES)
    if name == OWN_TEMPLATES:
        n_own = len(params.own_templates)
        rest = len(params.datasets) - n_own
        elsewhere = f", of {rest} without any the template alone" if rest else ""
        return f"as {n_own} of {len(params.datasets)} datasets bring them{elsewhere}"
    return LISTS.get(name, params.evaluate.templates[name])


def about_soup(soup: SoupParams) -> str:
    """How a soup was found."""
    match soup:
        case ChainsSoup():
            return f"Algorithm 2: chains of {soup.pool}"
        case GreedySoup():
            return f"Algorithm 1: {soup.pool} chosen greedily"
        case TopSoup():
            return f"the {soup.m} best single {soup.pool} of the ranking"
        case HeldOutSoup():
            return f"{soup.pool} ranked on half of the images, kept on the rest"
        case SampleSoup(k1=None):
            return f"{soup.m} {soup.pool} at random"
        case SampleSoup():
            return f"{soup.m} {soup.pool} at random from the top {soup.k1:,}"
    # A kind that somebody adds is known by its name.
    return f"{soup.kind} of {soup.pool}"


def about_method(method: MethodParams) -> str:
    """What was trained with which texts."""
    texts = "class name"
    if method.soup != "class_name":
        texts = soup_title(method.soup)
    weight = getattr(method.loss, "weight", None)
    loss = ", diversity loss" if weight and method.loss.kind == "cross_entropy" else ""
    return f"{method.tune.kind.replace('_', ' ')} tuned on the {texts}{loss}"


def about_weights(way: str) -> str:
    """From what the weights of a row's texts are."""
    return WEIGHTS[way]


def about_head(*, shots: int) -> str:
    """What a head has seen."""
    return f"from at most {number_of(shots, 'labelled image')} a class; these classes only"
