"""Which files of a folder are photos, and which entries nobody means: by their names, or else by their first bytes."""

import os

from wsoup.datasets.listing import IMAGE_SUFFIXES

UNKNOWN_KINDS = frozenset({".heic", ".heif", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".svg", ".psd"})
"""Endings of images that cannot be decoded; some of these begin like a TIFF."""
UNFINISHED = frozenset({".part", ".partial", ".crdownload", ".download", ".tmp", ".bak", ".old", ".swp"})
"""Endings of downloads that broke off, and of copies that a program keeps."""
OF_SYSTEMS = frozenset({"@eadir", "__macosx", "#recycle", "@recycle", "$recycle.bin", "system volume information",
    "lost+found", "thumbs.db", "desktop.ini", "__pycache__"})  # fmt: skip
"""What Synology, macOS, QNAP, Windows and others put beside photos, thumbnails of them included; in lower case."""
BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
"""First bytes of JPEG, PNG, GIF and TIFF files."""


def is_hidden(name: str) -> bool:
    """Whether an entry of a folder is not the user's: hidden, or made by an operating system."""
    return name.startswith(".") or name.casefold() in OF_SYSTEMS


def ending(path: str) -> str:
    """The ending of a file's name in lower case, such as ``.jpg``; "" if it has none."""
    return os.path.splitext(path)[1].lower()


def is_photo(path: str) -> bool:
    """Whether a file is a photo that can be decoded: by its ending, or else by what it holds.

    So ``.jfif`` and names without an ending are read, and a note is not.
    """
    kind = ending(path)
    if kind in IMAGE_SUFFIXES:
        return True
    if kind in UNKNOWN_KINDS or kind in UNFINISHED or path.endswith("~") or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            first = file.read(16)
    except OSError:
        return False
    return _begins_like_a_photo(first)


def _begins_like_a_photo(first: bytes) -> bool:
    """Whether a file's first 16 bytes are those of a kind in `IMAGE_SUFFIXES`."""
    is_webp = first[:4] == b"RIFF" and first[8:12] == b"WEBP"
    is_avif = first[4:12] in (b"ftypavif", b"ftypavis")
    # Two letters alone would take a text for a bitmap, whose header has zeros here.
    is_bmp = first[:2] == b"BM" and first[6:10] == b"\0\0\0\0"
    return first.startswith(BEGINNINGS) or is_webp or is_avif or is_bmp
