"""The chat in a capable terminal: finished text above, the growing block, the turn's state and the input line below."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.layout import CompletionsMenu, ConditionalContainer, FormattedTextControl, HSplit, Layout
from prompt_toolkit.layout import Window as Pane
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar, TextArea

from nanoclaw.channels.terminal.keyboard import PROMPT, typed_ahead, typing_area, typing_keys
from nanoclaw.channels.terminal.pastes import PasteOutput, Pastes
from nanoclaw.channels.terminal.tool_lines import ToolLine, ToolLines, cut
from nanoclaw.channels.text import FOOTER, WAIT, Spoken, notice_line, progress
from nanoclaw.core import events
from nanoclaw.core.events import Event, Notice, StatusLines, ToolFinished
from nanoclaw.escapes import guard_streams, one_line, printable
from nanoclaw.markdown.blocks import Blocks

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_SECONDS = 0.25
_FRAME_SECONDS = 0.05  # between two drawings of a growing block, at least
_LIVE_CHARACTERS = 20_000
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_TOOLS = {"failed": "\x1b[31m", "plus": "\x1b[32m", "minus": "\x1b[31m", "place": "\x1b[36m"}
_STYLE = Style.from_dict(
    {
        "dim": "fg:ansibrightblack",
        "prompt": "bold",
        "plus": "fg:ansigreen",
        "minus": "fg:ansired",
        "place": "fg:ansicyan",
    }
)
_RESULTS = 50  # that can be opened
_MENU_LINES = 8
_FOOTER_COLUMNS = 60  # below which there is no room for it


class _Typed:
    """A line that waits for its turn; `id` is that of its message."""

    def __init__(self, text: str) -> None:
        self.text, self.id = text, ""


class Window:
    """Text that will not change is written once and scrolls away with the terminal; only the rest is redrawn."""

    def __init__(self, history_file: Path, words: Completer, waiting: frozenset[str], *, colour: bool) -> None:
        """The commands that are `waiting` take their turn in the queue."""
        self._history_file, self._words, self._waiting, self._colour = history_file, words, waiting, colour
        self._footer = ""
        self._output = PasteOutput.of_terminal()
        self._pastes = Pastes()
        self._app: Application[None] | None = None
        self._area: TextArea | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._drawing: asyncio.TimerHandle | None = None
        self._frame_seconds = _FRAME_SECONDS
        self._blocks = Blocks()
        self._joined = False  # the next block goes on with the one before
        self._spoken = Spoken()
        self._last = ""  # what kind of thing was printed last
        self._tools = ToolLines()
        self._results: deque[ToolFinished] = deque(maxlen=_RESULTS)
        self._held: list[str] | None = None  # what was printed while a result is open
        self._status: dict[str, str] = {}
        self._by_status = set[str]()  # names of tools whose calls are shown by their status lines
        self._bar = ""
        self._noticed = ""  # the last notice, until something else happens
        self._queued: list[_Typed] = []  # while a turn runs
        self._fetched: _Typed | None = None  # of these, the one that is in the line again
        self._begun = set[str]()  # ids of these that have begun, and wait for the answers before them
        self._unsaid = 0  # turns that have ended while their answer has not come
        self._is_asked = False  # the turn waits for the person, and the lines behind it wait on
        self._thinking = False
        self._since: float | None = None  # when the wait for an answer began
        self._drawn: tuple[tuple[str, int, int], str] = (("", 0, 0), "")

    async def run(self, submit: Callable[..., str], interrupt: Callable[[], None]) -> None:
        self._submit, self._app = submit, self._build(interrupt)
        for line in filter(str.strip, typed_ahead(sys.stdin.fileno())):
            self._accept(Buffer(document=Document(line)))
        self._output.mark_pastes(True)
        warming = asyncio.create_task(_warm_up())
        try:
            with patch_stdout():  # what a library or a log prints comes above the prompt, too
                guard_streams()
                await self._app.run_async(set_exception_handler=False)
        except EOFError:
            pass  # the terminal is gone
        finally:
            self._app = None
            self._finish_blocks()
            self.busy(False)
            warming.cancel()
            with suppress(OSError):  # the terminal is gone
                self._output.mark_pastes(False)

    def show(self, event: Event) -> None:
        if isinstance(event, StatusLines):
            self._show_status(event)
            return
        if not isinstance(event, Notice):
            self._noticed = ""
            if not isinstance(event, events.TurnBegan | events.TurnEnded):  # the answers before it come late or never
                self._echo_begun()
        self._thinking = isinstance(event, events.ReasoningDelta)
        match event:
            case events.TurnBegan(reply_to):  # what streamed of one that a crash cut off is not a part of this answer
                self._is_asked = False
                self._begin([reply_to])
                self.cut_off()
                self._spoken.begin_round()
            case events.TextDelta(text):
                self._bar = ""
                self._stream(printable(text))
            case events.ReasoningDelta():
                self._draw_soon()
            case events.ToolStarted():
                self._finish_blocks()
                self._bar = ""
                self._spoken.begin_round()
                self._tools.began(event)
                self._redraw()
            case events.ToolProgress():
                self._tools.shows(event)
                self._draw_soon()
            case ToolFinished():
                lines = self._tools.ended(event, self._columns())
                if event.is_error or event.call.name not in self._by_status:
                    self._results.append(event)
                    self._print_tools(lines)
            case Notice(text, None):
                if text != self._noticed:
                    self._finish_blocks()
                    self._spoken.add("\n")
                self._print_notice(text)
            case events.Receipt(text):
                self._finish_blocks()
                self._spoken.add("\n")
                self._print(notice_line(text), "line", _DIM)
            case Notice():
                self._show_progress(event)
            case events.Joined(external_ids):
                self._begin(external_ids)
            case events.TurnPaused():
                self._is_asked = True
            case events.TurnEnded():
                self.cut_off()
                self._spoken.end_turn()
                self._unsaid += event.reason != "answered" or bool(event.answer)
                if self._since is not None:
                    self._since = time.monotonic()

    def say(self, text: str, reply_to: str = "") -> None:
        if reply_to in (typed.id for typed in self._queued):  # it stands above its answer, also of code before its turn
            self._begun.discard(reply_to)
            self._echo_queued([reply_to])
        else:
            self._unsaid = max(0, self._unsaid - 1)
        if rest := self._spoken.rest_of(printable(text)):
            self._make_way()
            self._print_block(rest)
        if not self._unsaid:
            self._echo_begun()

    def note(self, line: str) -> None:
        self._make_way()
        self._print(printable(line), "line", _DIM)

    def busy(self, busy: bool) -> None:
        if busy and self._since is None:
            self._since = time.monotonic()
            if self._app:
                self._ticking = asyncio.create_task(self._tick())
        elif not busy and self._since is not None:
            self._since = None
            self._thinking = False
            self._unsaid = 0
            if not self._is_asked:
                self._take_queued()
            if self._ticking:
                self._ticking.cancel()
        else:
            return
        self._redraw()

    def stopping(self) -> None:
        self._take_queued()
        self._redraw()

    def _take_queued(self) -> None:
        """Return lines that were not begun to the line; where something is typed already, they are said."""
        texts = [typed.text for typed in self._queued]
        self._queued.clear()
        if texts and self._app:
            asyncio.get_running_loop().call_soon(self._return, texts)  # once the line that says /stop is empty
        elif texts:
            self._return(texts)

    def _return(self, texts: Sequence[str]) -> None:
        if not self.type("\n".join([*texts, ""])):  # what is typed next is a line of its own
            self._print(notice_line(f"not begun: {'; '.join(texts)}"), "line", _DIM)

    def cut_off(self) -> None:
        self._finish_blocks()
        self._bar = ""
        self._print_tools(self._tools.broke_off(self._columns()))

    def type(self, text: str) -> bool:
        if self._app is None or self._area is None or self._area.text:
            return False
        self._area.buffer.document = Document(self._pastes.shown(text))
        self._redraw()
        return True

    def leave(self) -> None:
        if self._app and self._app.is_running and not self._app.is_done:
            self._app.exit()

    # What is printed for good

    def _stream(self, text: str) -> None:
        if self._spoken.is_blank:
            text = text.lstrip("\n")
        self._spoken.add(text)
        for block in self._blocks.feed(text):
            self._print_block(block)
        for part in self._blocks.spill(keep=self._live_rows()):
            self._print_block(part)
            self._joined = True
        self._draw_soon()

    def _finish_blocks(self) -> None:
        for block in self._blocks.finish():
            self._print_block(block)
        self._joined = False

    def _make_way(self) -> None:
        """Let what comes from elsewhere stand below a sentence, or above one that still grows."""
        if self._blocks.tail.rstrip()[-1:] in ".!?…":
            self._finish_blocks()
        self._joined = False

    def _print_block(self, markdown: str) -> None:
        from nanoclaw.markdown.terminal import to_terminal

        kind = "joined" if self._joined else "block"
        self._joined = False
        self._print(to_terminal(markdown, self._columns(), self._colour), kind)

    def _print_notice(self, text: str) -> None:
        if text != self._noticed:
            self._noticed = text
            self._print(notice_line(text), "line", _DIM)

    def _print_tools(self, lines: list[ToolLine]) -> None:
        """All at once: what is written in one piece is drawn once."""
        if lines and self._colour:
            self._print("\n".join(f"{_TOOLS.get(kind, _DIM)}{text}{_PLAIN}" for kind, text in lines), "tools")
        elif lines:
            self._print("\n".join(text for _, text in lines), "tools")
        else:
            self._redraw()

    def _print(self, text: str, kind: str, style: str = "") -> None:
        """Write above the live part. Lines of one kind are kept together, blocks are separated."""
        if not text.strip():
            return
        is_prose, kind = kind == "line", "line" if kind == "tools" else kind
        apart = kind == "block" or (kind != "joined" and kind != self._last)
        if is_prose:
            text = _wrapped(text, self._columns())
        gap = "\n" if apart and self._last else ""
        self._last = "block" if kind == "joined" else kind
        if style and self._colour:
            text = f"{style}{text}{_PLAIN}"
        if self._held is not None:
            self._held.append(f"{gap}{text}\n".replace("\n", "\r\n"))
            return
        if self._app and self._app.is_running:
            self._app.renderer.erase()
        elif not self._last:
            self._output.write_raw("\r")  # over what was typed before there was a prompt
            self._output.erase_end_of_line()
        self._output.write_raw(f"{gap}{text}\n".replace("\n", "\r\n"))
        self._output.flush()
        self._redraw()

    def _echo(self, typed: str) -> _Typed | None:
        """A message that has to wait its turn stays in the live part until then; one that was fetched back is changed
        there, unless it has begun."""
        first, (fetched, self._fetched) = typed.strip().lower().partition(" ")[0], (self._fetched, None)
        is_at_once = first == "stop" or first[:1] == "!" or (first.startswith("/") and first not in self._waiting)
        if (self._since is not None or fetched in self._queued) and not is_at_once:
            if fetched in self._queued and first[:1] != "/":
                fetched.text = typed
            else:
                self._queued.append(fetched := _Typed(typed))
            self._redraw()
            return fetched
        self._make_way()
        self._print(_prompted(typed), "typed", _BOLD)
        return None

    def _accept(self, buffer: Buffer) -> bool:
        if not buffer.text.strip():
            return self._withdraw()
        waits = self._echo(buffer.text)
        buffer.document = Document(self._pastes.whole(buffer.text))  # the history has it whole, too
        identity = self._submit(buffer.text, waits.id if waits else "")
        if waits:
            waits.id = identity
        return False

    def _fetch_queued(self) -> None:
        """Put the last line that waits where it can be changed or emptied; until that is sent, it waits as it is."""
        found = self._queued[-1] if self._queued and self._queued[-1].text[:1] != "/" else None
        if found and self.type(found.text):
            self._fetched = found

    def _withdraw(self) -> bool:
        """Let the line that was fetched back, and is empty now, wait no more."""
        found, self._fetched = self._fetched, None
        if found in self._queued and found.id:
            self._queued.remove(found)
            self._submit("", found.id)
            self._redraw()
        return False

    def _begin(self, ids: Iterable[str]) -> None:
        """Messages that waited have begun; they stand below the answers before it."""
        self._begun.update(ids)
        if not self._unsaid:
            self._echo_begun()

    def _echo_begun(self) -> None:
        self._unsaid = 0
        self._echo_queued(self._begun)
        self._begun.clear()

    def _echo_queued(self, ids: Container[str]) -> None:
        begun = [typed for typed in self._queued if typed.id and typed.id in ids]
        self._queued = [typed for typed in self._queued if typed not in begun]
        for typed in begun:
            self._finish_blocks()
            self._print(_prompted(typed.text), "typed", _BOLD)

    # What changes

    def _build(self, interrupt: Callable[[], None]) -> Application[None]:
        search = SearchToolbar()
        area = self._area = typing_area(self._history_file, self._words, search, lambda: max(1, self._rows() // 3))
        footer = Pane(FormattedTextControl(lambda: [("class:dim", cut(self._footer, self._columns()))]), height=1)
        has_footer = Condition(lambda: bool(self._footer) and self._columns() >= _FOOTER_COLUMNS)
        area.buffer.accept_handler = self._accept
        live = Pane(FormattedTextControl(self._live), dont_extend_height=True, wrap_lines=False)
        state = Pane(FormattedTextControl(self._state), dont_extend_height=True, wrap_lines=False)
        return Application(
            Layout(
                HSplit(
                    [
                        ConditionalContainer(live, Condition(lambda: bool(self._blocks.tail.strip()))),
                        ConditionalContainer(state, Condition(lambda: bool(self._state()))),
                        ConditionalContainer(Pane(height=1), Condition(lambda: bool(self._last))),
                        area,
                        ConditionalContainer(CompletionsMenu(max_height=_MENU_LINES), has_completions),
                        search,
                        ConditionalContainer(footer, has_footer),
                    ]
                ),
                focused_element=area,
            ),
            key_bindings=typing_keys(
                *(area, self._pastes, interrupt, self.leave, lambda: self._since is not None),
                *(self._open_result, self._open_editor, self._fetch_queued),
            ),
            style=_STYLE if self._colour else None,
            color_depth=None if self._colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            output=self._output,
        )

    def _live(self) -> ANSI:
        """The end of the growing block, as much as fits."""
        rows = self._live_rows()
        wanted = (self._blocks.tail, self._columns(), rows)
        if self._drawn[0] != wanted:
            from nanoclaw.markdown.terminal import to_terminal

            began = time.monotonic()
            text = to_terminal(wanted[0][-_LIVE_CHARACTERS:], wanted[1], self._colour)
            self._drawn = (wanted, "\n".join(text.split("\n")[-rows:]))
            self._frame_seconds = max(_FRAME_SECONDS, 4 * (time.monotonic() - began))
        return ANSI(self._drawn[1])

    def _state(self) -> StyleAndTextTuples:
        frame = _FRAMES[int(time.monotonic() / _TICK_SECONDS) % len(_FRAMES)]
        lines = self._tools.live(frame, self._columns())
        if self._bar:
            lines.append(self._bar)
        elif self._since is not None and not self._tools and WAIT not in self._status:
            at_work = "thinking… " if self._thinking else "the model is at work… " * (not self._blocks.tail)
            lines.append(f"{frame} {at_work}{time.monotonic() - self._since:.0f} s")
        elif self._queued and self._since is None:
            lines.append("waiting for your answer")
        lines += [cut(line, self._columns()) for text in self._status.values() for line in printable(text).splitlines()]
        lines += [one_line(PROMPT + typed.text, 200) for typed in self._queued[-3:]]
        return [("class:dim", "\n".join(lines))] if lines else []

    def _show_status(self, event: StatusLines) -> None:
        if event.key == FOOTER:
            self._footer = one_line(event.text, 200)
            self._redraw()
            return
        self._by_status.add(event.key)
        self._status.pop(event.key, None)
        if event.is_last:
            self._finish_blocks()
            self._spoken.add("\n")
            self._print(printable(event.text), "line", _DIM)
        elif event.text:
            self._status[event.key] = event.text
        self._redraw()

    def _show_progress(self, notice: Notice) -> None:
        if (notice.fraction or 0.0) < 1.0:
            self._bar = progress(notice, cells=min(20, max(4, self._columns() // 4)))
            self._draw_soon()
        elif self._bar:
            self._bar = ""
            self._print_notice(notice.text)

    def _open_result(self) -> None:
        """Show the last result on a screen of its own; what comes meanwhile is printed afterwards."""
        if not self._results:
            self.note("no tool has run here yet; /show looks for results of earlier")
        elif self._app and self._held is None:
            self._held = []
            self._app.create_background_task(self._page())

    def _open_editor(self) -> None:
        """Type the line in an editor; what comes meanwhile is printed afterwards."""
        if self._app and self._area and self._held is None:
            self._held = []
            self._area.buffer.document = Document(self._pastes.whole(self._area.text))
            self._app.create_background_task(self._edit(self._area.buffer))

    async def _edit(self, buffer: Buffer) -> None:
        self._output.mark_pastes(False)
        try:
            await buffer.open_in_editor()
        finally:
            self._output.mark_pastes(True)
            self._print_held()

    async def _page(self) -> None:
        from nanoclaw.channels.terminal.pager import pager

        try:
            async with in_terminal():
                await pager(tuple(self._results), self._output, _STYLE if self._colour else None).run_async()
        finally:
            self._print_held()

    def _print_held(self) -> None:
        held, self._held = self._held or [], None
        if self._app and held:
            self._app.renderer.erase()
            self._output.write_raw("".join(held))
            self._output.flush()
        self._redraw()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._redraw()

    def _draw_soon(self) -> None:
        if self._drawing is None and self._app and self._app.is_running:
            self._drawing = asyncio.get_running_loop().call_later(self._frame_seconds, self._redraw)

    def _redraw(self) -> None:
        if self._drawing:
            self._drawing.cancel()
            self._drawing = None
        if self._app:
            self._app.invalidate()

    def _columns(self) -> int:
        return self._output.get_size().columns

    def _rows(self) -> int:
        return self._output.get_size().rows

    def _live_rows(self) -> int:
        return max(1, self._rows() - self._rows() // 3 - 4)


def _prompted(typed: str) -> str:
    return PROMPT + printable(typed).strip().replace("\n", "\n" + " " * len(PROMPT))


def _wrapped(text: str, columns: int) -> str:
    """Broken between words; a word that is wider than the screen stays whole."""
    wrapper = textwrap.TextWrapper(columns, break_long_words=False, break_on_hyphens=False)
    return "\n".join("\n".join(wrapper.wrap(line)) for line in text.split("\n"))


async def _warm_up() -> None:
    """Load what draws answers while the person types the first line."""
    await asyncio.sleep(0.2)
    await asyncio.to_thread(__import__, "nanoclaw.markdown.terminal")
