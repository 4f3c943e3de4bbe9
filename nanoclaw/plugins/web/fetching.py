"""web_fetch: one page, read, kept for an hour, and shown as far as it is worth a model's window."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin
from urllib.robotparser import RobotFileParser

from nanoclaw.core.errors import ToolError
from nanoclaw.core.messages import UserMessage
from nanoclaw.core.plugin import Host, ToolOutput
from nanoclaw.core.tool import ToolContext
from nanoclaw.net.page import BadStatus, FetchedPage, fetch
from nanoclaw.net.public import NetError, NotReached, WebHost, host_of, shown
from nanoclaw.outputs import Outputs, hint
from nanoclaw.plugins.web.contents import MOST_BYTES, PageContents, UnreadablePage, contents
from nanoclaw.tokenizer import tokens

if TYPE_CHECKING:
    from collections.abc import Collection


LONGEST_PASSAGE = 1_500
GAP = "\n\n[…]\n\n"


def fitting(text: str, question: str, most: int) -> str:
    """Passages by their rank of BM25, up to a number of characters, in the order of the text; '' if no word of the
    question is in it."""
    from rank_bm25 import BM25Plus

    passages, wanted = _passages(text), set(tokens(question))
    terms = [tokens(passage) for passage in passages]
    if not any(wanted.intersection(one) for one in terms):
        return ""
    scores = BM25Plus(terms).get_scores(sorted(wanted))
    ranked = sorted(range(len(passages)), key=lambda at: (-scores[at], at))
    chosen, left = list[int](), most
    for at in ranked:
        if not wanted.intersection(terms[at]):
            break
        if len(passages[at]) <= left:
            chosen.append(at)
            left -= len(passages[at]) + len(GAP)
    return _joined(passages, sorted(chosen))


def _joined(passages: list[str], chosen: list[int]) -> str:
    """Passages in their order, with a mark where something lies between two."""
    parts, before = list[str](), -1
    for at in chosen:
        parts += [GAP if at != before + 1 else "\n\n", passages[at]]
        before = at
    return "".join(parts[1:]) + (GAP.rstrip() if before < len(passages) - 1 else "")


def _passages(text: str) -> list[str]:
    """Paragraphs, a heading with the one that follows it; long ones in pieces, short ones of a list together."""
    found, heading = list[str](), ""
    for block in re.split(r"\n[ \t]*\n", text):
        if not block.strip():
            continue
        if block.startswith("#") and "\n" not in block:
            heading = f"{heading}{block}\n\n"
            continue
        found += _pieces(heading + block)
        heading = ""
    return found + ([heading.strip()] if heading else [])


def _pieces(block: str) -> list[str]:
    pieces, piece = list[str](), ""
    for line in re.split(r"(?<=\n)|(?<=[.!?。！？])(?=\s)", block):
        for start in range(0, max(1, len(line)), LONGEST_PASSAGE):
            part = line[start : start + LONGEST_PASSAGE]
            if piece and len(piece) + len(part) > LONGEST_PASSAGE:
                pieces.append(piece.strip())
                piece = ""
            piece += part
    return [*pieces, piece.strip()] if piece.strip() else pieces


SECONDS = 30.0
"""For one page in all, redirects and reading too."""

REDIRECTS = 5
WHOLE, HEAD, TAIL = 12_000, 8_000, 2_000
"""Characters of a page that is shown whole, and of the head and tail of a longer one."""

PASSAGES, BEGIN = 6_000, 500
"""Characters of the passages that fit a question, and of the beginning that is above them."""

ERROR_CHARACTERS = 1_000
"""Of what a server says beside an error."""

AGENT = "nanoclaw"

_ORIGINS = ("person", "job")


class Fetching:
    """Fetches pages for the turns of one program."""

    def __init__(self, host: Host, allow: Collection[str]) -> None:
        self._host, self._allow = host, allow
        self._outputs, self._pages = Outputs(host.workspace), KeptPages()
        self._robots = Robots(self._page, AGENT)

    def clear(self) -> None:
        """Forget what is kept."""
        self._pages.clear()
        self._robots.clear()

    async def fetch(self, context: ToolContext, url: str, question: str) -> ToolOutput:
        """The page at an address, or the passages of it that fit a question. Raises ToolError."""
        url, question = url.strip(), question.strip()
        if not url:
            raise ToolError("the page was not read: its address is empty.")
        try:
            async with asyncio.timeout(SECONDS):
                if "://" in url:
                    return await self._read(context, url, question)
                try:
                    return await self._read(context, f"https://{url}", question)
                except NotReached:
                    return await self._read(context, f"http://{url}", question)
        except BadStatus as error:
            return _refused(url, error.page)
        except NotReached as error:
            raise ToolError(f"{shown(url)} was not read: {error}.") from None
        except NetError as error:
            if error.opens:
                raise ToolError(f"{shown(url)} was not read: {error}.{error.opens}") from None
            return _failed(url, f"{shown(url)} was not read: {error}.")
        except UnreadablePage as error:
            return _failed(url, str(error))
        except TimeoutError:
            raise ToolError(f"{shown(url)} was not read: it gave no complete answer within {SECONDS:.0f} s.") from None

    async def _read(self, context: ToolContext, url: str, question: str) -> ToolOutput:
        host, now = host_of(url), self._host.now()
        found = self._pages.get(url, now)
        if found is None or (context.profile == "job" and found.turn != context.turn):  # a job looks for news
            is_alone = context.profile == "job" and not self._is_asked_for(context, host)
            if is_alone and await self._robots.forbid(url, now):
                raise ToolError(
                    f"{shown(url)} was not read: the robots.txt of {host.named} asks programs not to read it by "
                    "themselves. It is read if the person asks for this address."
                )
            page = await self._page(url, MOST_BYTES)
            read = await self._contents(page)
            if read.images:
                return ToolOutput(read.text, read.images, page.url)
            found = KeptPage(page.url, read.about, read.text, now, context.turn)
            if "no-store" not in page.headers.get("cache-control", ""):
                self._pages.keep(url, found)
        text = await asyncio.to_thread(self._shown, found, question, now)  # words of megabytes are counted
        return ToolOutput(text, outside=found.url)

    async def _page(self, url: str, most_bytes: int) -> FetchedPage:
        return await fetch(url, most_bytes, allow=self._allow, redirects=REDIRECTS)

    async def _contents(self, page: FetchedPage) -> PageContents:
        stopped = threading.Event()
        try:
            return await asyncio.to_thread(contents, page, stopped)
        finally:
            stopped.set()  # when this is cancelled, the thread is not, and ends by itself

    def _is_asked_for(self, context: ToolContext, host: WebHost) -> bool:
        """True if the words of the person, or of their job, name the site."""
        history = self._host.conversations.of(context.conversation).history
        said = (one.text for one in history if isinstance(one, UserMessage) and one.origin in _ORIGINS)
        return any(host.host in text.casefold() for text in said)

    def _shown(self, page: KeptPage, question: str, now: datetime) -> str:
        age = int((now - page.at).total_seconds() // 60)
        head = " · ".join(filter(None, (page.about, f"read {age} min ago" if age else "")))
        text, whole = page.text, "\n\n".join(filter(None, (page.url, page.about, page.text)))
        if question and len(text) > PASSAGES + BEGIN:
            begin, passages = text[:BEGIN].strip(), fitting(text, question, PASSAGES)
            text = f"{begin} […]\n\n[What fits the question best:]\n\n{passages}" if passages else _ends(text)
            if not passages:
                text = f"[No word of the question is in it.]\n\n{text}"
            text = f"{text}\n\n{hint(self._outputs.keep('web_fetch', whole))}"
        elif len(text) > WHOLE:
            text = f"{_ends(text)}\n\n{hint(self._outputs.keep('web_fetch', whole))}"
        return f"{head}\n\n{text}" if head else text


def _ends(text: str) -> str:
    left_out = f"{len(text) - HEAD - TAIL:,} characters"
    return f"{text[:HEAD]}\n[... {left_out} left out ...]\n{text[-TAIL:]}" if len(text) > HEAD + TAIL else text


def _failed(url: str, text: str) -> ToolOutput:
    """The result where a server sent something else than a page: some of the words may be its own."""
    return ToolOutput(text, outside=shown(url), is_error=True)


def _refused(url: str, page: FetchedPage) -> ToolOutput:
    """The result where a server gave no page, with what it says about that."""
    said = page.text.strip() if page.kind.startswith("text/") or "json" in page.kind else ""
    said = said if len(said) <= ERROR_CHARACTERS else f"{said[:ERROR_CHARACTERS]} […]"
    again = page.headers.get("retry-after", "")
    wait = f" It asks to wait ({again[:40]})." if again else ""
    at = "" if page.url == url else f" at {page.url}"
    why = _STATUS.get(page.status[:3], "")
    text = f"{shown(url)} was not read: the server answered {page.status}{at}{why}.{wait}"
    return ToolOutput(f"{text}\n\n{said}".strip(), outside=page.url, is_error=True)


_STATUS = {
    "401": ", which requires a login",
    "402": ", which requires a payment",
    "403": ", which refuses this program",
    "404": ": there is no such page",
    "410": ": the page is gone",
    "429": ": too many requests",
    "451": ", for legal reasons",
}


KEPT_FOR = timedelta(hours=1)
MOST_PAGES, MOST_CHARACTERS = 50, 3_000_000


class KeptPage(NamedTuple):
    """A page as it was read: `url` is where it was found, `turn` the one that fetched it."""

    url: str
    about: str
    text: str
    at: datetime
    turn: int


class KeptPages:
    def __init__(self) -> None:
        self._pages: dict[str, KeptPage] = {}

    def get(self, asked: str, now: datetime) -> KeptPage | None:
        found = self._pages.get(asked)
        return found if found and timedelta() <= now - found.at < KEPT_FOR else None

    def keep(self, asked: str, page: KeptPage) -> None:
        """Keep a page by the address it was asked for at and the one where it was found; the oldest ones go."""
        for url in (asked, page.url):
            self._pages.pop(url, None)
            self._pages[url] = page
        self._pages = {url: one for url, one in self._pages.items() if page.at - one.at < KEPT_FOR}
        while len(self._pages) > MOST_PAGES or sum(len(one.text) for one in {*self._pages.values()}) > MOST_CHARACTERS:
            del self._pages[next(iter(self._pages))]

    def clear(self) -> None:
        self._pages.clear()


MOST_SITES = 100
ROBOTS_BYTES = 500_000


class Robots:
    """Asks each site once an hour."""

    def __init__(self, fetch: Callable[[str, int], Awaitable[FetchedPage]], agent: str) -> None:
        self._fetch, self._agent = fetch, agent
        self._sites: dict[str, tuple[datetime, RobotFileParser]] = {}

    async def forbid(self, url: str, now: datetime) -> bool:
        """True if a site asks programs not to read an address. One without a robots.txt forbids nothing."""
        where = urljoin(url, "/robots.txt")
        at, rules = self._sites.get(where, (None, None))
        if at is None or rules is None or now - at >= KEPT_FOR:
            rules = RobotFileParser()
            try:
                lines = (await self._fetch(where, ROBOTS_BYTES)).text.splitlines()
            except NetError:
                lines = []
            rules.parse(lines)
            self._sites[where] = (now, rules)
            while len(self._sites) > MOST_SITES:
                del self._sites[next(iter(self._sites))]
        return not rules.can_fetch(self._agent, url)

    def clear(self) -> None:
        self._sites.clear()
