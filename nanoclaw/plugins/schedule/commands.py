"""/remind and /jobs, from the text after the name."""

from __future__ import annotations

import re
from typing import Any

from nanoclaw import time_words
from nanoclaw.core.errors import ScheduleError
from nanoclaw.core.messages import Address, Effect, Inbound, Role
from nanoclaw.core.plugin import Host, Reply, Said, Tx
from nanoclaw.plugins.schedule.job_service import NO_JOBS, NO_TEXT, JobRequest, JobService, creator
from nanoclaw.plugins.schedule.requests import Asked
from nanoclaw.plugins.schedule.tables import EVERYWHERE, REMOVED


class JobCommands:
    """Each is called with what was said and the transaction that ends its message."""

    def __init__(self, host: Host, service: JobService) -> None:
        self._host, self._service = host, service

    def remind(self, said: Said, tx: Tx) -> str:
        return self._add(said, said.argument, "/remind tomorrow at 9: call Anna", tx)

    def asked(self, inbound: Inbound, asked: Asked, tx: Tx) -> str:
        """Set a reminder that was asked for in the person's own words; the sentence for them in every case."""
        is_owner = inbound.role == "owner" and not inbound.is_group
        profile = inbound.profile or ("person" if is_owner else "guest")
        role: Role = "owner" if is_owner else "guest"
        place = inbound.conversation or inbound.address
        said = Said(asked.text, place, inbound.address, inbound.sender, role, profile, inbound.is_group)
        try:
            return self._made(said, JobRequest(asked.when, asked.text, language=asked.language), said.address, tx)
        except ScheduleError as error:
            return str(error)

    def jobs(self, said: Said, tx: Tx) -> Reply | str:
        if not said.shell:
            return self._jobs(said, tx)
        try:
            done = self._jobs(said, tx)
        except ScheduleError as error:
            raise ScheduleError(_for_a_shell(str(error), said.shell)) from error
        if isinstance(done, Reply):  # a list, whose texts are the person's
            return done._replace(text=_for_a_shell(done.text, said.shell)) if done.text == NO_JOBS else done
        return _for_a_shell(done, said.shell)

    def _jobs(self, said: Said, tx: Tx) -> Reply | str:
        action, _, rest = said.argument.partition(" ")
        rest, service = rest.strip(), self._of(said)
        match action:
            case "" | "list":
                return Reply(service.table(), service.data())
            case "add":
                return self._add(said, rest, "/jobs add every weekday at 7:30: stand up, or /jobs add task …", tx)
            case "next":
                lines = (times := self._next(service, rest)).text.split("\n")
                more = [f"and {len(lines[MOST_IN_CHAT:])} more"] if lines[MOST_IN_CHAT:] else []
                return times if said.shell else times._replace(text="\n".join([*lines[:MOST_IN_CHAT], *more]))
            case "runs" if said.profile in EVERYWHERE:
                return service.runs(number(rest) if rest else None)
            case "remove":
                told = service.remove(tx, number(rest))
                self.record(tx, Effect("/cron", REMOVED, f"job {number(rest)}", told), said.conversation)
                return told
            case "pause" | "resume" | "run":
                return str(getattr(service, action)(tx, number(rest)))
        raise ScheduleError(f"/jobs list, add, next, remove, pause, resume, run, runs or rehearse ID: not {action!r}")

    def _next(self, service: JobService, argument: str) -> Reply:
        """`(ID | --cron EXPR) [--tz ZONE] [--from ISO] [-n N]`"""
        what, *options = _NEXT.split(f" {argument} ")
        given = {name: value.strip(" \"'") for name, value in zip(options[::2], options[1::2], strict=True)}
        if bool(what.strip()) == ("--cron" in given):
            raise ScheduleError("Give the number of a job, or an expression: /jobs next --cron '0 9 * * 1-5'")
        job = None if "--cron" in given else service.job(number(what))
        zone = given.get("--tz") or (job.zone if job else service.zone)
        reading = job.reading if job else time_words.Cron(given["--cron"], zone)
        count = given.get("-n", "5")
        if not (count.isascii() and count.isdecimal() and int(count[:9])):
            raise ScheduleError(f"Say how many times are wanted, such as -n 10, not {count!r}.")
        return service.upcoming(reading, zone, given.get("--from", ""), min(MOST_TIMES, int(count[:9])))

    def _of(self, said: Said) -> JobService:
        return self._service if said.profile in EVERYWHERE else self._service.within(said.address)

    def _add(self, said: Said, argument: str, example: str, tx: Tx) -> str:
        """`[task] [--skip] [--nag 10m x6] [--zone Z] [--to CHANNEL:CHAT] [--may-schedule] [--plan]
        WHEN: TEXT`"""
        service = self._of(said)
        asked, target, rest = _flags(argument.strip(), said.address)
        if rest.endswith(":") and not _COLON.search(rest):
            raise ScheduleError(NO_TEXT)
        parts = [part.strip() for part in _COLON.split(_ME.sub("", rest), maxsplit=1)]
        if len(parts) == 1 or _ME.match(rest):
            parts = time_words.split(_ME.sub("", rest), self._host.now(), asked.zone or service.zone) or parts
        if len(parts) == 1:
            parts = [part.strip() for part in _TIGHT_COLON.split(rest, maxsplit=1)]
        if len(parts) != 2 or not all(parts):
            raise ScheduleError(f"Say when, a colon and a text, such as {example}")
        when, text = parts
        if not asked.nag and (nag := _NAG_AT_END.search(text)):
            asked, text = asked._replace(nag=nag[1]), text[: nag.start()].strip()
        return self._made(said, asked._replace(when=when, text=text), target, tx)

    def _made(self, said: Said, asked: JobRequest, target: Address, tx: Tx) -> str:
        maker = creator(self._host, said.address, said.sender)
        made, told = self._of(said).add(tx, asked, target, maker)
        effect = Effect("/cron", "job", f"job {made.id}", f"set {self._service.in_short(made)}")
        self.record(tx, effect, said.conversation)
        return told

    def record(self, tx: Tx, effect: Effect, conversation: Address) -> None:
        """Let /undo know of a change that the person made."""
        if undo := self._host.get("undo"):
            undo.record(tx, effect, conversation)


