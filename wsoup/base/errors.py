"""Errors that a user can act on: one line, exit code 1. Each is also the matching built-in exception."""

import errno
import math
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST = 500
"""Characters of a message."""
SHOWN_VALUE = 80
"""Characters of a wrong value in a message."""
SHOWN_NUMBERS = 8
"""Numbers of an array in a message; a larger one is shown by its shape."""


def one_line(text: object, *, limit: int = LONGEST) -> str:
    r"""A message as one printable line; a long one loses its middle.

    >>> one_line("two\nlines"), one_line("a" * 20, limit=11)
    ('two lines', 'aaa ... aaa')
    """
    line = " ".join(str(text).split())
    line = "".join(character if character.isprintable() else ascii(character)[1:-1] for character in line)
    if len(line) <= limit:
        return line
    # The middle goes: the beginning says what is wrong, the end what to do.
    half = (limit - len(" ... ")) // 2
    return f"{line[:half]} ... {line[-half:]}"


def shown_value(value: object) -> str:
    """A wrong value, shortened: it may be a long text, a whole section, a number with 10,000 digits, all features.

    >>> import numpy as np
    >>> shown_value(np.zeros((60, 512)))
    '<ndarray (60, 512) of float64>'
    """
    return one_line(_Short().repr(value))


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = SHOWN_VALUE
        self.maxlevel = self.maxlist = self.maxdict = 3

    def repr_int(self, x: int, level: int) -> str:
        if abs(x) >= 10**1000:
            return "a number of more than 1,000 digits"  # Python refuses to print one of more than 4,300
        return super().repr_int(x, level)

    def repr_instance(self, x: Any, level: int) -> str:
        kind = type(x)
        # Asked of the type, since an object may raise. Thousands of numbers take long to print and say less than this.
        if hasattr(kind, "shape") and hasattr(kind, "dtype") and math.prod(x.shape) > SHOWN_NUMBERS:
            return one_line(f"<{kind.__name__} {tuple(x.shape)} of {x.dtype}>", limit=self.maxother)
        return super().repr_instance(x, level)


class WsoupError(Exception):
    """Base of all errors raised on purpose. The text says what, where, what was expected and the next step."""


class ParamsError(WsoupError, ValueError):
    """Something in params.yaml, a command-line option or a template is wrong."""


class DataError(WsoupError, ValueError):
    """A dataset, an image, a label or a split is not as expected."""


class ChangedError(DataError):
    """An image has changed since it was listed; no setting allows it."""


class PoolError(WsoupError, ValueError):
    """A pool of candidates is empty, has duplicates, or holds a text too long for the model's context."""


class MissingError(WsoupError, FileNotFoundError):
    """A file or folder is missing."""

    # FileNotFoundError would format its arguments as (errno, strerror).
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class MismatchError(WsoupError, ValueError):
    """Two artifacts do not belong together, for example features of one encoder and texts of another."""


class ModelError(WsoupError, ValueError):
    """A model cannot be loaded, or is not what the requested method needs."""


class StorageError(WsoupError, OSError):
    """A file or folder cannot be written or read: the disk is full or read-only, or something is in the way."""

    __str__ = MissingError.__str__


_NEXT_STEP = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or raise the quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "mount it for writing, or work elsewhere",
    errno.EACCES: "give yourself the right to write there",
    errno.EPERM: "give yourself the right to write there",
    errno.EISDIR: "move the folder away: a file is expected",
    errno.ENOTDIR: "move the file away: a folder is expected",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
}


def storage_error(error: OSError, *, path: str | Path) -> StorageError:
    """An error of the operating system in one line: where, why, and what to do; `path` if the error names none."""
    if isinstance(error, StorageError):
        return error
    where = error.filename or path
    why = one_line(error.strerror or error, limit=200) or type(error).__name__
    step = _NEXT_STEP.get(error.errno or 0, "check that path")
    message = f": {why}; {step}, then run it again: what was finished before is kept"
    return StorageError(one_line(where, limit=LONGEST - len(message)) + message)


def memory_error(error: BaseException) -> WsoupError:
    """The device or this process ran out of memory, in one line; raises `error` if it is anything else."""
    text = str(error)
    # torch's own error by its name, because this is read before torch is imported.
    if type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in text:
        # `wsoup.towers`, `wsoup.texts` and `wsoup.finetune` have halved their batches down to one by then.
        return WsoupError(
            f"the memory of the device ran out, with batches as small as they can be ({one_line(text, limit=200)}); "
            "free some of it, take another device (WSOUP_DEVICE=cpu), or lower finetune.batch_size if this is training"
        )
    if isinstance(error, MemoryError) or "can't start new thread" in text or "failed to map segment" in text:
        why = one_line(text, limit=200) or "none is left"
        return WsoupError(f"memory ran out ({why}); free some of it, or raise its limit (ulimit -v), then run it again")
    raise error


class PackageError(WsoupError, ImportError):
    """A package is not installed; the text has the command that installs it."""


EXTRAS = {
    "pipeline": {"dvc": "dvc", "dvc_data": "dvc-data", "networkx": "networkx", "pyarrow": "pyarrow", "zarr": "zarr"},
    "report": {"jinja2": "jinja2", "vl_convert": "vl-convert-python"},
    "hf": {"datasets": "datasets", "transformers": "transformers"},
    "ray": {"ray": "ray"},
    "onnx": {"onnx": "onnx", "onnxscript": "onnxscript"},
}
"""Packages of the extras in pyproject.toml: the name that is imported -> the name that is installed."""


def not_installed(error: ModuleNotFoundError) -> PackageError:
    """An error with the command that installs what a missing package's extra needs; raises `error` if no extra has it.

    The command names packages, not ``wsoup[extra]``: that would need an index that has wsoup, or a path to it.
    """
    name = (error.name or "").split(".")[0]
    for extra, packages in EXTRAS.items():
        if name in packages:
            command = f"pip install {' '.join(packages.values())}"
            return PackageError(f"{name} is not installed, and this needs it: {command} (wsoup's extra `{extra}`)")
    raise error


@contextmanager
def needing() -> Iterator[None]:
    """Turn a missing package of an extra into a PackageError with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
