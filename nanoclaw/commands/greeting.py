"""The program as terminals see it: the greeting at their start, and all that attached ones are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanoclaw import __version__
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.records import Records
from nanoclaw.core.store.history import list_sessions
from nanoclaw.dollars import dollars
from nanoclaw.installation import start_command
from nanoclaw.providers.choose import LOCAL

if TYPE_CHECKING:
    from nanoclaw.core.app import App


def greeting(model: str, urgent: Sequence[str], workspace: Path | None = None, where: str = "") -> str:
    """The lines of a greeting; `workspace` is given at the first start."""
    lines = [f"nanoclaw {__version__} · {model} · /help{where}"]
    if workspace:
        lines.append(f"New here: your workspace is {workspace}.")
        lines.append("Try: “remind me tomorrow at 9 to call Anna”, “write a list to list.txt”, /help")
    if model.startswith(LOCAL) and workspace:
        lines.append(
            "This is a small offline model: good for notes, files and short commands, slow on long ones, and often "
            "wrong about the world.\n"
            f"For a better one: {start_command()} init (openai/…, anthropic/…, ollama/…; see the README)."
        )
    return "\n".join([*lines, *urgent])


def urgent(app: App) -> list[str]:
    """Lines about what the owner must know at once: plugins left out, the sandbox of commands, a freeze by /panic,
    important reminders without an answer."""
    frozen = "Everything is frozen by /panic; /resume ends that." * app.router.is_frozen
    banner = sandbox.banner() if (sandbox := app.public("sandbox")) else ""
    told = [app.public(name) for name in ("schedule", "mcp", *["access"] * bool(app.chat_apps))]
    important = [line for one in filter(None, told) for line in one.important()]
    return [*filter(None, (app.config.problem, *app.left_out.values(), banner, frozen)), *important]


class Attachable:
    """The program as the terminals that are attached to it see it."""

    def __init__(self, app: App) -> None:
        self._app = app

    def facts(self, *lacks: str) -> dict[str, Any]:
        """Of each command, those that /help lists first, its help and whether it waits for its turn."""
        app, open_ = self._app, self._app.commands.open_to("person")
        names = sorted(open_, key=lambda one: open_[one].part_of in open_)
        commands = {name: (open_[name].help, open_[name].waits) for name in names}
        about = {"version": __version__, "model": app.model_name(), "last": app.outbox.last()}
        return {**about, "commands": commands, "urgent": [*lacks, *urgent(app)]}

    async def status(self) -> dict[str, Any]:
        found = [(one.name or plugin, one.is_well, one.text) for plugin, one in await self._app.findings()]
        return {**self._app.status(), "findings": found}

    def waiting(self, serves: Callable[[Outbound], bool]) -> list[tuple[Address, datetime]]:
        rows = [] if self._app.router.is_frozen else self._app.outbox.pending("terminal")
        return [(row.outbound.address, row.due) for row in rows if serves(row.outbound)]

    def shown_since(self, address: Address, row: int) -> list[Outbound]:
        return self._app.outbox.shown_since(address, row)

    def questions(self, address: Address) -> list[str]:
        return asks.reminders(address) if (asks := self._app.public("approvals")) else []

    async def carry_out(self, command: str, *, as_json: bool) -> str | None:
        from nanoclaw.commands.plugins import reply

        return await reply(self._app, command, as_json=as_json)

    def footer(self, address: Address) -> str:
        """Of the newest answer there the tokens, and of today the cost, as far as both are known."""
        app = self._app
        try:
            model = app.models.of(app.sessions.of(address).model).model
        except NanoclawError:
            return address.chat
        spent = list(Records(app.store.rows).spent(app.clock().date(), 0))
        costs = [0.0 if is_local else app.models.cost(name, usage) or 0.0 for *_, is_local, name, usage in spent]
        last = [usage for *_, usage in Records(app.store.rows).spent(app.clock().date(), 0, address)][-1:]
        window, parts = app.models.window_of(model), [address.chat]
        if window and last:
            parts.append(f"{(last[0].input_tokens + last[0].output_tokens) * 100 // window} % of context")
        parts += [f"{dollars(sum(costs))} today"] * (sum(costs) > 0)
        return " · ".join([*parts, model])

    def words(self) -> dict[str, list[list[str]]]:
        app, own = self._app, "terminal:"
        try:
            models = [[one["name"], ""] for one in (app.models.listing("").data or {})["models"]]
            chats = [[one.key.removeprefix(own), one.words[:60]] for one in list_sessions(app.store)]
            known, schedule = app.public("skills"), app.public("schedule")
            skills = [[one.name, ""] for one in known.every()] if known else []
            jobs = [[str(one.id), one.text[:60]] for one in schedule.jobs.all()] if schedule else []
        except Exception:  # the process that answers has ended: then nothing is completed
            return {}
        of_chats = (f"/sessions {action}" for action in ("open", "rename", "delete"))
        of_jobs = ("/done", "/snooze", "/jobs remove", "/jobs pause", "/jobs resume", "/jobs run")
        told = {"/model": models, "/retry": models, "/skill": skills, "/skills show": skills}
        return {**told, **dict.fromkeys(of_chats, chats), **dict.fromkeys(of_jobs, jobs)}

    def as_typed(self, text: str) -> str:
        return self._app.commands.as_typed(text)

    def arrived(self) -> None:
        self._app.delivery.wake()

    def hand_over(self) -> None:
        self._app.is_terminated = True
