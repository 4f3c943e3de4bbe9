"""The host: what one plugin is given, and the core's own public object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nanoclaw import __version__
from nanoclaw.core.commands import Accepted
from nanoclaw.core.errors import ConfigError, NanoclawError
from nanoclaw.core.events import Event, Notice
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Inbound,
    Limits,
    Message,
    ModelRequest,
    Outbound,
    SystemPrompt,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from nanoclaw.core.model_call import silence
from nanoclaw.core.plugin import AskedModel, Asker, Conversations, KnownModels, Log, Profile, Said, Turn, Tx
from nanoclaw.core.prompt_snapshot import EMPTY, Preview
from nanoclaw.core.provider import Embedded, EmbeddingModel, estimate_request
from nanoclaw.core.records import Records
from nanoclaw.core.runner import FRESH
from nanoclaw.core.store import history
from nanoclaw.core.store.db import Transaction, Transactions
from nanoclaw.core.store.sessions import Call, record
from nanoclaw.core.turn import RunningTurn
from nanoclaw.log import logger
from nanoclaw.sqlite_salvage.copies import all_copies
from nanoclaw.start.opening import drop_bytes

if TYPE_CHECKING:
    from nanoclaw.core.app import App
    from nanoclaw.core.channel import ChannelSpec

T = TypeVar("T")


class ConversationStore:
    """Implements `Conversations` for plugins by sessions and actors."""

    def __init__(self, app: App) -> None:
        self._app, self.of, self.all = app, app.sessions.of, partial(history.list_sessions, app.store)
        self.free = lambda conversation: app.conversations.of(conversation).idle()
        self.leaves = lambda conversation: app.conversations.of(conversation).leaves_turn_open

    def reload(self) -> None:
        self._app.sessions.reload()
        self._app.conversations.reload()

    def forget(self, clean: Callable[[str, bool], str], conversation: Address | None) -> None:
        self._app.sessions.forget(clean, conversation)
        self._app.conversations.reload()

    def reset(self, conversation: Address, tx: Tx) -> Sequence[str]:
        assert isinstance(tx, Transaction)
        left = self._end_paused(conversation)
        self._app.chain.on_reset(conversation, tx)
        self.of(conversation).reset(tx)
        return left

    def take_back(self, conversation: Address, turn: int, tx: Tx) -> Sequence[str]:
        self.of(conversation).take_back(tx, turn)
        return self._end_paused(conversation)

    def _end_paused(self, conversation: Address) -> Sequence[str]:
        if paused := self._app.conversations.of(conversation).pop_paused():
            self._app.inbox.done((paused.turn.row,))
        return paused.turn.texts if paused else ()

    def add(
        self, conversation: Address, turns: Iterable[Sequence[Message]], tx: Tx, *, had_before: bool = False
    ) -> None:
        assert isinstance(tx, Transaction)
        for messages in turns:
            self.of(conversation).add_turn(tx, "", messages, had_before=had_before)

    def erase(self, conversation: Address, tx: Tx) -> Sequence[str]:
        """Keep only the cost of a conversation; the texts of its messages."""
        session, own = self.of(conversation), "(body ->> '$.conversation[0]', body ->> '$.conversation[1]') = (?, ?)"
        sql = (
            f"SELECT id, body ->> 'text' FROM inbox WHERE CASE WHEN json_valid(body) THEN state = 'done' AND {own} END"
        )
        rows = tx.execute(sql, *conversation)
        for row, _ in rows:
            tx.execute("DELETE FROM outbox WHERE inbox = ?", row)
        tx.execute("UPDATE usage SET session = NULL WHERE session = ?", session.id)
        for (turn,) in tx.execute("SELECT id FROM turns WHERE session = ?", session.id):
            self._app.sessions.drop(tx, session, turn)
        for row, _ in rows:  # what had no turn
            tx.execute("DELETE FROM inbox WHERE id = ?", row)
        tx.execute("DELETE FROM outbox WHERE channel = ? AND chat = ? AND state = 'delivered'", *conversation)
        tx.execute("DELETE FROM sessions WHERE id = ?", session.id)
        tx.after(self._app.delivery.wake)  # what was written with it and is gone isn't sent either
        return [text for _, text in rows]

    async def stop(self, conversation: Address) -> None:
        actor = self._app.conversations.of(conversation)
        if not actor.halt():
            self._app.inbox.done([row for row, _ in actor.dropped()])


class PluginLog:
    """The log, with a plugin's name in front."""

    def __init__(self, name: str) -> None:
        self._name = name
        levels = ("DEBUG", "INFO", "WARNING", "ERROR")
        self.debug, self.info, self.warning, self.error = (partial(self._log, level) for level in levels)

    def _log(self, level: str, text: str, *values: object) -> None:
        logger.log(level, "{}: " + text, self._name, *values)


