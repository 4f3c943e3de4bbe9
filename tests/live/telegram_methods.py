"""What each method of the Bot API does to the people's chats, and what it refuses, in Telegram's words."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.live import telegram_text
from tests.live.telegram_chats import Action, Chat, Draft, Fields, File, Message, Refused, without_reply
from tests.live.telegram_http import Upload
from tests.live.telegram_world import FOLDERS, World

MOST_TEXT, MOST_CAPTION, MOST_DOWNLOAD, MOST_PHOTO = 4096, 1024, 20 * 2**20, 10 * 2**20
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a current content "
    "and reply markup of the message"
)
BUTTON_ACTIONS = frozenset({"text", "style", "icon_custom_emoji_id"})
"""What a button may have beside the one thing that it does."""


@dataclass(frozen=True)
class Call:
    """A request whose parameters have the right types; uploads stand under the names of their parameters."""

    method: str
    parameters: Fields
    uploads: dict[str, Upload] = field(default_factory=dict)


class Methods:
    """All but getUpdates, which is the server's own."""

    def __init__(self, world: World) -> None:
        self._world = world
        media = {f"send{kind.title()}": self._send_file for kind in FOLDERS}
        self._methods: dict[str, Callable[[Call], Any]] = {
            **media,
            "getMe": self._get_me,
            "getFile": self._get_file,
            "getWebhookInfo": self._get_webhook_info,
            "deleteWebhook": self._delete_webhook,
            "setMyCommands": self._set_my_commands,
            "deleteMyCommands": self._delete_my_commands,
            "sendMessage": self._send_message,
            "sendMessageDraft": self._send_draft,
            "sendChatAction": self._send_action,
            "editMessageText": self._edit,
            "editMessageCaption": self._edit,
            "editMessageReplyMarkup": self._edit,
            "deleteMessage": self._delete,
            "setMessageReaction": self._react,
            "answerCallbackQuery": self._answer_callback,
        }

    def answer(self, call: Call) -> Any:
        """The result; raises Refused and TextRefused."""
        return self._methods[call.method](call)

    def _get_me(self, call: Call) -> Fields:
        may = {"can_join_groups": True, "can_read_all_group_messages": not self._world.privacy}
        return {**self._world.me, **may, "supports_inline_queries": False, "has_topics_enabled": True}

    def _get_webhook_info(self, call: Call) -> Fields:
        return {
            "url": self._world.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self._world.updates),
        }

    def _delete_webhook(self, call: Call) -> bool:
        self._world.webhook = ""
        if call.parameters.get("drop_pending_updates"):
            self._world.updates.clear()
        return True

    def _chat(self, wanted: int | str) -> Chat:
        if isinstance(wanted, str) and wanted.removeprefix("-").isdecimal():
            wanted = int(wanted)
        chat = self._world.chats.get(wanted) if isinstance(wanted, int) else self._named(wanted)
        if not chat:
            raise Refused("chat not found")
        if chat.refusal:
            code, description, parameters = chat.refusal
            raise Refused(description, code, parameters)
        return chat

    def _named(self, name: str) -> Chat | None:
        public = (chat for chat in self._world.chats.values() if chat.kind == "supergroup" and chat.username)
        return next((chat for chat in public if f"@{chat.username}" == name), None)

    def _message(self, call: Call, purpose: str) -> tuple[Chat, Message]:
        if "chat_id" not in call.parameters or "message_id" not in call.parameters:
            raise Refused("message identifier is not specified")
        chat = self._chat(call.parameters["chat_id"])
        message = chat.messages.get(call.parameters["message_id"])
        if not message or message.deleted:
            raise Refused(f"message to {purpose} not found")
        return chat, message

    def _post(self, call: Call, fields: Fields, file: File | None = None) -> Fields:
        asked = call.parameters
        chat = self._chat(asked["chat_id"])
        markup = _keyboard(asked.get("reply_markup"))
        placed = self._world.topic_fields(chat, asked.get("message_thread_id"))
        reply = _reply(chat, asked.get("reply_parameters"))
        message = self._world.new(chat, self._world.me, {**placed, **reply, **fields}, file)
        message.markup = markup
        if markup and "inline_keyboard" in markup:
            message.fields["reply_markup"] = markup
        if asked.get("protect_content"):
            message.fields["has_protected_content"] = True
        self._world.shown.pop(chat.id, None)
        self._world.posted.append(message)
        return dict(message.fields)

    def _send_message(self, call: Call) -> Fields:
        self._chat(call.parameters["chat_id"])
        if not call.parameters["text"]:
            raise Refused("message text is empty")
        return self._post(call, _text(call.parameters))

    def _send_draft(self, call: Call) -> bool:
        asked = call.parameters
        chat = self._chat(asked["chat_id"])
        if chat.kind != "private":
            raise Refused("TEXTDRAFT_PEER_INVALID")
        if not asked["draft_id"]:
            raise Refused("draft identifier must be non-zero")
        topic = asked.get("message_thread_id")
        self._world.topic_fields(chat, topic)
        text: Fields = _text(asked) if asked.get("text") else {"text": ""}
        marked = text.get("entities", [])
        draft = Draft(chat.id, asked["draft_id"], text["text"], marked, topic, asked.get("can_stop", False))
        self._world.drafts.append(draft)
        self._world.shown[chat.id] = draft
        return True

    def _send_action(self, call: Call) -> bool:
        chat, topic = self._chat(call.parameters["chat_id"]), call.parameters.get("message_thread_id")
        self._world.topic_fields(chat, topic)
        self._world.actions.append(Action(chat.id, call.parameters["action"], topic))
        return True

    def _edit(self, call: Call) -> Fields:
        _, message = self._message(call, "edit")
        if not message.by_bot:
            raise Refused("message can't be edited")
        asked = call.parameters
        changed: Fields = {}
        if call.method == "editMessageText":
            if "text" not in message.fields:
                raise Refused("there is no text in the message to edit")
            if not asked.get("text"):
                raise Refused("message text is empty")
            changed = {"entities": [], **_text(asked)}
        if call.method == "editMessageCaption":
            if "text" in message.fields:
                raise Refused("there is no caption in the message to edit")
            changed = {"caption": "", "caption_entities": [], **_caption(asked)}
        markup = _keyboard(asked.get("reply_markup"))
        if markup == message.markup and all(
            message.fields.get(name, type(value)()) == value for name, value in changed.items()
        ):
            raise Refused(NOT_MODIFIED)
        message.fields |= {**changed, "reply_markup": markup, "edit_date": int(self._world.now())}
        message.fields = {name: value for name, value in message.fields.items() if value}
        message.markup = markup
        message.edits += 1
        return dict(message.fields)

    def _delete(self, call: Call) -> bool:
        _, message = self._message(call, "delete")
        message.deleted = True
        return True

    def _react(self, call: Call) -> bool:
        _, message = self._message(call, "react")
        wanted = call.parameters.get("reaction", [])
        if len(wanted) > 1:
            raise Refused("REACTIONS_TOO_MANY")
        message.reactions = [one.get("emoji", one["type"]) for one in wanted]
        return True

    def _answer_callback(self, call: Call) -> bool:
        id = call.parameters["callback_query_id"]
        if self._world.callbacks.get(id, call) is not None:
            raise Refused("query is too old and response timeout expired or query ID is invalid")
        if len(call.parameters.get("text", "")) > 200:
            raise Refused("MESSAGE_TOO_LONG")
        self._world.callbacks[id] = call.parameters
        return True

    def _set_my_commands(self, call: Call) -> bool:
        for command in call.parameters["commands"]:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command["command"].removeprefix("/")):
                raise Refused("BOT_COMMAND_INVALID")
            if not 1 <= len(command["description"]) <= 256:
                raise Refused("BOT_COMMAND_DESCRIPTION_INVALID")
        if len(call.parameters["commands"]) > 100:
            raise Refused("BOT_COMMANDS_TOO_MUCH")
        scope = json.dumps(call.parameters.get("scope", {"type": "default"}))
        self._world.commands[scope] = call.parameters["commands"]
        return True

    def _delete_my_commands(self, call: Call) -> bool:
        self._world.commands.pop(json.dumps(call.parameters.get("scope", {"type": "default"})), None)
        return True

    def _send_file(self, call: Call) -> Fields:
        kind = call.method.removeprefix("send").lower()
        self._chat(call.parameters["chat_id"])
        if upload := call.uploads.get(kind):
            if not upload.content:
                raise Refused("file must be non-empty")
            if kind == "photo" and len(upload.content) > MOST_PHOTO:
                raise Refused("file is too big for a photo")
            # what is not Opus in Ogg is shown as a file, not as a voice
            shown = "document" if kind == "voice" and not upload.content.startswith(b"OggS") else kind
            file = self._world.store(shown, upload)
        else:
            file = self._known(call.parameters[kind])
            if file.kind != kind:
                raise Refused(f"can't use file of type {file.kind.title()} as {kind.title()}")
        wanted = {"duration", "width", "height", "performer", "title"} & set(call.parameters)
        more = {name: call.parameters[name] for name in wanted} if file.kind == kind else {}
        return self._post(call, {**self._world.media(file, more), **_caption(call.parameters)}, file)

    def _known(self, id: str) -> File:
        if id.startswith(("http://", "https://")):
            raise Refused("failed to get HTTP URL content")
        if id not in self._world.files:
            raise Refused("wrong remote file identifier specified: can't unserialize it")
        return self._world.files[id]

    def _get_file(self, call: Call) -> Fields:
        file = self._world.files.get(call.parameters["file_id"])
        if not file:
            raise Refused("invalid file_id")
        if file.size > MOST_DOWNLOAD:
            raise Refused("file is too big")
        return {**file.fields(), "file_path": file.path}


