"""A soup with all its seeds together: what is judged, and what is handed out where no seed is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wsoup.core.disk import store
from wsoup.core.errors import MismatchError, MissingError
from wsoup.soup.soup import Soup


def load_seeds(folder: str | Path) -> Soup:
    """All seed<k>.json of a folder such as artifacts/soups/word as one soup; see `together`.

    Raises:
        MissingError, MismatchError: the folder holds none, or soups that do not belong together.
    """
    soups = [Soup.load(path) for path in Path(folder).glob("seed*.json")]
    if not soups:
        raise MissingError(f"{folder} holds no seed<k>.json; soups are made by stage 'soup': run `dvc repro`")
    return together(sorted(soups, key=lambda soup: soup.seed or 0), origin=folder)


def together(soups: Sequence[Soup], *, origin: str | Path) -> Soup:
    """The members of all seeds as one soup, each as often as it was selected; the class name's weight is summed.

    Counts of the class name and costs are of one seed's images and are left out. A single soup comes back as it is.

    Raises:
        MismatchError: of several kinds, templates or encoders; names `origin`.
    """
    first, *others = soups
    for other in others:
        if (other.kind, other.template) != (first.kind, first.template):
            raise MismatchError(f"{origin} holds soups of several definitions; run `dvc repro` to make them again")
        store.check_encoder(other.encoder, expected=first.encoder, where=origin)
    if not others:
        return first
    return replace(
        first,
        seed=None,
        members=tuple(member for soup in soups for member in soup.members),
        class_name_weight=sum(soup.class_name_weight for soup in soups),
        class_name_correct=None,
        cost={},
    )
