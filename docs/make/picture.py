"""Draw docs/pictures: the real program in a terminal (chat-light.svg, chat-dark.svg) and in a browser (page-light.png,
page-dark.png and a picture of each view), answered by a scripted model."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS.parent))

from rich.console import Console  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402

from tests.channels.screen import Screen  # noqa: E402

COLUMNS, ROWS = 92, 60
CELL = 12.2  # units of the SVG that a letter is wide
WAIT_SECONDS = 60.0
BEGUN = "2027-03-08T08:41:00+01:00"

TALK = {
    "remind me tomorrow at 9 to call Anna": "“call Anna”",
    "Make the trip one day longer in trip.md": "until Monday",
    "Delete the old screenshots in my Pictures": "“/yes 1”",
}
"""What is typed, each with a text that the screen shows when it is time for the next."""
VIEWS = ("today", "knows", "house")
PAGE_TALK = TALK | {"Delete the old screenshots in my Pictures": "delete them"}

MODEL = """
from nanoclaw.core.plugin import Plugin
from nanoclaw.providers.scripted import ScriptedProvider, call

SCRIPTED = ScriptedProvider(
    call("edit_file", {"path": "trip.md", "old": "Friday to Sunday", "new": "Friday to Monday"}),
    "trip.md says Friday to Monday now, so you stay until Monday.",
    call("exec", {"command": "rm ~/Pictures/screenshot-*.png", "beyond": "you asked me to delete them"}),
    model="demo/model",
)


class Demo(Plugin):
    name = "demo"

    def providers(self):
        return {"demo": lambda model: SCRIPTED}
"""

SETTINGS = """\
[model]
name = "demo/model"
[models]
titles = ""
[person]
timezone = "Europe/Berlin"
[plugins]
enabled = ["demo"]
unpinned = "load"
[page]
port = 0
"""

USUAL = ["24292f", "cf222e", "116329", "9a6700", "0969da", "8250df", "1b7c83", "6e7781"]
BRIGHT = ["656d76", "a40e26", "1a7f37", "633c01", "218bff", "a475f9", "3192aa", "8c959f"]
DARK_USUAL = ["484f58", "ff7b72", "3fb950", "d29922", "58a6ff", "bc8cff", "39c5cf", "b1bac4"]
DARK_BRIGHT = ["8b949e", "ffa198", "56d364", "e3b341", "79c0ff", "d2a8ff", "56d4dd", "ffffff"]


class Coloured(Screen):
    """A screen whose cells keep their colours, as the sequences that made them."""

    style = ""

    def _put(self, char: str) -> None:
        before = self.x
        super()._put(char)
        if self.style and self.x != before and char.isprintable():
            place = max(x for x in range(self.x) if self.cells[self.y][x])
            self.cells[self.y][place] = f"\x1b[{self.style}m{char}\x1b[0m"

    def _control(self, found: re.Match[str]) -> None:
        super()._control(found)
        if found[3] == "m":
            self.style = "" if found[2] in ("", "0") else found[2].removeprefix("0;")


def talk() -> None:
    """Run the program, as `nanoclaw` does, on a day that is always the same."""
    from nanoclaw import cli
    from nanoclaw.clock import Clock

    begun, real = datetime.fromisoformat(BEGUN), datetime.now().astimezone()
    Clock.__call__ = lambda self: (begun + (datetime.now().astimezone() - real)).astimezone(self.zone)  # type: ignore
    sys.exit(cli.run(sys.argv[2:]))


COMMAND = [sys.executable, __file__, "talk"]


@contextmanager
def home() -> Iterator[dict[str, str]]:
    """The environment of a person with a home of their own."""
    with tempfile.TemporaryDirectory() as folder:
        pictures, root = Path(folder) / "Pictures", Path(folder) / ".nanoclaw"
        pictures.mkdir()
        for day in (3, 4, 5):
            (pictures / f"screenshot-{day}.png").touch()
        (root / "plugins").mkdir(parents=True)
        (root / "workspace").mkdir()
        (root / "config.toml").write_text(SETTINGS)
        (root / "config.toml").chmod(0o600)
        (root / "plugins" / "demo.py").write_text(MODEL)
        (root / "workspace" / "trip.md").write_text("# Lisbon\n\nFriday to Sunday\n")
        environment = {"HOME": folder, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        subprocess.run([*COMMAND, "-m", "/help"], env=environment, check=True, capture_output=True)  # the first start
        yield environment


def screen() -> Screen:
    """The screen after the whole talk."""
    with home() as environment:
        process, terminal = pty.fork()
        if process == 0:
            termios.tcsetwinsize(0, (ROWS, COLUMNS))
            os.chdir(environment["HOME"])
            os.execve(sys.executable, COMMAND, environment)
        shown = Coloured(COLUMNS, ROWS)
        try:
            _wait(terminal, shown, "›")
            for said, answer in TALK.items():
                os.write(terminal, f"{said}\r".encode())
                _wait(terminal, shown, answer)
        finally:
            os.kill(process, signal.SIGTERM)
            os.waitpid(process, 0)
            os.close(terminal)
        return shown


def pages() -> dict[str, bytes]:
    """The page after the same talk, light and dark."""
    from playwright.sync_api import sync_playwright

    from nanoclaw.plugins.browse.plugin import executable

    with home() as environment, sync_playwright() as driver:
        folder = environment["HOME"]
        gateway = subprocess.Popen(
            [*COMMAND, "web"], env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert gateway.stdout
            link = next(found[0] for line in gateway.stdout if (found := re.search(r"http://\S+#\S+", line)))
            path = executable("", environment["PATH"])
            chromium = driver.chromium.launch(executable_path=path, chromium_sandbox=os.geteuid() != 0)
            size = {"width": 1080, "height": 900}
            page = chromium.new_page(viewport=size, timezone_id="Europe/Berlin", locale="en-GB")
            page.clock.install(time=BEGUN)
            page.goto(link)
            field = page.locator("textarea")
            for said, answer in PAGE_TALK.items():
                field.fill(said)
                field.press("Enter")
                page.get_by_text(answer).last.wait_for()
                page.wait_for_timeout(1000)
            page.locator(".tool summary").click()
            page.locator(".diff").wait_for()
            page.locator(".log").evaluate("log => { log.scrollTop = log.scrollHeight }")
            field.focus()
            found = dict[str, bytes]()
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                found[f"page-{scheme}.png"] = page.screenshot()
            page.emulate_media(color_scheme="light")
            for view in VIEWS:
                page.goto(f"{link.partition('#')[0]}#/{view}")
                page.locator(".card").first.wait_for()
                page.wait_for_timeout(1000)
                found[f"{view}.png"] = page.screenshot()
            chromium.close()
            return found
        finally:
            gateway.terminate()
            gateway.wait(10)


def _wait(terminal: int, shown: Screen, text: str) -> None:
    """Read until a text is shown, and nothing comes after it."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        if select.select([terminal], [], [], 1.0)[0]:
            shown.feed(os.read(terminal, 65536).decode(errors="ignore"))
        elif text in _plain(shown):
            return
        if time.monotonic() > end:
            raise SystemExit(f"{text!r} did not come:\n{_plain(shown)}")


