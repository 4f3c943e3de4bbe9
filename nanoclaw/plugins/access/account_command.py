"""`nanoclaw link --list`, `--approve`, `--remove`: accounts as the owner sees and changes them on the machine."""

from __future__ import annotations

from nanoclaw.core.errors import ConfigError
from nanoclaw.core.messages import Address
from nanoclaw.core.plugin import Host, Tx
from nanoclaw.escapes import one_line, printable
from nanoclaw.installation import start_command
from nanoclaw.plugins.access.accounts import code_in, shown
from nanoclaw.plugins.access.gatekeeper import Gatekeeper

USAGE = "use /link --list, /link --approve CODE [CHANNEL] or /link --remove CHANNEL:ID"


class AccountCommand:
    """Raises ConfigError for what cannot be done."""

    def __init__(self, host: Host, gatekeeper: Gatekeeper) -> None:
        self._host, self._gatekeeper, self._accounts = host, gatekeeper, gatekeeper.accounts

    def carry_out(self, argument: str, tx: Tx) -> str:
        action, _, rest = argument.partition(" ")
        match action:
            case "--list":
                return "\n".join(self._listed()) or f"Nobody yet: {start_command()} link CHANNEL links you."
            case "--approve":
                code, _, channel = rest.rpartition(" ") if code_in(rest) == "" else (rest, "", "")
                return self._approve(tx, code, channel)
            case "--remove":
                return self._remove(tx, rest)
        raise ConfigError(USAGE)

    def _listed(self) -> list[str]:
        """The linked, the listed, and those who ask, a line each."""
        lines = [
            _line(one.channel, one.sender, one.role, f"{one.name or 'no name'}, since {one.since:%Y-%m-%d}")
            for one in self._accounts.all()
        ]
        for channel in self._gatekeeper.channels():
            guests = sorted(self._gatekeeper.rules(channel).allow_from)
            lines += [_line(channel, one, "guest", "allow_from in config.toml") for one in guests]
        for one in self._accounts.requests():
            how = f"{start_command()} link {one.address.channel} --approve {shown(one.code)}"
            lines.append(_line(one.address.channel, one.sender, "asks", f"{one.name or 'no name'}: {how}"))
        return lines

    def _approve(self, tx: Tx, text: str, channel: str) -> str:
        """Let a stranger in as a guest."""
        code = code_in(text)
        found = self._accounts.approve(tx, code, channel) if code else None
        if found is None:
            where = f" on {channel}" if channel else ""
            raise ConfigError(
                f"nobody is waiting with the code {text[:40]!r}{where}; {start_command()} link --list shows who does."
            )
        whom = f"{printable(found.name) or 'they'} (id {printable(found.sender)})"
        return f"{whom} may talk to the assistant on {found.address.channel} now, as a guest: tell them so."

    def _remove(self, tx: Tx, account: str) -> str:
        """End what an account may do, with its jobs."""
        channel, colon, sender = account.partition(":")
        if not colon or not sender:
            raise ConfigError(
                f"write the account as {start_command()} link --list shows it, such as telegram:555, not {account!r}."
            )
        was_linked, schedule = self._accounts.remove(tx, channel, sender), self._host.get("schedule")
        jobs = schedule.remove_all_of(tx, self._gatekeeper.creator(Address(channel, ""), sender)) if schedule else 0
        if sender in self._gatekeeper.rules(channel).allow_from:
            file = self._host.program_home / "config.toml"
            raise ConfigError(f"{account} is in allow_from of [channels.{channel}] in {file}: take it out there.")
        if not was_linked:
            raise ConfigError(f"{account} is not linked; {start_command()} link --list shows who is.")
        return f"{account} is not linked any more.{f' Jobs that were removed with it: {jobs}.' if jobs else ''}"


def _line(channel: str, sender: str, what: str, more: str) -> str:
    return f"{one_line(f'{channel}:{sender}', 100):<30}  {what:<5}  {one_line(more, 200)}"
