"""The plugin chain: asks the plugins in order, and keeps a faulty one from breaking an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import UTC
from functools import partial
from typing import Literal, TypeVar

from nanoclaw.core.errors import FAULTS, ConfigError, ContextTooLong, NanoclawError, ProviderError
from nanoclaw.core.messages import (
    Address,
    Ask,
    AssistantMessage,
    CheckedCall,
    Inbound,
    Limits,
    MakeCalls,
    ModelRequest,
    Outbound,
    Reach,
    Refuse,
    Section,
    ToolCall,
    ToolResult,
    ToolSpec,
    TryAgain,
    Verdict,
)
from nanoclaw.core.plugin import (
    PROFILES,
    Answer,
    Asker,
    Command,
    Draft,
    Ended,
    Filter,
    Hears,
    Later,
    Plugin,
    Profile,
    Reply,
    Tool,
    Turn,
)
from nanoclaw.core.store.db import Transaction
from nanoclaw.log import logger

T = TypeVar("T")
Kinds = type | tuple[type, ...]
Calls = Sequence[ToolCall | CheckedCall] | None
Judgement = Inbound | Reply | Literal["ignore"] | None

STEP_SECONDS = 10.0
"""The longest that a plugin's step may take, unless the plugin says otherwise (`seconds`)."""

HOOKS = (
    *("on_message", "before_context", "before_turn", "before_model", "after_model", "stream", "before_tool"),
    *("on_progress", "after_tool", "before_answer", "on_end", "before_send", "on_reset", "make_room"),
    *("before_compaction", "conversation_of", "prompt_tools", "restrict_tools"),
)
_VERDICTS: tuple[type, ...] = (Refuse, Ask)


