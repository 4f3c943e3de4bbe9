"""The pages of a PDF as text, by pypdfium2: in a child process only, as PDFs of others can break any reader."""

from __future__ import annotations

from typing import Any, BinaryIO


def opened(source: bytes | BinaryIO) -> Any:
    """Its pages, None where it needs a password. Raises ImportError, and RuntimeError where it is damaged."""
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(source)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).casefold():
            return None
        raise


def words_of_page(pages: Any, number: int) -> str:
    """Raises RuntimeError."""
    page = pages[number]
    text: str = page.get_textpage().get_text_bounded()
    page.close()
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode()
