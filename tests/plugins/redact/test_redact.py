"""No secret leaves by a tool result, an answer, its stream or the log, whoever it belongs to."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nanoclaw.channels import table as channels
from nanoclaw.core.channel import ChannelSpec
from nanoclaw.core.events import TextDelta
from nanoclaw.core.messages import Effect
from nanoclaw.core.plugin import Host, Plugin, Said, Tool
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.redaction import MASK, within
from tests.program import MAIN, FakeChannel, Program, results, running

SETTINGS = """
[model]
api_key = "sk-model-4711"
[channels.telegram]
token = "1234:telegram-token"
[channels.acme]
token = "acme-token-4711"
[channels.plain]
api_token = "plain-token-4711"
[plugins]
[plugins.teller]
passphrase = "teller-phrase-4711"
"""
SECRETS = {
    "configuration": "sk-model-4711",
    "environment": "weather-key-4711",
    "built-in channel": "1234:telegram-token",
    "channel of a package": "acme-token-4711",
    "channel without settings": "plain-token-4711",
    "plugin": "teller-phrase-4711",
}


class AcmeSettings(NamedTuple):
    token: str = ""


class TellerSettings(NamedTuple):
    passphrase: str = ""


class Teller(Plugin):
    """Has a tool that returns what it is given, and logs it."""

    name = "teller"
    settings = TellerSettings
    secrets = ("passphrase",)

    def __init__(self, host: Host, settings: TellerSettings) -> None:
        self._host = host

    def tools(self) -> Iterable[Tool]:
        async def tell(text: str) -> str:
            """Tell a text."""
            self._host.log.warning("told {}", text)
            return f"told {text}\x1b[2J"

        return [tool(tell, reach="none")]


class _Point:
    def __init__(self, found: Any) -> None:
        self._found = found

    def load(self) -> Any:
        return self._found


@pytest.fixture(autouse=True)
def _packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages bring two channels, one of which declares its settings."""

    def make(*given: Any) -> FakeChannel:
        return FakeChannel("plain")

    spec = ChannelSpec(make, settings=AcmeSettings, needed=("token",), secrets=("token",))
    monkeypatch.setattr(channels, "_installed", lambda: {"acme": _Point(spec), "plain": _Point(make)})


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
async def test_a_secret_of_whomever_leaves_by_no_way(tmp_path: Path, secret: str, log: list[str]) -> None:
    provider = ScriptedProvider(call("tell", {"text": f"it: {secret}."}), Say(f"The key is {secret}, so."))
    environment = {"WEATHER_API_KEY": "weather-key-4711"}
    async with running(tmp_path, provider, settings=SETTINGS, extra=[Teller], environment=environment) as home:
        assert await home.ask("tell me") == "The key is [secret], so."
        assert results(home.history)[-1].text == "told it: [secret]."
        assert streamed(home) == "The key is [secret], so."
    assert any("told it: [secret]." in line for line in log)
    assert secret not in "".join(log)
    logging.shutdown()
    written = "".join(path.read_text() for path in (tmp_path / "logs").glob("*.log"))
    assert "told it: [secret]." in written
    assert secret not in written


async def test_a_secret_that_the_model_writes_into_a_call_is_shown_by_nothing(tmp_path: Path) -> None:
    secret = SECRETS["plugin"]
    given = {"text": f"it: {secret}."}
    provider = ScriptedProvider(call("tell", given), call("read_file", {"path": secret}), f"The key is {secret}, so.")
    async with running(tmp_path, provider, settings=SETTINGS, extra=[Teller]) as home:
        (home.workspace / secret).write_text("x")
        await home.ask("tell me")
        said = {name: await home.ask(name) for name in ("/history", "/why", "/show 1", "/show 2")}
        said["from outside"] = str(
            (await home.app.commands.for_said("history", Said("", MAIN, MAIN, "me", "owner"))).text
        )
        shown = "".join(map(repr, (event for _, event in home.channel.events)))
    assert "ToolStarted" in shown and "[secret]" in shown and secret not in shown
    assert all("[secret]" in text and secret not in text for text in said.values()), said
    assert within({"steps": ({"text": "a key"},), "count": 1}, lambda text: text.replace("key", MASK)) == {
        "steps": [{"text": f"a {MASK}"}],
        "count": 1,
    }


