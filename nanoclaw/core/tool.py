"""A tool is an annotated async function with a docstring; the toolbox runs one and always has a result."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from nanoclaw.core.errors import FAULTS, NanoclawError, ToolError
from nanoclaw.core.messages import (
    CALL_TOOL,
    Address,
    CheckedCall,
    Effect,
    Origin,
    OwnersAnswer,
    Reach,
    Role,
    ToolCall,
    ToolExample,
    ToolResult,
    ToolSpec,
)
from nanoclaw.core.plugin import OPEN_TO, Profile, Tool, ToolOutput, Tx
from nanoclaw.escapes import plain
from nanoclaw.tool_schema import ArgumentsError, check, parse, schema_of

T = TypeVar("T")

NOWHERE = Address("", "")

_OF_CALL = {"name", "arguments"}

MOST_LISTED = 30
"""Most names of tools in an error about an unknown one."""


def nobody(effect: Effect) -> None:
    """Discards an effect: no audit log is kept."""


Shown = str | Callable[[], str]
"""A text, or a function that makes it when it is about to be shown."""


class ShowProgress(Protocol):
    """Shows a few short lines while a tool runs, in place of those before; from any thread, and as often as you like.
    `fraction` is from 0 to 1."""

    def __call__(self, text: Shown, fraction: float | None = None) -> None: ...


def unseen(text: Shown, fraction: float | None = None) -> None:
    """Shows progress to nobody."""


class Writes(Protocol):
    """Makes a change in the transaction that marks the call as done."""

    async def write(self, change: Callable[[Tx], T], call: str, told: str = "") -> T: ...


class ToolContext(NamedTuple):
    """The context in which a tool runs; a tool that needs it takes it as its first parameter. `report` records what the
    call has changed, with what is needed to undo it, in place of what was expected. `show` shows the person what it is
    doing: `context.show("page 3 of 8", 3 / 8)`; the model doesn't see it. `role` is "guest" if a guest may read the
    answer, so always in groups; `profile` is the name of the turn's. `turn` and `call` say which call it is; `outside`
    are the sources of others' text that its turn has read."""

    address: Address
    sender: str
    origin: Origin
    report: Callable[[Effect], None] = nobody
    role: Role = "owner"
    turn: int = 0
    call: str = ""
    conversation: Address = NOWHERE
    profile: str = "person"
    writer: Writes | None = None
    show: ShowProgress = unseen
    only: frozenset[str] | None = None  # names of tools that its turn may use; None: all that are open to its profile
    answer: OwnersAnswer | None = None  # to the question with options that its call was judged with
    outside: tuple[str, ...] = ()

    async def write(self, change: Callable[[Tx], T], told: str = "") -> T:
        """The result of a change, in one transaction with the mark that this call took effect: a crash neither loses
        nor repeats it. `told` is what the model reads as its result where the program is interrupted after that."""
        if self.writer is None:
            raise ToolError("nothing can be written here: this call belongs to no turn.")
        return await self.writer.write(change, self.call, told)


def tool(
    run: Callable[..., Awaitable[str | ToolOutput]],
    *,
    reach: Reach = "outside",
    examples: Iterable[ToolExample] = (),
    open_to: Iterable[str] = OPEN_TO,
) -> Tool:
    """Make a tool of an async function; leading underscores of its name don't count.

    The docstring is what the model reads; `Annotated[str, "…"]` describes a parameter. Types: str, int, float, bool,
    list of these, Literal, and any of them `| None`. Raises TypeError at once for anything else.
    """
    name, description, schema, wants_context = _read(getattr(run, "__func__", run), hasattr(run, "__self__"))
    spec = ToolSpec(name, description, schema, tuple(examples))
    return Tool(spec, run, reach, wants_context, open_to=frozenset(open_to))


