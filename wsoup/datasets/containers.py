"""Files that may hold the photos of a folder in which none lie: archives, records, arrays."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from wsoup.datasets.photo_files import ending
from wsoup.datasets.walk import first_files_in

STEPS = (
    ({".zip", ".7z", ".rar", ".gz", ".tgz", ".bz2", ".xz", ".zst"}, "unpack these"),
    (
        {".tfrecord", ".tfrecords", ".record", ".rec", ".lmdb", ".mdb", ".beton"},
        "they are not read: write their pictures into class folders, or save them as WebDataset or with `save_to_disk`",
    ),
    (
        {".npz", ".npy", ".h5", ".hdf5", ".mat", ".pkl", ".pickle", ".pt", ".pth", ".bin"},
        "they are not read: write their pictures into class folders, or give image features in Python (docs/python.md)",
    ),
    ({".mp4", ".avi", ".mov", ".mkv", ".webm"}, "write the videos' frames into class folders"),
)
"""What to do with files of each kind, by their endings."""


def containers_line(base: Path) -> str:
    """What to do with a folder without photos that holds such files; "" if it holds none."""
    return of_files(first_files_in(base))


def of_files(files: Iterable[str]) -> str:
    """The same of some files."""
    count = Counter(map(_kind, files))
    for endings, step in STEPS:
        here = sorted(kind for kind in count if kind in endings)
        if here:
            return f"it holds {', '.join(f'{count[kind]:,} of {kind}' for kind in here)}; {step}"
    return ""


def _kind(file: str) -> str:
    """The ending of a file; that of TensorFlow's before the number of a shard."""
    return ".tfrecord" if ".tfrecord-" in file.casefold() else ending(file)
