"""The views Today, Knows and House: cards of what commands tell, with what a person can do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nanoclaw.clock import short_time
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Reply, Said
from nanoclaw.dollars import dollars
from nanoclaw.escapes import one_line
from nanoclaw.plugins.page.render import html
from nanoclaw.plugins.page.server import given, text_in
from nanoclaw.plugins.page.talk import MAIN
from nanoclaw.usage_totals import Total, totals

if TYPE_CHECKING:
    from nanoclaw.plugins.page.channel import PageChannel

DAYS, RECENT, EFFECTS, CONVERSATIONS = 30, 15, 500, 30
"""Days of the plots; lines of what was done, and conversations in which that is looked for."""

OF_KNOWS = {"note", "memory", "search", "pin", "skills", "project"}
SAYS = OF_KNOWS | {"jobs", "undo", "grants", "budget", "answer", "processes", "web"}
"""Commands that a card may carry out."""


class CardButton(NamedTuple):
    """A button: the command that it carries out. With `asks` the page asks once more."""

    label: str
    command: str
    asks: str = ""


class CardRow(NamedTuple):
    """A line of a card, with a second one about it. With `talk` it leads to that conversation."""

    text: str
    about: str = ""
    acts: Sequence[CardButton] = ()
    talk: str = ""


class CardForm(NamedTuple):
    """A field whose words follow a command. With `stays` what it says stands below it, else it changes the cards."""

    label: str
    command: str
    button: str
    stays: bool = False


class PageCard(NamedTuple):
    """A part of a view; `text` is Markdown, `plot` has a name and a size for each bar, with what it stands for."""

    title: str
    rows: Sequence[CardRow] = ()
    text: str = ""
    form: CardForm | None = None
    plot: Sequence[tuple[str, float, str]] = ()
    empty: str = ""


class Cards:
    """The routes of these views."""

    def __init__(self, channel: PageChannel) -> None:
        self._channel, self._host = channel, channel.host
        collected = partial(self._told, "Collected", "inbox", "waiting")
        helpers = partial(self._told, "Helpers", "helpers", "helpers")
        context = partial(self._told, "What the model is sent", "context")
        grants = partial(self._told, "What it may do without asking", "grants")
        self._views: Mapping[str, Sequence[Callable[[], Awaitable[PageCard | None]]]] = {
            "today": (self._waiting, collected, self._due, self._done, helpers, self._cost),
            "knows": (self._facts, self._changes, self._rules, self._skills),
            "house": (self._status, self._findings, self._plot, self._models, context, grants, self._doors),
        }

    def routes(self) -> list[Route]:
        return [Route("/api/view/{name}", self._view), Route("/api/do", self._do, methods=["POST"])]

    async def _view(self, request: Request) -> Response:
        if (name := request.path_params["name"]) not in self._views:
            raise HTTPException(404, "There is no such view.")
        found = [card for make in self._views[name] if (card := await self._made(make))]
        return JSONResponse({"cards": [await self._shown(card) for card in found]})

    async def _made(self, make: Callable[[], Awaitable[PageCard | None]]) -> PageCard | None:
        """A card, None where there is nothing to tell, as where its plugin is not there."""
        try:
            return await make()
        except NanoclawError as error:
            self._host.log.debug("a card of the page is left out: {}", error)
            return None

    async def _shown(self, card: PageCard) -> dict[str, Any]:
        """A card as JSON, its Markdown as HTML."""
        found = card._replace(text=await run_in_threadpool(html, card.text) if card.text else "")._asdict()
        rows = [{**one._asdict(), "acts": [act._asdict() for act in one.acts]} for one in card.rows]
        return {**found, "form": card.form and card.form._asdict(), "rows": rows}

    async def _do(self, request: Request) -> Response:
        """Carry out a command of a card, and tell what it said."""
        asked = await given(request)
        command, _, argument = text_in(asked, "command", 20_000).strip().partition(" ")
        if command not in SAYS:
            raise HTTPException(400, "The page has no such button.")
        reply = await self._reply(command, argument)
        return JSONResponse({"html": await run_in_threadpool(html, reply.text), "data": reply.data})

    async def _reply(self, command: str, argument: str = "") -> Reply:
        return await self._host.carry_out(command, Said(argument, MAIN, MAIN, "owner", "owner"))

    # --- today -------------------------------------------------------------------------------------------------------

    async def _waiting(self) -> PageCard | None:
        asks = self._host.get("approvals")
        rows = []
        for one in asks.open() if asks else ():
            words = one.ask.options or ("yes", "no")
            acts = [CardButton(word.capitalize(), f"answer {one.number} {word}") for word in words]
            rows.append(CardRow(one_line(one.ask.question, 300), "", acts))
        return PageCard("Waits for your answer", rows) if rows else None

    async def _due(self) -> PageCard | None:
        jobs = (await self._reply("jobs")).data or {}
        rows = []
        for job in jobs.get("jobs", ()):
            number, is_paused = job["id"], job["state"] == "paused"
            acts = [CardButton("Run now", f"jobs run {number}")] if job["kind"] == "task" else []
            label, way = ("Go on", "resume") if is_paused else ("Pause", "pause")
            acts += [CardButton(label, f"jobs {way} {number}")]
            acts += [CardButton("Remove", f"jobs remove {number}", f"Remove {job['kind']} {number}?")]
            when = "paused" if is_paused else self._when(job["due"])
            rows.append(CardRow(job["text"], f"{job['kind']} · {when}", acts))
        return PageCard("Due", rows, empty="Nothing is planned. Say “remind me tomorrow at 9 to …”.")

    async def _done(self) -> PageCard | None:
        records, found = self._host.records, list[tuple[datetime, str, str]]()
        if (undo := self._host.get("undo")) is None:
            return None
        for one in self._host.conversations.all()[:CONVERSATIONS]:
            effects = undo.folded(records.effects(Address(*one.key.partition(":")[::2]), EFFECTS))
            found += [(did.at, undo.outcome(did), one.key) for did in effects if did.at and did.state != "begun"]
        newest = sorted(found, reverse=True)[:RECENT]
        rows = [
            CardRow(one_line(text, 200), f"{self._when(at.isoformat())} · {key.partition(':')[0]}", (), key)
            for at, text, key in newest
        ]
        return PageCard("Done", rows, empty="Nothing was changed yet.")

    async def _told(self, title: str, command: str, about: str = "") -> PageCard | None:
        """A command's own words, while it has anything to tell `about`."""
        told = await self._reply(command)
        return PageCard(title, text=told.text) if not about or (told.data or {}).get(about) else None

    async def _cost(self) -> PageCard | None:
        return PageCard("Cost", text="\n".join(f"- {line}" for line in (await self._reply("budget")).text.splitlines()))

    # --- what it knows -----------------------------------------------------------------------------------------------

    async def _facts(self) -> PageCard | None:
        text = (await self._reply("memory")).text.rpartition("\n\n")[0]
        form = CardForm("A fact to keep", "memory add --fact", "Remember")
        return PageCard("What it remembers", text=text, form=form)

    async def _changes(self) -> PageCard | None:
        find = CardForm("Words to find in notes and talk", "search", "Search", stays=True)
        return PageCard("Notes and changes", text=(await self._reply("memory", "log")).text, form=find)

    async def _rules(self) -> PageCard | None:
        return PageCard("Rules", text=(await self._reply("pins")).text, form=CardForm("A standing rule", "pin", "Pin"))

    async def _skills(self) -> PageCard | None:
        found = (await self._reply("skills")).data or {}
        rows = []
        for one in found.get("skills", ()):
            lack = f" Lacks: {', '.join(one['missing'])}." * bool(one["missing"])
            rows.append(CardRow(one["name"], one["description"] + lack))
        return PageCard("Skills", rows)

    # --- the house ---------------------------------------------------------------------------------------------------

    async def _status(self) -> PageCard | None:
        return PageCard("How it is", [CardRow(line) for line in self._host.about()])

    async def _findings(self) -> PageCard | None:
        """The findings of plugins about themselves."""
        found = [(one.name, finding) for one in self._host.plugins() for finding in await one.check(deep=False)]
        rows = [CardRow(finding.text, name) for name, finding in found if not finding.is_well]
        return PageCard("To be mended", rows) if rows else None

    async def _plot(self) -> PageCard | None:
        today = self._host.now().date()
        days = [(today - timedelta(days=number)).isoformat() for number in reversed(range(DAYS))]
        spent = list(self._host.records.spent(today - timedelta(days=DAYS - 1), 0))
        price = self._host.models.cost

        def sums(place: int) -> list[Total]:
            return totals(((str(row[place]), row[4], row[5], True, row[3]) for row in spent), price)

        by_day = defaultdict(lambda: Total(""), {one.key: one for one in sums(1)})
        plot = [(day, float(by_day[day].tokens), _cost(by_day[day])) for day in days]
        rows = [CardRow(one.key or "unknown", _cost(one)) for place in (4, 2) for one in sums(place)[:5]]
        return PageCard(f"The last {DAYS} days", rows, plot=plot if spent else (), empty="No model was asked yet.")

    async def _models(self) -> PageCard | None:
        return PageCard("Models", text=self._host.models.listing("").text)

    async def _doors(self) -> PageCard | None:
        """Browsers and programs that are let in."""
        browsers = (await self._reply("web", "browsers")).data or {}
        programs = (await self._reply("web", "tokens")).data or {}
        rows = []
        for one in browsers.get("browsers", ()):
            out = CardButton("Sign out", f"web browser --revoke {one['id']}", f"Sign out {one['name']}?")
            about = f"browser · signed in {self._when(one['made'])}, used {self._when(one['used'])}"
            rows.append(CardRow(one["name"], about, [out]))
        for one in programs.get("tokens", ()):
            out = CardButton("Revoke", f"web token --revoke {one['name']}", f"Revoke the token {one['name']}?")
            about = f"token · used {self._when(one['used'])}" if one["used"] else "token · not used yet"
            rows.append(CardRow(one["name"], about, [out]))
        make = CardForm("Name of a program that may talk as you", "web token", "Make a token", stays=True)
        return PageCard("Who is let in", rows, form=make)

    def _when(self, iso: str) -> str:
        return short_time(datetime.fromisoformat(iso), self._host.now())


def _cost(total: Total) -> str:
    price = "price unknown" if total.unpriced else dollars(total.cost)
    return f"{total.calls:,} request{'s' * (total.calls != 1)}, {total.tokens:,} tokens, {price}"
