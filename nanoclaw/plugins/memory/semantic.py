"""The second opinion by vectors: made while nothing else is to be done, and of each question when it is asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from operator import methodcaller
from typing import TypeVar

from nanoclaw.core.errors import ContextTooLong, LimitReached, NanoclawError, ProviderError, ProviderRefused
from nanoclaw.core.plugin import Finding, Host
from nanoclaw.core.provider import EmbeddingModel
from nanoclaw.plugins.memory.query import is_small_talk
from nanoclaw.plugins.memory.search import NoteSearch
from nanoclaw.plugins.memory.vectors import LONGEST, VectorTable, cohort_texts

T = TypeVar("T")

QUERY_SECONDS = 1.5  # the longest that a message waits for its vector; without, its words alone are looked for
BATCH, LOCAL_BATCH = 32, 8
"""Texts of one request, and of one turn of the model inside this process, for which a question waits."""
BATCH_SECONDS = 60.0
PLANNED = 512  # lines that are looked up at once
LOOK_AGAIN_SECONDS = 300.0
"""Period of a look for lines that an editor changed; a message that ends is followed by one, too."""

END_SECONDS, LAST_SECONDS = 2.0, 4.0
"""Time in which a process that ends continues making them, and in which what it has begun must end."""

PAUSE = 300.0  # seconds in which a model that failed is not asked


class SecondOpinion:
    """Raises nothing: where the model cannot be asked, recall uses words alone, and status says why."""

    def __init__(self, host: Host, model: EmbeddingModel, search: NoteSearch) -> None:
        self._host, self._model, self._search = host, model, search
        self._redact = host.redact
        self.trouble = ""
        self._asked_again = 0.0
        self._refused: set[int] = set()
        self._woken = asyncio.Event()
        self._making = asyncio.Lock()
        self._has_run = self._is_anew = False

    async def vector_of(self, text: str, *, is_meant: bool = False) -> Sequence[float] | None:
        """The vector of a question; None if there is none in time, or nothing to compare it with, and for small talk
        unless that `is_meant`, as the words of a search are."""
        if self._is_paused or (is_small_talk(text) and not is_meant):
            return None
        size = await self._vectors(lambda vectors: vectors.size, 0)
        try:
            if size:
                async with asyncio.timeout(QUERY_SECONDS):
                    (vector,) = await self._embed([text], is_query=True, seconds=QUERY_SECONDS)
                if len(vector) == size:
                    return vector
                await self._vectors(lambda vectors: vectors.begin(), None)  # another model goes by that name now
        except TimeoutError:
            self._failed(f"{self._model.name} took more than {QUERY_SECONDS:g} s for a question")
        except NanoclawError as error:
            self._failed(str(error), error)
        return None

    def wake(self) -> None:
        """Have a look for lines without a vector."""
        self._woken.set()

    async def run(self) -> None:
        """Make what is missing, now and whenever something may have changed."""
        self._has_run = True
        while True:
            self._woken.clear()
            left = LOOK_AGAIN_SECONDS if await self.make() else max(self._asked_again - _now(), 0.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._woken.wait()

    async def finish(self) -> None:
        """Go on for a moment, in a process that was there for one answer."""
        if not self._has_run:
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    await self.make(END_SECONDS)
            except TimeoutError:
                self._failed(f"{self._model.name} took more than {LAST_SECONDS:g} s for some lines")

    async def make(self, seconds: float = math.inf) -> bool:
        """Make vectors of the lines that have none, until all have one or time is over; False if the model cannot be
        asked now."""
        async with self._making:
            until = _now() + seconds
            try:
                while not self._is_paused:
                    if not await self._make_some(until):
                        return True
            except NanoclawError as error:
                self._failed(str(error), error)
            return False

    async def _make_some(self, until: float) -> bool:
        """False when all is done, or time is over. Raises NanoclawError."""
        none = list[tuple[int, str]](), True
        missing, is_all = await self._vectors(lambda vectors: vectors.missing(PLANNED), none, follows=True)
        todo = iter([(key, text) for key, text in missing if key not in self._refused])
        is_local = self._model.name.startswith("local/")
        while batch := dict(islice(todo, LOCAL_BATCH if is_local else BATCH)):
            if not await self._vectors(lambda vectors: vectors.has_begun, True):
                await self._begin()
            if _now() >= until:
                return False
            made = await self._made_of(batch)
            is_added = await self._vectors(methodcaller("add", made), False, writes=True)
            if not is_added and not self._is_anew:
                self._is_anew = True
                return True  # another model goes by that name now: all is made anew
            if not is_added:
                raise ProviderError(f"{self._model.name} sends vectors of different lengths.")
            self._is_anew = False
        return not is_all or any(key not in self._refused for key, _ in missing)

    async def _begin(self) -> None:
        texts = cohort_texts()
        cohort = await self._embed(texts, seconds=BATCH_SECONDS)
        await self._vectors(lambda vectors: vectors.begin(cohort), None, writes=True)

    async def _made_of(self, batch: Mapping[int, str]) -> dict[int, Sequence[float]]:
        """Vectors by key; of texts that are refused by themselves none. Raises NanoclawError."""
        try:
            vectors = await self._embed([*batch.values()], seconds=BATCH_SECONDS)
            return dict(zip(batch, vectors, strict=True))
        except LimitReached:
            raise
        except (ProviderRefused, ContextTooLong):
            await self._embed(cohort_texts()[:1], seconds=BATCH_SECONDS)  # raises where it isn't for these texts
        made = dict[int, Sequence[float]]()
        for key, text in batch.items():
            try:
                (made[key],) = await self._embed([text], seconds=BATCH_SECONDS)
            except (ProviderRefused, ContextTooLong):
                self._refused.add(key)
        return made

    async def _embed(
        self, texts: Sequence[str], *, is_query: bool = False, seconds: float
    ) -> Sequence[Sequence[float]]:
        """Raises NanoclawError."""
        sent = [self._redact(text[:LONGEST]) for text in texts]
        made = await self._host.embed(self._model, sent, is_query=is_query, seconds=seconds)
        self.trouble, self._asked_again = "", 0.0
        return made.vectors

    async def _vectors(
        self, do: Callable[[VectorTable], T], otherwise: T, *, follows: bool = False, writes: bool = False
    ) -> T:
        return await asyncio.to_thread(self._search.with_vectors, do, otherwise, follows=follows, writes=writes)

    @property
    def _is_paused(self) -> bool:
        return self._asked_again > _now()

    def _failed(self, why: str, error: NanoclawError | None = None) -> None:
        if why != self.trouble:
            self._host.log.warning("notes are found by words alone for now: {}", why)
        self.trouble = why
        self._asked_again = _now() + max(PAUSE, getattr(error, "retry_after", None) or 0.0)

    async def check(self, deep: bool) -> Finding:
        if deep:
            try:
                await self._embed(cohort_texts()[:1], is_query=True, seconds=BATCH_SECONDS)
            except NanoclawError as error:
                self._failed(str(error), error)
        made, lines = await self._vectors(lambda vectors: vectors.progress(), (0, 0), follows=True)
        text = f"{made:,} of {lines:,} lines ({self._model.name})"
        if self.trouble:
            return Finding(False, f"{text}; recall uses words alone: {self.trouble}", "vectors")
        return Finding(True, text, "vectors")


def _now() -> float:
    return asyncio.get_running_loop().time()