async def test_a_short_password_that_settings_name_is_hidden_and_a_word_of_a_variable_is_not(tmp_path: Path) -> None:
    provider = ScriptedProvider(call("tell", {"text": "heron7 is enabled"}), "So.")
    settings, variables = '[channels.acme]\ntoken = "heron7"\n', {"RETRY_KEY": "enabled"}
    async with running(tmp_path, provider, settings=settings, extra=[Teller], environment=variables) as home:
        await home.ask("tell me")
        assert results(home.history)[-1].text == "told [secret] is enabled"


async def test_without_the_plugin_only_the_log_is_clean(tmp_path: Path, log: list[str]) -> None:
    provider = ScriptedProvider(call("tell", {"text": "sk-model-4711"}), "The key is sk-model-4711.")
    async with running(tmp_path, provider, settings=SETTINGS, extra=[Teller], without=["redact"]) as home:
        assert await home.ask("tell me") == "The key is sk-model-4711."
    assert "sk-model-4711" not in "".join(log)


def streamed(home: Program) -> str:
    return "".join(event.text for _, event in home.channel.events if isinstance(event, TextDelta))


FOUND = "ghp" + "_R4nd0mT0k3nV4lu3Th4tL00ksR3al1234567"


async def test_the_mask_is_not_written_in_the_place_of_a_secret(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        call("read_file", {"path": ".env"}),
        call("write_file", {"path": ".env", "content": "PORT=81\nTOKEN=[secret]\n"}),
        call("edit_file", {"path": ".env", "old": "PORT=80", "new": "PORT=81"}),
        call("write_file", {"path": "notes.md", "content": "a key is shown as [secret]"}),
        "Done.",
    )
    async with running(tmp_path, provider) as home:
        (home.workspace / ".env").write_text(f"PORT=80\nTOKEN={FOUND}\n")
        assert await home.ask("port 81") == "Done."
        read, refused, edited, written = results(home.history)
        assert FOUND not in read.text
        assert "TOKEN=[secret]" in read.text
        assert (refused.is_error, "would be written in its place" in refused.text) == (True, True)
        assert (edited.is_error, written.is_error) == (False, False)
        assert (home.workspace / ".env").read_text() == f"PORT=81\nTOKEN={FOUND}\n"


async def test_a_known_value_that_the_person_writes_or_a_file_of_the_prompt_has_reaches_no_model(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider("Fine.")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "AGENTS.md").write_text("# Rules\nThe key is sk-model-4711.")
    async with running(tmp_path, provider, settings=SETTINGS, extra=[Teller]) as home:
        home.app.redact.add("later-token-4711")
        assert await home.ask(f"sk-model-4711, later-token-4711 and {FOUND}") == "Fine."
    sent = str(provider.requests)
    assert "The key is [secret]." in sent
    assert f"[secret], [secret] and {FOUND}" in sent
    assert "sk-model-4711" not in sent


async def test_no_secret_is_in_a_line_of_the_audit_log_whichever_tool_wrote_it(tmp_path: Path) -> None:
    async def post(context: ToolContext, url: str, body: str) -> str:
        """Post something."""
        context.report(Effect("post", "page", "", f"posted {body} to {url}"))
        return "ok"

    async def look(url: str) -> str:
        """Look something up."""
        return "ok"

    class Poster(Plugin):
        name = "poster"

        def tools(self) -> Iterable[Tool]:
            return [tool(post), tool(look)]

    url = "https://me:Pa55w0rd-in-a-url@h.example.org/" + "x" * 30 + "?k=weather-key-4711"
    provider = ScriptedProvider(
        call("post", {"url": url, "body": "sk-model-4711"}),
        call("look", {"url": url}),
        call("exec", {"command": f"echo {'a' * 470} weather-key-4711; curl {url}"}),
        "Done.",
    )
    environment = {"WEATHER_API_KEY": "weather-key-4711"}
    async with running(tmp_path, provider, settings=SETTINGS, extra=[Poster], environment=environment) as home:
        await home.ask("go")
        kept = "\n".join(f"{row[0]} {row[1]}" for row in home.rows("SELECT target, text FROM ledger"))
    assert "posted [secret] to https://me:[secret]@h.example.org/" in kept and "used look" in kept
    assert not [one for one in ("Pa55", "weather", "sk-model", "key-47") if one in kept]