def _plain(shown: Screen) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.text)


def draw(lines: list[str], theme: TerminalTheme, name: str) -> str:
    """An SVG of coloured lines, without fonts from elsewhere."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(_joined(line)))
    picture = console.export_svg(title="nanoclaw", theme=theme, unique_id=name)
    picture = picture.replace("Fira Code", "ui-monospace, Menlo, Consolas").replace("rgba(255,255,255,0.35)", "#808080")
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    return re.sub(r'x="([\d.]+)"( y="[\d.]+") textLength="([\d.]+)"([^>]*>)((?:&#160;)+)', _moved, picture)


def _moved(found: re.Match[str]) -> str:
    """The start of a text without its leading blanks, which some programs leave out."""
    blanks = found[5].count("&") * CELL
    return f'x="{float(found[1]) + blanks:g}"{found[2]} textLength="{float(found[3]) - blanks:g}"{found[4]}'


def _joined(line: str) -> str:
    """A line whose neighbouring cells of one colour are one piece."""
    while (joined := re.sub(r"(\x1b\[[\d;]+m)([^\x1b]*)\x1b\[0m\1", r"\1\2", line)) != line:
        line = joined
    return line


def _theme(background: str, foreground: str, usual: list[str], bright: list[str]) -> TerminalTheme:
    return TerminalTheme(_rgb(background), _rgb(foreground), list(map(_rgb, usual)), list(map(_rgb, bright)))


def _rgb(hexadecimal: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(hexadecimal)
    return red, green, blue


if __name__ == "__main__":
    if sys.argv[1:2] == ["talk"]:
        talk()
    lines = screen().lines
    themes = {
        "chat-light": _theme("ffffff", "1f2328", USUAL, BRIGHT),
        "chat-dark": _theme("0d1117", "e6edf3", DARK_USUAL, DARK_BRIGHT),
    }
    for name, theme in themes.items():
        (DOCS / "pictures" / f"{name}.svg").write_text(draw(lines, theme, name), encoding="utf-8")
    for name, picture in pages().items():
        (DOCS / "pictures" / name).write_bytes(picture)
