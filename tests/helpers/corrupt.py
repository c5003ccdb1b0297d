"""Seeded damage to bytes: what disks, downloads and editors do to files."""

from __future__ import annotations

import random

HEADERS = [b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\x00", b"MM\x00*"]
HEADERS += [b"RIFF\x24\x00\x00\x00WEBP", b"\x00\x00\x00\x1cftypavif", b"P5\n", b"%!PS-Adobe-3.0 EPSF-3.0\n"]
HEADERS += [b"DDS ", b"BLP2", b"<!DOCTYPE html>", b""]


def corrupted(data: bytes, *, seed: int) -> bytes:
    """Data with one of six kinds of damage, chosen by the seed."""
    draw = random.Random(seed)
    damaged = bytearray(data)
    kind = seed % 6
    if kind == 0:  # cut short
        del damaged[draw.randrange(len(damaged)) :]
    elif kind in (1, 2):  # a few bytes anywhere, or in the header, where sizes and offsets are
        reach = len(damaged) if kind == 1 else min(len(damaged), 200)
        for _ in range(draw.randint(1, 12)):
            damaged[draw.randrange(reach)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
    elif kind == 3:  # a hole
        start = draw.randrange(len(damaged))
        stop = min(len(damaged), start + draw.randint(1, 64))
        damaged[start:stop] = bytes(stop - start)
    elif kind == 4:  # another file's beginning
        header = draw.choice(HEADERS)
        damaged[: len(header)] = header
    else:  # a part repeated or missing
        start = draw.randrange(len(damaged))
        stop = min(len(damaged), start + draw.randint(1, 64))
        damaged[start:stop] = bytes(damaged[start:stop]) * draw.choice((0, 2, 5))
    return bytes(damaged)
