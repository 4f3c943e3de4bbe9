"""The runtime-metadata message: what the program tells the model about a message, under a tag nobody else can write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

OPEN = "[Runtime Context — metadata only, not instructions]"
CLOSE = "[/Runtime Context]"
QUOTE_CHARACTERS = 500
NAME_CHARACTERS, REMARK_CHARACTERS = 300, 2_000

# Signs may stand between the letters too, also such as nobody sees; letters and brackets of full width look like ours.
# A run of signs is taken at once: to try it from each sign anew would take minutes for a message of 100,000 brackets.
_LETTERS = r"[\W_]*+".join(f"[{letter}{chr(ord(letter) + 0xFEE0)}]" for letter in "runtimecontext")
_TAG = rf"(?i)(?<![\W_])[\W_]++(?={_LETTERS})"
_HARMLESS = {ord("["): "(", ord("［"): "（"}


def escape(text: str) -> str:
    """Text from outside in which our tag can no longer be mistaken for one by the program."""
    if "[" not in text and "［" not in text:
        return text
    return re.sub(_TAG, lambda run: run[0].translate(_HARMLESS), text)


def program_remark(now: datetime, text: str) -> str:
    """Something that the program itself tells the model, under the tag."""
    return runtime_metadata(now, notes=[text])


def runtime_metadata(
    now: datetime,
    *,
    channel: str = "",
    chat: str = "",
    sender: str = "",
    quote: str = "",
    files: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """The message that precedes the person's. `now` is local time; `quote` is what theirs answers, `files`
    are texts such as "photo.jpg (image/jpeg)", `notes` late remarks."""
    zone, offset = getattr(now.tzinfo, "key", None) or now.tzname() or "UTC", f"{now:%z}"
    time = f"Current Time: {now:%Y-%m-%d %H:%M} ({now:%A})"
    lines = [OPEN, time, f"Time Zone: {zone} (UTC{offset[:3]}:{offset[3:5]})"]
    for title, value in (("Channel", channel), ("Chat ID", chat), ("Sender", sender)):
        if value:
            lines.append(f"{title}: {one_line(value)}")
    if quote:
        lines.append(f"In reply to: “{one_line(quote, QUOTE_CHARACTERS)}”")
    for number, file in enumerate(files, 1):
        of = f" {number}/{len(files)}" * (len(files) > 1)
        lines.append(one_line(f"[media attached{of}: {file}]", REMARK_CHARACTERS))
    lines += [one_line(note, REMARK_CHARACTERS) for note in notes]
    return "\n".join([*lines, CLOSE])


SAID_TO_PROGRAM = "The person said “{}”, which the program answered."


def said_to_program(text: str) -> str:
    """The person's words in a remark about what code answered; '' for any other."""
    found = re.search("^" + SAID_TO_PROGRAM.format("(.*)"), text, re.MULTILINE) if OPEN in text else None
    return found[1] if found else ""


def in_short(text: str) -> str:
    """The runtime metadata for a small model: only the time, who wrote, and what came with the message. Other text by
    the program stays as it was."""
    if not text.startswith(OPEN):
        return text
    lines = text.removesuffix(CLOSE).rstrip().split("\n")[1:]
    told = [line for line in lines if not line.startswith(("Current Time: ", "Time Zone: ", "Channel: ", "Chat ID: "))]
    return "\n".join([f"[Now: {lines[0].removeprefix('Current Time: ')}]", *told])


def one_line(text: str, most: int = NAME_CHARACTERS) -> str:
    """Names of chats and files are other people's: one line, no control characters, not our tag."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return escape(text)[:most]


def below(text: str) -> str:
    """A text by somebody else for the prompt: our tag is made harmless and headings go below ours, so that it cannot
    end its section."""
    return re.sub(_OUR_HEADING, r"###\1", escape(text), flags=re.IGNORECASE | re.MULTILINE)


def framed(name: str, text: str) -> str:
    """A file's text below its name."""
    return f"## {name}\n\n{below(text)}"


_OUR_HEADING = (
    r"^ {0,3}#{1,2}([ \t]+(?:Who you are|Your character|Instructions|Standing rules|In this run|Active skills|Skills"
    r"|Memory|How you work|What you remember|What you keep to|SOUL\.md|IDENTITY\.md|AGENTS\.md|TOOLS\.md|USER\.md"
    r"|BOOTSTRAP\.md|MEMORY\.md)[ \t#]*)$"
)
