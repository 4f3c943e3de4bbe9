"""Opens pictures for a model: bounded, upright, small, without metadata."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
import warnings
from io import BytesIO
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.Image import Transpose

LONG_SIDE = 1568
"""Pixels on the long side; models shrink larger pictures to about this themselves."""

FILE_LIMIT = 50 * 2**20
MEMORY_LIMIT = 140_000_000
"""Bytes that one picture may take while it is opened, with those of its file."""

PIXEL_LIMIT = 250_000_000
"""Pixels of any picture. A photo of 200 million is opened as a JPEG, which is decoded at an eighth of its size."""

SECONDS = 8.0
"""Time limit for the decoders that read their file in pieces."""

JPEG_QUALITY = 85
BAND_ROWS = 16
# other decoders are old or can be led into endless work
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_SCALED = frozenset({"JPEG", "MPO"})  # decoded at a fraction of its size; a phone's photo may be the first of several
_TIFF_PACKINGS = frozenset(
    {"raw", "packbits", "tiff_lzw", "tiff_deflate", "tiff_adobe_deflate", "jpeg", "group3", "group4", "tiff_ccitt"}
)
_one_at_a_time = threading.Lock()


class PictureError(ValueError):
    """Nothing that can be shown; its text is a sentence for a person."""


class Opened(NamedTuple):
    """A picture ready for a model, as a JPEG or PNG file."""

    mime: str
    data: bytes
    name: str


def open_picture(source: BinaryIO | bytes, name: str = "") -> Opened:
    """A picture from an opened file or its bytes. Raises PictureError."""
    shown = repr(name) if name else "the picture"
    data = _read(source, shown)
    _refuse_others(data, shown)
    from PIL import UnidentifiedImageError

    pillow = _pillow()
    logging.getLogger("PIL").setLevel(logging.CRITICAL)  # what is wrong with a picture is said once, by us
    try:
        with _one_at_a_time, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pillow.open(_Timed(data), formats=_FORMATS) as picture:
                _check_size(picture, data, shown)
                return _encoded(_upright(picture), name)
    except UnidentifiedImageError:
        raise PictureError(f"{shown} is not a picture that can be opened. Convert it to PNG or JPEG.") from None
    except pillow.DecompressionBombError:
        raise PictureError(
            f"{shown} has more than {PIXEL_LIMIT // 10**6} million pixels, the most that is opened. Make it smaller "
            "first."
        ) from None
    except PictureError:
        raise
    except MemoryError:
        raise PictureError(f"{shown} takes more memory than there is. Make it smaller first.") from None
    except _Late:
        raise PictureError(f"{shown} took more than {SECONDS:g} s to open. Make it smaller first.") from None
    except Exception as error:  # damaged files make decoders raise almost anything: SyntaxError, struct.error, …
        raise PictureError(f"{shown} is damaged and cannot be opened ({_reason(error)}). Save it again.") from None


def _pillow() -> ModuleType:
    """The library, which takes pictures up to our limit."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = PIXEL_LIMIT // 2  # of twice as many it raises an error
    return Image


def picture_type(data: bytes) -> str:
    """The type of a picture that can be opened, such as "image/png", by its content; '' for anything else."""
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pillow.open(BytesIO(data), formats=_FORMATS) as picture:
                return "image/jpeg" if picture.format == "MPO" else pillow.MIME.get(picture.format or "", "")
    except Exception:  # damaged files make decoders raise almost anything
        return ""


class _Late(Exception):
    """The time is up."""