@lru_cache(maxsize=512)  # plugins make their tools anew for each context
def _read(function: Callable[..., Any], is_method: bool) -> tuple[str, str, dict[str, Any], bool]:
    """Name, description and schema of a tool; True if it wants its context."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())[is_method:]
    wants_context = bool(parameters) and hints.get(parameters[0].name) is ToolContext
    schema = schema_of(function.__name__, parameters[wants_context:], hints)
    description = inspect.cleandoc(function.__doc__ or "")
    if not description:
        raise TypeError(f"tool {function.__name__} needs a docstring: it is what the model reads")
    return function.__name__.lstrip("_"), description, schema, wants_context


class Toolbox:
    """Tools by name, in a fixed order. A tool's failure becomes the result of its call."""

    def __init__(
        self, tools: Iterable[Tool], clock: Callable[[], datetime], redact: Callable[[str], str] = str
    ) -> None:
        """`redact` takes secrets out of lines of the audit log."""
        self._clock, self._redact = clock, redact
        self.use(tools)

    def use(self, tools: Iterable[Tool]) -> None:
        """Replace the tools."""
        self._tools = {tool.spec.name.casefold(): tool for tool in tools}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self._tools.values())

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name.strip().casefold())

    def reach(self, name: str) -> Reach:
        """Reach of a call of this name; for an unknown tool, the widest."""
        found = self.find(name)
        return found.reach if found else "outside"

    def runs_beside(self, name: str) -> bool:
        """True for a tool whose calls disturb no other that runs at the same time."""
        found = self.find(name)
        return found is not None and (found.side_by_side or found.reach == "none")

    def meant(self, call: ToolCall) -> ToolCall:
        """The call that is meant by one of CALL_TOOL, any other as it is: all that follows sees the tool that runs."""
        if self.find(call.name) is None or call.name.strip().casefold() != CALL_TOOL:
            return call
        try:
            given = parse(call.arguments)
        except ArgumentsError:
            return call
        name, arguments = given.get("name"), given.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | str | None) or given.keys() - _OF_CALL:
            return call  # its schema says what is wrong
        text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
        is_own = name.strip().casefold() == CALL_TOOL
        return call if is_own else ToolCall(call.id, name.strip(), text, call.arguments)

    def check(self, call: ToolCall, profile: Profile | None = None, *, lists: bool = True) -> CheckedCall:
        """A call with its arguments parsed and converted. Raises ToolError for an unknown tool, with those that are
        open to a profile unless `lists` is False, and for arguments that do not fit."""
        found = self.find(call.name)
        if found is None:
            raise ToolError(self._unknown(call.name, profile, lists=lists))
        try:
            arguments = parse(call.arguments)
            if not found.is_foreign:
                arguments = check(arguments, found.spec.name, found.spec.parameters)
        except ArgumentsError as error:
            schema = json.dumps(found.spec.parameters, ensure_ascii=False)  # it may be out of sight by now
            raise ToolError(f"{error} Its parameters: {schema}" if call.said else str(error)) from None
        return CheckedCall(call.id, found.spec.name, arguments, found.reach)

    def audit(self, call: CheckedCall) -> Effect | None:
        """Line of the audit log about what a call will change; None when it changes nothing."""
        found = self.find(call.name)
        if found is None or found.reach == "none":
            return None
        arguments: Any = self._redacted(dict(call.arguments))  # before a cut: part of a secret isn't known for one
        if found.audit:
            return found.audit(arguments)
        given = json.dumps(arguments, ensure_ascii=False)
        return Effect(found.spec.name, "call", "", plain(f"used {found.spec.name} {given[:100]}"))

    def without_secrets(self, effect: Effect) -> Effect:
        """An effect that a tool reported itself, as it may stand in the audit log."""
        return effect._replace(text=self._redact(effect.text)) if effect.text else effect

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redact(value[:_AUDITED]) + value[_AUDITED:]
        if isinstance(value, dict):
            return {key: self._redacted(one) for key, one in value.items()}
        return [self._redacted(one) for one in value] if isinstance(value, list | tuple) else value

    async def run(self, call: CheckedCall, context: ToolContext) -> ToolResult:
        """The result of a call; whatever goes wrong becomes an error result."""
        found = self.find(call.name)
        assert found
        try:
            before = (context._replace(call=call.id),) if found.wants_context else ()
            given = await found.run(*before, **call.arguments)
            output = given if isinstance(given, ToolOutput) else ToolOutput(given)
        except NanoclawError as error:
            output = ToolOutput(str(error), is_error=True)
        except FAULTS as error:  # a defect in a tool must not end the turn
            from nanoclaw.log import logger

            logger.exception("tool {} failed", call.name)
            output = ToolOutput(f"{call.name} failed: {type(error).__name__}: {error}", is_error=True)
        return ToolResult(
            call.id,
            call.name,
            plain(output.text),
            self._clock(),
            output.is_error,
            output.images,
            output.outside,
            plain(output.diff),
        )

    def failed(self, call: ToolCall, text: str) -> ToolResult:
        """The result of a call that is not run."""
        return ToolResult(call.id, call.name, text, self._clock(), is_error=True)

    def _unknown(self, name: str, profile: Profile | None, *, lists: bool) -> str:
        names = [tool.name for tool in self._tools.values() if profile is None or tool.is_open(profile)]
        import difflib

        near = difflib.get_close_matches(name.strip().casefold(), names, 3, 0.5)
        more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        hint = f" Near: {', '.join(near)}." if near else f" Tools: {', '.join(names[:MOST_LISTED])}{more}." * lists
        return f"there is no tool {name!r}.{hint}"


_AUDITED = 10_000
"""Most characters of an argument in a line of the audit log."""
