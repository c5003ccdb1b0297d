"""Errors that a user can act on. Each is also the matching built-in, and is shown as one line (exit code 1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class WsoupError(Exception):
    """Base of all errors raised on purpose; its text says what, where, what was expected and the next step."""


class ParamsError(WsoupError, ValueError):
    """params.yaml, a command-line option or a template does not hold what it should."""


class DataError(WsoupError, ValueError):
    """A dataset, an image, a label or a split is not as expected."""


class ChangedError(DataError):
    """An image is not the one that was listed any more; no setting passes over it."""


class PoolError(WsoupError, ValueError):
    """A pool of candidates is empty, has duplicates, or holds a text too long for the model's context."""


class MissingError(WsoupError, FileNotFoundError):
    """A file or folder that should be there is not."""

    # FileNotFoundError formats its arguments as (errno, strerror); the one line is all there is to show.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MismatchError(WsoupError, ValueError):
    """Two artifacts do not belong together, for example features of one encoder and texts of another."""


class ModelError(WsoupError, ValueError):
    """A model cannot be loaded, or is not of the kind that the requested method needs."""


class PackageError(WsoupError, ImportError):
    """A package is not installed; the text holds the command that installs it."""


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Within, a package that is not installed is an error that names the extra of wsoup which brings it.

    Raises:
        PackageError: in place of ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or str(error)).split(".")[0]
        raise PackageError(f"{name} is not installed, and this needs it: pip install 'wsoup[{extra}]'") from None
