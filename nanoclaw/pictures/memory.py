"""Memory that a picture takes while it is opened, told by its header before anything of it is decoded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_SHOWN_BYTES = 4
_BYTES = {"1": 1, "L": 1, "P": 1}
"""Bytes of a pixel in memory, by mode; those of 16 bits have 2, all others 4."""

_WEBP_BYTES = {"RGB": 16, "RGBA": 20}
"""Of a pixel: two canvases of its decoder, what that gives, and the picture; measured."""


def decoding_bytes(picture: Picture, full_size: tuple[int, int], data: bytes) -> int:
    """Bytes at the moment when most are taken, besides the file's. A picture that is decoded at a fraction of its size
    had its `full_size` before."""
    width, height = picture.size
    held = width * height * pixel_bytes(picture.mode)
    match picture.format:
        case "JPEG" | "MPO":
            return held + _coefficients(picture, full_size, data)
        case "WEBP":
            return width * height * _WEBP_BYTES.get(picture.mode, 20) + 2 * len(data)  # which its decoder copies
        case "TIFF":
            return held + _strip(picture) + len(data)
        case "BMP":
            return held + width * height  # where it is packed
    return held


def pixel_bytes(mode: str) -> int:
    return 2 if mode.startswith("I;16") else _BYTES.get(mode, _SHOWN_BYTES)


def _coefficients(picture: Any, full_size: tuple[int, int], data: bytes) -> int:
    """Of a JPEG whose details come in several scans all coefficients are kept until the last; one that comes row by row
    needs none."""
    if not picture.info.get("progressive") and _first_scan(data) == picture.layers:
        return 0
    most = max(layer[1] for layer in picture.layer) * max(layer[2] for layer in picture.layer)
    share = sum(layer[1] * layer[2] for layer in picture.layer) / max(1, most)
    return int(2 * full_size[0] * full_size[1] * share)


def _first_scan(data: bytes) -> int:
    """The number of a JPEG's layers that come in its first scan."""
    at = 2
    while found := re.compile(rb"\xff+([\x01-\xfe])").search(data, at):
        kind, at = found[1][0], found.end()
        if kind == 0xDA:
            return data[at + 2] if at + 2 < len(data) else 0
        if kind != 0x01 and not 0xD0 <= kind <= 0xD8:  # those have no length
            at += int.from_bytes(data[at : at + 2])
    return 0


def _strip(picture: Any) -> int:
    """Of a TIFF: the rows that are unpacked at once may be all of them; turned upright it is there twice."""
    width, height = picture.size
    tags = picture.tag_v2
    wide, high = max(width, tags.get(_TILE_WIDTH, 0)), max(height, tags.get(_TILE_HEIGHT, 0))
    bits = sum(tags.get(_BITS, (8,)) * (tags.get(_SAMPLES, 1) if len(tags.get(_BITS, (8,))) == 1 else 1))
    turned = width * height * pixel_bytes(picture.mode) if tags.get(_ORIENTATION, 1) != 1 else 0
    return int(max(wide * high * bits // 8, turned))


_BITS, _ORIENTATION, _SAMPLES, _TILE_WIDTH, _TILE_HEIGHT = 258, 274, 277, 322, 323
