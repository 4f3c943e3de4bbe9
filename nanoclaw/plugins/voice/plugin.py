"""The plugin: what was heard in a voice note is quoted in its answer, and the answer is spoken as well."""

from __future__ import annotations

import asyncio
import re
import shutil
import unicodedata
from collections.abc import Iterable
from importlib.util import find_spec
from uuid import uuid4

from nanoclaw.core.errors import ConfigError, WorkspaceError
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import AssistantMessage, Outbound
from nanoclaw.core.plugin import Answer, Command, Draft, Finding, Host, Plugin, Reply, Said, Turn
from nanoclaw.installation import install_command
from nanoclaw.named_tuple import NamedTuple

MOST = 1_500
"""Characters that are spoken, about a minute and a half; the text has the rest."""

ESPEAK = ("espeak-ng", "-v", "{language}", "-f", "{text}", "-w", "{sound}")
VOICES = {"zh": "cmn", "no": "nb"}
"""Names of espeak-ng that are not the language's two letters."""

SCRIPTS = {
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "CJK": "zh",
    "HANGUL": "ko",
    "CYRILLIC": "ru",
    "GREEK": "el",
    "ARABIC": "ar",
    "HEBREW": "he",
    "DEVANAGARI": "hi",
}
"""By the first word of a letter's name in Unicode the language of a text where none is set."""


class VoiceSettings(NamedTuple):
    """Voice notes: quoted in their answers, which are spoken, too."""

    language: str = ""  # yours, such as "de"; empty: guessed
    program: tuple[str, ...] = ESPEAK  # reads {text}, writes {sound} as WAV; []: none

    def check(self) -> None:
        if self.language and not re.fullmatch(r"[a-z]{2,3}", self.language):
            raise ConfigError(f'voice.language is the code of a language, such as "de", not {self.language[:20]!r}.')
        if self.program and not all(any(one in part for part in self.program) for one in ("{text}", "{sound}")):
            raise ConfigError("voice.program needs {text} and {sound}, the files that it reads and writes.")


class Voice(Plugin):
    name = "voice"
    settings = VoiceSettings
    seconds = 130.0
    """Speaking and encoding have a minute each."""

    def __init__(self, host: Host, settings: VoiceSettings) -> None:
        self._host, self._settings = host, settings

    def commands(self) -> Iterable[Command]:
        return [Command("voice", "/voice: the last answer as a voice note", self._voice)]

    async def check(self, deep: bool) -> Iterable[Finding]:
        program = self._settings.program
        if not program:
            return []
        said = "is not installed, so answers are not spoken"
        if not shutil.which(program[0]):
            return [Finding(False, f"{program[0]} {said}: install it, or set [voice] program", "voice")]
        if find_spec("av") is None:
            return [Finding(False, f"PyAV {said}: {install_command('voice')}", "voice")]
        return [Finding(True, f"answers to voice notes are spoken by {program[0]}", "voice")]

    async def before_turn(self, draft: Draft, turn: Turn) -> None:
        if draft.inbound and (heard := self._heard(turn)) and self._shows_notices(turn):
            self._host.show(draft.inbound.address, Notice(f"Heard: {heard}"))

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | None:
        heard = self._heard(turn)
        if not heard or not answer.text:
            return None
        files = answer.files
        if self._settings.program:
            try:
                files = (*files, await self._spoken(answer.text))
            except WorkspaceError as error:
                self._host.log.warning("the answer is not spoken: {}", error)
        quote = "" if self._shows_notices(turn) else "".join(f"> {line}\n" for line in heard.splitlines()) + "\n"
        return Answer(quote + answer.text, files)

    async def _voice(self, said: Said) -> Reply:
        history = self._host.conversations.of(said.conversation).history
        answers = (one.text for one in reversed(history) if isinstance(one, AssistantMessage) and one.text)
        if not (text := next(answers, "")):
            return Reply("There is no answer yet that could be spoken.")
        if not self._settings.program:
            return Reply("No program for speech is set: [voice] program in config.toml.")
        try:
            file = await self._spoken(text)
        except WorkspaceError as error:
            return Reply(f"It cannot be spoken: {error}.")
        note = Outbound(said.address, "", (file,))
        return Reply("The last answer as a voice note.", change=lambda tx: tx.send(note, is_news=False), is_news=False)

    def _heard(self, turn: Turn) -> str:
        media = self._host.get("media")
        return media.heard.get(turn, "").replace("[voice note] ", "") if media else ""

    def _shows_notices(self, turn: Turn) -> bool:
        channel = self._host.channel(turn.address.channel)
        return channel is not None and channel.hints.notices

    async def _spoken(self, text: str) -> str:
        """The path of a voice note, kept with the files of messages. Raises WorkspaceError."""
        from nanoclaw.speech import SpeechError, speak

        words = for_ears(text)
        language = self._settings.language or language_of(words)
        program = [one.replace("{language}", VOICES.get(language, language)) for one in self._settings.program]
        try:
            sound = await speak(words, program)
            return await asyncio.to_thread(self._keep, sound)
        except (SpeechError, OSError) as error:
            raise WorkspaceError(str(error)) from None

    def _keep(self, sound: bytes) -> str:
        from nanoclaw.atomic_write import replace_in
        from nanoclaw.beneath.paths import open_parent_named

        name = f"media/{self._host.now():%Y-%m}/answer-{uuid4().hex[:8]}.ogg"
        with open_parent_named(self._host.workspace, name) as (folder, file):
            replace_in(folder, file, sound)
        return str(self._host.workspace / name)


def for_ears(text: str) -> str:
    """The words of an answer without code, addresses, markup; of a long one the beginning, up to a sentence's end."""
    from nanoclaw.markdown.text import to_plain

    bare = re.sub(r"^(```|~~~).*?(^\1|\Z)", "", text, flags=re.DOTALL | re.MULTILINE)
    plain = re.sub(r"\s*\(?https?://\S+", "", to_plain(bare))
    if len(plain) <= MOST:
        return plain
    return re.match(r"(?s).{1,1500}[.!?。！？…](?=\s|$)|.{1,1500}", plain)[0]  # type: ignore[index]


def language_of(text: str) -> str:
    """The language of a text by its letters; English for those that many languages share."""
    scripts = {unicodedata.name(sign, "").split(" ")[0].split("-")[0] for sign in set(text) if sign.isalpha()}
    return next((language for script, language in SCRIPTS.items() if script in scripts), "en")
