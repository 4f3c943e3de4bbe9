"""A real MCP server of the SDK's, with all that a client must live with: over stdio, or over HTTP on the port that it
prints. `--many` has 300 tools, `--liar` lists what no server should, `--mute` never answers, `--newest` speaks the
newest protocol alone, `--after FIFO` starts once somebody writes to it."""

import argparse
import asyncio
import base64
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAECAIAAAAmkwkpAAAAEElEQVR4nGP4z8AARwzEcQCukw/x0F8jngAAAABJRU5ErkJggg=="
)


def served(*, in_2025: bool = True) -> Any:
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp_types import CallToolResult, TextContent
    from pydantic import create_model

    server = MCPServer("test", version="1.0")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(structured_output=False)
    def env(name: str) -> str:
        """A variable of the environment, and the folder."""
        return f"{os.environ.get(name, 'not set')} in {Path.cwd()}, process {os.getpid()}"

    @server.tool()
    def weather(city: str) -> dict[str, Any]:
        """Structured."""
        return {"city": city, "degrees": 7}

    @server.tool(structured_output=False)
    def fail() -> CallToolResult:
        """Fails."""
        return CallToolResult(content=[TextContent(type="text", text="no such city")], is_error=True)

    @server.tool(structured_output=False)
    def picture() -> Image:
        """A picture."""
        return Image(data=PNG, format="png")

    @server.tool(structured_output=False)
    def mixed() -> CallToolResult:
        """All kinds of content."""
        audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
        link = {"type": "resource_link", "uri": "note://1", "name": "one", "description": "A note"}
        inner = {"type": "resource", "resource": {"uri": "note://2", "text": "inside"}}
        blob = {"type": "resource", "resource": {"uri": "note://3", "blob": "AAAA", "mimeType": "application/zip"}}
        broken = {"type": "image", "data": "bm8=", "mimeType": "image/png"}
        return CallToolResult.model_validate({"content": [audio, link, inner, blob, broken]})

    @server.tool(structured_output=False)
    async def slow(context: Context[Any, Any], log: str) -> str:
        """Hangs, and writes down that it was cancelled."""
        await context.report_progress(1, 4, "begun")
        try:
            await asyncio.sleep(600)
        except BaseException:
            Path(log).write_text("cancelled")
            raise
        return "done"

    @server.tool(structured_output=False)
    def die() -> str:
        """Ends the server."""
        print("the disk is on fire", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    @server.tool(structured_output=False)
    async def grow(context: Context[Any, Any]) -> str:
        """One more tool."""
        server.add_tool(lambda: "new here", name="grown", description="It came later.", structured_output=False)
        await (context.session.send_tool_list_changed if in_2025 else context.notify_tools_changed)()
        return "grown"

    @server.tool(structured_output=False)
    async def trip(context: Context[Any, Any]) -> str:
        """Asks for a city."""
        return str(await context.elicit("A trip.", create_model("Trip", city=(str, ...))))

    @server.resource("note://1", name="one")
    def note() -> str:
        """The first note."""
        return "buy milk"

    @server.resource("note://by/{name}")
    def by_name(name: str) -> str:
        return f"of {name}"

    @server.prompt()
    def review(what: str, tone: str = "kind") -> str:
        """Look at something."""
        return f"Review {what}, be {tone}."

    return server


def many() -> Any:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("many")
    for number in range(300):
        server.add_tool(lambda: "ok", name=f"tool_{number}", description=f"Number {number}.", structured_output=False)
    return server


LIES: list[Any] = [
    {
        "name": "good",
        "description": "Works.",
        "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}},
    },
    {"name": "good", "description": "A twin.", "inputSchema": {"type": "object"}},
    {"name": "no schema"},
    {"name": "no_schema", "inputSchema": {"type": "object"}},
    {"name": "array", "description": "x", "inputSchema": {"type": "array"}},
    {"name": "list", "description": "x", "inputSchema": [1, 2]},
    {"name": "odd", "description": "x", "inputSchema": {"type": "object", "properties": {"a": 7}, "required": "a"}},
    {"name": "long", "description": "word " * 200_000, "inputSchema": {"type": "object"}},
    {
        "name": "huge",
        "inputSchema": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}},
    },
    {
        "name": "Grüße an alle, die einen sehr langen Namen für ein Werkzeug lesen mögen",
        "inputSchema": {"type": "object"},
    },
    {"name": 7},
    "no tool at all",
    {"name": "result", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "required": ["never"]}},
]


def lie(*, is_mute: bool) -> None:
    """Speak the protocol of 2025 by hand, as no library would."""
    waiting: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if is_mute:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
        params = asked.get("params", {})
        if "method" not in asked:  # the answer to a question of ours
            said = json.dumps(asked.get("result") or asked.get("error"))
            answer |= {"id": waiting.pop("call"), "result": {"content": [{"type": "text", "text": said}]}}
        elif "id" not in asked:
            continue
        elif asked["method"] == "initialize":
            info = {"name": "liar\x1b[31m", "version": "1"}
            offers = {"tools": {"listChanged": True}}
            answer["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": offers,
                "serverInfo": info,
            }
        elif asked["method"] == "tools/list":
            answer["result"] = {"tools": LIES, "nextCursor": "again"}
        elif asked["method"] == "tools/call" and params["name"] in QUESTIONS:
            waiting["call"] = asked["id"]
            method, question = QUESTIONS[params["name"]]
            answer = {"jsonrpc": "2.0", "id": "mine", "method": method, "params": question}
        elif asked["method"] == "tools/call" and params["name"] == "result":
            answer["result"] = {"content": [], "structuredContent": {"other": 1}}
        elif asked["method"] == "tools/call" and params["name"] == "quit":
            return
        elif asked["method"] == "tools/call" and params["name"] == "endless":
            while True:
                print("x" * 100_000, end="", flush=True)
        elif asked["method"] == "tools/call" and params["name"] == "raw":
            body = RAW[params["arguments"]["kind"]]
            print(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": {{"content": {body}}}}}', flush=True)
            continue
        elif asked["method"] == "tools/call" and params["name"] == "array":
            answer["result"] = {"content": "what?"}
        elif asked["method"] == "tools/call":
            if params["name"] == "long":
                LIES.append({"name": "later", "inputSchema": {"type": "object"}})
                print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
            print("Not JSON at all", flush=True)
            answer["result"] = {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
        else:
            answer["error"] = {"code": -32601, "message": "no such method"}
        print(json.dumps(answer), flush=True)


FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "description": "Where to?"},
        "days": {"type": "integer"},
        "sea": {"type": "boolean"},
        "by": {"type": "string", "enum": ["train", "car"]},
    },
    "required": ["city"],
}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "form": ("elicitation/create", {"message": "A trip.", "requestedSchema": FORM}),
    "think": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "one word?"}}], "maxTokens": 9},
    ),
    "roots": ("roots/list", {}),
}
LIES += [{"name": name, "inputSchema": {"type": "object"}} for name in (*QUESTIONS, "quit", "endless", "raw")]

