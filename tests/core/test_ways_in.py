"""Every hook is asked on every way in: terminal, chat, task, heartbeat, helper, a turn taken up, a line that joins."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.channel import Hints
from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    CheckedCall,
    Inbound,
    Limits,
    ModelRequest,
    Outbound,
    ToolResult,
    UserMessage,
)
from nanoclaw.core.plugin import (
    PROFILES,
    Answer,
    Draft,
    Ended,
    Filter,
    Host,
    Plugin,
    Profile,
    Tool,
    Turn,
    Tx,
    Verdict,
    dump_profile,
    load_profile,
    profile_of,
)
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.providers.scripted import Hang, ScriptedProvider, call
from tests.examples import examples
from tests.program import MAIN, NOON, FakeChannel, Program, bare, running

EXAMPLES = examples(__file__, "ways_in.jsonl")

CHAT = Address("chat", "7")


class Recorder(Plugin):
    """Writes down each hook with the profile of the turn. Who writes in a chat is the owner, and `eve` a guest; what
    no person asked for is answered in the terminal."""

    name = "recorder"

    def __init__(self, host: Host, settings: None) -> None:
        self.public = self._seen = list[tuple[str, str]]()

    def _note(self, hook: str, turn: Turn | None) -> None:
        self._seen.append((hook, turn.profile.name if turn else ""))

    def tools(self) -> list[Tool]:
        async def look(context: ToolContext) -> str:
            """Looks."""
            context.show("looking")
            await asyncio.sleep(0)  # it is shown from the loop
            return "seen"

        return [tool(look, reach="none", open_to=(*PROFILES, "rehearsal"))]

    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound:
        self._seen.append(("on_message", inbound.message.origin))
        return inbound._replace(role="guest" if inbound.sender == "eve" else "owner")

    def conversation_of(self, address: Address) -> Address | None:
        return None

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft:
        self._note("before_turn", turn)
        return draft._replace(remarks=(*draft.remarks, f"seen by the recorder in {turn.address}"))

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits | None:
        self._note("before_model", turn)
        return None

    def after_model(self, request: ModelRequest, answer: AssistantMessage | None, turn: Turn | None) -> None:
        self._note("after_model", turn)

    def stream(self, turn: Turn) -> Filter | None:
        self._note("stream", turn)
        return None

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        self._note("before_tool", turn)
        return None

    def on_progress(self, text: str, turn: Turn) -> str | None:
        self._note("on_progress", turn)
        return None

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult:
        self._note("after_tool", turn)
        return result._replace(text=f"{result.text} by {turn.origin}")

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer:
        self._note("before_answer", turn)
        return Answer(f"{answer.text} (recorded)")

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        self._note("on_end", turn)
        if turn.origin == "person" or ended.outbound is None:
            return None
        return ended._replace(outbound=ended.outbound._replace(address=MAIN))


A_REQUEST = ("before_model", "after_model")
TURN = (
    *("before_turn", *A_REQUEST, "before_tool", "on_progress", "after_tool"),
    *("before_model", "stream", "after_model", "before_answer", "on_end"),
)
"""A turn with one call of a tool."""


def deliver(origin: Any, profile: Profile | None = None) -> Callable[[Program], Awaitable[None]]:
    async def way(program: Program) -> None:
        message = UserMessage("go", program.clock(), origin)
        inbound = Inbound(Address(origin, "1"), "", f"{origin}-1", message, role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, profile))

    return way


async def typed(program: Program) -> None:
    await program.say("go")


async def written(program: Program) -> None:
    await program.write_from(CHAT, "me", "go")


async def written_by_a_guest(program: Program) -> None:
    await program.write_from(CHAT, "eve", "go")


async def written_in_a_group(program: Program) -> None:
    await program.write_from(CHAT, "me", "go", is_group=True, is_mention=True)


OWN = Profile("person", "minimal", only=frozenset({"look"}))
REHEARSAL = Profile("rehearsal", mode="minimal", acts=False)


@pytest.mark.parametrize(
    ("way", "accepted", "profile"),
    [
        (typed, ["person"], "person"),
        (written, ["person"], "person"),
        (written_by_a_guest, ["person"], "guest"),
        (written_in_a_group, ["person"], "guest"),
        (deliver("news"), [], "background"),
        (deliver("news", REHEARSAL), [], "rehearsal"),
        (deliver("subagent", OWN), [], "person"),
    ],
    ids=["terminal", "chat", "guest", "group", "plugin", "rehearsal", "profile of its own"],
)
async def test_every_hook_is_asked_on_every_way_in(
    tmp_path: Path, way: Callable[[Program], Awaitable[None]], accepted: list[str], profile: str
) -> None:
    chat = FakeChannel("chat", Hints(bursts=False))
    with ScriptedProvider(call("look"), "Done.") as model:
        async with bare(tmp_path, model, plugins=[Recorder], others=[chat]) as program:
            await way(program)
            answer: Outbound = await (chat if way.__name__.startswith("written") else program.channel).sent.get()
            assert answer.text == "Done. (recorded)"
            await program.app.conversations.idle()
            seen = program.public("recorder")
            assert [origin for hook, origin in seen if hook == "on_message"] == accepted
            assert [hook for hook, _ in seen if hook != "on_message"] == list(TURN)
            assert {name for hook, name in seen if hook != "on_message"} == {profile}
    first, second = model.requests
    assert "seen by the recorder in" in first.history[0].text
    assert second.history[-1].text.startswith("seen by ")
    assert [spec.name for spec in first.tools] == ["look"]


async def test_every_hook_but_that_of_new_messages_is_asked_of_a_turn_that_is_taken_up_again(tmp_path: Path) -> None:
    hang = Hang("I begin")
    async with bare(tmp_path, ScriptedProvider(call("look"), hang), plugins=[Recorder]) as program:
        await program.say("go")
        await hang.reached.wait()
        await program.app.conversations.close(leave=True)
        seen = [hook for hook, _ in program.public("recorder")]
        assert seen[-1] == "after_model", "also after a request that broke off"
        assert "on_end" not in seen
    with ScriptedProvider(call("look"), "Done.") as model:
        async with bare(tmp_path, model, plugins=[Recorder]) as program:
            assert (await program.answer()).endswith("Done. (recorded)")
            await program.app.conversations.idle()
            assert [hook for hook, _ in program.public("recorder")] == list(TURN)[1:]


async def test_a_line_that_joins_goes_through_the_hooks_of_new_messages_and_ends_with_the_turn(tmp_path: Path) -> None:
    hang = Hang()
    with ScriptedProvider(hang, call("look"), "Done.") as model:
        async with bare(tmp_path, model, plugins=[Recorder]) as program:
            await program.say("go")
            await hang.reached.wait()
            await program.say("and this")
            assert await program.answer() == "Done. (recorded)"
            await program.app.conversations.idle()
            hooks = [hook for hook, _ in program.public("recorder")]
            assert hooks.count("on_message") == hooks.count("before_turn") == 2
            assert hooks.count("before_model") == hooks.count("after_model") == 3
            assert hooks.count("before_answer") == hooks.count("on_end") == 1
    assert ["seen by the recorder" in message.text for message in model.requests[1].history] == [True, False] * 2


@pytest.mark.parametrize("ending", ["stop", "failure", "limit"])
async def test_the_end_of_a_turn_is_told_for_every_reason(tmp_path: Path, ending: str) -> None:
    class Ending(Plugin):
        name = "ending"

        def __init__(self, host: Host, settings: None) -> None:
            self.public = self._reasons = list[str]()

        def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> None:
            self._reasons.append(ended.reason)

    hang = Hang("I begin")
    steps: dict[str, Any] = {"stop": hang, "failure": RuntimeError("a defect"), "limit": call("look")}
    settings = "[limits]\nrounds = 1\n"
    async with bare(
        tmp_path, ScriptedProvider(steps[ending]), plugins=[Recorder, Ending], settings=settings
    ) as program:
        await program.say("go")
        if ending == "stop":
            await hang.reached.wait()
            await program.say("/stop")
        await program.answer()
        await program.app.conversations.idle()
        expected = {"stop": ["cancelled"], "failure": ["failed"], "limit": ["step_limit"]}
        assert program.public("ending") == expected[ending]


async def test_a_plugin_is_asked_before_a_conversation_is_summed_up_and_what_it_asks_is_accounted_for(
    tmp_path: Path,
) -> None:
    class Keeping(Plugin):
        name = "keeping"

        def __init__(self, host: Host, settings: None) -> None:
            self._host = host
            self.public = self._seen = list[int]()

        async def before_compaction(self, request: ModelRequest, turn: Turn) -> None:
            self._seen.append(len(request.history))
            await self._host.complete(request, turn)

    words = "of the garden and the house " * 2_500
    with ScriptedProvider("One.", "Two.", "Three.", "noted", "Facts: none, three messages about a house.") as model:
        async with bare(tmp_path, model, plugins=[Keeping, Recorder]) as program:
            for number in range(3):
                await program.ask(f"message {number} {words}")
            assert "are now a summary" in await program.ask("/compact")
            assert program.public("keeping") and program.public("keeping")[0] > 1
            hooks = [hook for hook, _ in program.public("recorder")]
            assert hooks.count("before_model") == hooks.count("after_model") == 5
            assert program.rows("SELECT count(*) FROM usage") == [(5,)]


# -- profiles


@pytest.mark.parametrize(("role", "origin", "is_group", "name"), EXAMPLES["one table says what a turn may do"])
def test_one_table_says_what_a_turn_may_do(role: Any, origin: Any, is_group: bool, name: str) -> None:
    inbound = Inbound(MAIN, "", "", UserMessage("", NOON, origin), role=role, is_group=is_group)
    assert profile_of(inbound).name == name
    assert profile_of(inbound) == PROFILES[name]


@pytest.mark.parametrize(
    "profile",
    [
        *PROFILES.values(),
        Profile("helper", only=frozenset({"look"}), model="acme/small", limits=Limits(rounds=3), can_ask=False),
    ],
)
def test_a_profile_is_kept_with_its_message(profile: Profile) -> None:
    assert load_profile(dump_profile(profile)) == profile


@pytest.mark.parametrize("text", ["nobody", "{}", "{", '{"name": 5}'])
def test_a_profile_that_nobody_knows_any_more_is_that_of_a_guest(text: str) -> None:
    assert load_profile(text) == PROFILES["guest"]


async def test_who_may_be_asked_and_who_sees_all(tmp_path: Path) -> None:
    async with running(tmp_path, ScriptedProvider()) as program:
        profiles = program.app.chain.profiles
        assert [*profiles] == ["person", "guest", "background", "incognito", "job", "heartbeat", "helper"]
        assert {*profiles} - {name for name, one in profiles.items() if one.can_ask} == {"incognito", "heartbeat"}
        assert {name for name, one in profiles.items() if one.can_allow} == {"person", "helper", "background"}
        assert {name for name, one in profiles.items() if one.mode == "full"} == {"person", "incognito"}


@pytest.mark.parametrize(
    ("profile", "allowed"),
    [
        (None, {"look", "mine"}),
        (Profile("person", only=frozenset({"look"})), {"look"}),
        (PROFILES["background"], {"look"}),
        (PROFILES["guest"], {"look"}),
    ],
)
async def test_a_call_is_refused_that_its_profile_is_not_open_to(
    tmp_path: Path, profile: Profile | None, allowed: set[str]
) -> None:
    async def mine() -> str:
        """Only the person's."""
        return "mine"

    tools = [tool(mine, reach="none", open_to=("person",))]
    with ScriptedProvider(call("look"), call("mine"), "Done.") as model:
        async with bare(tmp_path, model, plugins=[Recorder], tools=tools) as program:
            inbound = Inbound(MAIN, "", "1", UserMessage("go", NOON, "person"), role="owner")
            program.app.transactions.write_now(lambda tx: tx.deliver(inbound, profile))
            await program.answer()
            shown = [message for message in program.history if isinstance(message, ToolResult)]
            assert {result.name for result in shown if not result.is_error} == allowed
    assert {spec.name for spec in model.requests[0].tools} == allowed


async def test_a_rehearsal_tells_what_it_would_do_and_does_nothing(tmp_path: Path) -> None:
    done = list[str]()

    async def send(text: str) -> str:
        """Sends."""
        done.append(text)
        return "sent"

    tools = [tool(send, open_to=("rehearsal",))]
    with ScriptedProvider(call("send", {"text": "x"}), "I would.") as model:
        async with bare(tmp_path, model, tools=tools) as program:
            inbound = Inbound(MAIN, "", "1", UserMessage("go", NOON, "job"), role="owner")
            program.app.transactions.write_now(lambda tx: tx.deliver(inbound, REHEARSAL))
            assert await program.answer() == "I would."
            (result,) = [message for message in model.requests[1].history if isinstance(message, ToolResult)]
            assert not result.is_error and "rehearsal" in result.text
    assert done == []
