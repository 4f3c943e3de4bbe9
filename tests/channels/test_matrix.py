"""Texts of events on Matrix, how answers are written, and the keys that sign a device: without a server."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.channels.fields import name_of
from nanoclaw.channels.matrix import channel
from nanoclaw.channels.matrix.channel import Matrix
from nanoclaw.channels.matrix.events import (
    HeldFile,
    addressed,
    said,
    text_of,
    when,
    without_fallback,
)
from nanoclaw.channels.matrix.settings import MatrixSettings
from nanoclaw.channels.matrix.signing import Seeds, cross_sign, public, signed
from nanoclaw.channels.newest import mark_of
from nanoclaw.core.channel import ChannelHost, Place
from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address, Outbound
from tests.examples import examples

EXAMPLES = examples(__file__, "matrix.jsonl")

NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)
BOT = "@nano:example.org"
NAMES = (BOT, "nano", "Nano Claw")
NOISE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["m.thread", "m.replace", "$a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "msgtype": NOISE | st.sampled_from(["m.text", "m.image", "m.file", "m.emote", "m.location"]),
        "body": NOISE | st.just("words"),
        "url": NOISE | st.just("mxc://example.org/abc"),
        "filename": NOISE,
        "info": NOISE | st.fixed_dictionaries({"size": NOISE, "mimetype": NOISE}),
        "file": NOISE | st.fixed_dictionaries({"url": NOISE, "key": NOISE, "iv": NOISE, "hashes": NOISE}),
        "m.mentions": NOISE | st.fixed_dictionaries({"user_ids": NOISE}),
        "m.relates_to": NOISE
        | st.fixed_dictionaries(
            {"rel_type": NOISE, "event_id": NOISE, "m.in_reply_to": NOISE, "is_falling_back": NOISE}
        ),
    },
)


def text(body: str, **more: Any) -> dict[str, Any]:
    return {"msgtype": "m.text", "body": body, **more}


@given(CONTENT)
def test_content_of_any_shape_is_a_message_or_none_or_a_value_error(content: dict[str, Any]) -> None:
    try:
        found = said(content)
    except ValueError:
        return
    assert isinstance(text_of(content), str)
    if found and found.attachment:
        assert HeldFile.of(found.attachment.ref).mxc.startswith("mxc://")
        assert found.attachment.name


@pytest.mark.parametrize(
    "content",
    [
        text("* new", **{"m.relates_to": {"rel_type": "m.replace", "event_id": "$a"}, "m.new_content": text("new")}),
        {"msgtype": "m.notice", "body": "I am a bot"},
        {"msgtype": "m.key.verification.request", "body": "verify me"},
        {},
    ],
)
def test_edits_notices_and_unknown_kinds_are_no_messages(content: dict[str, Any]) -> None:
    assert said(content) is None


@pytest.mark.parametrize("content", EXAMPLES["a message without what it needs is an error"])
def test_a_message_without_what_it_needs_is_an_error(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="without"):
        said(content)


def test_a_thread_is_told_from_a_reply_within_it() -> None:
    relation = {"rel_type": "m.thread", "event_id": "$root", "m.in_reply_to": {"event_id": "$one"}}
    falling_back = said(text("hi", **{"m.relates_to": {**relation, "is_falling_back": True}}))
    reply = said(text("hi", **{"m.relates_to": relation}))
    assert falling_back is not None and reply is not None
    assert (falling_back.thread, falling_back.quoted) == ("$root", "")
    assert (reply.thread, reply.quoted) == ("$root", "$one")


@pytest.mark.parametrize(("body", "own"), EXAMPLES["the quoted lines of a reply are taken off"])
def test_the_quoted_lines_of_a_reply_are_taken_off(body: str, own: str) -> None:
    assert without_fallback(body) == own
    found = said(text(body, **{"m.relates_to": {"m.in_reply_to": {"event_id": "$a"}}}))
    assert found is not None
    assert (found.text, found.quoted) == (own, "$a")


def test_a_file_tells_its_name_type_size_and_caption() -> None:
    found = said(
        {
            "msgtype": "m.image",
            "filename": "../../x\u202e\n.png",
            "body": "our cat",
            "url": "mxc://example.org/abc",
            "info": {"mimetype": "image/png", "size": 7},
        }
    )
    assert found is not None and found.attachment is not None
    assert found.text == "our cat"
    assert (found.attachment.name, found.attachment.mime, found.attachment.size) == ("x .png", "image/png", 7)
    assert HeldFile.of(found.attachment.ref) == HeldFile("mxc://example.org/abc")


@pytest.mark.parametrize("size", [-1, True, "7", 1.5, None, 10**30])
def test_a_size_that_is_none_is_not_believed(size: Any) -> None:
    found = said({"msgtype": "m.file", "body": "x.bin", "url": "mxc://a.b/c", "info": {"size": size}})
    assert found is not None and found.attachment is not None
    assert found.attachment.size == (10**30 if size == 10**30 else None)


@pytest.mark.parametrize(
    ("given_name", "kind", "mime", "name"),
    [
        ("a/b\\c.txt", "file", "", "c.txt"),
        ("..", "image", "image/jpeg", "picture.jpg"),
        ("\x00\x1b", "audio", "audio/ogg", "voice.oga"),
        ("", "file", "", "file"),
        (".bashrc", "file", "", "bashrc"),
        ("x" * 300 + ".pdf", "file", "", "x" * 96 + ".pdf"),
    ],
)
def test_file_names_are_safe(given_name: str, kind: str, mime: str, name: str) -> None:
    voice: dict[str, Any] = {"m.voice": {}} if kind == "audio" else {}
    found = said(
        {"msgtype": f"m.{kind}", "body": given_name, "url": "mxc://a.b/c", "info": {"mimetype": mime}, **voice}
    )
    assert found and found.attachment and found.attachment.name.replace(".ogg", ".oga") == name


@pytest.mark.parametrize(
    ("words", "is_named", "rest"),
    [
        ("nano: /status", True, "/status"),
        ("@nano what time is it", True, "what time is it"),
        (f"{BOT}, hello", True, "hello"),
        ("NANO CLAW: hello", True, "hello"),
        ("Nano, hello", True, "hello"),
        ("ask @nano about it", True, "ask @nano about it"),
        (f"ask {BOT} about it", True, f"ask {BOT} about it"),
        ("ask nano about it", False, "ask nano about it"),
        ("nano particles: a story", False, "nano particles: a story"),
        ("nanotubes are small", False, "nanotubes are small"),
        ("the nano-scale", False, "the nano-scale"),
        ("mail nano@other.org or x@nano.org", False, "mail nano@other.org or x@nano.org"),
        ("hello", False, "hello"),
    ],
)
def test_a_group_calls_the_assistant_by_its_name(words: str, is_named: bool, rest: str) -> None:
    assert addressed(words, NAMES) == (is_named, rest)


@pytest.mark.parametrize("stamp", [None, "x", 10**30, -(10**30), float("nan")])
def test_a_time_that_no_calendar_has_is_now(stamp: Any) -> None:
    assert when({"origin_server_ts": stamp}, NOW) == NOW
    assert when({}, NOW) == NOW


def test_names_are_one_line() -> None:
    assert name_of("Mo\n\x1b[31m " + "x" * 100) == "Mo [31m " + "x" * 56
    assert name_of(["no"]) == ""


@given(NOISE)
def test_a_reference_that_is_none_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError):
        HeldFile.of(json.dumps(value))


# --- out -------------------------------------------------------------------------------------------------------------


def test_html_is_sent_where_it_shows_more_than_the_words() -> None:
    assert channel._words("one\ntwo < three") == {**text("one\ntwo < three"), **UNFETCHED}
    assert channel._words("**bold**") == {
        **text("**bold**"),
        **UNFETCHED,
        "format": "org.matrix.custom.html",
        "formatted_body": "<p><strong>bold</strong></p>",
    }
    assert "<script>" not in channel._words("_x_ <script>")["formatted_body"]


def test_no_link_or_picture_in_an_answer_asks_for_a_preview() -> None:
    """Whatever carries a message: a new one, one that grows, a caption, one without its HTML."""
    words = channel._words("See ![x](https://evil.test/?d=secret) and https://evil.test/secret")
    assert "<img" not in words["formatted_body"]
    for content in (words, channel._edit(words, "$e")["m.new_content"], channel._without_html(words)):
        assert {name: content[name] for name in UNFETCHED} == UNFETCHED


UNFETCHED: dict[str, Any] = {"m.url_previews": [], "com.beeper.linkpreviews": []}


@pytest.mark.parametrize("sign", ["a", "<", "\n", "é", "日", "😀", "**b** "])
def test_the_longest_message_fits_an_event_also_as_an_edit(sign: str) -> None:
    """It has 65,536 bytes, a third of which encryption takes. Where the server says that it is too long, HTML goes."""
    whole = (sign * channel.LENGTH)[: channel.LENGTH]
    while len(whole.encode()) > channel.LENGTH:
        whole = whole[: len(whole) // 2]
    plain = channel._without_html(channel._edit(channel._words(whole), "$" + "x" * 43))
    assert len(json.dumps(plain)) * 4 / 3 < 60_000


def test_a_repeat_has_the_same_transaction_and_another_text_a_new_one() -> None:
    """Also where a home was restored from a backup and its numbers come again."""

    def sent(words: str, key: str = "1.0") -> str:
        return mark_of(Outbound(Address("matrix", "!a:b"), words, key=key))

    assert sent("one") == sent("one")
    assert len({sent("one"), sent("two"), sent("one", "1.1")}) == 3


def test_an_answer_goes_where_the_question_was() -> None:
    words = text("yes")
    private = channel._related(words, Place("!a:b"), "$q")
    assert private == {**words, "m.mentions": {}}
    group = channel._related(words, Place("!a:b", "", "@mo:b"), "$q")
    assert group["m.relates_to"] == {"m.in_reply_to": {"event_id": "$q"}}
    assert group["m.mentions"] == {"user_ids": ["@mo:b"]}
    thread = channel._related(words, Place("!a:b", "$root"), "$q")["m.relates_to"]
    assert (thread["rel_type"], thread["event_id"], thread["m.in_reply_to"]) == (
        "m.thread",
        "$root",
        {"event_id": "$q"},
    )


@pytest.mark.parametrize(
    ("homeserver", "user", "password", "wrong"),
    [
        ("matrix.example.org", BOT, "x", "channels.matrix.homeserver"),
        ("https://example.org/_matrix", BOT, "x", "channels.matrix.homeserver"),
        ("https://example.org", "nano", "x", "channels.matrix.user"),
        ("https://example.org", BOT, "", "NANOCLAW_MATRIX_PASSWORD"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    tmp_path: Path, homeserver: str, user: str, password: str, wrong: str
) -> None:
    with pytest.raises(ConfigError, match=wrong):
        Matrix(MatrixSettings(homeserver, user, password), ChannelHost(tmp_path, lambda: NOW))
    assert list(tmp_path.iterdir()) == []


# --- signing ---------------------------------------------------------------------------------------------------------

SEEDS = Seeds(bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96)))


class KeyServer:
    """Answers of a homeserver to requests about keys; it wants the password when keys are uploaded."""

    def __init__(self, password: str = "right", master: str = "") -> None:
        self.password, self.uploads = password, list[tuple[str, dict[str, Any]]]()
        self.found: dict[str, Any] = {
            "device_keys": {BOT: {"DEV": {"user_id": BOT, "device_id": "DEV", "keys": {}, "unsigned": {"name": "x"}}}},
            "master_keys": {BOT: {"keys": {f"ed25519:{master}": master}}} if master else {},
        }

    async def ask(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "keys/query":
            return 200, self.found
        if path == "keys/device_signing/upload" and "auth" not in body:
            return 401, {"session": "s1", "flows": [{"stages": ["m.login.password"]}]}
        if path == "keys/device_signing/upload" and body["auth"]["password"] != self.password:
            return 403, {"errcode": "M_FORBIDDEN", "session": body["auth"]["session"]}
        self.uploads.append((path, body))
        return 200, {}


def test_the_keys_are_published_with_the_password_and_sign_the_device() -> None:
    import vodozemac

    server = KeyServer()
    assert asyncio.run(cross_sign(server.ask, BOT, "DEV", SEEDS, "right")) == ""
    (_, keys), (path, signatures) = server.uploads
    assert path == "keys/signatures/upload"
    assert keys["auth"]["session"] == "s1"
    device = signatures[BOT]["DEV"]
    for value, seed in ((keys["self_signing_key"], SEEDS.master), (device, SEEDS.self_signing)):
        signature = value["signatures"][BOT][f"ed25519:{public(seed)}"]
        bare = {name: part for name, part in value.items() if name != "signatures"}
        canonical = json.dumps(bare, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
        vodozemac.Ed25519PublicKey.from_base64(public(seed)).verify_signature(
            canonical, vodozemac.Ed25519Signature.from_base64(signature)
        )
    assert "unsigned" not in device


def test_public_keys_are_those_of_the_standard() -> None:
    """The first of the test vectors of RFC 8032."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert public(seed) == base64.b64encode(key).decode().rstrip("=")


