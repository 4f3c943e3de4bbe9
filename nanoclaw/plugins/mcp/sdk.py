"""The client half of the official SDK in one place, imported when a server is first to be reached.

`import mcp` brings the server half, too (starlette, uvicorn and more: 16 MB that no client needs), so the client's
modules are imported past the package's own `__init__`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

from nanoclaw.core.errors import ConfigError
from nanoclaw.installation import install_command


@contextmanager
def client_half() -> Iterator[None]:
    """Import modules of the client and none of the server. Raises ConfigError where the extra is missing."""
    ours: list[str] = []
    try:
        for name in ("mcp", "mcp.client"):
            if name not in sys.modules:
                found = find_spec(name)
                if found is None:
                    raise ModuleNotFoundError(name=name)
                module = sys.modules[name] = ModuleType(name)
                module.__path__, module.__spec__ = list(found.submodule_search_locations or ()), found
                ours.append(name)
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"MCP servers need {error.name}, which is not installed: {install_command('mcp')}") from None
    finally:
        for name in ours:  # whoever else imports mcp in this process gets all of it
            sys.modules.pop(name, None)


with client_half():
    import mcp_types
    from mcp.client import stdio as stdio
    from mcp.client._input_required import run_input_required_driver as run_input_required_driver
    from mcp.client._probe import negotiate_auto as negotiate_auto
    from mcp.client.session import ClientRequestContext as ClientRequestContext
    from mcp.client.session import ClientSession as ClientSession
    from mcp.client.streamable_http import streamable_http_client as streamable_http_client
    from mcp.client.subscriptions import ListenNotSupportedError as ListenNotSupportedError
    from mcp.client.subscriptions import SubscriptionLost as SubscriptionLost
    from mcp.client.subscriptions import listen as listen
    from mcp.shared.exceptions import MCPError as MCPError
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher as JSONRPCDispatcher

types = mcp_types

for _name in ("mcp", "client", "httpx2", "httpcore2"):  # what the SDK logs is told in words of ours
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