def _for_a_shell(text: str, start: str) -> str:
    """The same with the commands that it names as a shell takes them."""
    return re.sub("/(?=jobs|remind)", f"{start} ", text)


def _flags(rest: str, target: Address) -> tuple[JobRequest, Address, str]:
    """Flags that stand first or last, and the rest."""
    asked = JobRequest("", "")
    while found := _FLAG_AT_END.search(rest):
        rest = f"{found[1]} {rest[: found.start()]}"
    while found := _FLAG.match(rest):
        rest = rest[found.end() :]
        flag, value = (found[1] or found[2]).lower(), found[3]
        if flag == "--to":
            target = _address(value)
        else:
            asked = asked._replace(**_MEANS.get(flag, {flag[2:]: value}))
    return asked, target, rest


_MEANS: dict[str, dict[str, Any]] = {
    "task": {"kind": "task"},
    "--task": {"kind": "task"},
    "--skip": {"on_miss": "skip"},
    "--may-schedule": {"may_schedule": True},
    "--plan": {"plans": True},
}
_FLAG = re.compile(
    r"(?i)(task|--task|--skip|--may-schedule|--plan)\s+|(--zone|--to|--nag)[ =](\S+(?:\s*[x×]\s*\d+(?=\s))?)\s+"
)
_NEXT = re.compile(r"\s(--cron|--tz|--from|-n)[ =]")
MOST_TIMES, MOST_IN_CHAT = 1000, 20  # that `nanoclaw jobs next` and /jobs next list
_COLON, _TIGHT_COLON = re.compile(r"[:：](?=\s)"), re.compile(r"[:：](?!\d)")
_FLAG_AT_END = re.compile(r"(?i)\s(--(?:task|skip|may-schedule|plan|(?:zone|to|nag)[ =]\S+(?:\s*[x×]\s*\d+)?))$")
_ME = re.compile(r"^me\s+", re.IGNORECASE)
_NAG_AT_END = re.compile(
    r"[\s,;-]*\bnag(?:\s+every)?\s+(\d+\s*\w+(?:\s*[x×]\s*\d+|\s+\d+\s+times)?)\s*$", re.IGNORECASE
)


def number(text: str) -> int:
    """A job's number, as it is shown."""
    bare = text.strip().removeprefix("job ").lstrip("#")
    if not (bare.isascii() and bare.isdecimal() and len(bare) < 10):
        raise ScheduleError(f"Give the number of a job, as /jobs lists them, not {text.strip()!r}.")
    return int(bare)


def _address(text: str) -> Address:
    channel, colon, chat = text.partition(":")
    if not (channel and colon and chat):
        raise ScheduleError(f"Not an address: {text!r}. Write it like terminal:main.")
    return Address(channel, chat)
