"""One server's connection: one task opens it, keeps it, opens it again with growing pauses, and closes it. What the SDK
makes is entered and left in that task alone; calls are made from anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from nanoclaw.clock import paced
from nanoclaw.core.errors import FAULTS, ConfigError, ToolError
from nanoclaw.core.plugin import Log
from nanoclaw.core.tool import ToolContext
from nanoclaw.escapes import one_line, plain
from nanoclaw.plugins.mcp.listing import MOST_TOOLS, KeptListings, ServerListing, prompts_of, tools_of
from nanoclaw.plugins.mcp.settings import ServerSettings
from nanoclaw.redaction import Redactor

if TYPE_CHECKING:
    import anyio

    from nanoclaw.plugins.mcp import sdk

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds between the tries to open a connection; each pause is twice the one before."""
STEADY_SECONDS = 30.0
"""A connection that held for so long begins with the first pause again."""
CLOSE_SECONDS = 8.0
CANCEL_SECONDS = 0.5
"""The longest that a cancelled call waits until the server is told."""
MOST_PAGES = 50
LOGGED_CHARACTERS = 2_000
LOGGED_NOISE, MOST_NOISE = 20, 1_000
"""Lines that are no messages, since the last answer: so many are logged, and after so many the server is ended."""
_CLOSED, _TERMINATED = -32000, "Session terminated"

State = Literal["not started", "connecting", "connected", "failed"]


class RunningCall:
    """A call that a server works on: for whom, and the clock that ends it when nothing is heard for too long."""

    def __init__(self, context: ToolContext | None, seconds: float) -> None:
        self.context, self._seconds = context, seconds
        self.clock = asyncio.timeout(seconds)
        self._asking: set[asyncio.Task[Any]] = set()
        self._is_over = False

    def reset_timeout(self) -> None:
        """Restart the time limit: the server has shown a sign of life."""
        if not self._is_over and not self._asking:
            self.clock.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def of_person(self, question: Coroutine[Any, Any, T]) -> T | None:
        """A person's answer, None where the call ended first. Meanwhile the server's time limit is paused."""
        if self._is_over:
            question.close()
            return None
        task = asyncio.ensure_future(question)
        self._asking.add(task)
        self.clock.reschedule(None)
        try:
            await asyncio.wait({task})
            return None if task.cancelled() else task.result()
        finally:
            task.cancel()
            self._asking.discard(task)
            self.reset_timeout()

    def end(self) -> None:
        self._is_over = True
        for task in self._asking:
            task.cancel()


class Questions(Protocol):
    """Answers what a server asks of its client, for the call that it works on."""

    async def sampling(self, server: str, call: RunningCall | None, params: Any) -> Any: ...
    async def elicitation(self, server: str, call: RunningCall | None, params: Any) -> Any: ...
    async def roots(self, folders: Sequence[str]) -> Any: ...


class Surroundings(NamedTuple):
    """Parts of the program that all connections share."""

    log: Log
    questions: Questions
    kept: KeptListings
    environment: Mapping[str, str]  # variables that settings may refer to, and of which programs inherit a few
    redact: Redactor
    workspace: Path
    home: Path
    allow: Collection[str] = ()  # private places that a sign-in may lead to, [net] allow


