"""The toy world's params.yaml."""

from wsoup.pipeline.profiles.methods import methods_of, sections_of
from wsoup.pipeline.profiles.templates import filled, template

HEAD = """\
# The toy world with more finetuned methods (`wsoup profile demo --methods {group}`): see data/toy/{file}.
# All methods take about an hour on two cores; `wsoup plan` says how long these do.
"""
ITERATIONS = 150
"""Steps of training where there are more methods to compare; the demo itself trains for fewer, to end in minutes."""


def demo(group: str | None = None) -> str:
    """The toy world's params.yaml; with one of `GROUPS`, those finetuned methods, trained for longer."""
    if group is None:
        return template("demo")
    methods = methods_of(group, world="toy")
    values = {"finetune.iterations": ITERATIONS, **sections_of(methods)}
    file = "rivals.yaml" if group == "rivals" else "methods.yaml"
    return filled(template("demo"), values, head=HEAD.format(group=group, file=file))
