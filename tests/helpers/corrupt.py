"""Seeded damage to bytes: what disks, downloads and editors do to files."""

from __future__ import annotations

import random

HEADERS = (
    b"\xff\xd8\xff\xe0",
    b"\x89PNG\r\n\x1a\n",
    b"GIF89a",
    b"BM",
    b"II*\x00",
    b"MM\x00*",
    b"RIFF\x24\x00\x00\x00WEBP",
    b"\x00\x00\x00\x1cftypavif",
    b"P5\n",
    b"%!PS-Adobe-3.0 EPSF-3.0\n",
    b"DDS ",
    b"BLP2",
    b"<!DOCTYPE html>",
    b"",
)


def corrupted(data: bytes, *, seed: int) -> bytes:
    """Damage of one of six kinds, a function of the seed alone."""
    draw = random.Random(seed)
    found = bytearray(data)
    kind = seed % 6
    if kind == 0:  # cut short
        del found[draw.randrange(len(found)) :]
    elif kind in (1, 2):  # a few bytes anywhere, or in the header, where sizes and offsets are
        reach = len(found) if kind == 1 else min(len(found), 200)
        for _ in range(draw.randint(1, 12)):
            found[draw.randrange(reach)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    elif kind == 3:  # a hole
        start = draw.randrange(len(found))
        stop = min(len(found), start + draw.randint(1, 64))
        found[start:stop] = bytes(stop - start)
    elif kind == 4:  # another file's beginning
        header = draw.choice(HEADERS)
        found[: len(header)] = header
    else:  # a part that stands twice or nowhere
        start = draw.randrange(len(found))
        stop = min(len(found), start + draw.randint(1, 64))
        found[start:stop] = bytes(found[start:stop]) * draw.choice((0, 2, 5))
    return bytes(found)
