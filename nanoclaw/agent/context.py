"""ContextBuilder: everything a model sees, in the order it sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from nanoclaw.agent import sections
from nanoclaw.agent.metadata import escape, runtime_metadata
from nanoclaw.agent.sections import Ingredients, Mode, Section
from nanoclaw.errors import ImageError, WorkspaceError
from nanoclaw.messages import Attachment, Image, Message, ModelRequest, Origin, SystemPrompt, UserMessage
from nanoclaw.providers.base import chat_messages
from nanoclaw.workspace import bootstrap
from nanoclaw.workspace.notes import MemoryStore
from nanoclaw.workspace.paths import Workspace
from nanoclaw.workspace.skills import discover


class ContextBuilder:
    """Combines identity, bootstrap files, skills and memory into the system message; frames what the person said."""

    def __init__(
        self,
        workspace: Path,
        *,
        template: Path,
        skill_folders: Sequence[Path],
        tools: frozenset[str],
        clock: Callable[[], datetime],
        zone: str,
        open_image: Callable[[bytes | Path, str], Image],
    ) -> None:
        """`clock` gives local time in the person's `zone`; `open_image` raises ImageError for what is no picture."""
        self._workspace, self._template, self._skill_folders = workspace, template, tuple(skill_folders)
        self._tools, self._clock, self._zone, self._open_image = tools, clock, zone, open_image

    def memory(self) -> str:
        """MEMORY.md as it is now: what a new context begins with."""
        try:
            text = MemoryStore(Workspace(self._workspace), self._clock).memory_text()
        except WorkspaceError as error:
            from nanoclaw.log import logger

            logger.warning("a conversation begins without memory: {}", error)
            return ""
        return text if bootstrap.says_something(text) else ""

    def sections(self, mode: Mode = "full", memory: str | None = None) -> list[Section]:
        """`memory` is what the context began with; None takes MEMORY.md as it is now."""
        return sections.build(
            mode,
            Ingredients(
                self._workspace,
                self._tools,
                bootstrap.read(self._workspace, self._template) if mode != "none" else {},
                discover(self._skill_folders) if mode == "full" else (),
                self.memory() if memory is None else memory,
            ),
        )

    def system(self, mode: Mode = "full", memory: str | None = None) -> SystemPrompt:
        built = self.sections(mode, memory)
        join = SystemPrompt.SEPARATOR.join
        return SystemPrompt(
            join(section.text for section in built if section.stable),
            join(section.text for section in built if not section.stable),
        )

    def build_system_prompt(self, mode: Mode = "full", memory: str | None = None) -> str:
        """The system message's text."""
        return self.system(mode, memory).text

    def user_messages(
        self,
        text: str,
        *,
        media: Sequence[Attachment] = (),
        channel: str = "",
        chat_id: str = "",
        sender: str = "",
        origin: Origin = "person",
    ) -> tuple[UserMessage, UserMessage]:
        """The runtime metadata, then the content. Reads the attached files; a broken picture becomes a note."""
        now = self._clock()
        images, notes, problems = [], [], []
        for file in media:
            notes.append(f"{file.name} ({file.mime or 'unknown type'})")
            if not file.mime.startswith("image/"):
                problems.append(f"{file.name} is at {file.path}")
                continue
            try:
                images.append(self._open_image(Path(file.path), file.name))
            except (ImageError, OSError) as error:
                problems.append(f"{file.name} could not be shown: {error}")
        metadata = runtime_metadata(
            now, self._zone, channel=channel, chat=chat_id, sender=sender, media=notes, notes=problems
        )
        return (
            UserMessage(metadata, now, "runtime"),
            UserMessage(escape(text), now, origin, tuple(images)),
        )

    def build_messages(
        self,
        history: Sequence[Message],
        current_message: str,
        media: Sequence[str | Path] = (),
        channel: str = "",
        chat_id: str = "",
        *,
        sender: str = "",
        mode: Mode = "full",
        memory: str | None = None,
    ) -> list[dict[str, Any]]:
        """The whole request in the OpenAI chat form: system, history, runtime metadata, content. `media` are paths."""
        files = [attachment(Path(path)) for path in media]
        new = self.user_messages(current_message, media=files, channel=channel, chat_id=chat_id, sender=sender)
        return chat_messages(ModelRequest(self.system(mode, memory), (*history, *new)))


_IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".heic": "image/heic",
    ".svg": "image/svg+xml",
}


def attachment(path: Path) -> Attachment:
    """A file on disk as an attachment; its type goes by its name until it is opened."""
    mime = _IMAGE_TYPES.get(path.suffix.lower())
    if mime is None:
        import mimetypes

        mime = mimetypes.guess_type(path.name)[0] or ""
    return Attachment(str(path), path.name, mime)
