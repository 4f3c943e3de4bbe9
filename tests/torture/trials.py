"""One disturbed day after another: each is seen to be disturbed, started again twice, and looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from tests.forked import Server
from tests.torture import day, lives
from tests.torture.lives import Ended, Job
from tests.torture.power import LOSSES, Disk, Loss
from tests.torture.shim import KILLS, Call, How, read_log

NO_SPACE = ("create", "write", "truncate", "allocate", "mkdir", "rename", "link")
"""Calls that a full disk refuses."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one disturbed day; `broken` are the promises that were."""

    point: str
    broken: tuple[str, ...]


@dataclass
class Trials:
    """`folder` holds one day at a time; a memory disk will do, as what is on a disk is worked out from the log. What is
    left of the last day is copied to `keep`, to be looked at."""

    server: Server
    folder: Path
    sabotage: str = ""
    story: str = ""
    keep: Path | None = None
    _count: int = field(default=0, init=False)

    @cached_property
    def undisturbed(self) -> Undisturbed:
        """The day as it should be, which must keep every promise itself."""
        place = self._place()
        ended = self._run(place, "day", data=True)
        entries, calls = day.read(place / "ledger"), read_log(place / "log")
        assert (ended.signal, ended.status, ended.stderr.count("Traceback")) == (0, 0, 0), ended.stderr
        broken = self._run(place, "check")
        assert not broken.violations and not broken.status, broken
        return Undisturbed(place / "home", tuple(calls), tuple(entries))

    def killed(self, at: int, how: How, random: Random | None = None) -> Outcome:
        """Killed at one call; with `random` perhaps once more at the start after it."""
        place, ended, call = self._disturbed(at, how)
        point = f"{how} {call}"
        if ended.signal != 9 or call is None or call.how != how:
            return self._outcome(place, point, [f"nothing was killed: {ended}"])
        if random and random.random() < 0.3:
            (place / "log").unlink()
            second, how = random.randint(1, 40), random.choice(KILLS)
            if self._run(place, "again", at=second, how=how).signal:
                point += f", then {how} {read_log(place / 'log')[-1]}"
        return self._looked_at(place, point)

    def killed_after(self, calls: int) -> Outcome:
        """Killed at whatever it was doing after so many calls; earlier, if the day was over by then."""
        place = self._place()
        ended = self._run(place, "day", kill_after=calls)
        if not ended.signal:
            shutil.rmtree(place)
            return self.killed_after(calls // 2)
        return self._looked_at(place, f"SIGKILL after {len(read_log(place / 'log'))} calls")

    def refused(self, at: int, how: How) -> Outcome:
        """One call fails, or all from one on: the day goes on, or ends with a sentence."""
        place, ended, call = self._disturbed(at, how)
        entries = day.read(place / "ledger")
        point = f"{how} {call}"
        wrong = [] if call and call.how == how else ["nothing was refused"]
        if ended.signal or ended.status not in (0, 1) or "Traceback" in ended.stderr:
            wrong.append(f"it ended with {ended.signal or ended.status}: {ended.stderr[-300:]}")
        if self.undisturbed.lacks_silently(entries):
            wrong.append("something was not done, and nobody was told")
        return self._looked_at(place, point, wrong)

    def unpowered(self, at: Sequence[int], losses: Iterable[Loss] = LOSSES, seed: int = 1) -> Iterator[Outcome]:
        """The power fails after each of these calls."""
        whole = self.undisturbed
        disk = Disk(whole.home, {"config.toml": day.CONFIG.encode()})
        for call in whole.calls:
            if "/logs" not in call.path:
                disk.do(call)
            for loss in losses if call.number in at else ():
                place = self._place()
                place.mkdir()
                disk.leave(place / "home", loss, Random(seed + call.number))
                entries = [entry for entry in whole.entries if entry["at"] <= call.number]
                (place / "ledger").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
                yield self._looked_at(place, f"power, {loss} lost, {call}")

    def _disturbed(self, at: int, how: How) -> tuple[Path, Ended, Call | None]:
        """A day disturbed at a call, and that call. Threads and other processes end when they end, so a day has some
        calls more or less: where it had too few, it is the call as far from the end."""
        from_the_end = len(self.undisturbed.calls) - at
        while True:
            place = self._place()
            ended = self._run(place, "day", at=at, how=how)
            calls = read_log(place / "log")
            if calls[-1].number >= at:
                return place, ended, next((call for call in calls if call.number == at), None)
            shutil.rmtree(place)
            at = calls[-1].number - max(0, from_the_end)

    def _place(self) -> Path:
        self._count += 1
        return self.folder / f"{self._count:06}"  # of one length: it is in the text of a command

    def _run(self, place: Path, kind: str, **options: Any) -> Ended:
        place.mkdir(exist_ok=True)
        return lives.run(self.server, Job(str(place), kind, sabotage=self.sabotage, story=self.story, **options))

    def _looked_at(self, place: Path, point: str, wrong: Iterable[str] = ()) -> Outcome:
        seen = self._run(place, "check")
        broken = [*wrong, *seen.violations]
        if seen.signal or seen.status:
            broken.append(f"the start after it failed: {seen.stderr[-400:]}")
        return self._outcome(place, point, broken)

    def _outcome(self, place: Path, point: str, broken: Iterable[str]) -> Outcome:
        if self.keep:
            shutil.rmtree(self.keep, ignore_errors=True)
            shutil.copytree(place, self.keep)
        shutil.rmtree(place)
        return Outcome(point.replace(str(place), "").replace(str(self.undisturbed.home), ""), tuple(broken))


@dataclass(frozen=True)
class Undisturbed:
    home: Path
    calls: tuple[Call, ...]
    entries: tuple[dict[str, Any], ...]

    def of_kinds(self, *kinds: str) -> list[int]:
        """The numbers of the calls of these kinds, of all without one."""
        return [call.number for call in self.calls if not kinds or call.kind in kinds]

    def lacks_silently(self, entries: Iterable[dict[str, Any]]) -> bool:
        """Tells whether a disturbed day did less than this one, and said nothing that this one did not."""
        texts = {entry["text"] for entry in self.entries if entry["what"] in ("sent", "shown")}
        told = [
            entry
            for entry in entries
            if entry["what"] in ("refused", "ended")
            or (entry["what"] in ("sent", "shown") and entry["text"] not in texts)
        ]
        said = {entry["text"] for entry in entries if entry["what"] == "sent"}
        return not told and not said >= {entry["text"] for entry in self.entries if entry["what"] == "sent"}
