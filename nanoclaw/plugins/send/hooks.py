"""Webhooks: what is in [hooks.NAME], who may deliver there, and what a delivery says."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nanoclaw.core.errors import ConfigError, NanoclawError

if TYPE_CHECKING:
    from nanoclaw.plugins.send.plugin import Hook

MOST_BYTES, AGE_SECONDS, PER_MINUTE = 256_000, 300.0, 30
ASKED_CHARACTERS, TOLD_CHARACTERS = 20_000, 1_500


class RefusedDelivery(NanoclawError):
    """A delivery that is not taken: the status of HTTP, and a sentence."""


def check(hooks: Mapping[str, Hook]) -> None:
    """Raises ConfigError for a secret that is none."""
    for name, hook in hooks.items():
        if len(hook.secret) < 12 or (hook.kind == "standard" and not _key_of(hook.secret)):
            form = "whsec_ and base64" if hook.kind == "standard" else "12 characters or more"
            raise ConfigError(f"hooks.{name}.secret must be {form}: anyone who knows it can write to you.")


def checked(hook: Hook, headers: Mapping[str, str], body: bytes, now: float) -> tuple[list[str], str, str]:
    """The ids of a delivery (one that is known makes it a repeat), its text, and that for a person. `headers` have
    names in lower case, `now` is in seconds. Raises RefusedDelivery."""
    if len(body) > MOST_BYTES:
        raise RefusedDelivery(413, f"a delivery has at most {MOST_BYTES:,} bytes.")
    ids, is_right = _proved(hook, lambda name: headers.get(name, ""), body, now)
    if not is_right:
        raise RefusedDelivery(401, "the signature or the secret is not right.")
    text = body.decode("utf-8", "replace").strip()
    told = _in_short(headers.get(f"x-{hook.kind}-event", ""), text)
    return [one[:200] for one in ids], text[:ASKED_CHARACTERS], told[:TOLD_CHARACTERS]


def _proved(hook: Hook, given: Any, body: bytes, now: float) -> tuple[list[str], bool]:
    """The ids of a delivery, and True if its sender knows the secret. Raises RefusedDelivery."""
    if hook.kind == "standard":
        id_, stamp = given("webhook-id"), given("webhook-timestamp")
        if not id_ or not (stamp.isascii() and stamp.isdecimal() and len(stamp) <= 12):
            raise RefusedDelivery(400, "webhook-id or webhook-timestamp is missing.")
        wanted = hmac.new(_key_of(hook.secret), f"{id_}.{stamp}.".encode() + body, hashlib.sha256).digest()
        signed = f"v1,{base64.b64encode(wanted).decode()}"
        is_right = any(_same(one, signed) for one in given("webhook-signature").split())
        if is_right and abs(now - int(stamp)) > AGE_SECONDS:
            raise RefusedDelivery(400, f"it is more than {AGE_SECONDS / 60:.0f} minutes old, or of the future.")
        return [id_], is_right
    if hook.kind == "bearer":
        secret = given("authorization").removeprefix("Bearer ").strip()
        return [given("idempotency-key") or os.urandom(16).hex()], _same(secret, hook.secret)
    signed = hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()
    shown = given("x-hub-signature-256").removeprefix("sha256=") or given("x-gitea-signature")
    # their id is not signed: the same body with another one is a replay, too
    return [given(f"x-{hook.kind}-delivery") or signed, signed], _same(shown, signed)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _key_of(secret: str) -> bytes:
    """The key of Standard Webhooks; empty for a text that is none."""
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        return b""


def _in_short(event: str, text: str) -> str:
    """A delivery for a person: of a JSON object the texts that say most; else as it is."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text or "(nothing)"
    if not isinstance(data, Mapping):
        return text
    about: Any = next((data[one] for one in _SUBJECTS if isinstance(data.get(one), Mapping)), {})
    heads = ((data, "action"), (data.get("repository"), "full_name"), (data.get("sender"), "login"))
    told = " ".join(filter(None, (event, *(_word(one, key) for one, key in heads))))
    words = (_word(one, key) for one in (data, about) for key in _TEXTS)
    return "\n".join(dict.fromkeys(filter(None, (told, *words)))) or text


_SUBJECTS = ("issue", "pull_request", "release", "workflow_run", "head_commit", "comment", "data")
_TEXTS = ("title", "name", "text", "message", "summary", "body", "type", "html_url", "url")


def _word(data: object, key: str) -> str:
    value = data.get(key) if isinstance(data, Mapping) else None
    return value.strip()[:500] if isinstance(value, str) else ""
