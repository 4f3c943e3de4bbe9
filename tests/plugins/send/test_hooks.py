"""Webhooks: the vectors of the standard and of GitHub's documentation, and what is refused."""

import hashlib
import hmac
import json
from datetime import datetime
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.send.hooks import RefusedDelivery, checked
from nanoclaw.plugins.send.plugin import Hook
from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.start import build
from tests.program import HandClock, Program, config_of, running

STANDARD = Hook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
SIGNED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1a,x v1,bm9wZQ== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
BODY, AT = b'{"test": 2432232314}', 1614265330.0
GITHUB = Hook("It's a Secret to Everybody", "github")
GITHUB_SIGNED = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"

SETTINGS = """
[hooks.door]
secret = "a secret of mine"
kind = "bearer"
[hooks.ci]
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
do = "ask"
"""


def test_the_vector_of_the_standard() -> None:
    assert checked(STANDARD, SIGNED, BODY, AT + 299)[0] == ["msg_p5jXN8AQM9LWM0D4loKWxJek"]
    for at in (AT + 301, AT - 301):
        with pytest.raises(RefusedDelivery, match=r"5 minutes old"):
            checked(STANDARD, SIGNED, BODY, at)
    for wrong in ({"webhook-signature": "v1,"}, {"webhook-id": "other"}, {"webhook-timestamp": "1614265331"}):
        with pytest.raises(RefusedDelivery, match=r"not right"):
            checked(STANDARD, {**SIGNED, **wrong}, BODY, AT)
    for wrong in ({"webhook-timestamp": "١"}, {"webhook-timestamp": "9" * 400}, {"webhook-id": ""}):
        with pytest.raises(RefusedDelivery):
            checked(STANDARD, {**SIGNED, **wrong}, BODY, AT)
    with pytest.raises(RefusedDelivery, match=r"at most 256,000 bytes"):
        checked(STANDARD, SIGNED, b"x" * 256_001, AT)


def test_the_vector_of_githubs_documentation() -> None:
    headers = {"x-hub-signature-256": GITHUB_SIGNED, "x-github-delivery": "72d3162e", "x-github-event": "ping"}
    ids, _, told = checked(GITHUB, headers, b"Hello, World!", 0.0)
    assert ids[0] == "72d3162e" and told == "Hello, World!"
    # its id is not signed: with another one the delivery is known by its signature
    assert checked(GITHUB, {**headers, "x-github-delivery": "b"}, b"Hello, World!", 0.0)[0][1] == ids[1]
    with pytest.raises(RefusedDelivery, match=r"not right"):
        checked(GITHUB, headers, b"Hello, World?", 0.0)


def test_a_delivery_in_short() -> None:
    issue = {"title": "It breaks", "html_url": "https://git.example/1"}
    body = json.dumps({"action": "opened", "issue": issue, "repository": {"full_name": "a/b"}}).encode()
    signed = hmac.new(b"a secret of mine", body, hashlib.sha256).hexdigest()
    headers = {"x-gitea-signature": signed, "x-gitea-delivery": "1", "x-gitea-event": "issues"}
    *_, told = checked(Hook("a secret of mine", "gitea"), headers, body, 0.0)
    assert told == "issues opened a/b\nIt breaks\nhttps://git.example/1"


@pytest.mark.parametrize(
    "table",
    [
        *("hooks = 1", "[hooks]\na = 1", "[hooks.a]\nsecret = 'short'", "[hooks.a]\nkind = 'x'"),
        *("[hooks.a]\nsecret = 'no base64 at all'", "[hooks.a]\nsecrets = 'x'"),
    ],
)
def test_wrong_settings_get_a_sentence(tmp_path: Path, table: str) -> None:
    with pytest.raises(ConfigError):
        build.checked(config_of(tmp_path, f"{table}\n"))


async def deliver(program: Program, name: str, body: str, **headers: str) -> tuple[int, str]:
    receive = next(one for plugin in program.app.plugins for one in plugin.routes().values())
    status, told = await receive(
        name, {key.lower().replace("_", "-"): one for key, one in headers.items()}, body.encode()
    )
    assert isinstance(told, dict)
    return status, told["told"]


async def test_what_is_delivered_is_told_once_and_too_much_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider(), settings=SETTINGS) as program:
        right = {"Authorization": "Bearer a secret of mine"}
        assert await deliver(program, "door", '{"text": "It rings"}', **right, Idempotency_Key="1") == (202, "taken.")
        assert await program.answer() == "door: It rings"
        assert (await deliver(program, "door", "x", **right, Idempotency_Key="1"))[1] == "taken before."
        assert (await deliver(program, "door", "x", Authorization="Bearer guessed"))[0] == 401
        assert (await deliver(program, "nope", "x", **right))[0] == 404
        statuses = [(await deliver(program, "door", f"{one}", **right))[0] for one in range(30)]
        assert statuses == [202] * 28 + [429] * 2


async def test_the_model_is_asked_about_it_as_others_text(tmp_path: Path) -> None:
    now = datetime.fromtimestamp(AT).astimezone()
    model = ScriptedProvider("Your build is broken.")
    async with running(tmp_path, model, settings=SETTINGS, clock=HandClock(now)) as program:
        signed = {name.replace("-", "_"): value for name, value in SIGNED.items()}
        assert await deliver(program, "ci", BODY.decode(), **signed) == (202, "taken.")
        assert await program.answer() == f"ci: {BODY.decode()}"
        assert await program.answer() == "Your build is broken."
        asked = model.requests[-1].history
        assert "information by others" in asked[-1].text and BODY.decode() in asked[-1].text
        assert "what their webhook brought" in asked[-2].text
        assert (await deliver(program, "ci", BODY.decode(), **signed))[1] == "taken before."


async def test_deliveries_come_in_by_the_server_of_the_page(tmp_path: Path) -> None:
    for library in ("nh3", "starlette", "uvicorn"):
        pytest.importorskip(library)
    from tests.plugins.page.served import ON, serving

    async with serving(tmp_path, settings=f"{ON}{SETTINGS}") as served, served.client() as other:
        right = {"authorization": "Bearer a secret of mine", "idempotency-key": "1"}
        answers = [await other.post("/hooks/door", content="It rings", headers=right) for _ in "ab"]
        assert [(one.status_code, one.json()["told"]) for one in answers] == [(202, "taken."), (202, "taken before.")]
        assert (await other.post("/hooks/door", content="It rings")).status_code == 401
        assert (await other.post("/hooks/nope", content="It rings", headers=right)).status_code == 404
        assert (await other.post("/hooks/door", content="x" * 300_000, headers=right)).status_code == 413
        assert (await other.post("/api/say", content="{}")).status_code == 403  # the page itself stays closed
        assert served.app.store.rows("SELECT text FROM outbox") == [("door: It rings",)]