class Connection:
    """The connection to one server. `state` and `error` tell how it is; `listing` is what it offers or offered last."""

    def __init__(self, settings: ServerSettings, around: Surroundings) -> None:
        self.settings, self._around = settings, around
        self.listing: ServerListing = around.kept.of(settings.name)
        self.last_error = around.kept.error(settings.name)
        """The reason why another process could not connect last time, '' if it could."""
        self.state: State = "not started"
        self.error = ""
        self.about = ""
        """The server's own name and version, and the protocol's."""
        self.refused = 0
        """The last HTTP status of 400 and more."""
        self.misled = ""
        """The private place that the server sent us to, in a sentence."""
        self.broken = ""
        """Why what it says is read no further, '' where it ended by itself."""
        self.open_login: Callable[[str], None] | None = None
        """Shows a person the address at which to sign in; None where nobody is there."""
        self.calls: dict[int, RunningCall] = {}
        self._session: sdk.ClientSession | None = None
        self._dispatcher: Any = None
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._tried = asyncio.Event()
        self._wanted = asyncio.Event()
        self._lost = asyncio.Event()
        self._last_words: list[str] = []
        self._left: set[asyncio.Task[Any]] = set()
        self._changes = asyncio.Lock()
        self._numbers = 0
        self._was_up = False
        self._noise = 0
        self._attempt: anyio.CancelScope | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    # --- for those who use it ----------------------------------------------------------------------------------------

    def want(self) -> None:
        """Begin to connect, unless it is connected or tried."""
        if self._task is None or self._task.done():
            self._tried.clear()
            self.state = "connecting"
            self._task = asyncio.create_task(self._run(), name=f"mcp {self.name}")
        elif self._session is None:
            self._wanted.set()
            if self.state == "failed":
                self._tried.clear()

    async def ready(self) -> None:
        """Wait until it is connected or has failed."""
        self.want()
        await self._tried.wait()

    async def request(
        self, work: Callable[[sdk.ClientSession, RunningCall], Awaitable[T]], context: ToolContext | None = None
    ) -> T:
        """The result of requests to the server, which is connected first where it isn't. Raises ToolError; a cancelled
        call is cancelled there, too."""
        from nanoclaw.plugins.mcp import sdk

        for is_last in (False, True):
            session = await self._connected()
            self._numbers += 1
            number, call = self._numbers, RunningCall(context, self.settings.seconds)
            self.calls[number], self.refused = call, 0
            try:
                async with call.clock:
                    done = await self._beside(work(session, call))
                    self._noise = 0
                    return done
            except TimeoutError:
                raise ToolError(
                    f"{self.name} did not answer within {self.settings.seconds:g} s (mcp.{self.name}.seconds). It was "
                    "told to stop; what it had done by then is unknown."
                ) from None
            except sdk.MCPError as error:
                # it was not run: the server knows no such session any more, for which many say 400
                if error.message == _TERMINATED or self.refused == 400:
                    self._lose("its session had ended")
                    if not is_last:
                        continue
                if error.code == _CLOSED:
                    why = self.broken or "the connection broke"
                    self._lose(why)
                    said = (
                        f"{self.name} broke off while it worked ({why}): it may have been done in part. {self._why()}"
                    )
                    raise ToolError(said.rstrip()) from None
                status = f" (HTTP {self.refused})" if self.refused else ""
                raise ToolError(f"{self.name} says: {self.shown(error.message)}{status}") from None
            except (ToolError, ConfigError):
                raise
            except FAULTS as error:
                raise ToolError(f"{self.name} sent an invalid answer: {self.shown(_words(error))}") from None
            finally:
                del self.calls[number]
                call.end()
        raise AssertionError

    def shown(self, text: str) -> str:
        """A text of the server's for a sentence, bounded and without secrets."""
        return one_line(self._around.redact(text), 300)

    async def aclose(self) -> None:
        """Close the connection; a program that was started is ended."""
        if self._scope:
            self._scope.cancel()
        if self._task:
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=1)
        self._task = None

    # --- a request ---------------------------------------------------------------------------------------------------

    async def _connected(self) -> sdk.ClientSession:
        if self._session is None:
            try:
                async with asyncio.timeout(self.settings.seconds):
                    await self.ready()
            except TimeoutError:
                self.error = self.error or f"it was not ready within {self.settings.seconds:g} s"
        if self._session is None:
            raise ToolError(f"the MCP server {self.name} is not available: {self.error}. Nothing was done.")
        return self._session

    async def _beside(self, work: Awaitable[T]) -> T:
        """Do something in a task of its own: a server that takes nothing in any more holds up no cancellation."""
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_SECONDS)
            if not task.done():
                self._left.add(task)
                task.add_done_callback(self._left.discard)
            elif not task.cancelled():
                task.exception()
            raise

    def _lose(self, why: str) -> None:
        """Note that the connection is of no use any more; it is opened again."""
        if self._session is not None:
            self._session = None
            self.state, self.error = "connecting", f"{why}."
            self._tried.clear()
            self._lost.set()

    # --- its task ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            import anyio

            from nanoclaw.plugins.mcp import sdk  # noqa: F401  (first, as the extra may be missing)
        except ConfigError as error:
            self.error = str(error)
            self._down()
            return
        seconds, loop = FIRST_PAUSE, asyncio.get_running_loop()
        with anyio.CancelScope() as self._scope:
            while True:
                began = loop.time()
                self._wanted.clear()
                self._lost.clear()
                try:
                    await self._once()
                except FAULTS as error:
                    said = self.misled or self.broken or self._sign_in() or self.shown(_words(error))
                    self.error = " ".join(filter(None, (said, self._why())))
                if loop.time() - began > STEADY_SECONDS:
                    seconds = FIRST_PAUSE
                if not self._was_up:
                    self._down()
                with anyio.move_on_after(paced(seconds)):
                    await self._wanted.wait()
                await anyio.sleep(max(0.0, began + paced(FIRST_PAUSE) - loop.time()))  # however often it is wanted
                seconds = min(seconds * 2, LONGEST_PAUSE)

    async def _once(self) -> None:
        """Connect, and stay until the connection ends. Raises what went wrong before."""
        import anyio

        self._last_words, self.error, self._was_up, self.refused, self._noise = [], "", False, 0, 0
        self.misled = self.broken = ""
        seconds = self.settings.seconds
        with anyio.CancelScope() as self._attempt:
            attempt = self._attempt
            timer = asyncio.get_running_loop().call_later(seconds, attempt.cancel)
            try:
                async with AsyncExitStack() as stack:
                    ended = await self._open(stack)
                    timer.cancel()
                    self._up()
                    await self._stay(ended)
                    # before its program has ended, which takes time
                    self._lose(self.broken or self.error or "the connection ended")
            finally:
                timer.cancel()
        if self._noise >= MOST_NOISE:
            raise ConnectionError(f"it wrote {MOST_NOISE:,} lines that are no messages of the protocol")
        if attempt.cancelled_caught:
            raise TimeoutError(f"it was not ready within {seconds:g} s")
        self.error = " ".join(filter(None, (self.error, self._why())))

    async def _open(self, stack: AsyncExitStack) -> anyio.Event:
        """Connect, and learn what there is; the event of the connection's end."""
        from nanoclaw.plugins.mcp import sdk, wire

        around, name = self._around, self.name
        reading, writing = await stack.enter_async_context(wire.transport(self, around))
        watched = wire.Watched(reading)
        self._dispatcher = wire.lenient_dispatcher(watched, writing)
        session = sdk.ClientSession(
            dispatcher=self._dispatcher,
            sampling_callback=lambda _, params: around.questions.sampling(name, self._call(), params),
            elicitation_callback=lambda _, params: around.questions.elicitation(name, self._call(), params),
            list_roots_callback=lambda _: around.questions.roots(self.settings.roots),
            logging_callback=self._logged,
            message_handler=self._told,
            client_info=wire.client_info(),
        )
        await stack.enter_async_context(session)
        try:  # the SDK's servers can ask a person in the midst of a call by the protocol of 2025, not by the newest
            await session.initialize()
        except sdk.MCPError:  # it may speak the newest alone
            await sdk.negotiate_auto(session)
        if watched.ended.is_set():
            raise ConnectionError("it ended at once")
        info, version = session.server_info, session.protocol_version
        self.about = one_line(
            f"{plain(f'{info.name} {info.version}').strip() if info else 'unnamed'}, MCP {version}", 120
        )
        self._session = session
        await self._list()
        return watched.ended

    async def _stay(self, ended: anyio.Event) -> None:
        """Follow changes of what is offered, until the connection ends or is lost."""
        import anyio

        async with anyio.create_task_group() as group:

            async def lost() -> None:
                await self._lost.wait()
                group.cancel_scope.cancel()

            group.start_soon(lost)
            group.start_soon(self._listen)
            await ended.wait()
            group.cancel_scope.cancel()

    async def _listen(self) -> None:
        """Hear of changes where the newest protocol has them; older servers tell `_told`."""
        from nanoclaw.plugins.mcp import sdk

        assert self._session
        try:
            async with sdk.listen(self._session, tools_list_changed=True, prompts_list_changed=True) as changes:
                async for _ in changes:
                    await self._list()
        except (sdk.ListenNotSupportedError, sdk.SubscriptionLost, sdk.MCPError, ToolError, TimeoutError):
            return

    async def _list(self) -> None:
        """Learn what is offered. What cannot be listed counts as not there, and is a remark."""
        from nanoclaw.plugins.mcp import sdk, wire

        session = self._session
        offers = session.server_capabilities if session else None
        if session is None or offers is None:
            return
        tools, remarks = list[Any](), list[str]()
        if offers.tools:
            found = await wire.pages(partial(wire.tools_page, session, self._dispatcher), MOST_PAGES, MOST_TOOLS + 1)
            tools, remarks = found
        listed, wrong = tools_of(self.name, (self._without_secrets(one) for one in tools if self._takes(one)))
        prompts: list[Any] = []
        if offers.prompts:
            try:
                prompts, _ = await wire.pages(partial(wire.prompts_page, session), MOST_PAGES, MOST_TOOLS)
            except (sdk.MCPError, ValueError) as error:
                if getattr(error, "code", 0) == _CLOSED:
                    raise
                wrong.append(f"its prompts cannot be listed: {self.shown(str(error))}")
        remarks = list(dict.fromkeys(self.shown(one) for one in (*remarks, *wrong)))
        self.listing = ServerListing(tuple(listed), tuple(prompts_of(prompts)), bool(offers.resources), tuple(remarks))
        for remark in remarks:
            self._around.log.info("{}: {}", self.name, remark)

    def _without_secrets(self, tool: Any) -> Any:
        """A tool as the server tells of it, without the key that the server was given."""
        try:
            text = json.dumps(tool)
            clean = self._around.redact(text)
            return tool if clean == text else json.loads(clean)
        except (ValueError, RecursionError):  # what cannot be read is not shown
            return {"name": tool["name"]}

    def _takes(self, tool: Any) -> bool:
        name = tool.get("name") if isinstance(tool, dict) else None
        return not isinstance(name, str) or self.settings.allows(name)

    def _up(self) -> None:
        self.state, self.error, self._was_up = "connected", "", True
        self._keep()
        self._tried.set()
        self._around.log.info("{} is connected: {}, {} tools", self.name, self.about, len(self.listing.tools))

    def _down(self) -> None:
        self._session = None
        self.state, self.error = "failed", self.error or "the connection ended"
        self._keep()
        self._tried.set()
        self._around.log.info("{} is not available: {}", self.name, self.error)

    def _keep(self) -> None:
        try:
            self._around.kept.keep(self.name, self.listing, self.error)
        except OSError as error:
            self._around.log.warning("what {} offers cannot be kept: {}", self.name, error)

    # --- what the server says by itself ------------------------------------------------------------------------------

    def _call(self) -> RunningCall | None:
        """The call that it works on: the one that began last."""
        return next(reversed(self.calls.values()), None)

    def log_line(self, line: str) -> None:
        """A line that a program wrote to stderr."""
        line = plain(line[:LOGGED_CHARACTERS]).strip()
        if line:
            self._last_words = [*self._last_words[-2:], line]
            self._around.log.info("{}: {}", self.name, line)

    def _sign_in(self) -> str:
        """Advice about a server that wants to know who it is talking to; '' for any other trouble."""
        if self.refused not in (401, 403):
            return ""
        if any(name.casefold() == "authorization" for name in self.settings.headers):
            return f"it refuses the Authorization header (HTTP {self.refused}): mcp.{self.name}.headers has another."
        return f"it wants you to sign in (HTTP {self.refused}): nanoclaw mcp test {self.name}"

    def _why(self) -> str:
        """The last words of a program that ended."""
        return f"Its last words: {self.shown(' / '.join(self._last_words))}" if self._last_words else ""

    async def _logged(self, params: Any) -> None:
        self._around.log.info("{} ({}): {}", self.name, params.level, plain(str(params.data))[:LOGGED_CHARACTERS])

    async def _told(self, message: Any) -> None:
        """A notification, or an unexpected message."""
        if isinstance(message, Exception):
            self._noise += 1
            if self._noise <= LOGGED_NOISE:
                self._around.log.info("{} sent a line that is not a message: {}", self.name, self.shown(str(message)))
            if self._noise == MOST_NOISE and self._attempt:
                self._lose("it wrote a line that is not a message")
                self._attempt.cancel()
        elif getattr(message, "method", "") in (
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
        ):
            task = asyncio.ensure_future(self._changed())
            self._left.add(task)
            task.add_done_callback(self._left.discard)

    async def _changed(self) -> None:
        try:
            async with self._changes, asyncio.timeout(self.settings.seconds):
                await self._list()
                self._keep()
        except FAULTS as error:
            self._around.log.info("{}: what it offers now cannot be listed: {}", self.name, self.shown(_words(error)))


def _words(error: BaseException) -> str:
    """An error in words, of a group the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if getattr(error, "code", 0) == _CLOSED:
        return "it ended before it was ready."
    text = str(error) or type(error).__name__
    return (
        text if isinstance(error, ConfigError | ConnectionError | TimeoutError) else f"{type(error).__name__}: {text}"
    )