class Chain:
    """The plugins of this run, in the order of BUILT_IN in build.py. A hook is called on those that override it."""

    def __init__(self, plugins: Sequence[Plugin], read: Callable[[str], Sequence[object]]) -> None:
        self.plugins, self._read = tuple(plugins), read
        self.asker = next((one.asker for one in plugins if one.asker), Asker())
        self.profiles = PROFILES | {profile.name: profile for one in plugins for profile in one.profiles}
        self.faults: dict[str, str] = {}
        """The last fault of each plugin that had one, for status."""
        self._brought: dict[Plugin, list[Tool]] = {}
        self._tools: dict[str, Tool] = {}
        own = {hook: getattr(Plugin, hook) for hook in (*HOOKS, "sections")}
        self._of = {hook: [one for one in plugins if getattr(type(one), hook) is not own[hook]] for hook in own}

    def has(self, hook: str) -> bool:
        return bool(self._of[hook])

    def _about(self, hook: str, turn: Turn | Inbound | None, origin: str = "", calls: Calls = None) -> Iterator[Plugin]:
        """The plugins that are called for a hook about a turn, a message or calls, as their `hears` says."""
        origin, channel = origin or getattr(turn, "origin", ""), turn.address.channel if turn else ""
        for one in self._of[hook]:
            try:
                heard = one.hears.get(hook)
                if heard and not (
                    self._is_about(heard, origin, channel, calls)
                    or (heard.rows and self._read(f"SELECT 1 FROM {heard.rows} LIMIT 1"))
                ):
                    continue
            except FAULTS as error:  # it is asked rather than left out: it may be a guard
                self.fault(one, "hears", error)
            yield one

    def _is_about(self, heard: Hears, origin: str, channel: str, calls: Calls) -> bool:
        """True if a plugin wants to be called for a turn, or for these calls."""
        if origin in heard.origins or channel in heard.channels:
            return True
        if calls is None:  # what names tools alone narrows nothing where there is no call
            return bool(heard.tools or heard.changes) and not (heard.origins or heard.channels or heard.rows)
        has_changed = heard.changes and any(self.reach(call.name) != "none" for call in calls)
        return has_changed or any(call.name.strip().casefold() in heard.tools for call in calls)

    # --- what plugins bring ------------------------------------------------------------------------------------------

    def tools(self, profile: Profile | None = None, *, anew: bool = False) -> list[Tool]:
        """All tools, or those that are open to a profile. With `anew` plugins that make theirs ready by
        `before_context` are asked again, as when a context begins."""
        asked = self.plugins if not self._tools else tuple(self._about("before_context", None)) if anew else ()
        if asked:
            self._brought |= {one: self._list(one, "tools", one.tools, Tool) for one in asked}
            own = self.profiles.keys() - PROFILES  # what is open to the background is so to each of these
            found = [
                tool._replace(open_to=tool.open_to | own) if "background" in tool.open_to else tool
                for one in self.plugins
                for tool in self._brought[one]
            ]
            for one in self._of["restrict_tools"]:
                found = self._restricted(one, found)
            self._tools = {tool.name.casefold(): tool for tool in found}
        tools = list(self._tools.values())
        return tools if profile is None else [tool for tool in tools if tool.is_there and tool.is_open(profile)]

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name.strip().casefold())

    def reach(self, name: str) -> Reach:
        """The reach of a tool by its name; for an unknown one, the widest."""
        found = self._tools.get(name.strip().casefold())
        return found.reach if found else "outside"

    def _restricted(self, one: Plugin, tools: list[Tool]) -> list[Tool]:
        """The tools after a plugin has restricted them. Raises ConfigError."""
        try:
            if (given := one.restrict_tools(tuple(tools))) is None:
                return tools
            left = {tool.name: tool.open_to for tool in given}
        except ConfigError:
            raise
        except FAULTS as error:
            self.fault(one, "restrict_tools", error)
            left = {}
        return [tool._replace(open_to=tool.open_to & left.get(tool.name, frozenset())) for tool in tools]

    def prompt_tools(self, profile: Profile) -> tuple[ToolSpec, ...]:
        """Specs for the prompt of a new context: of all tools open to it, except those that a plugin keeps out."""
        specs = tuple(tool.spec for tool in self.tools(profile, anew=True))
        for one in self._of["prompt_tools"]:
            try:
                if (chosen := one.prompt_tools(specs, profile)) is not None:
                    specs = tuple(_checked(spec, ToolSpec) for spec in chosen)
            except FAULTS as error:
                self.fault(one, "prompt_tools", error)
        return specs

    def commands(self) -> list[Command]:
        return [command for one in self.plugins for command in self._list(one, "commands", one.commands, Command)]

    def sections(self, query: str, profile: Profile) -> list[tuple[str, Section]]:
        """The sections that plugins bring, each with the name of its plugin."""
        found = list[tuple[str, Section]]()
        for one in self._of["sections"]:
            for section in self._list(one, "sections", partial(one.sections, query, profile), Section):
                found.append((one.name, section))
        return found

    def stamp(self) -> tuple[object, ...] | None:
        """Changes with what the plugins' sections are made of. None if one of them doesn't say so, or has failed."""
        found: list[object] = [tuple(self._tools.values())]
        for one in self._of["sections"]:
            try:
                found.append(None if one.name in self.faults else one.stamp)
            except FAULTS as error:
                self.fault(one, "stamp", error)
                found.append(None)
        return None if None in found else tuple(found)

    def _list(self, one: Plugin, hook: str, make: Callable[[], Iterable[T]], kind: type[T]) -> list[T]:
        try:
            return [_checked(item, kind) or item for item in make()]
        except FAULTS as error:
            self.fault(one, hook, error)
            return []

    # --- a message ---------------------------------------------------------------------------------------------------

    def on_message(self, inbound: Inbound, tx: Transaction) -> tuple[Inbound, Reply | Literal["ignore"] | None]:
        """The message as the plugins return it, and the reply of one that answers by code."""
        for one in self._about("on_message", inbound, origin=inbound.message.origin):
            step = partial(one.on_message, inbound, tx)
            said: Judgement = self._in_part(one, "on_message", tx, step, (Inbound, Reply, str))
            if isinstance(said, Inbound):
                inbound = said
            elif said == "ignore" or isinstance(said, Reply):
                return inbound, said
        return inbound, None

    def conversation_of(self, address: Address) -> Address | None:
        """The conversation that an address is part of, if that is not its own."""
        for one in self._of["conversation_of"]:
            if (found := one.conversation_of(address)) is not None:
                return found
        return None

    async def before_context(self, turn: Turn) -> None:
        for one in self._about("before_context", turn):
            await self._step(one, "before_context", partial(one.before_context, turn), ())

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft:
        for one in self._about("before_turn", turn, origin=draft.message.origin):
            draft = await self._step(one, "before_turn", partial(one.before_turn, draft, turn), Draft) or draft
        return draft

    async def make_room(self, turn: Turn, error: ContextTooLong | None) -> bool:
        """True if a plugin made the next request shorter."""
        for one in self._about("make_room", turn):
            if await self._step(one, "make_room", partial(one.make_room, turn, error), bool):
                return True
        return False

    # --- a request ---------------------------------------------------------------------------------------------------

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits | AssistantMessage:
        """The limits of a request, or a plugin's answer to it. Raises ProviderError if a plugin refuses it."""
        limits = request.limits
        for one in self._about("before_model", turn):
            try:
                async with asyncio.timeout(one.seconds):
                    said = _checked(await one.before_model(request, turn), (Limits, AssistantMessage))
                if isinstance(said, AssistantMessage):
                    return said
                limits = said or limits
            except ProviderError:
                raise
            except FAULTS as error:
                self.fault(one, "before_model", error)
        return limits

    def after_model(self, request: ModelRequest, answer: AssistantMessage | None, turn: Turn | None) -> None:
        for one in self._about("after_model", turn):
            try:
                one.after_model(request, answer, turn)
            except FAULTS as error:
                self.fault(one, "after_model", error)

    def filters(self, turn: Turn) -> list[tuple[Plugin, Filter]]:
        """The filters of one answer's stream, one behind the other."""
        made = list[tuple[Plugin, Filter]]()
        for one in self._about("stream", turn):
            try:
                if found := one.stream(turn):
                    made.append((one, found))
            except FAULTS as error:
                self.fault(one, "stream", error)
        return made

    # --- a call ------------------------------------------------------------------------------------------------------

    async def before_tool(self, call: CheckedCall, turn: Turn, own: Tool | None = None) -> Refuse | tuple[Ask, ...]:
        """The strictest verdict of the tool's own check and of every plugin; one that raises refuses. If none refuses,
        all that is to be asked: what needs a yes first."""
        verdicts: list[Verdict] = []
        if own and own.check:
            verdicts.append(await self._judged("its own check", partial(own.check, call, turn)))
        for one in self._about("before_tool", turn, calls=[call]):
            verdicts.append(await self._judged(one, partial(one.before_tool, call, turn)))
        if refused := next((one for one in verdicts if isinstance(one, Refuse)), None):
            return refused
        return tuple(sorted((one for one in verdicts if isinstance(one, Ask)), key=lambda one: bool(one.options)))

    async def _judged(self, one: Plugin | str, judge: Callable[[], Awaitable[Verdict]]) -> Verdict:
        try:
            async with asyncio.timeout(STEP_SECONDS if isinstance(one, str) else one.seconds):
                return _checked(await judge(), _VERDICTS)
        except NanoclawError as error:
            return Refuse(str(error))
        except FAULTS as error:
            if isinstance(one, Plugin):
                self.fault(one, "before_tool", error)
            name, kind = one if isinstance(one, str) else f"the plugin {one.name}", type(error).__name__
            return Refuse(f"{name} failed ({kind}) when it was asked about this call, so it is not run.")

    def on_progress(self, text: str, turn: Turn) -> str:
        """Output of a running tool after the plugins' filters; "" if one fails."""
        for one in self._of["on_progress"]:
            try:
                text = _checked(one.on_progress(text, turn), str) or text
            except FAULTS as error:
                self.fault(one, "on_progress", error)
                return ""
        return text

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult:
        for one in self._about("after_tool", turn, calls=[call]):
            step = partial(one.after_tool, call, result, turn)
            result = await self._step(one, "after_tool", step, ToolResult) or result
        return result

    # --- an answer ---------------------------------------------------------------------------------------------------

    async def before_answer(
        self, answer: Answer, turn: Turn, *, may_retry: bool, may_act: bool
    ) -> Answer | MakeCalls | tuple[str, TryAgain]:
        """The answer for the person, or the first plugin that wants another one or calls before it. Without `may_retry`
        its note is below the answer instead, and no other's."""
        is_noted, kinds = False, (Answer, TryAgain, MakeCalls)
        for one in self._about("before_answer", turn, calls=turn.calls):
            said = await self._step(one, "before_answer", partial(one.before_answer, answer, turn), kinds)
            if isinstance(said, Answer):
                answer = said
            elif isinstance(said, MakeCalls) and said.calls and may_act:
                return said
            elif isinstance(said, TryAgain) and may_retry:
                return one.name, said
            elif isinstance(said, TryAgain) and said.note and not is_noted:
                answer, is_noted = answer._replace(text=f"{answer.text}\n\n{said.note}".strip()), True
        return answer

    def on_end(self, ended: Ended, turn: Turn, tx: Transaction) -> Ended:
        for one in self._about("on_end", turn, calls=turn.calls):
            ended = self._in_part(one, "on_end", tx, partial(one.on_end, ended, turn, tx), Ended) or ended
        return ended

    def before_send(self, outbound: Outbound, why: str, tx: Transaction) -> Outbound | Later | str:
        """A message as it goes out, or until when it waits, or the name of the plugin that drops it."""
        later, kinds = None, (Outbound, Later, str)

        def ask(one: Plugin) -> Outbound | Later | str | None:
            said = one.before_send(outbound, why, tx)
            return Later(said.at.astimezone(UTC)) if isinstance(said, Later) else said

        for one in self._of["before_send"]:
            said = self._in_part(one, "before_send", tx, partial(ask, one), kinds)
            if isinstance(said, str):
                return one.name
            later = max(filter(None, (later, said if isinstance(said, Later) else None)), default=None)
            outbound = said if isinstance(said, Outbound) else outbound
        return later or outbound

    def on_reset(self, conversation: Address, tx: Transaction) -> None:
        for one in self._of["on_reset"]:
            self._in_part(one, "on_reset", tx, partial(one.on_reset, conversation, tx), ())

    async def before_compaction(self, request: ModelRequest, turn: Turn) -> tuple[list[str], ProviderError | None]:
        """Texts that plugins want at the end of a summary, and the error of a model that a plugin asked in vain."""
        found, failed = list[str](), None
        for one in self._of["before_compaction"]:
            try:
                found += filter(None, [_checked(await one.before_compaction(request, turn), str)])
            except ProviderError as error:
                failed = failed or error
            except FAULTS as error:
                self.fault(one, "before_compaction", error)
        return found, failed

    # --- faults ------------------------------------------------------------------------------------------------------

    def fault(self, one: Plugin, hook: str, error: BaseException) -> None:
        """A plugin's step failed: it is skipped, logged once for each kind, and named in status."""
        said = f"{hook}: {type(error).__name__}: {error}".rstrip(": ")
        if self.faults.get(one.name) == said:
            return
        self.faults[one.name] = said
        logger.opt(exception=error).error("the plugin {} failed in {}; that step is skipped", one.name, said)

    async def _step(self, one: Plugin, hook: str, step: Callable[[], Awaitable[T | None]], kinds: Kinds) -> T | None:
        try:
            async with asyncio.timeout(one.seconds):
                return _checked(await step(), kinds)
        except FAULTS as error:
            self.fault(one, hook, error)
            return None

    def _in_part(self, one: Plugin, hook: str, tx: Transaction, step: Callable[[], T | None], kinds: Kinds) -> T | None:
        """A step inside a transaction: if it raises, only its own writes are rolled back."""
        try:
            with tx.part():
                return _checked(step(), kinds)
        except FAULTS as error:
            self.fault(one, hook, error)
        return None


def _checked(given: T, kinds: Kinds) -> T:
    """The return value of a hook, which must be None or of these types. Raises TypeError."""
    if given is None or isinstance(given, kinds):
        return given
    if isinstance(given, Coroutine):
        given.close()
        raise TypeError("it is `async def` and must be `def`")
    wanted = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
    raise TypeError(f"it gave a {type(given).__name__}, not {wanted}")