@pytest.mark.parametrize(("password", "why"), [("", "wants the password"), ("wrong", "refused the keys")])
def test_without_the_right_password_nothing_is_signed(password: str, why: str) -> None:
    server = KeyServer()
    assert why in asyncio.run(cross_sign(server.ask, BOT, "DEV", SEEDS, password))
    assert server.uploads == []


def test_keys_of_another_client_are_left_alone() -> None:
    server = KeyServer(master="somebody-elses")
    assert "verify this session" in asyncio.run(cross_sign(server.ask, BOT, "DEV", SEEDS, "right"))
    assert server.uploads == []


def test_a_device_that_is_signed_is_not_signed_again() -> None:
    server = KeyServer(master=public(SEEDS.master))
    mine = server.found["device_keys"][BOT]["DEV"]
    server.found["device_keys"][BOT]["DEV"] = signed(
        mine, BOT, f"ed25519:{public(SEEDS.self_signing)}", SEEDS.self_signing
    )
    assert asyncio.run(cross_sign(server.ask, BOT, "DEV", SEEDS, "")) == ""
    assert server.uploads == []


def test_a_new_device_is_signed_with_the_kept_keys() -> None:
    server = KeyServer(master=public(SEEDS.master))
    assert asyncio.run(cross_sign(server.ask, BOT, "DEV", SEEDS, "")) == ""
    assert [path for path, _ in server.uploads] == ["keys/signatures/upload"]


def test_secrets_are_in_no_repr() -> None:
    from nanoclaw.channels.matrix.account import Account

    shown = repr(Account(BOT, "DEV", "syt_secret", SEEDS))
    assert "syt_secret" not in shown
    assert repr(SEEDS.master) not in shown
