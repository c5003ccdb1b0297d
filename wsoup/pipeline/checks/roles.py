"""What `wsoup check` says of roles: targets of role dg whose classes are not the source's."""

from collections.abc import Iterator

from wsoup.base.errors import WsoupError
from wsoup.datasets import manifest, roles
from wsoup.pipeline.checks.finding import Finding
from wsoup.pipeline.params import Params


def foreign_targets(params: Params) -> Iterator[Finding]:
    """A warning for each target that cannot have its role."""
    for name, section in params.datasets.items():
        if section.role == "dg":
            try:
                class_names = manifest.read_listing(name, params=section).class_names
            except WsoupError:
                # Said where the target itself is looked at.
                continue
            line = roles.foreign(name, class_names=class_names, datasets=params.datasets)
            if line:
                yield Finding("warning", name, line)
