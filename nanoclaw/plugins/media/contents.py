"""Contents of attachments for the model: pictures opened, documents as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from nanoclaw.core.messages import Attachment, Image

DOCUMENTS = 2.5
"""Documents of one message that get their whole budget; more of them share it."""


class Contents(NamedTuple):
    """`remarks` are for the model, `problems` are sentences for the person about files that could not be opened, `cuts`
    about those that are shown in part."""

    images: tuple[Image, ...] = ()
    texts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ()


class AttachmentReader(NamedTuple):
    """Opens attachments, bounded: `opened(path)` raises OSError, a document gets up to `budget` characters, and once
    `stopped()` the rest is left unread."""

    opened: Callable[[str], BinaryIO]
    budget: int
    stopped: Callable[[], bool]


def read(files: Sequence[Attachment], reading: AttachmentReader, *, is_guests: bool) -> Contents:
    """Open and read files, which takes time. Guests are told nothing about where files are."""
    from nanoclaw.documents.documents import DocumentError, read_document
    from nanoclaw.pictures.pictures import PictureError, open_picture

    images, texts, remarks, problems, cuts = list[Image](), list[str](), list[str](), list[str](), list[str]()
    share = min(1.0, DOCUMENTS / max(1, sum(map(_is_document, files))))

    def in_part(remark: str) -> None:
        cuts.append(f"not all of it reaches the model: {remark}")

    for file in files:
        if reading.stopped():
            break
        is_image = file.mime.startswith("image/")
        verb = "shown" if is_image else "read"
        try:
            if not is_image and not is_guests:
                remarks.append(f"{file.name} is at {file.path}")
            if is_image:
                with reading.opened(file.path) as opened:
                    images.append(Image(*open_picture(opened, file.name)))
            elif _is_document(file):
                budget = int(reading.budget * share)
                with reading.opened(file.path) as opened:
                    texts.append(read_document(opened, file.name, budget, reading.stopped, in_part))
        except (PictureError, DocumentError, OSError) as error:
            remarks.append(f"{file.name} could not be {verb}{'' if is_guests else f': {error}'}")
            is_bare = is_guests and isinstance(error, OSError)  # which names a path
            problems.append(f"{file.name!r} could not be {verb}." if is_bare else str(error))
    return Contents(tuple(images), tuple(texts), tuple(remarks), tuple(problems), tuple(cuts))


def _is_document(file: Attachment) -> bool:
    return not file.mime.startswith(("image/", "audio/", "video/"))
