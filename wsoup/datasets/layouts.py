"""From params to a listing: the one place that knows which layouts there are."""

from __future__ import annotations

from wsoup.datasets import folder
from wsoup.datasets.listing import Listing, restrict
from wsoup.errors import ParamsError
from wsoup.params import DatasetParams

LAYOUTS = ("imagefolder",)


def read(name: str, *, params: DatasetParams) -> Listing:
    """List the images of one dataset of params.yaml, restricted to its `classes`.

    Raises:
        ParamsError: no such layout.
        MissingError, DataError: as the layout's module says.
    """
    if params.layout == "imagefolder":
        listing = folder.read(params.root, class_names=params.class_names)
    else:
        raise ParamsError(f"datasets.{name}.layout: {params.layout!r} is no layout; expected {', '.join(LAYOUTS)}")
    return restrict(listing, classes=params.classes)
