"""Text as Telegram reads it: UTF-16 units, its HTML with its own sentences of refusal, entities."""

import re
from typing import Any

Entity = dict[str, Any]

_TAGS = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("tg-spoiler", "span"), "spoiler"),
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
    "tg-emoji": "custom_emoji",
}
_ALONE = ("code", "pre")
"""Nothing is marked inside these."""

_CLOSED = (*_ALONE, "text_link", "text_mention", "custom_emoji")
"""Nothing is found inside these."""

_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_REFERENCE = re.compile(r"&(?:#(\d+)|#x([0-9a-fA-F]+)|(lt|gt|amp|quot)(?![a-zA-Z]));?")
_START = re.compile(r"<([^\s>]*)")
_END = re.compile(r"</([^\s>]*)\s*(>?)")
_ATTRIBUTE = re.compile(r"""\s*([^\s=>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+)(?=[\s>])))?""")
_FOUND = re.compile(
    r"(?P<url>https?://[^\s<>]*[\w/])|(?<![\w/@])(?P<mention>@[A-Za-z]\w{3,31})|(?<![\w/])(?P<bot_command>/\w{1,64}(?:@\w{3,32})?)"
    r"|(?<!\w)(?P<hashtag>#\w*[^\W\d]\w*)"
)


class TextRefused(Exception):
    """Says why, in Telegram's words."""


def units(text: str) -> int:
    """The length as Telegram counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def part(text: str, entity: Entity) -> str:
    """The piece of the text that an entity marks."""
    wide = text.encode("utf-16-le")
    return wide[entity["offset"] * 2 : (entity["offset"] + entity["length"]) * 2].decode("utf-16-le", "replace")


def read(text: str, parse_mode: str | None, entities: list[Entity] | None) -> tuple[str, list[Entity]]:
    """The text and the entities as the chat shows them; raises TextRefused."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TextRefused("strings must be encoded in UTF-8") from None
    if parse_mode == "HTML":
        text, marked = _Html(text).read()
    elif parse_mode:
        raise TextRefused(f"this test server reads HTML, not {parse_mode}")
    else:
        marked = list(entities or ())
        _check(text, marked)
    text, marked = _trimmed(text, marked)
    closed = [entity for entity in marked if entity["type"] in _CLOSED]
    return text, _sorted([*marked, *(one for one in found(text) if not any(_overlap(one, other) for other in closed))])


def found(text: str) -> list[Entity]:
    """The entities that Telegram finds by itself: addresses, @mentions, /commands, #tags."""
    return [
        {"offset": units(text[: match.start()]), "length": units(match[0]), "type": match.lastgroup}
        for match in _FOUND.finditer(text)
    ]


def _check(text: str, entities: list[Entity]) -> None:
    ends, inside, at = units(text), set(), 0
    for character in text:
        if ord(character) > 0xFFFF:
            inside.add(at + 1)
        at += units(character)
    for entity in entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start < 0 or entity["length"] <= 0 or end > ends:
            raise TextRefused(
                f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
            )
        if start in inside:
            raise TextRefused(f"entity begins in a middle of a UTF-16 symbol at UTF-16 offset {start}")
        if end in inside:
            raise TextRefused(f"entity beginning at UTF-16 offset {start} ends in a middle of a UTF-16 symbol")


