"""A tool is an annotated async function with a docstring."""

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import Address, Effect, Origin, OwnersAnswer, Reach, Role, ToolExample, ToolSpec
from nanoclaw.core.plugin import OPEN_TO, Tool, ToolOutput, Tx
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.tool_schema import schema_of

T = TypeVar("T")

NOWHERE = Address("", "")


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
