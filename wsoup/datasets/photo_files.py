"""Which files of a folder are photos, and which entries nobody means: by their names, or else by their first bytes."""

import os
import re

SUFFIXES_OF = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "MPO": (".mpo",),
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "AVIF": (".avif", ".avifs"),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "DIB": (".dib",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "JPEG2000": (".jp2", ".j2k", ".jpc", ".jpf", ".jpx", ".j2c"),
}
"""Formats that are decoded, by Pillow's names, with all endings that Pillow knows for them but .pfm, whose floats have
no known white. Pillow's other formats include EPS, which starts a PostScript interpreter. Written out, so that what a
folder holds does not depend on an installed package."""
IMAGE_SUFFIXES = frozenset(suffix for suffixes in SUFFIXES_OF.values() for suffix in suffixes)
RAW = frozenset({".3fr", ".ari", ".arw", ".bay", ".cap", ".cr2", ".cr3", ".crw", ".dcr", ".dcs", ".dng", ".drf",
    ".eip", ".erf", ".fff", ".gpr", ".iiq", ".k25", ".kdc", ".mdc", ".mef", ".mos", ".mrw", ".nef", ".nrw", ".orf",
    ".pef", ".ptx", ".pxn", ".r3d", ".raf", ".raw", ".rw2", ".rwl", ".rwz", ".sr2", ".srf", ".srw", ".sti",
    ".x3f"})  # fmt: skip
"""Endings of cameras' raw files, many of which begin as a TIFF."""
OTHER_PICTURES = frozenset({".heic", ".heif", ".hif", ".jxl", ".svg", ".psd", ".psb"})
"""Endings of other images that cannot be decoded, whatever their first bytes are."""
MORE_PICTURES = frozenset({".ai", ".bpg", ".dcm", ".dicom", ".exr", ".flif", ".hdr", ".jls", ".jng", ".jxr", ".mng",
    ".nii", ".svgz", ".svs", ".wdp", ".xcf", ".blp", ".bw", ".cur", ".dcx", ".dds", ".emf", ".eps", ".fit", ".fits",
    ".flc", ".fli", ".ftc", ".ftu", ".gbr", ".icb", ".icns", ".ico", ".iim", ".im", ".msp", ".palm", ".pcd", ".pcx",
    ".pfm", ".pxr", ".qoi", ".ras", ".rgb", ".rgba", ".sgi", ".tga", ".vda", ".vst", ".wmf", ".xbm",
    ".xpm"})  # fmt: skip
"""Endings of images in formats that are not decoded; one that holds a photo is read nevertheless."""
TO_CONVERT = RAW | OTHER_PICTURES | MORE_PICTURES
"""Endings of images that are not decoded."""
UNFINISHED = frozenset({".part", ".partial", ".crdownload", ".download", ".tmp", ".bak", ".old", ".orig", ".swp"})
"""Endings of downloads that broke off, and of copies that a program keeps."""
OF_SYSTEMS = frozenset({"@eadir", "__macosx", "#recycle", "@recycle", "$recycle.bin", "system volume information",
    "lost+found", "thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "picasa.ini", "icon\r",
    "__pycache__"})  # fmt: skip
"""What Synology, macOS, QNAP, Windows and others put beside photos, thumbnails of them included; in lower case."""
TIFF = (b"II*\0", b"MM\0*")
BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", *TIFF,
    b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")  # fmt: skip
"""First bytes of JPEG, PNG, GIF, TIFF and JPEG 2000 files."""
OF_PPM = re.compile(rb"P[1-6]\s+(\d+\s|#)")
"""How a PBM, PGM or PPM file begins."""


def expected() -> str:
    """The endings that are read, for messages."""
    return " ".join(sorted(IMAGE_SUFFIXES))


def is_hidden(name: str) -> bool:
    """Whether an entry of a folder is not the user's: hidden, or made by an operating system."""
    return name.startswith(".") or name.casefold() in OF_SYSTEMS


def ending(path: str) -> str:
    """The ending of a file's name in lower case, such as ``.jpg``; "" if it has none."""
    return os.path.splitext(path)[1].lower()


def is_unfinished(kind: str) -> bool:
    """Whether files of an ending are downloads that broke off, or copies that an editor keeps."""
    return kind in UNFINISHED or kind.endswith("~")


def is_photo(path: str) -> bool:
    """Whether a file is a photo that can be decoded: by its ending, or else by what it holds.

    So ``.jpg_large`` and names without an ending are read, and a note is not.
    """
    kind = ending(path)
    if kind in IMAGE_SUFFIXES:
        return True
    if kind in OTHER_PICTURES or is_unfinished(kind) or path.endswith("~") or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            first = file.read(16)
    except OSError:
        return False
    if first.startswith(TIFF) and kind:
        # A camera's raw file of an ending that is not in the list lies beside its JPEG.
        return kind not in RAW and not _has_jpeg_beside(path)
    return _begins_like_a_photo(first)


def _has_jpeg_beside(path: str) -> bool:
    stem = os.path.splitext(path)[0]
    return any(os.path.exists(stem + suffix) for suffix in (".jpg", ".JPG", ".jpeg", ".JPEG"))


def _begins_like_a_photo(first: bytes) -> bool:
    """Whether a file's first 16 bytes are those of one of `SUFFIXES_OF`."""
    is_webp = first[:4] == b"RIFF" and first[8:12] == b"WEBP"
    is_avif = first[4:12] in (b"ftypavif", b"ftypavis")
    # Two letters alone would take a text for a bitmap, whose header has zeros here.
    is_bmp = first[:2] == b"BM" and first[6:10] == b"\0\0\0\0"
    return first.startswith(BEGINNINGS) or is_webp or is_avif or is_bmp or OF_PPM.match(first) is not None