class PluginHost:
    """All that one plugin may do."""

    def __init__(self, app: App, name: str) -> None:
        self._app, self._name = app, name
        self.workspace, self.program_home, self.reach = app.settings.workspace, app.home, app.settings.reach
        self.environment: Mapping[str, str] = app.config.environment
        self.redact, self.shipped = app.redact, app.settings.template.parent
        self.log: Log = PluginLog(name)
        self.change_settings = app.settings.change
        self.records = Records(app.store.rows)
        self.now, self.read, self.get, self.status = app.clock, app.store.rows, app.public, app.status
        self.spawn, self.about, self.sent_text = partial(app.spawn, name=name), partial(about, app), app.outbox.sent
        self.write, self.write_now = app.transactions.write, app.transactions.write_now
        self.show, self.channel, self.deliver = app.channels.show, app.channels.get, app.deliver
        self.watch, self.serves, self.is_gateway = app.channels.watch, app.resumes, lambda: app.is_gateway
        self.is_frozen, self.plugins = lambda: app.router.is_frozen, lambda: app.plugins
        self.copies, self.drop_bytes = partial(all_copies, app.store.path), partial(drop_bytes, app.store)
        self.tools = lambda profile, *, anew=False: {one.name: one for one in app.chain.tools(profile, anew=anew)}
        self.resume = lambda turn: app.conversations.resume(turn)
        self.commands = lambda profile: app.commands.open_to(profile)
        self.carry_out = lambda command, said: app.commands.for_said(command, said)
        self.before_compaction = lambda request, turn: app.chain.before_compaction(request, turn)

    @property
    def models(self) -> KnownModels:
        return self._app.models

    @property
    def conversations(self) -> Conversations:
        return ConversationStore(self._app)

    @property
    def home(self) -> Path:
        """A folder of its own, made when it is first asked for."""
        folder = self._app.home / "plugins" / self._name
        try:
            folder.parent.mkdir(exist_ok=True, mode=0o700)  # plugins lie there, which others must not change
            folder.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(
                f"the folder {folder} cannot be made: {error.strerror}. Move what is in its place."
            ) from None
        return folder

    def setting(self, key: str) -> Any:
        table, _, name = key.partition(".")
        if table == "models":
            return self._app.config.purposes.of(name)
        if key == "channels":
            return self._app.chat_apps
        own = getattr(getattr(self._app.config, table, None), name or "_", None)
        return self._app.config.get(key) if own is None else own

    def channel_settings(self, kind: type[T]) -> Mapping[str, tuple[ChannelSpec, T]]:
        tables, settings = self._app.chat_apps, self._app.config.settings
        return {name: (table.spec, settings(kind, f"channels.{name}")) for name, table in tables.items()}

    def profile(self, name: str) -> Profile:
        if not (found := self._app.chain.profiles.get(name)):
            raise NanoclawError(f"there is no profile {name!r}; there are {', '.join(self._app.chain.profiles)}.")
        return found

    def owner(self) -> Address | None:
        return next(iter(self.records.owners_chats(1)), None)

    async def call(self, call: ToolCall, turn: Turn, parent: str = "") -> ToolResult:
        assert isinstance(turn, RunningTurn)
        return await self._app.toolbox.call(call, turn, parent)

    async def complete(
        self, request: ModelRequest, turn: Turn | None = None, show: Callable[[Event], None] = silence
    ) -> AssistantMessage:
        if isinstance(request.system, str):  # a plugin's plain text
            request = request._replace(system=SystemPrompt(request.system))
        if isinstance(turn, RunningTurn):
            model_call = turn.model_call.for_purpose(request.purpose)
            try:  # its words are no one's answer
                return await model_call.complete(request, lambda one: show(one) if isinstance(one, Notice) else None)
            finally:
                model_call.said = ""
        log = _NoSession(self._app.transactions)
        return await self._app.model_calls.of(request.purpose, log, request.model).complete(request)

    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded:
        app, answer = self._app, None
        request = ModelRequest(SystemPrompt("\n".join(texts)), (), limits=Limits(output_tokens=1), model=model.name)
        await app.chain.before_model(request, None)
        try:
            made = await app.models.embed(model, texts, is_query, seconds)
            used = Usage(estimate_request(request) if made.tokens is None else made.tokens)
            answer = AssistantMessage("", app.clock(), usage=used, model=model.name)
            if used.input_tokens:  # else it was made in this process
                call = Call(model.name, used, is_reported=made.tokens is not None, is_local=made.is_local)
                _NoSession(app.transactions).called(call)
        finally:
            app.chain.after_model(request, answer, None)
        return made

    def model_of(self, turn: Turn, purpose: str = "") -> AskedModel:
        assert isinstance(turn, RunningTurn)
        return (turn.model_call.for_purpose(purpose) if purpose else turn.model_call).asked()

    @asynccontextmanager
    async def beside(self, said: Said) -> AsyncIterator[Turn]:
        runner, message = self._app.runner, UserMessage("", self.now())
        inbound = Inbound(said.address, said.sender, "", message, role=said.role, is_group=said.is_group)
        turn = RunningTurn(runner.parts, 0, inbound, said.conversation, self._app.sessions.of(said.conversation))
        runner.begin_context(turn)
        try:
            yield turn
        finally:
            await turn.journal.change(lambda tx: None)

    async def preview(self, conversation: Address, inbound: Inbound, profile: Profile | None = None) -> Preview:
        runner, session = self._app.runner, self._app.sessions.of(conversation)
        turn = _Previewed(runner.parts, 0, inbound, conversation, session, profile=profile)
        if turn.profile.mode in FRESH:
            turn.snapshot = EMPTY
        messages, made_of = await runner.context(turn, [Accepted(0, inbound)])
        try:
            model, _, factor, *_ = turn.model_call.asked()
        except NanoclawError as error:
            model, factor = f"none ({error})", 1.0
        return Preview(made_of, turn.snapshot, turn.history, tuple(messages), model, factor)

    @property
    def asker(self) -> Asker:
        return self._app.chain.asker

    async def tell(self, inbound: Inbound, text: str) -> None:
        if row := self._app.inbox.seen(inbound):
            await self._app.inbox.reply(row, Outbound(inbound.address, text))


class _Previewed(RunningTurn):
    """A turn that is not going to be: nothing of it is shown."""

    @property
    def history(self) -> tuple[Message, ...]:
        return () if self.profile.mode in FRESH else super().history

    def show(self, event: Event) -> None: ...


class _NoSession:
    """Records the usage of a request that belongs to no conversation."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def called(self, call: Call) -> None:
        self._transactions.write_now(lambda tx: record(tx.db, [call], tx.now))


def about(app: App) -> list[str]:
    """Lines about the program, and what is wrong with it."""
    frozen = ["Everything is frozen by /panic until /resume."] if app.router.is_frozen else []
    banners = [one.banner() for one in app.plugins]
    lines = (f"nanoclaw {__version__}", f"Home: {app.home}", f"Workspace: {app.settings.workspace}")
    known = filter(None, (app.settings.problem, *app.left_out.values(), *banners))
    troubles = (f"The model for {name} does not answer: {why}" for name, why in app.models.troubles().items())
    faults = (f"The plugin {name} failed: {fault}" for name, fault in app.chain.faults.items())
    return [*frozen, *lines, *known, *troubles, *faults]
