"""Calls of a server's tools, with what it tells of their progress; and the list of its resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nanoclaw.core.plugin import ToolOutput
from nanoclaw.core.tool import ToolContext
from nanoclaw.escapes import one_line, plain
from nanoclaw.plugins.mcp.results import output_of

if TYPE_CHECKING:
    from nanoclaw.plugins.mcp.connection import Connection, RunningCall

MOST = 200
"""Resources that are listed."""


async def call(connection: Connection, name: str, context: ToolContext, arguments: dict[str, Any]) -> ToolOutput:
    """The result of a call, sent as it was given. Raises ToolError."""

    async def work(session: Any, running: RunningCall) -> Any:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            running.reset_timeout()
            known = f"{done:g} of {total:g}" if total else f"{done:g}"
            context.show(plain(message or known), done / total if total else None)

        return await with_inputs(
            session,
            lambda responses, state: session.call_tool(
                name,
                arguments,
                progress_callback=progress,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            ),
        )

    return await output_of(connection.name, await connection.request(work, context))


async def with_inputs(session: Any, send: Any) -> Any:
    """The result of a request, once what the server wants to know for it has been answered."""
    from nanoclaw.plugins.mcp import sdk

    async def dispatch(key: str, request: Any) -> Any:
        context = sdk.ClientRequestContext(session=session, request_id=key, meta=None)
        return await session.dispatch_input_request(context, request)

    first = await send(None, None)
    if not isinstance(first, sdk.types.InputRequiredResult):
        return first
    return await sdk.run_input_required_driver(first, dispatch=dispatch, retry=send)


async def resources(session: Any) -> str:
    """The resources of a server and the patterns of others, a line each."""
    from nanoclaw.plugins.mcp import sdk

    found = (await session.list_resources()).resources
    lines = [f"{one.uri} ({one.name}){_about(one)}" for one in found[:MOST]]
    if len(found) > MOST:
        lines.append(f"[and {len(found) - MOST} more]")
    try:
        templates = (await session.list_resource_templates()).resource_templates
    except sdk.MCPError:  # few servers have any
        templates = []
    lines += [f"{one.uri_template} ({one.name}; fill in what is in braces){_about(one)}" for one in templates[:MOST]]
    return "\n".join(lines) or "It has none."


def _about(one: Any) -> str:
    kind = f", {one.mime_type}" if one.mime_type else ""
    return f"{kind}: {one_line(plain(one.description), 200)}" if one.description else kind
