"""Contents of attachments for the model: pictures opened, documents as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

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


def read(files: Sequence[Attachment], budget: int, stopped: Callable[[], bool], *, is_guests: bool) -> Contents:
    """Open and read files, which takes time; once `stopped()` the rest is left unread. A document gets up to `budget`
    characters. Guests are told nothing about where files are."""
    from nanoclaw.documents.documents import DocumentError, read_document
    from nanoclaw.pictures.pictures import PictureError, open_picture

    images, texts, remarks, problems, cuts = list[Image](), list[str](), list[str](), list[str](), list[str]()
    share = min(1.0, DOCUMENTS / max(1, sum(map(_is_document, files))))

    def in_part(remark: str) -> None:
        cuts.append(f"not all of it reaches the model: {remark}")

    for file in files:
        if stopped():
            break
        is_image = file.mime.startswith("image/")
        try:
            if is_image:
                images.append(Image(*open_picture(Path(file.path), file.name)))
                continue
            if not is_guests:
                remarks.append(f"{file.name} is at {file.path}")
            if _is_document(file):
                texts.append(read_document(Path(file.path), int(budget * share), stopped, in_part))
        except (PictureError, DocumentError, OSError) as error:
            verb = "shown" if is_image else "read"
            remarks.append(f"{file.name} could not be {verb}{'' if is_guests else f': {error}'}")
            problems.append(str(error))
    return Contents(tuple(images), tuple(texts), tuple(remarks), tuple(problems), tuple(cuts))


def _is_document(file: Attachment) -> bool:
    return not file.mime.startswith(("image/", "audio/", "video/"))
