"""Pictures become ready for a model, or are refused with a sentence."""

import contextlib
import os
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as pillow
from PIL import PngImagePlugin

from nanoclaw.pictures.pictures import LONG_SIDE, PictureError, open_picture


def encoded(picture: pillow.Image, format: str = "PNG", **options: Any) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def noise(width: int, height: int, mode: str = "RGB") -> pillow.Image:
    return pillow.frombytes(mode, (width, height), os.urandom(width * height * len(mode)))


def decoded(data: bytes) -> pillow.Image:
    picture = pillow.open(BytesIO(data))
    picture.load()
    return picture


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_common_formats_open(format: str) -> None:
    image = open_picture(encoded(pillow.new("RGB", (40, 20), "red"), format), "a picture")
    picture = decoded(image.data)
    assert picture.size == (40, 20) and pillow.MIME[str(picture.format)] == image.mime and image.name == "a picture"


def test_photos_become_jpeg_and_drawings_png() -> None:
    assert open_picture(encoded(noise(200, 200))).mime == "image/jpeg"
    assert open_picture(encoded(pillow.new("RGB", (200, 200), "white"), "JPEG")).mime == "image/png"


@pytest.mark.parametrize("size", [(4000, 1000), (1000, 4000), (3000, 3000)])
@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_large_pictures_shrink_in_proportion(size: tuple[int, int], format: str) -> None:
    picture = decoded(open_picture(encoded(pillow.new("RGB", size, "blue"), format)).data)
    assert max(picture.size) <= LONG_SIDE < max(picture.size) + 3
    assert abs(picture.width / picture.height - size[0] / size[1]) < 0.02


def test_small_pictures_keep_their_size() -> None:
    assert decoded(open_picture(encoded(pillow.new("RGB", (3, 5), "blue"))).data).size == (3, 5)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_upright(orientation: int) -> None:
    upright = pillow.new("RGB", (40, 20), "white")
    upright.paste((255, 0, 0), (0, 0, 10, 10))  # red in the upper left
    back = {
        2: pillow.Transpose.FLIP_LEFT_RIGHT, 3: pillow.Transpose.ROTATE_180, 4: pillow.Transpose.FLIP_TOP_BOTTOM,
        5: pillow.Transpose.TRANSPOSE, 6: pillow.Transpose.ROTATE_90, 7: pillow.Transpose.TRANSVERSE,
        8: pillow.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = upright.transpose(back[orientation]) if orientation in back else upright
    exif = pillow.Exif()
    exif[0x0112] = orientation
    picture = decoded(open_picture(encoded(stored, "JPEG", exif=exif, quality=95)).data).convert("RGB")
    assert picture.size == (40, 20)
    corner, other = picture.getpixel((3, 3)), picture.getpixel((36, 16))
    assert isinstance(corner, tuple) and isinstance(other, tuple)
    assert corner[0] > 200 > corner[1] and min(other) > 200


def test_metadata_is_gone() -> None:
    exif = pillow.Exif()
    exif[0x010E] = "SECRET place"
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", "SECRET words")
    for data in (
        encoded(noise(50, 50), "JPEG", exif=exif, comment=b"SECRET"),
        encoded(pillow.new("RGB", (50, 50)), "PNG", pnginfo=info, exif=exif),
        encoded(pillow.new("RGB", (50, 50)), "JPEG", exif=exif, icc_profile=b"SECRET profile"),
    ):
        assert b"SECRET" in data and b"SECRET" not in open_picture(data).data


def test_transparency_is_kept_in_drawings_and_white_in_photos() -> None:
    drawing = pillow.new("RGBA", (100, 100), (255, 0, 0, 0))
    drawing.paste((0, 0, 255, 255), (0, 0, 50, 50))
    kept = decoded(open_picture(encoded(drawing)).data)
    assert (kept.mode, kept.getpixel((80, 80))) == ("RGBA", (255, 0, 0, 0))
    photo = noise(200, 200, "RGBA")
    photo.putalpha(0)
    flat = open_picture(encoded(photo))
    assert min(low for low, _ in decoded(flat.data).convert("RGB").getextrema()) > 250  # type: ignore[misc]


def test_the_first_frame_of_an_animation_is_shown() -> None:
    frames = [pillow.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert decoded(open_picture(data).data).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


def test_deep_greys_keep_their_shades() -> None:
    deep = pillow.frombytes("I;16", (256, 1), b"".join(struct.pack("<H", i * 100) for i in range(256)))
    low, high = decoded(open_picture(encoded(deep)).data).convert("L").getextrema()
    assert (low, high) == (0, 255)


def png_of(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png_of(30_000, 30_000, zlib.compress(bytes(1000))), "more than 250 million pixels"),
        (png_of(2**31 - 1, 2**31 - 1), "million pixels"),
        (png_of(0, 5), "'it'"),
        (encoded(noise(100, 100))[:500], "damaged"),
        (encoded(noise(100, 100), "JPEG")[:900], "damaged"),
        (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"></svg>', "an SVG drawing"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"\x00\x00\x00\x18ftypheic" + bytes(100), "HEIC"),
        (b"\x00\x00\x00\x18ftypavif" + bytes(100), "AVIF"),
        (b"", "empty"),
        (b"hello", "not a picture"),
        (b"\x89PNG\r\n\x1a\n", "'it'"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not a picture"),
    ],
)
def test_what_is_no_picture_is_refused_with_a_sentence(data: bytes, words: str) -> None:
    with pytest.raises(PictureError) as caught:
        open_picture(data, "it")
    assert words in str(caught.value) and str(caught.value).endswith(".")


def test_random_damage_never_escapes_as_another_error() -> None:
    for format in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        whole = encoded(noise(64, 64), format)
        for seed in range(60):
            damaged = bytearray(whole)
            for step in range(5):
                damaged[(seed * 7919 + step * 104_729) % len(damaged)] = (seed * 31 + step) % 256
            with contextlib.suppress(PictureError):
                open_picture(bytes(damaged))


def test_an_opened_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(encoded(pillow.new("RGB", (5, 5))))
    with path.open("rb") as file:
        assert open_picture(file, "cat.png").name == "cat.png"


def test_huge_files_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    with path.open("w+b") as file:
        file.truncate(3 * 2**30)
        with pytest.raises(PictureError, match="more than 50 MB"):
            open_picture(file)
        assert file.tell() == 0
