"""Opens pictures for a model: bounded, upright, small, without metadata."""

from __future__ import annotations

import logging
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.Image import Transpose

LONG_SIDE = 1568
"""Pixels on the long side; models shrink larger pictures to about this themselves."""

FILE_LIMIT = 50 * 2**20
PIXEL_LIMIT = 50_000_000
"""Pixels of a picture before it is decoded: 50 million take 150 MB."""

JPEG_QUALITY = 85
# other decoders are old or can be led into endless work
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_SCALED = frozenset({"JPEG"})  # decoded at a fraction of its size


class PictureError(ValueError):
    """Nothing that can be shown; its text is a sentence for a person."""


class Opened(NamedTuple):
    """A picture ready for a model, as a JPEG or PNG file."""

    mime: str
    data: bytes
    name: str


def open_picture(source: str | Path | bytes, name: str = "") -> Opened:
    """A picture from a file or its bytes. Raises PictureError."""
    if not name and not isinstance(source, bytes):
        name = Path(source).name
    data = _read(source, name)
    shown = repr(name) if name else "the picture"
    _refuse_others(data, shown)
    from PIL import Image as pillow
    from PIL import UnidentifiedImageError

    logging.getLogger("PIL").setLevel(logging.CRITICAL)  # what is wrong with a picture is said once, by us
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pillow.open(BytesIO(data), formats=_FORMATS) as picture:
                _check_size(picture, shown)
                return _encoded(_upright(picture), name)
    except UnidentifiedImageError:
        raise PictureError(f"{shown} is no picture that can be opened. Convert it to PNG or JPEG.") from None
    except pillow.DecompressionBombError:
        raise _too_large(shown) from None
    except PictureError:
        raise
    except MemoryError:
        raise _too_large(shown) from None
    except Exception as error:  # damaged files make decoders raise almost anything: SyntaxError, struct.error, …
        raise PictureError(f"{shown} is damaged and cannot be opened ({_reason(error)}). Save it again.") from None


def picture_type(data: bytes) -> str:
    """The type of a picture that can be opened, such as "image/png", by its content; '' for anything else."""
    from PIL import Image as pillow

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pillow.open(BytesIO(data), formats=_FORMATS) as picture:
                return pillow.MIME.get(picture.format or "", "")
    except Exception:  # damaged files make decoders raise almost anything
        return ""


def _read(source: str | Path | bytes, name: str) -> bytes:
    if isinstance(source, bytes):
        data = source
    else:
        try:
            path = Path(source)
            if not path.is_file():  # a pipe or device would block or never end
                raise PictureError(f"{name!r} is not a file. Check the path {str(source)!r}.")
            with path.open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
        except (OSError, ValueError) as error:
            raise PictureError(f"{name!r} cannot be read ({_reason(error)}). Check the path {str(source)!r}.") from None
    if len(data) > FILE_LIMIT:
        raise PictureError(f"{name!r} has more than {FILE_LIMIT >> 20} MB. Make it smaller first.")
    if not data:
        raise PictureError(f"{name!r} is empty. Save it again.")
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


def _check_size(picture: Picture, shown: str) -> None:
    width, height = picture.size
    if width * height > PIXEL_LIMIT or max(width, height) > 65_000:
        raise _too_large(shown)
    if not width or not height:
        raise PictureError(f"{shown} has no pixels. Save it again.")
    if picture.format in _SCALED:
        picture.draft("RGB", (LONG_SIDE, LONG_SIDE))


def _upright(picture: Picture) -> Picture:
    """The first frame as RGB or RGBA pixels, turned as its EXIF says, at most LONG_SIDE long."""
    from PIL import Image as pillow

    turn = _turn(picture)
    picture.seek(0)
    picture.load()
    if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        picture = _eight_bits(picture)
    transparent = "A" in picture.getbands() or "transparency" in picture.info or picture.mode in ("PA", "La")
    pixels = picture.convert("RGBA" if transparent else "RGB")
    if max(pixels.size) > LONG_SIDE:
        pixels.thumbnail((LONG_SIDE, LONG_SIDE), pillow.Resampling.LANCZOS, reducing_gap=2.0)
    return pixels.transpose(turn) if turn is not None else pixels


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


def _eight_bits(picture: Picture) -> Picture:
    """Depth of 16 or 32 bits brought to 8, from the darkest to the brightest; a plain convert would cut it off."""
    wide = picture.convert("F")
    low, high = wide.getextrema()
    assert isinstance(low, float) and isinstance(high, float)
    scale = 255.0 / (high - low) if high > low else 0.0
    return wide.point(lambda value: value * scale - low * scale).convert("L")


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


def _too_large(shown: str) -> PictureError:
    return PictureError(f"{shown} has more than {PIXEL_LIMIT // 10**6} million pixels. Make it smaller first.")


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return " ".join(text.split())[:120]