RAW = {
    "deep": "[" * 100_000 + "]" * 100_000,
    "half": '[{"type": "text", "text": "cut \\ud83d"}]',
    "twice": '[{"type": "text", "text": "a", "text": "b"}]',
    "endless number": '[{"type": "text", "text": "a", "x": ' + "9" * 100_000 + "}]",
    "no number": '[{"type": "text", "text": "a"}], "structuredContent": {"x": NaN}',
    "torn": '[{"type": "text',
    "wrong": '[{"type": 5}, 7]',
}
"""Contents of results as they stand in a line."""


def forgetful() -> Any:
    """An app by hand, as servers of 2025 are: a session is over after two calls, which is a 404 from then on."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    calls: dict[str, int] = {}

    async def answer(request: Request) -> Response:
        if request.method != "POST":
            return Response(status_code=405)
        asked, session = await request.json(), request.headers.get("mcp-session-id", "")
        method, headers = asked["method"], dict[str, str]()
        if method == "initialize":
            headers["mcp-session-id"] = f"session-{len(calls)}"
            calls[headers["mcp-session-id"]] = 0
            version, info = asked["params"]["protocolVersion"], {"name": "forgetful", "version": "1"}
            result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        elif session not in calls or calls[session] >= 2:
            return Response(status_code=404)
        elif method == "tools/list":
            result = {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            calls[session] += 1
            result = {"content": [{"type": "text", "text": f"in {session}"}]}
        else:
            return Response(status_code=202)
        return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": result}, headers=headers)

    return Starlette(routes=[Route("/mcp", answer, methods=["GET", "POST", "DELETE"])])


def guarded(app: Any, port: int) -> Any:
    """The same behind OAuth: whoever asks is let in, and gets a token of their own."""
    from urllib.parse import urlencode

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, RedirectResponse, Response
    from starlette.routing import Route

    here = f"http://127.0.0.1:{port}"

    async def resource(request: Request) -> Response:
        return JSONResponse({"resource": f"{here}/mcp", "authorization_servers": [here]})

    async def about(request: Request) -> Response:
        methods = {"code_challenge_methods_supported": ["S256"], "response_types_supported": ["code"]}
        places = {f"{name}_endpoint": f"{here}/{name}" for name in ("authorization", "token", "registration")}
        return JSONResponse({"issuer": here, **places, **methods})

    async def register(request: Request) -> Response:
        return JSONResponse({**await request.json(), "client_id": "nano"}, 201)

    async def authorize(request: Request) -> Response:
        given = request.query_params
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode({'code': 'c0de', 'state': given['state']})}")

    async def token(request: Request) -> Response:
        return JSONResponse({"access_token": "t0ken-of-the-person", "token_type": "Bearer", "expires_in": 3600})

    routes = {
        "/.well-known/oauth-protected-resource/mcp": resource,
        "/.well-known/oauth-authorization-server": about,
        "/registration": register,
        "/authorization": authorize,
        "/token": token,
    }
    door = Starlette(routes=[Route(path, one, methods=["GET", "POST"]) for path, one in routes.items()])

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        known = dict(scope.get("headers", ())).get(b"authorization") == b"Bearer t0ken-of-the-person"
        if scope["type"] != "http" or known:
            await app(scope, receive, send)
        elif scope["path"] in routes:
            await door(scope, receive, send)
        else:
            await Response("who are you?", 401)(scope, receive, send)

    return guard


async def no_protocol_of_2025(context: Any, go_on: Any) -> Any:
    from mcp import MCPError

    if context.method == "initialize":
        raise MCPError(-32601, "no such method")
    return await go_on(context)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--after", type=Path)
    for kind in ("many", "liar", "mute", "newest", "oauth", "forgetful"):
        parser.add_argument(f"--{kind}", action="store_true")
    options = parser.parse_args()
    if options.after:
        options.after.open("rb", buffering=0).read(1)
    if options.liar or options.mute:
        lie(is_mute=options.mute)
        return
    server: Any = many() if options.many else None if options.forgetful else served(in_2025=not options.newest)
    if options.newest:
        server._lowlevel_server.middleware.append(no_protocol_of_2025)
    if not options.http:
        server.run("stdio")
        return
    import socket

    import uvicorn

    listening = socket.create_server(("127.0.0.1", options.port))
    app = server.streamable_http_app() if server else forgetful()
    if options.oauth:
        app = guarded(app, listening.getsockname()[1])
    print(listening.getsockname()[1], flush=True)
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