def _trimmed(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """Telegram cuts the white space at both ends, and drops entities that mark nothing else."""
    shorter = text.strip()
    cut, ends = units(text[: len(text) - len(text.lstrip())]), units(shorter)
    moved = []
    for entity in entities:
        start, end = max(0, entity["offset"] - cut), min(ends, entity["offset"] + entity["length"] - cut)
        if start < end and part(text, entity).strip():
            moved.append({**entity, "offset": start, "length": end - start})
    return shorter, moved


def _sorted(entities: list[Entity]) -> list[Entity]:
    return sorted(entities, key=lambda entity: (entity["offset"], -entity["length"]))


def _overlap(one: Entity, other: Entity) -> bool:
    return bool(one["offset"] < other["offset"] + other["length"] and other["offset"] < one["offset"] + one["length"])


class _Html:
    """One reading of a text; `_open` holds the tags that are open, each with its entity and its place."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._at = 0
        self._text = ""
        self._open: list[tuple[str, Entity]] = []
        self._entities: list[Entity] = []

    def read(self) -> tuple[str, list[Entity]]:
        while self._at < len(self._html):
            if reference := _REFERENCE.match(self._html, self._at):
                self._text += _character(reference)
                self._at = reference.end()
            elif self._html.startswith("</", self._at):
                self._end()
            elif self._html[self._at] == "<":
                self._start()
            else:
                self._text += self._html[self._at]
                self._at += 1
        if self._open:
            raise self._refused(f'Can\'t find end tag corresponding to start tag "{self._open[-1][0]}"', offset=False)
        kept: list[Entity] = []
        for entity in sorted(self._entities, key=lambda one: (one["offset"], -one["length"], _rank(one))):
            if not any(other["type"] in _ALONE and _within(entity, other) for other in kept):
                kept.append(entity)
        return self._text, kept

    def _start(self) -> None:
        begun = self._at
        opening = _START.match(self._html, begun)
        if not opening or opening.end() == len(self._html):
            raise self._refused("Unclosed start tag")
        tag = opening[1].lower()
        if tag not in _TAGS:
            raise self._refused(f'Unsupported start tag "{tag}"')
        at, attributes = opening.end(), {}
        while attribute := _ATTRIBUTE.match(self._html, at):
            attributes[attribute[1].lower()] = attribute[2] or attribute[3] or attribute[4] or ""
            at = attribute.end()
        closing = re.compile(r"\s*>").match(self._html, at)
        if not closing:
            raise self._refused(f'Unclosed start tag "{tag}"')
        if tag == "span" and attributes.get("class") != "tg-spoiler":
            raise self._refused('Tag "span" must have class "tg-spoiler"')
        self._open.append((tag, self._entity(tag, attributes)))
        self._at = closing.end()

    def _entity(self, tag: str, attributes: dict[str, str]) -> Entity:
        entity: Entity = {"offset": units(self._text), "length": 0, "type": _TAGS[tag]}
        language = attributes.get("class", "")
        if tag == "code" and language.startswith("language-") and self._open and self._open[-1][0] == "pre":
            self._open[-1][1]["language"] = language.removeprefix("language-")
        if tag == "a":
            entity["url"] = _REFERENCE.sub(_character, attributes.get("href", ""))
        if tag == "tg-emoji":
            entity["custom_emoji_id"] = attributes.get("emoji-id", "")
        if tag == "blockquote" and "expandable" in attributes:
            entity["type"] = "expandable_blockquote"
        return entity

    def _end(self) -> None:
        if not self._open:
            raise self._refused("Unexpected end tag")
        closing = _END.match(self._html, self._at)
        if not closing or not closing[2]:
            raise self._refused("Unclosed end tag")
        tag, entity = self._open[-1]
        if closing[1] and closing[1].lower() != tag:
            where = f" at byte offset {len(self._html[: self._at].encode())}"
            found_instead = f'expected "</{tag}>", found "</{closing[1]}>"'
            raise self._refused(f"Unmatched end tag{where}, {found_instead}", offset=False)
        self._open.pop()
        entity["length"] = units(self._text) - entity["offset"]
        if tag == "a" and not re.match(r"(https?|tg|ton|mailto|tel)://?\S|\w+(\.\w+)+", entity["url"]):
            entity["length"] = 0
        if entity["length"]:
            self._entities.append(entity)
        self._at = closing.end()

    def _refused(self, reason: str, offset: bool = True) -> TextRefused:
        where = f" at byte offset {len(self._html[: self._at].encode())}" if offset else ""
        return TextRefused(f"can't parse entities: {reason}{where}")


def _character(reference: re.Match[str]) -> str:
    if reference[3]:
        return _NAMED[reference[3]]
    code = int(reference[1]) if reference[1] else int(reference[2], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else reference[0]


def _rank(entity: Entity) -> int:
    """Of entities over the same text the first of these wins."""
    return [*reversed(_ALONE), entity["type"]].index(entity["type"])


def _within(one: Entity, other: Entity) -> bool:
    ends = one["offset"] + one["length"] <= other["offset"] + other["length"]
    return bool(other["offset"] <= one["offset"] and ends)
