"""Cross-signing: three keys by which other clients see that this device belongs to its account."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Ask = Callable[..., Awaitable[tuple[int, dict[str, Any]]]]
"""One request to the homeserver: method, path, body -> status, answer."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """Seeds of the three private keys; whoever has them can vouch for devices of this account."""

    master: bytes = field(repr=False)
    self_signing: bytes = field(repr=False)
    user_signing: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Seeds:
        return cls(*(secrets.token_bytes(32) for _ in range(3)))

    def as_text(self) -> dict[str, str]:
        """By name, in base64."""
        return {name: base64.b64encode(getattr(self, name)).decode() for name in self.__slots__}


async def cross_sign(ask: Ask, user: str, device: str, seeds: Seeds, password: str) -> str:
    """Publish the keys unless the account has some, and sign the device with them. Returns '' when the device is
    signed, otherwise why not, as a sentence. The device's own keys must be on the server."""
    found = (await ask("POST", "keys/query", {"device_keys": {user: []}}))[1]
    theirs = _keys_of(found.get("master_keys", {}).get(user))
    if not theirs:
        if why := await _publish(ask, user, seeds, password):
            return why
    elif public(seeds.master) not in theirs:
        return "the account already has cross-signing keys of another client: verify this session from there"
    signer = f"ed25519:{public(seeds.self_signing)}"
    mine = found.get("device_keys", {}).get(user, {}).get(device)
    if not isinstance(mine, dict):
        return "the homeserver does not know the keys of this device yet"
    if theirs and signer in mine.get("signatures", {}).get(user, {}):
        return ""
    status, answer = await ask(
        "POST", "keys/signatures/upload", {user: {device: signed(mine, user, signer, seeds.self_signing)}}
    )
    refused = status != 200 or answer.get("failures")
    return f"the homeserver refused the signature ({_reason(status, answer)})" if refused else ""


def public(seed: bytes) -> str:
    """The public key as Matrix writes it."""
    return _base64(_key(seed).public_key().export_key(format="raw"))


def signed(value: Mapping[str, Any], user: str, key_id: str, seed: bytes) -> dict[str, Any]:
    """The value with our signature added to those that it has."""
    from Crypto.Signature import eddsa

    bare = {name: part for name, part in value.items() if name not in ("signatures", "unsigned")}
    text = json.dumps(bare, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    signature = _base64(eddsa.new(_key(seed), "rfc8032").sign(text.encode()))
    before = value.get("signatures", {})
    return {**bare, "signatures": {**before, user: {**before.get(user, {}), key_id: signature}}}


async def _publish(ask: Ask, user: str, seeds: Seeds, password: str) -> str:
    """Upload the three keys; the server may want the password for it."""
    master_id = f"ed25519:{public(seeds.master)}"
    body: dict[str, Any] = {}
    for usage in Seeds.__slots__:
        key = public(getattr(seeds, usage))
        part = {"user_id": user, "usage": [usage], "keys": {f"ed25519:{key}": key}}
        body[f"{usage}_key"] = part if usage == "master" else signed(part, user, master_id, seeds.master)
    path = "keys/device_signing/upload"
    status, answer = await ask("POST", path, body)
    if status == 401 and "flows" in answer:
        if not password:
            return "the homeserver wants the password for it, and none is set"
        body["auth"] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": user},
            "password": password,
            "session": answer.get("session"),
        }
        status, answer = await ask("POST", path, body)
    return "" if status == 200 else f"the homeserver refused the keys ({_reason(status, answer)})"


def _keys_of(key: Any) -> list[str]:
    keys = key.get("keys") if isinstance(key, dict) else None
    return [str(value) for value in keys.values()] if isinstance(keys, dict) else []


def _reason(status: int, answer: Mapping[str, Any]) -> str:
    return str(answer.get("errcode") or f"status {status}")


def _key(seed: bytes) -> Any:
    from Crypto.PublicKey import ECC

    return ECC.construct(curve="Ed25519", seed=seed)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")
