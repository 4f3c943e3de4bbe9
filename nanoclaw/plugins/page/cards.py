"""The views Today, Knows and House: what commands and plugins tell, for the page to draw, and what its buttons do."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nanoclaw.core.channel import MAIN
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Limits, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Reply, Said
from nanoclaw.dollars import dollars
from nanoclaw.escapes import one_line
from nanoclaw.plugins.page.channel import conversation_of
from nanoclaw.plugins.page.render import html
from nanoclaw.plugins.page.server import given, text_in
from nanoclaw.usage_totals import Total, totals

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel

DAYS, RECENT, EFFECTS, CONVERSATIONS = 30, 15, 500, 30
"""Days of the plots; lines of what was done, and conversations in which that is looked for."""

OF_KNOWS = {"note", "memory", "search", "pin", "unpin", "skills", "project", "pair"}
SAYS = OF_KNOWS | {"jobs", "undo", "grants", "budget", "answer", "processes", "web", "model"}
"""Commands that a card may carry out."""

TEST_SECONDS = 90.0  # seconds within which a model that is tested must answer


class Cards:
    """The routes of these views. A view is several things that are told, by name, each with `data`, or `html`."""

    def __init__(self, channel: PageChannel) -> None:
        self._channel, self._host = channel, channel.host

        def told(command: str, argument: str = "") -> Callable[[], Awaitable[Any]]:
            return partial(self._told, command, argument)

        jobs, runs, own = told("jobs"), told("jobs", "runs"), self._findings
        self._views: Mapping[str, Mapping[str, Callable[[], Awaitable[Any]]]] = {
            "today": {"waiting": self._waiting, "inbox": told("inbox"), "jobs": jobs, "runs": runs, "done": self._done}
            | {"helpers": told("helpers"), "budget": told("budget")},
            "knows": {"memory": told("memory"), "log": told("memory", "log"), "pins": told("pins"), "jobs": jobs}
            | {"skills": told("skills"), "findings": own, "plugins": self._plugins, "people": told("pair")},
            "house": {"status": self._status, "findings": own, "spent": self._spent}
            | {"models": told("model"), "context": told("context"), "grants": told("grants")}
            | {"browsers": told("web", "browsers"), "tokens": told("web", "tokens")},
        }
        self._acts = {"doctor": self._doctor, "test": self._test}  # besides commands

    def routes(self) -> list[Route]:
        return [Route("/api/view/{name}", self._view), Route("/api/do", self._do, methods=["POST"])]

    async def _view(self, request: Request) -> Response:
        """Leaves out what has nothing to tell, as where its plugin is not there, and what the query wants left out."""
        found, (only, without) = dict[str, Any](), map(request.query_params.get, ("only", "without"))
        for name, tell in self._views.get(request.path_params["name"], {}).items():
            if name == without or (only and name != only):
                continue
            try:
                found[name] = await tell()
            except NanoclawError as error:
                self._host.log.debug("{} is left out of the page: {}", name, error)
        if not found:
            raise HTTPException(404, "There is no such view.")
        return JSONResponse(found)

    async def _do(self, request: Request) -> Response:
        """Carry out a command of a card, and tell what it said."""
        asked = await given(request)
        command, _, argument = text_in(asked, "command", 20_000).strip().partition(" ")
        if command not in SAYS and command not in self._acts:
            raise HTTPException(400, "The page has no such button.")
        act = self._acts.get(command)
        reply = await act(argument) if act else await self._reply(command, argument, text_in(asked, "c", 400))
        return JSONResponse({"html": await run_in_threadpool(html, reply.text), "data": reply.data})

    async def _reply(self, command: str, argument: str = "", key: str = "") -> Reply:
        here = conversation_of(key) if key else MAIN
        return await self._host.carry_out(command, Said(argument, here, here, "owner", "owner"))

    async def _told(self, command: str, argument: str) -> dict[str, Any]:
        reply = await self._reply(command, argument)
        return {"html": await run_in_threadpool(html, reply.text), "data": reply.data or {}}

    async def _waiting(self) -> dict[str, Any]:
        """Questions to the owner, and when a person last wrote."""
        asks, spoke = self._host.get("approvals"), self._host.records.last_spoke()
        asked = asks.open() if asks else []
        shown = [await run_in_threadpool(html, self._host.redact(one.ask.question)) for one in asked]
        told = zip(asked, shown, strict=True)
        questions = [(one.number, said, one.ask.options or ("yes", "no")) for one, said in told]
        return {"questions": questions, "spoke": spoke.isoformat() if spoke else ""}

    async def _done(self) -> list[Any]:
        """The newest effects; the last one of a conversation can be taken back, if any can."""
        if (undo := self._host.get("undo")) is None:
            return []
        found = list[dict[str, Any]]()
        for place in self._host.conversations.all()[:CONVERSATIONS]:
            effects, is_last = self._host.records.effects(conversation_of(place.key), EFFECTS), True
            for did in undo.folded(effects):
                can_undo = did.state == "done" and (did.before != did.after or did.kind in ("job", "job removal"))
                if did.at and did.state != "begun":
                    shown = {"at": did.at.isoformat(), "text": one_line(undo.outcome(did), 200), "talk": place.key}
                    found.append({**shown, "undo": can_undo and is_last})
                is_last = is_last and not can_undo
        return sorted(found, key=lambda one: str(one["at"]), reverse=True)[:RECENT]

    async def _plugins(self) -> dict[str, Any]:
        """Those that run, True for one that comes with the program, those that are off, and tools of MCP servers."""
        running = {one.name: type(one).__module__.startswith("nanoclaw.") for one in self._host.plugins()}
        tools = [name for name, one in self._host.tools(self._host.profile("person")).items() if one.is_foreign]
        return {"on": running, "off": self._host.setting("plugins.off"), "tools": tools}

    async def _status(self) -> dict[str, Any]:
        return {"about": self._host.about(), **self._host.status()}

    async def _findings(self) -> list[Any]:
        """The findings of plugins about themselves."""
        found = [(one.name, finding) for one in self._host.plugins() for finding in await one.check(deep=False)]
        return [{"plugin": name, "name": one.name, "text": one.text, "is_well": one.is_well} for name, one in found]

    async def _spent(self) -> dict[str, Any]:
        today = self._host.now().date()
        days = [(today - timedelta(days=number)).isoformat() for number in reversed(range(DAYS))]
        price = cache(self._host.models.cost)
        spent = list(self._host.records.spent(today - timedelta(days=DAYS - 1), 0))

        def sums(place: int) -> list[Total]:
            return totals(((str(row[place]), row[5], row[6], True, row[4]) for row in spent), price)

        places = (("day", 1), ("conversation", 3), ("model", 5), ("origin", 2))
        summed = {name: await run_in_threadpool(sums, place) for name, place in places}
        by_day = defaultdict(lambda: Total(""), {one.key: one for one in summed.pop("day")})
        plot = [(day, float(by_day[day].tokens), _cost(by_day[day])) for day in days] if spent else []
        most = max(1, sum(one.tokens for one in by_day.values()))
        by = {name: [(one.key, _cost(one), one.tokens / most) for one in found[:8]] for name, found in summed.items()}
        return {"plot": plot, "by": by}

    async def _test(self, model: str) -> Reply:
        """Ask a model for one word. Raises NanoclawError with the reason that it does not answer."""
        hello, began = UserMessage("Answer with one word: hello", self._host.now()), time.monotonic()
        request = ModelRequest(SystemPrompt(""), (hello,), limits=Limits(timeout_seconds=TEST_SECONDS), model=model)
        try:
            async with asyncio.timeout(TEST_SECONDS):
                answer = await self._host.complete(request)
        except TimeoutError:
            raise NanoclawError(f"{model} did not answer within {TEST_SECONDS:.0f} s: try again later.") from None
        instead = f"{model} did not answer. In its place " * (answer.model not in ("", model))
        took, word = time.monotonic() - began, one_line(answer.text, 60)
        return Reply(f"{instead}{answer.model or model} answered in {took:.1f} s: “{word}”")

    async def _doctor(self, argument: str) -> Reply:
        """Run `nanoclaw doctor`, which asks this process about what it holds."""
        command = [sys.executable, "-m", "nanoclaw", "doctor", "--json", *["--fix"] * (argument == "fix")]
        env = {**self._host.environment, "NANOCLAW_HOME": str(self._host.program_home)}
        none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, env=env, stdin=none, stdout=pipe, stderr=none)
        try:
            told, _ = await process.communicate()
            return Reply("", json.loads(told))
        except ValueError:
            raise NanoclawError("the doctor did not answer: run nanoclaw doctor in a terminal.") from None
        finally:
            if process.returncode is None:
                process.kill()


def _cost(total: Total) -> str:
    price = "price unknown" if total.unpriced else dollars(total.cost)
    return f"{total.calls:,} request{'s' * (total.calls != 1)}, {total.tokens:,} tokens, {price}"
