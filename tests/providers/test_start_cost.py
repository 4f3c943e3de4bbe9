"""What the direct paths import, and when certificate authorities are loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

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


def test_what_httpx_did_not_import_can_still_be_imported() -> None:
    code = "import nanoclaw.providers.http, httpx._main, httpcore._async.http2"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "None in sys.modules" not in done.stderr


def test_https_loads_the_authorities_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from nanoclaw.providers import http

    monkeypatch.setattr(http, "_contexts", {})
    first, second = http.open_client("https://example.invalid/"), http.open_client("https://example.invalid/")
    assert first is not second and list(http._contexts) == [True]
    assert len(http._contexts[True].get_ca_certs()) > 0