def _text(asked: Fields) -> Fields:
    text, entities = telegram_text.read(asked["text"], asked.get("parse_mode"), asked.get("entities"))
    if not text:
        raise Refused("text must be non-empty")
    if telegram_text.units(text) > MOST_TEXT:
        raise Refused("message is too long")
    return {"text": text, **({"entities": entities} if entities else {})}


def _caption(asked: Fields) -> Fields:
    given = asked.get("caption", "")
    text, entities = telegram_text.read(given, asked.get("parse_mode"), asked.get("caption_entities"))
    if telegram_text.units(text) > MOST_CAPTION:
        raise Refused("message caption is too long")
    return {**({"caption": text} if text else {}), **({"caption_entities": entities} if entities else {})}


def _keyboard(markup: Fields | None) -> Fields | None:
    """The keyboard, or None for none; raises Refused for a button that Telegram would not take."""
    if not markup or "inline_keyboard" not in markup:
        return markup
    for button in (button for row in markup["inline_keyboard"] for button in row):
        if len(set(button) - BUTTON_ACTIONS) != 1:
            raise Refused("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
        if not 1 <= len(button.get("callback_data", "x").encode()) <= 64:
            raise Refused("BUTTON_DATA_INVALID")
    return markup if any(markup["inline_keyboard"]) else None


def _reply(chat: Chat, wanted: Fields | None) -> Fields:
    if not wanted or "message_id" not in wanted:
        return {}
    if wanted.get("chat_id", chat.id) != chat.id:
        raise Refused("this test server has no replies to another chat")
    message = chat.messages.get(wanted["message_id"])
    if not message or message.deleted:
        if wanted.get("allow_sending_without_reply"):
            return {}
        raise Refused("message to be replied not found")
    fields: Fields = {"reply_to_message": without_reply(message)}
    if quote := wanted.get("quote"):
        if quote not in message.text:
            raise Refused("QUOTE_TEXT_INVALID")
        position = telegram_text.units(message.text[: message.text.index(quote)])
        fields["quote"] = {"text": quote, "position": position, "is_manual": True}
    return fields
