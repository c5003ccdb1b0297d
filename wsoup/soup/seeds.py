"""All seeds of a soup as one soup, which is what reports judge and commands use if no seed is named."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wsoup.base.errors import MismatchError, MissingError
from wsoup.disk import store
from wsoup.soup.soup import Soup


def load_seeds(folder: str | Path) -> Soup:
    """Load all seed<k>.json of a folder such as artifacts/soups/word, in the order of seeds, as one soup.

    Raises:
        MissingError, MismatchError: no soups in the folder, or soups that do not belong together.
    """
    soups = [Soup.load(path) for path in Path(folder).glob("seed*.json")]
    if not soups:
        raise MissingError(f"{folder} holds no seed<k>.json; soups are made by stage 'soup': run `dvc repro`")
    return together(sorted(soups, key=lambda soup: soup.seed or 0), origin=folder)


def together(soups: Sequence[Soup], *, origin: str | Path) -> Soup:
    """Join the members of all seeds, duplicates included.

    Costs and the class name's count are those of one seed's images and are dropped. A single soup is returned as is.

    Raises:
        MismatchError: different kinds, templates or encoders; names `origin`.
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
        class_name_correct=None,
        cost={},
    )
