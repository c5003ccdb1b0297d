"""Whether a target has the source's classes, as role dg says of it.

It may have fewer, as ImageNet-A and ImageNet-R. With any other class it is another task: its accuracy would count
towards DG, and no head could be evaluated on it.
"""

from collections.abc import Collection, Mapping, Sequence

from wsoup.base.errors import WsoupError
from wsoup.base.folder_names import key
from wsoup.datasets import manifest
from wsoup.datasets.listing import some
from wsoup.params.inputs import DatasetParams, source_of


def foreign(name: str, *, class_names: Sequence[str], datasets: Mapping[str, DatasetParams]) -> str:
    """A line about the classes of a target of role dg that the source does not have; "" if there are none.

    Args:
        name: the target's name in params.yaml.
        class_names: its classes.
        datasets: section datasets, one of which is the source.
    """
    if datasets[name].role != "dg":
        return ""
    source = source_of(datasets)
    try:
        of_source = _source_names(datasets[source], name=source, needed=class_names)
    except WsoupError:
        # What is wrong with the source is said where the source is read.
        return ""
    other = differing(class_names, source_names=of_source)
    if not other:
        return ""
    return (
        f"role dg means the source's classes, but {other}; it would count towards DG, and no head can be evaluated on "
        "it: name its classes as the source's (class_names), or set role: xd"
    )


def differing(class_names: Sequence[str], *, source_names: Sequence[str]) -> str:
    """Which classes of a target the source does not have, in words; "" if it has them all.

    >>> differing(["Red", "pink"], source_names=["red", "blue"])
    "2 of its 2 classes are not among the source's 2: 'Red' (there 'red'), 'pink'"
    """
    missing = sorted({*class_names} - {*source_names})
    if not missing:
        return ""
    spelling = {key(name): name for name in source_names}
    shown = []
    for name in missing[:3]:
        text = repr(name)
        if key(name) in spelling:
            text += f" (there {spelling[key(name)]!r})"
        shown.append(text)
    if len(missing) > len(shown):
        shown.append(f"{len(missing) - len(shown)} more")
    return (
        f"{len(missing)} of its {len(class_names)} classes are not among the source's {len(source_names)}: "
        f"{', '.join(shown)}"
    )


def why_other(class_names: Sequence[str], *, source_names: Sequence[str]) -> str:
    """Why a target does not have the source's very classes, in words; "" if it has them."""
    other = differing(class_names, source_names=source_names)
    lacking = sorted({*source_names} - {*class_names})
    if other or not lacking:
        return other
    return f"it lacks {len(lacking)} of the source's {len(source_names)} classes: {some(lacking)}"


def _source_names(params: DatasetParams, *, name: str, needed: Collection[str]) -> list[str]:
    """The source's class names."""
    # A source may have a million training images, which only matter if a class has no test image.
    without_train = params.model_copy(update={"role": "xd"})
    names = manifest.read_listing(name, params=without_train).class_names
    if {*needed} <= {*names}:
        return names
    return manifest.read_listing(name, params=params).class_names
