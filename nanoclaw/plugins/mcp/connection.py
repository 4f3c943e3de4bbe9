"""One server's connection: one task opens it, keeps it and closes it; whoever needs it next opens another. What the SDK
makes is entered and left in that task alone; calls are made from anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from nanoclaw import __version__
from nanoclaw.core.errors import FAULTS, ConfigError, ToolError
from nanoclaw.core.plugin import Host
from nanoclaw.core.tool import ToolContext
from nanoclaw.escapes import one_line, plain
from nanoclaw.plugins.mcp.listing import MOST_TOOLS, KeptListings, ServerListing, tools_of

if TYPE_CHECKING:
    import anyio

    from nanoclaw.plugins.mcp import sdk
    from nanoclaw.plugins.mcp.plugin import ServerSettings

T = TypeVar("T")

CLOSE_SECONDS = 8.0
LOGGED_CHARACTERS = 2_000
MOST_NOISE = 1_000
"""Lines that are no messages, since the last answer, after which a server is ended."""
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


class Connection:
    """The connection to one server. `state` and `error` tell how it is; `listing` is what it offers or offered last."""

    def __init__(self, name: str, settings: ServerSettings, host: Host, kept: KeptListings) -> None:
        """`kept` are the listings of all servers."""
        self.name, self.settings, self.host, self._kept = name, settings, host, kept
        self.listing: ServerListing = kept.of(name)
        self.state: State = "not started"
        self.error = ""
        self.about = ""
        """The server's own name and version, and the protocol's."""
        self.refused = 0
        """The last HTTP status of 400 and more."""
        self.open_login: Callable[[str], None] | None = None
        """Shows a person the address at which to sign in; None where nobody is there."""
        self._calls: list[RunningCall] = []
        self._session: sdk.ClientSession | None = None
        self._dispatcher: Any = None
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._tried = asyncio.Event()
        self._why = ""
        self._last_words: list[str] = []
        self._changes = asyncio.Lock()
        self._noise = 0

    @property
    def last_error(self) -> str:
        """The reason why it could not be connected when that was last tried, '' if it could."""
        return self._kept.error(self.name)

    def only_reads(self, tool: str) -> bool:
        return any(fnmatchcase(tool, glob) for glob in self.settings.reads)

    # --- for those who use it ----------------------------------------------------------------------------------------

    def want(self) -> None:
        """Begin to connect, unless it is connected or about to be."""
        if self._session is None and (self._task is None or self._task.done()):
            self._tried.clear()
            self.state, self.error = "connecting", ""
            self._task = asyncio.create_task(self._run(), name=f"mcp {self.name}")

    async def ready(self) -> None:
        """Wait until it is connected or has failed."""
        if self._task and self.state in ("not started", "failed"):  # one before is being closed
            await asyncio.wait({self._task})
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
            call = RunningCall(context, self.settings.seconds)
            self._calls.append(call)
            self.refused = 0
            try:
                async with call.clock:
                    done = await work(session, call)
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
                    self.end("its session had ended")
                    if not is_last:
                        continue
                if error.code == _CLOSED:
                    self.end("the connection broke")
                    said = f"{self.name} broke off while it worked ({self._why}): it may have been done in part."
                    raise ToolError(" ".join((said, *self._ended_saying()))) from None
                status = f" (HTTP {self.refused})" if self.refused else ""
                raise ToolError(f"{self.name} says: {self.shown(error.message)}{status}") from None
            except (ToolError, ConfigError):
                raise
            except FAULTS as error:
                raise ToolError(f"{self.name} sent an invalid answer: {self.shown(_words(error))}") from None
            finally:
                self._calls.remove(call)
                call.end()
        raise AssertionError

    def shown(self, text: str) -> str:
        """A text of the server's for a sentence, bounded and without secrets."""
        return one_line(self.host.redact(text), 300)

    def end(self, why: str) -> None:
        """End the connection, or the attempt at one. The first reason counts."""
        self._why = self._why or why
        if self._session:
            self._session, self.state = None, "not started"
        if self._scope:
            self._scope.cancel()

    async def aclose(self) -> None:
        """Close the connection; a program that was started is ended."""
        if self._task:
            self.end("the program ends")
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
            self._task.cancel()

    async def _connected(self) -> sdk.ClientSession:
        try:
            async with asyncio.timeout(self.settings.seconds):
                await self.ready()
        except TimeoutError:
            self.error = self.error or f"it was not ready within {self.settings.seconds:g} s"
        if self._session is None:
            why = self.error or self._why
            raise ToolError(f"the MCP server {self.name} is not available: {why}. Nothing was done.")
        return self._session

    # --- its task ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._why, self._last_words, self._noise, self.refused = "", [], 0, 0
        try:
            import anyio

            from nanoclaw.plugins.mcp import sdk  # noqa: F401  (first, as the extra may be missing)

            said = f"it was not ready within {self.settings.seconds:g} s"
            with anyio.CancelScope() as self._scope:
                async with AsyncExitStack() as stack:
                    late = asyncio.get_running_loop().call_later(self.settings.seconds, self.end, said)
                    stack.callback(late.cancel)
                    ended = await self._open(stack)
                    late.cancel()
                    self._up()
                    await self._stay(ended)
                    self.end("the connection ended")  # before its program has ended, which takes time
        except FAULTS as error:
            self._why = self._why or self._sign_in() or self.shown(_words(error))
        self._scope = None
        if self.state == "connecting":
            self.state, self.error = "failed", " ".join((self._why, *self._ended_saying()))
            self._keep()
        self._session = None
        self._tried.set()
        self.host.log.info("{} is not connected: {}", self.name, self._why)

    async def _open(self, stack: AsyncExitStack) -> asyncio.Event:
        """Connect, and learn what there is; the event of the connection's end."""
        from nanoclaw.plugins.mcp import questions, sdk, wire

        dispatcher = self._dispatcher = wire.dispatcher(*await stack.enter_async_context(wire.transport(self)))
        session = sdk.ClientSession(
            dispatcher=dispatcher,
            elicitation_callback=lambda _, params: questions.elicitation(self.host, self.name, self._call(), params),
            list_roots_callback=lambda _: questions.roots(self.host, self.settings.roots),
            logging_callback=self._logged,
            message_handler=self._told,
            client_info=sdk.types.Implementation(name="nanoclaw", version=__version__),
        )
        await stack.enter_async_context(session)
        try:  # the SDK's servers can ask a person in the midst of a call by the protocol of 2025, not by the newest
            await session.initialize()
        except sdk.MCPError:  # it may speak the newest alone
            await sdk.negotiate_auto(session)
        info, version = session.server_info, session.protocol_version
        self.about = one_line(
            f"{plain(f'{info.name} {info.version}').strip() if info else 'unnamed'}, MCP {version}", 120
        )
        await self._list(session)
        self._session = session
        ended: asyncio.Event = dispatcher.ended
        return ended

    async def _stay(self, ended: asyncio.Event) -> None:
        """Follow changes of what is offered, until the connection ends."""
        import anyio

        async with anyio.create_task_group() as group:
            group.start_soon(self._listen)
            await ended.wait()
            group.cancel_scope.cancel()

    async def _listen(self) -> None:
        """Hear of changes where the newest protocol has them; older servers tell `_told`."""
        from nanoclaw.plugins.mcp import sdk

        session = self._session
        assert session
        try:
            async with sdk.listen(session, tools_list_changed=True) as changes:
                async for _ in changes:
                    await self._list(session)
        except (sdk.ListenNotSupportedError, sdk.SubscriptionLost, sdk.MCPError, ToolError, TimeoutError):
            return

    async def _list(self, session: sdk.ClientSession) -> None:
        """Learn what is offered. A tool that cannot be listed is a remark."""
        from nanoclaw.plugins.mcp import wire

        offers = session.server_capabilities
        if offers is None:
            return
        tools, remarks = list[Any](), list[str]()
        if offers.tools:
            dispatcher = self._dispatcher  # has them as they came
            tools, remarks = await wire.pages(session.list_tools, lambda page: list(dispatcher.tools), MOST_TOOLS + 1)
        listed, wrong = tools_of(self.name, (self._without_secrets(one) for one in tools if self._takes(one)))
        remarks = list(dict.fromkeys(self.shown(one) for one in (*remarks, *wrong)))
        self.listing = ServerListing(tuple(listed), bool(offers.prompts), bool(offers.resources), tuple(remarks))
        for remark in remarks:
            self.host.log.info("{}: {}", self.name, remark)

    def _without_secrets(self, tool: Any) -> Any:
        """A tool as the server tells of it, without the key that the server was given."""
        try:
            text = json.dumps(tool)
            clean = self.host.redact(text)
            return tool if clean == text else json.loads(clean)
        except (ValueError, RecursionError):  # what cannot be read is not shown
            return {"name": tool["name"]}

    def _takes(self, tool: Any) -> bool:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            return True
        allowed = not self.settings.allow or any(fnmatchcase(name, glob) for glob in self.settings.allow)
        return allowed and not any(fnmatchcase(name, glob) for glob in self.settings.deny)

    def _up(self) -> None:
        self.state = "connected"
        self._keep()
        self._tried.set()
        self.host.log.info("{} is connected: {}, {} tools", self.name, self.about, len(self.listing.tools))

    def _keep(self) -> None:
        try:
            self._kept.keep(self.name, self.listing, self.error)
        except OSError as error:
            self.host.log.warning("what {} offers cannot be kept: {}", self.name, error)

    # --- what the server says by itself ------------------------------------------------------------------------------

    def _call(self) -> RunningCall | None:
        """The call that it works on: the one that began last."""
        return self._calls[-1] if self._calls else None

    def log_line(self, line: str) -> None:
        """A line that a program wrote to stderr."""
        line = plain(line[:LOGGED_CHARACTERS]).strip()
        if line:
            self._last_words = [*self._last_words[-2:], line]
            self.host.log.info("{}: {}", self.name, line)

    def _sign_in(self) -> str:
        """Advice about a server that wants to know who it is talking to; '' for any other trouble."""
        if self.refused not in (401, 403):
            return ""
        if any(name.casefold() == "authorization" for name in self.settings.headers):
            return f"it refuses the Authorization header (HTTP {self.refused}): mcp.{self.name}.headers has another."
        return f"it wants you to sign in (HTTP {self.refused}): nanoclaw mcp test {self.name}"

    def _ended_saying(self) -> list[str]:
        """The last words of a program that ended."""
        return [f"Its last words: {self.shown(' / '.join(self._last_words))}"] if self._last_words else []

    async def _logged(self, params: Any) -> None:
        said = plain(str(params.data))[:LOGGED_CHARACTERS]
        self.host.log.info("{} ({}): {}", self.name, params.level, said)

    async def _told(self, message: Any) -> None:
        """A notification, or something that is no message."""
        from nanoclaw.plugins.mcp import wire

        if isinstance(message, Exception):
            self._noise += 1
            if wire.is_broken_message(message):  # its call would wait for ever
                self.end("it sent a message that cannot be read")
            elif self._noise == MOST_NOISE:
                self.end(f"it wrote {MOST_NOISE:,} lines that are no messages of the protocol")
        elif getattr(message, "method", "") == "notifications/tools/list_changed" and self._session:
            try:
                async with self._changes, asyncio.timeout(self.settings.seconds):
                    await self._list(self._session)
                    self._keep()
            except FAULTS as error:
                said = self.shown(_words(error))
                self.host.log.info("{}: what it offers now cannot be listed: {}", self.name, said)


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
