"""What the program has to remark reaches the owner of a chat app too: once, below an answer; nobody else."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.errors import ProviderRefused
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Address, AssistantMessage, Inbound, ModelRequest, UserMessage
from nanoclaw.core.plugin import Plugin, Tx
from nanoclaw.core.provider import OnEvent
from nanoclaw.plugins.silence.plugin import Silence
from nanoclaw.providers.failover import Failover
from nanoclaw.providers.scripted import ScriptedProvider
from tests.program import FakeChannel, Program, bare

ME, EVE, GROUP = Address("chat", "1"), Address("chat", "2"), Address("chat", "-3")
CUT = "(too long for the model to see in full: AGENTS.md (/context shows how much))"


class Rooms(Plugin):
    """The owner is "me"; the others are guests."""

    name = "rooms"

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound:
        return inbound._replace(role="owner" if inbound.sender == "me" else "guest")


class Noticing(ScriptedProvider):
    """Says something beside its answers."""

    def __init__(self, notices: Iterable[Notice], *answers: str) -> None:
        super().__init__(*answers)
        self._notices = list(notices)

    async def complete(self, request: ModelRequest, on_event: OnEvent) -> AssistantMessage:
        if self._notices:
            on_event(self._notices.pop(0))
        return await super().complete(request, on_event)


def chat() -> FakeChannel:
    return FakeChannel("chat", Hints(bursts=False))


async def asked(program: Program, room: FakeChannel, address: Address, sender: str, text: str = "hello") -> str:
    await program.write_from(address, sender, text, is_group=address == GROUP, is_mention=True)
    return (await room.sent.get()).text


async def test_a_cut_file_is_told_to_the_owner_once_and_to_nobody_else(tmp_path: Path) -> None:
    room, model = chat(), ScriptedProvider(*["Hi."] * 5)
    async with bare(tmp_path, model, others=[room], plugins=[Silence, Rooms]) as program:
        (program.workspace / "AGENTS.md").write_text("Be brief. " * 10_000)
        assert await asked(program, room, EVE, "eve") == "Hi."
        assert await asked(program, room, GROUP, "me") == "Hi."
        assert await asked(program, room, ME, "me") == f"Hi.\n\n{CUT}"
        assert await asked(program, room, ME, "me") == "Hi."
        assert await program.ask("hello") == "Hi.", "a terminal shows it as a notice"
        history = program.app.sessions.of(ME).history
        assert [one.text for one in history if isinstance(one, AssistantMessage)] == ["Hi.", "Hi."]


async def test_a_spare_model_that_answered_a_guest_is_told_to_the_owner_next(tmp_path: Path) -> None:
    room = chat()
    first, spare = ScriptedProvider(*[ProviderRefused("no credit left")] * 3), ScriptedProvider(*["Hi."] * 3)
    model = Failover([("a/one", lambda: first), ("b/two", lambda: spare)])
    async with bare(tmp_path, model, others=[room], plugins=[Silence, Rooms]) as program:
        assert await asked(program, room, EVE, "eve") == "Hi."
        answer = await asked(program, room, ME, "me")
        assert answer.startswith("Hi.\n\n(") and "asking b/two instead)" in answer
        assert await asked(program, room, ME, "me") == "Hi."


@pytest.mark.parametrize(("said", "shown"), [("Fine.", "Fine.\n\n({})"), ("NO_REPLY", "({})")])
async def test_pictures_that_a_model_cannot_see_are_told_also_where_it_says_nothing(
    tmp_path: Path, said: str, shown: str
) -> None:
    room, blind = chat(), "openai/x cannot see images; they are left out"
    model = Noticing([Notice(blind, stays="owner"), Notice("loading")], said, "Well.")
    async with bare(tmp_path, model, others=[room], plugins=[Silence, Rooms]) as program:
        assert await asked(program, room, ME, "me") == shown.format(blind)
        assert await asked(program, room, ME, "me") == "Well.", "what only matters meanwhile is not written"


async def test_no_job_tells_it_but_the_owners_next_answer_does(tmp_path: Path) -> None:
    room, spare = chat(), "a is down; asking b instead"
    model = Noticing([Notice(spare, stays="owner")], "Watered.", "Hi.")
    async with bare(tmp_path, model, others=[room], plugins=[Silence, Rooms]) as program:
        task = Inbound(ME, "", "job-1", UserMessage("water the plants", program.clock(), "job"), role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(task))
        assert (await room.sent.get()).text == "Watered."
        assert await asked(program, room, ME, "me") == f"Hi.\n\n({spare})"