class _Timed(BytesIO):
    """A file that stops its decoder after too long a time."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._deadline = time.monotonic() + SECONDS

    def read(self, size: int | None = -1, /) -> bytes:
        if time.monotonic() > self._deadline:
            raise _Late
        return super().read(size)


def _read(source: BinaryIO | bytes, shown: str) -> bytes:
    is_large = False
    if isinstance(source, bytes):
        data = source
    else:
        try:
            is_large = os.fstat(source.fileno()).st_size > FILE_LIMIT
            data = b"" if is_large else source.read(FILE_LIMIT + 1)
        except OSError as error:
            raise PictureError(f"{shown} cannot be read ({_reason(error)}).") from None
    if is_large or len(data) > FILE_LIMIT:
        raise PictureError(f"{shown} has more than {FILE_LIMIT >> 20} MB. Make it smaller first.")
    if not data:
        raise PictureError(f"{shown} is empty. Save it again.")
    return data


def _refuse_others(data: bytes, shown: str) -> None:
    """Name what people often take for a picture, so that the sentence can say what to do."""
    head = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if data.startswith(b"%PDF"):
        raise PictureError(f"{shown} is a PDF, not a picture. Show a screenshot or export the page as PNG.")
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"hevc", b"heim", b"mif1", b"msf1", b"avif", b"avis"):
        kind = "AVIF" if data[8:12].startswith(b"avi") else "HEIC"
        raise PictureError(f"{shown} is in the {kind} format, which cannot be opened here. Convert it to JPEG.")
    if head.startswith(b"<") and b"<svg" in data[:4096].lower():
        raise PictureError(f"{shown} is an SVG drawing, not pixels. Export it as PNG.")
    if head.startswith((b"<!DOCTYPE", b"<!doctype", b"<html", b"<HTML")):
        raise PictureError(f"{shown} is a web page, not a picture. Download the picture itself.")


def _check_size(picture: Picture, data: bytes, shown: str) -> None:
    """Refuse what would take too much memory, before any of it is decoded."""
    full_size = width, height = picture.size
    if not width or not height:
        raise PictureError(f"{shown} has no pixels. Save it again.")
    if picture.format == "TIFF" and (packing := picture.info.get("compression")) not in _TIFF_PACKINGS:
        raise PictureError(f"{shown} is compressed in a way that is not supported ({packing}). Convert it to JPEG.")
    if picture.format in _SCALED:
        longest = max(full_size)
        picture.draft("RGB", (max(1, width * LONG_SIDE // longest), max(1, height * LONG_SIDE // longest)))
    taken = len(data) + max(decoding_bytes(picture, full_size, data), _shrinking_bytes(picture))
    if taken > MEMORY_LIMIT:
        kind = "progressive JPEG" if picture.format in _SCALED else picture.format
        raise PictureError(
            f"{shown} has {width:,} × {height:,} pixels: as {kind} it takes {taken / 1e6:,.0f} MB to open, and "
            f"{MEMORY_LIMIT // 10**6} MB is the limit. Make it smaller first, or save it as a plain JPEG."
        )


def _shrinking_bytes(picture: Picture) -> int:
    width, height = picture.size
    factor = _factor(picture)
    shrunk = 4 * (width // factor) * (height // factor)
    return max(width * height * pixel_bytes(picture.mode) + shrunk, 2 * shrunk)


def _factor(picture: Picture) -> int:
    """The whole number by which both sides can be divided, so that the picture is still large enough."""
    return max(1, max(picture.size) // LONG_SIDE)


def _upright(picture: Picture) -> Picture:
    """The first frame as RGB or RGBA pixels, turned as its EXIF says, at most LONG_SIDE long."""
    from PIL import Image as pillow

    turn = None if picture.format == "TIFF" else _turn(picture)  # a TIFF is turned by its decoder
    picture.seek(0)
    picture.load()
    if (pixels := _shrunk(picture)) is not picture:
        picture.close()  # its memory is free for what follows
    if max(pixels.size) > LONG_SIDE:
        pixels.thumbnail((LONG_SIDE, LONG_SIDE), pillow.Resampling.LANCZOS)
    return pixels.transpose(turn) if turn is not None else pixels


def _shrunk(picture: Picture) -> Picture:
    """As RGB or RGBA, divided by a whole number; row by row, as a converted picture may take eight times the memory."""
    from PIL import Image as pillow

    has_alpha = "A" in picture.getbands() or "transparency" in picture.info or picture.mode in ("PA", "La")
    mode, factor = "RGBA" if has_alpha else "RGB", _factor(picture)
    if picture.mode == mode and factor == 1:
        return picture
    width, height = picture.size
    deep = picture.getextrema() if picture.mode.startswith("I;16") or picture.mode in ("I", "F") else None
    shrunk = pillow.new(mode, (-(-width // factor), -(-height // factor)))
    rows = BAND_ROWS * factor
    for top in range(0, height, rows):
        band = picture.crop((0, top, width, min(height, top + rows)))
        if deep:
            band = _eight_bits(band, deep)
        shrunk.paste(band.convert(mode).reduce(factor), (0, top // factor))
    return shrunk


def _turn(picture: Picture) -> Transpose | None:
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        return turns.get(picture.getexif().get(0x0112, 1))
    except Exception:  # damaged metadata is no reason to refuse the picture
        return None


def _eight_bits(picture: Picture, extrema: Any) -> Picture:
    """Depth of 16 or 32 bits brought to 8, from the darkest to the brightest; a plain convert would cut it off."""
    low, high = extrema
    scale = 255.0 / (high - low) if high > low else 0.0
    return picture.convert("F").point(lambda value: value * scale - low * scale).convert("L")


def _encoded(pixels: Picture, name: str) -> Opened:
    """As JPEG on white or as PNG, whichever is smaller. New bytes hold no metadata."""
    from PIL import Image as pillow

    flat = pixels
    if pixels.mode == "RGBA":
        if pixels.getchannel("A").getextrema() == (255, 255):
            flat = pixels = pixels.convert("RGB")
        else:
            flat = pillow.new("RGB", pixels.size, "white")
            flat.paste(pixels, mask=pixels.getchannel("A"))
    pixels.info, flat.info = {}, {}
    jpeg, png = BytesIO(), BytesIO()
    flat.save(jpeg, "JPEG", quality=JPEG_QUALITY)
    pixels.save(png, "PNG")
    if png.tell() < jpeg.tell():
        return Opened("image/png", png.getvalue(), name)
    return Opened("image/jpeg", jpeg.getvalue(), name)


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return " ".join(text.split())[:120]


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
