"""Telegram's Bot API on loopback, for tests: as strict as Telegram, with a person's side and failures to order.

Every request and every answer is checked against the API's own types. `async with TelegramServer() as server:` serves
at `server.api_base` for `server.token`; on leaving, requests that broke the types and were not looked at fail the test.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from tests.live import telegram_text
from tests.live.telegram_chats import Asked, Refused, Update
from tests.live.telegram_http import Broken, Reply, Request, refusal, serve
from tests.live.telegram_methods import Call, Methods
from tests.live.telegram_schema import METHODS, from_form, wrong_answer, wrong_parameters
from tests.live.telegram_world import ORDINARY, World

How = Literal[401, 403, 409, 429, 500, 502, "reset", "hang", "lost"]
"""A code to answer with; a reset connection; no answer at all; or "lost": it is done, then the connection is reset."""

LONGEST_POLL = 50.0
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
BAD_GATEWAY = b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"


@dataclass(eq=False)
class _Order:
    """A failure that was ordered."""

    method: str
    left: int
    how: How
    retry_after: int
    chat: int | None


class _Failing(Exception):
    def __init__(self, how: How, retry_after: int) -> None:
        self.how, self.retry_after = how, retry_after


class TelegramServer(World):
    """One bot's server: the world with a door of HTTP."""

    def __init__(self, *, username: str = "nano_test_bot", privacy: bool = False) -> None:
        """With `privacy` the bot hears in groups only what is for it."""
        super().__init__(username, privacy)
        self.token = f"{self.me['id']}:AAF3kQm0zv9Wn2XyR8sLbT1uJcEoPdGhIaY"
        self.violations: list[str] = []
        self.faults: list[str] = []
        self._methods = Methods(self)
        self._orders: list[_Order] = []
        self._poll: object = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> TelegramServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()
        await self._server.wait_closed()
        if error is None and (wrong := [*self.faults, *self.violations]):
            raise AssertionError("\n".join(wrong))

    async def leave(self) -> None:
        """Be out of reach: the port is closed and every connection cut."""
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def come_back(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)

    @property
    def api_base(self) -> str:
        """What stands where https://api.telegram.org stands else."""
        return f"http://127.0.0.1:{self._port}"

    # Failures to order

    def fail(self, method: str, times: int = 1, how: How = 500, retry_after: int = 1, chat: int | None = None) -> None:
        """The next requests of the method ("*" any, "file" a download), or those about one chat, fail; a poll that
        waits fails at once."""
        self._orders.append(_Order(method, times, how, retry_after, chat))
        self.notify()

    def mend(self) -> None:
        """No more failures."""
        self._orders.clear()

    def _obey(self, method: str, chat: object = None) -> How | None:
        """Raises what was ordered; "lost" is returned, as it comes later."""
        ordered = (one for one in self._orders if one.left and one.method in (method, "*"))
        order = next((one for one in ordered if one.chat in (None, chat)), None)
        if not order:
            return None
        order.left -= 1
        if order.how == "lost":
            return "lost"
        raise _Failing(order.how, order.retry_after)

    async def _failed(self, failing: _Failing) -> Reply:
        match failing.how:
            case "hang":
                self.notify()
                await asyncio.Event().wait()
            case 401:
                return refusal(401, "Unauthorized")
            case 403:
                return refusal(403, "Forbidden: bot was blocked by the user")
            case 409:
                return refusal(409, CONFLICT)
            case 429:
                wait = failing.retry_after
                return refusal(429, f"Too Many Requests: retry after {wait}", {"retry_after": wait})
            case 500:
                return refusal(500, "Internal Server Error")
            case 502:
                return Reply(502, BAD_GATEWAY, "text/html")
        raise Broken

    # Requests

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            await serve(reader, writer, self._answer)
        except asyncio.CancelledError:
            pass  # the server leaves; a cancelled task would be reported as an error of the connection
        finally:
            self._connections.discard(task)

    async def _answer(self, request: Request) -> Reply:
        path = re.fullmatch(r"/(file/)?bot([^/]*)/(.+)", request.path)
        if not path:
            return refusal(404, "Not Found")
        method = "file" if path[1] else METHODS.get(path[3].lower(), path[3])
        asked = Asked(method, dict(request.fields), request.uploads, time.monotonic())
        self.log.append(asked)
        try:
            reply = await self._reply(path[2], method, path[3], request, asked)
        except _Failing as failing:
            reply = await self._failed(failing)
        except Refused as refused:
            reply = refusal(refused.code, refused.description, refused.parameters)
        except telegram_text.TextRefused as refused:
            reply = refusal(400, f"Bad Request: {refused}")
        except (Broken, asyncio.CancelledError):
            raise
        except Exception:
            self.faults.append(traceback.format_exc())
            reply = refusal(500, "Internal Server Error: the test server has a fault")
        finally:
            self.notify()
        asked.status = reply.status
        return reply

    async def _reply(self, token: str, method: str, path: str, request: Request, asked: Asked) -> Reply:
        if token != self.token:
            wellformed = re.fullmatch(r"\d+:[\w-]{35}", token)
            return refusal(401, "Unauthorized") if wellformed else refusal(404, "Not Found")
        late = self._obey(method, request.fields.get("chat_id"))
        if method == "file":
            return self._download(path)
        if method not in METHODS.values():
            return refusal(404, "Not Found: method not found")
        call = self._checked(method, request)
        asked.parameters = call.parameters
        if method == "getUpdates":
            updates = await self._get_updates(call)
            result, checked = [one.fields for one in updates], [one.fields for one in updates if one.checked]
        else:
            result = checked = self._methods.answer(call)
        if wrong := wrong_answer(method, checked):
            raise AssertionError(f"a wrong answer: {wrong}")
        if late:
            raise Broken
        return Reply(200, json.dumps({"ok": True, "result": result}).encode())

    def _checked(self, method: str, request: Request) -> Call:
        parameters = request.fields if request.typed else from_form(method, request.fields)
        sent = request.uploads
        named = {name: str(value)[9:] for name, value in parameters.items() if sent and str(value)[:9] == "attach://"}
        if missing := set(named.values()) - set(sent):
            raise Refused(f"there is no file {missing} in the request")
        uploads = {name: sent[part] for name, part in named.items()}
        uploads |= {name: upload for name, upload in sent.items() if name not in named.values()}
        files = {name: {"size": len(upload.content), "type": upload.mime} for name, upload in uploads.items()}
        parameters = {**parameters, **files}
        if wrong := wrong_parameters(method, parameters):
            self.violations.append(wrong)
            raise Refused(wrong)
        return Call(method, parameters, uploads)

    async def _get_updates(self, call: Call) -> list[Update]:
        if self.webhook:
            reason = "can't use getUpdates method while webhook is active"
            raise Refused(f"Conflict: {reason}; use deleteWebhook to delete the webhook first", 409)
        asked = call.parameters
        if "allowed_updates" in asked:
            self.allowed = asked["allowed_updates"] or ORDINARY
        self.confirm(asked.get("offset", 0))
        poll = self._poll = object()
        self.notify()
        limit = min(max(asked.get("limit", 100), 1), 100)
        ends = time.monotonic() + min(asked.get("timeout", 0), LONGEST_POLL)
        while not self.updates and (left := ends - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(left):
                    await self.changed.wait()
            except TimeoutError:
                break
            if self._poll is not poll:
                raise Refused(CONFLICT, 409)
            if self._obey("getUpdates"):
                raise Broken
        return self.updates[:limit]

    def _download(self, path: str) -> Reply:
        file = next((file for file in self.files.values() if file.path == path), None)
        return Reply(200, file.content, "application/octet-stream") if file else refusal(404, "Not Found")
