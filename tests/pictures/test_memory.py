"""What a picture takes while it is opened is known before, bounded, and told where it is too much."""

import json
import struct
import subprocess
import sys
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as pillow

from nanoclaw.pictures import pictures
from nanoclaw.pictures.pictures import PictureError, open_picture

REPOSITORY = Path(__file__).parents[2]

OTHERS = "'it' has {} pixels: as {} it takes {} MB to open, and 140 MB is the limit"


def png(width: int, height: int, colour: int, depth: int = 8, rows: int | None = None) -> bytes:
    """A picture of one colour; only the first `rows` of it are there."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer = zlib.compressobj(1)
    line = bytes(1 + width * {0: 1, 2: 3, 4: 2, 6: 4}[colour] * depth // 8)
    body = b"".join(packer.compress(line) for _ in range(height if rows is None else rows)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def saved(mode: str, size: tuple[int, int], kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    pillow.new(mode, size).save(buffer, kind, **options)
    return buffer.getvalue()


def resized(data: bytes, width: int, height: int, signs: str, at: int) -> bytes:
    """A file whose header claims another size."""
    claimed = struct.pack(signs, width, height)
    return data[:at] + claimed + data[at + len(claimed) :]


def jpeg_of(width: int, height: int, data: bytes) -> bytes:
    frame = next(data.index(b"\xff" + bytes([kind])) for kind in (0xC0, 0xC2) if b"\xff" + bytes([kind]) in data)
    return resized(data, height, width, ">HH", frame + 5)


SMALL = (64, 64)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (png(7000, 7000, 2, rows=1), OTHERS.format("7,000 × 7,000", "PNG", "208")),
        (png(7000, 7000, 6, 16, rows=1), OTHERS.format("7,000 × 7,000", "PNG", "208")),
        (png(65_000, 700, 2, rows=1), OTHERS.format("65,000 × 700", "PNG", "182")),
        (png(12_000, 12_000, 0, rows=1), OTHERS.format("12,000 × 12,000", "PNG", "156")),
        (png(60_000, 5_000, 0, rows=1), "more than 250 million pixels"),
        (
            jpeg_of(8000, 6000, saved("RGB", SMALL, "JPEG", progressive=True)),
            "8,000 × 6,000 pixels: as progressive JPEG",
        ),
        (resized(saved("RGB", SMALL, "BMP"), 6000, 6000, "<II", 18), "6,000 × 6,000 pixels: as BMP"),
        (saved("P", (1, 1), "GIF")[:6] + struct.pack("<HH", 60_000, 4_000) + saved("P", (1, 1), "GIF")[10:], "as GIF"),
    ],
)
def test_what_would_take_too_much_is_refused_by_its_header(data: bytes, told: str) -> None:
    with pytest.raises(PictureError) as caught:
        open_picture(data, "it")
    assert told in str(caught.value)


def test_a_webp_takes_more_than_its_pixels() -> None:
    whole = saved("RGB", (3000, 3000), "WEBP", method=0, quality=1)
    with pytest.raises(PictureError, match=r"3,000 × 3,000 pixels: as WEBP it takes 144 MB"):
        open_picture(whole, "it")


def test_all_rows_of_a_tiff_may_be_unpacked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved("RGB", (2000, 2000), "TIFF", compression="tiff_lzw")
    assert open_picture(whole, "it").data
    monkeypatch.setattr(pictures, "MEMORY_LIMIT", 25_000_000)
    with pytest.raises(PictureError, match="as TIFF it takes 32 MB"):
        open_picture(whole, "it")
    with pytest.raises(PictureError, match="compressed in a way that is not supported"):
        open_picture(saved("RGB", SMALL, "TIFF", compression="zstd"), "it")


def test_a_tiff_is_turned_upright_once() -> None:
    exif = pillow.Exif()
    exif[0x0112] = 6
    buffer = BytesIO()
    pillow.new("RGB", (40, 20)).save(buffer, "TIFF", exif=exif)
    assert pillow.open(BytesIO(open_picture(buffer.getvalue()).data)).size == (20, 40)


def test_a_photo_with_a_second_picture_in_it_is_a_jpeg() -> None:
    """So are those of phones that keep a map of brightness beside the picture."""
    buffer = BytesIO()
    first, second = pillow.new("RGB", (4000, 3000), "red"), pillow.new("RGB", (40, 30), "blue")
    first.save(buffer, "MPO", save_all=True, append_images=[second])
    assert pictures.picture_type(buffer.getvalue()) == "image/jpeg"
    opened = pillow.open(BytesIO(open_picture(buffer.getvalue()).data))
    assert opened.size == (1568, 1176)


def test_a_decoder_that_reads_for_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "SECONDS", -1.0)
    with pytest.raises(PictureError, match="took more than"):
        open_picture(saved("RGB", SMALL, "PNG"), "it")


GROWTH = """
import json, sys
from pathlib import Path
from nanoclaw.pictures import pictures

pictures.MEMORY_LIMIT = int(sys.argv[1])

def highest():
    Path("/proc/self/clear_refs").write_text("5")
    yield
    yield int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024

def taken(path):
    data = path.read_bytes()
    peak = highest()
    next(peak)
    try:
        said = pictures.open_picture(data, "it").mime
    except pictures.PictureError as error:
        said = str(error)
    return next(peak), said

first, *others = map(Path, sys.argv[2:])
base, _ = taken(first)
found = {path.name: taken(path) for path in others}
print(json.dumps({name: (most - base, said) for name, (most, said) in found.items()}))
"""


def grown(folder: Path, limit: int, files: dict[str, bytes]) -> dict[str, tuple[int, str]]:
    """Bytes that each took more at its highest than a harmless one, and what became of it."""
    files = {"harmless": saved("RGB", SMALL, "JPEG"), **files}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    command = [sys.executable, "-c", GROWTH, str(limit), *(str(folder / name) for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=100, check=True)
    return {name: (most, said) for name, (most, said) in json.loads(done.stdout).items()}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the most memory of a moment")
def test_no_picture_takes_more_than_the_limit_says(tmp_path: Path) -> None:
    """A quarter of the limit, under which each of them just fits: the whole one takes whole seconds."""
    files = {
        "rgba.png": png(6300, 1250, 6),
        "deep.png": png(7500, 1600, 0, 16),
        "palette.gif": saved("P", (12_000, 1600), "GIF"),
        "progressive.jpg": saved("RGB", (6300, 1500), "JPEG", progressive=True),
        "lossy.webp": saved("RGB", (1450, 1450), "WEBP", method=0, quality=1),
        "lossless.webp": saved("RGBA", (1300, 1300), "WEBP", lossless=True, method=0, quality=0),
        "strip.tiff": saved("RGB", (2100, 2100), "TIFF", compression="tiff_deflate", strip_size=2**31 - 1),
    }
    found = grown(tmp_path, 36_000_000, files)
    assert {name: said for name, (_, said) in found.items() if not said.startswith("image/")} == {}
    assert {name: most // 10**6 for name, (most, _) in found.items() if most > 60_000_000} == {}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the most memory of a moment")
def test_a_photo_of_fifty_million_pixels_is_shown(tmp_path: Path) -> None:
    found = grown(tmp_path, pictures.MEMORY_LIMIT, {"photo.jpg": saved("RGB", (8160, 6144), "JPEG")})
    most, said = found["photo.jpg"]
    assert said.startswith("image/") and most < 50_000_000
