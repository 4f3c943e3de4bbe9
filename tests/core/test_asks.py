"""Questions to the owner: a turn waits on disk for yes or no, over a restart, and goes on from exactly there."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from nanoclaw.core import records
from nanoclaw.core.messages import Address, CheckedCall, Inbound, Outbound, UserMessage
from nanoclaw.core.plugin import BACKGROUND, Ask, Command, Host, Plugin, Said, Scope, Tool, Turn, Tx, Verdict
from nanoclaw.core.tool import tool
from nanoclaw.plugins.approvals.asks import Asks, Question
from nanoclaw.plugins.approvals.plugin import Approvals
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.program import MAIN, HandClock, Program, assert_legal, bare, results
from tests.virtual_time import passed, virtual_time

NO = "the person said no, so nothing was done. Accept that, and don't try it another way."
LATE = "the person was asked for a yes and did not answer in time, so nothing was done. Tell them."


def nobody_for(question: str) -> str:
    """The result of a call that asks where nobody is."""
    return (
        f"nobody is there to be asked for a yes (“{question}”), so nothing was done. Say in your answer what needs "
        "their yes."
    )


class Asker(Plugin):
    """Asks about every call of `send` in the terminal; /yes 1 and /no 1 answer. `there` is False while nobody is."""

    name, migrations = "asker", Approvals.migrations[-1:]

    def __init__(self, host: Host, settings: None) -> None:
        self.asker = self.public = Terminal(host)

    async def aclose(self) -> None:
        self.public.close()

    def commands(self) -> list[Command]:
        return [
            Command("yes", "does it", lambda said, tx: self._answer(said, "yes")),
            Command("no", "does not", lambda said, tx: self._answer(said, "no")),
        ]

    def _answer(self, said: Said, word: str) -> str:
        return "Fine." if self.public.note(int(said.argument), word) else "Nothing is asked."

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        return Ask(f"May I send {call.arguments['text']}?") if call.name == "send" else None


class Terminal(Asks):
    """Where the owner is asked."""

    def __init__(self, host: Host) -> None:
        super().__init__(host, lambda ask, call, turn: ask.scope is not None and ask.scope.key in self.granted)
        self.is_there = True
        self.settled_questions: list[int] = []
        self.granted: set[str] = set()

    def place(self, about: Address) -> Address | None:
        return MAIN if self.is_there else None

    def worded(self, ask: Ask, call: CheckedCall | None, turn: Turn | None) -> Ask:
        return ask

    def send(self, tx: Tx, question: Question) -> int:
        number, options = question.number, question.ask.options
        how = f"{', '.join(options)}? /answer {number}" if options else f"/yes {number} or /no {number}"
        return tx.send(Outbound(question.place, f"{question.ask.question} {how}"))

    def reminder(self, question: Question, place: Address) -> str:
        self.open_at_start = question.number
        return question.ask.question if place == question.place else ""

    def over(self, tx: Tx, question: Question) -> None:
        tx.send(Outbound(question.place, f"Over: {question.answer}"))

    def settled(self, question: Question) -> None:
        self.settled_questions.append(question.number)


class Post:
    """A tool that sends, and one that only looks."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def tools(self) -> list[Tool]:
        async def send(text: str) -> str:
            """Sends a text."""
            self.sent.append(text)
            return f"sent {text}"

        async def look() -> str:
            """Looks."""
            return "seen"

        return [tool(send), tool(look, reach="none")]


def send(text: str = "a letter") -> Say:
    return call("send", {"text": text}, text="I am about to send it.")


def texts(program: Program) -> list[str]:
    return [result.text for result in results(program.history)]


@virtual_time
async def test_a_turn_waits_on_disk_for_a_yes_and_then_does_exactly_this_call_once(tmp_path: Path) -> None:
    post = Post()
    with ScriptedProvider(send(), "It is sent.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker]) as program:
            assert await program.ask("send it") == "May I send a letter? /yes 1 or /no 1"
            await program.app.conversations.idle()
            assert post.sent == []
            sql = "SELECT turn, call, question, answer FROM approvals_asks"
            ((turn, call_id, question, answer),) = program.rows(sql)
            assert (question, answer) == ("May I send a letter?", "") and call_id
            assert program.rows("SELECT ended FROM turns WHERE id = ?", turn) == [(None,)]
            assert await program.ask("/yes 1") == "Fine."
            assert await program.answer() == "It is sent."
            await program.app.conversations.idle()
            assert post.sent == ["a letter"]
            assert texts(program) == ["sent a letter"]
            assert program.public("asker").settled_questions == [1]
            assert await program.ask("/yes 1") == "Nothing is asked."
            assert_legal(program.history)
            assert program.app.inbox.open_turns() == []
            assert len(records.of_turn(program.app.store, turn)) == 1


async def asked_and_ended(tmp_path: Path, post: Post, clock: HandClock | None = None) -> None:
    """A process that asks, and ends."""
    async with bare(tmp_path, ScriptedProvider(send()), tools=post.tools(), plugins=[Asker], clock=clock) as program:
        await program.ask("send it")
        await program.app.conversations.idle()
    assert post.sent == []


@virtual_time
async def test_the_time_of_a_question_goes_on_while_the_program_is_off(tmp_path: Path) -> None:
    post, clock = Post(), HandClock()
    await asked_and_ended(tmp_path, post, clock)
    clock.now += timedelta(minutes=14)
    with ScriptedProvider("Then not.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker], clock=clock) as program:
            began = passed()
            assert await program.answer() == "Then not."
            assert passed() - began == 60
    assert post.sent == []


@virtual_time
async def test_a_question_whose_time_was_over_while_the_program_was_off_is_a_no(tmp_path: Path) -> None:
    post, clock = Post(), HandClock()
    await asked_and_ended(tmp_path, post, clock)
    clock.now += timedelta(hours=1)
    with ScriptedProvider("Then not.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker], clock=clock) as program:
            assert await program.answer() == "Then not."
            assert (post.sent, texts(program)) == ([], [LATE])
            assert_legal(program.history)


@virtual_time
async def test_a_yes_that_the_end_of_the_program_overtook_is_carried_out_at_the_next_start(tmp_path: Path) -> None:
    post = Post()
    await asked_and_ended(tmp_path, post)
    async with bare(tmp_path, ScriptedProvider(), tools=post.tools(), plugins=[Asker]) as program:
        program.app.store.db.execute("UPDATE approvals_asks SET answer = 'yes', by = 'owner'")
        await program.app.conversations.close(leave=True)
    post.sent.clear()
    with ScriptedProvider("It is sent.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker]) as program:
            assert await program.answer() == "It is sent."
            assert post.sent == ["a letter"]


@virtual_time
async def test_a_call_with_a_yes_that_broke_off_is_not_repeated(tmp_path: Path) -> None:
    reached, sent = asyncio.Event(), list[str]()

    async def send_slowly(text: str) -> str:
        """Sends a text."""
        sent.append(text)
        reached.set()
        await asyncio.Event().wait()
        return "never"

    tools = [tool(send_slowly)._replace(spec=tool(send_slowly).spec._replace(name="send"))]
    async with bare(tmp_path, ScriptedProvider(send()), tools=tools, plugins=[Asker]) as program:
        await program.ask("send it")
        await program.say("/yes 1")
        await reached.wait()
        await program.app.conversations.close(leave=True)
    async with bare(tmp_path, ScriptedProvider(), tools=tools, plugins=[Asker]) as program:
        told = [await program.answer()]
        while "interrupted" not in told[-1]:
            told.append(await program.answer())
        assert "`send a letter`" in told[-1]
        assert sent == ["a letter"]
        assert_legal(program.history)


@virtual_time
async def test_of_two_calls_each_has_its_own_answer_and_none_runs_before_both_are_there(tmp_path: Path) -> None:
    post = Post()
    calls: tuple[tuple[str, dict[str, str]], ...] = (("look", {}), ("send", {"text": "one"}), ("send", {"text": "two"}))
    with ScriptedProvider(Say(calls=calls), "Sent two.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker]) as program:
            await program.say("send both")
            assert [await program.answer(), await program.answer()] == [
                "May I send one? /yes 1 or /no 1",
                "May I send two? /yes 2 or /no 2",
            ]
            assert await program.ask("/yes 2") == "Fine."
            await program.app.conversations.idle()
            assert post.sent == []
            assert await program.ask("/no 1") == "Fine."
            assert await program.answer() == "Sent two."
            assert post.sent == ["two"]
            assert texts(program) == ["seen", NO, "sent two"]


@virtual_time
async def test_without_a_plugin_that_asks_it_is_a_refusal_too_also_for_a_turn_that_waits(tmp_path: Path) -> None:
    class Careful(Plugin):
        name = "careful"

        async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
            return Ask("May I?")

    post = Post()
    with ScriptedProvider(send(), "I may not.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Careful]) as program:
            assert await program.ask("send it") == "I may not."
            assert (post.sent, texts(program)) == ([], [nobody_for("May I?")])
    await asked_and_ended(tmp_path / "waits", post)
    with ScriptedProvider("I may not.") as model:
        async with bare(tmp_path / "waits", model, tools=post.tools(), plugins=[Careful]) as program:
            assert (await program.answer(), post.sent, texts(program)) == ("I may not.", [], [nobody_for("May I?")])


@pytest.mark.parametrize("can_ask", [False, True])
def test_where_nobody_is_there_to_say_yes_a_call_that_asks_is_refused(tmp_path: Path, can_ask: bool) -> None:
    nobody = BACKGROUND._replace(can_ask=can_ask, can_allow=False)

    @virtual_time
    async def story() -> None:
        post = Post()
        with ScriptedProvider(send(), "Well.") as model:
            async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker]) as program:
                inbound = Inbound(MAIN, "", "1", UserMessage("send it", program.clock(), "news"), role="owner")
                program.app.transactions.write_now(lambda tx: tx.deliver(inbound, nobody))
                assert await program.answer() == "Well."
                assert texts(program) == [nobody_for("May I send a letter?")]
        assert post.sent == []

    story()


class Twofold(Asker):
    """Asks twice about a call: once with a scope, once without."""

    def __init__(self, host: Host, settings: None) -> None:
        super().__init__(host, settings)
        self.public.granted = {"send"}

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        letter = call.name == "send"
        return Ask("May I send it?", scope=Scope("send", "letters"), exact="a letter") if letter else None


class Tainted(Plugin):
    name = "tainted"

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        return Ask("A page says so. Really?", exact="the page")


@virtual_time
async def test_all_that_is_asked_about_one_call_is_one_question_whose_yes_is_for_once(tmp_path: Path) -> None:
    post = Post()
    with ScriptedProvider(send(), "It is sent.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Twofold, Tainted]) as program:
            program.public("asker").granted.clear()
            assert await program.ask("send it") == "May I send it?\n\nA page says so. Really? /yes 1 or /no 1"
            (question,) = program.public("asker").open()
            assert (question.ask.scope, question.ask.exact) == (None, "a letter\n\nthe page")
            assert await program.ask("/yes 1") == "Fine."
            assert await program.answer() == "It is sent."
            assert post.sent == ["a letter"]


@virtual_time
async def test_a_stop_ends_a_turn_that_waits_and_its_question(tmp_path: Path) -> None:
    post = Post()
    with ScriptedProvider(send(), "Fine then.") as model:
        async with bare(tmp_path, model, tools=post.tools(), plugins=[Asker]) as program:
            await program.ask("send it")
            await program.say("and then this")
            await program.app.conversations.idle()
            assert await program.ask("/stop") == "Stopped. Not begun: and then this."
            assert program.public("asker").settled_questions == [1]
            assert await program.ask("/yes 1") == "Nothing is asked."
            assert program.app.inbox.open_turns() == [] and program.app.inbox.waiting() == []
            assert_legal(program.history)
            assert await program.ask("hello") == "Fine then."
            assert "may have been done" not in "".join(texts(program)), "it was never begun"
    assert post.sent == []


# -- outside a turn


class Wondering(Plugin):
    """Asks by itself."""

    name = "wondering"

    def __init__(self, host: Host, settings: None) -> None:
        self.public = host


@virtual_time
async def test_a_plugin_asks_outside_a_turn(tmp_path: Path) -> None:
    async with bare(tmp_path, ScriptedProvider(), plugins=[Asker, Wondering]) as program:
        host: Host = program.public("wondering")
        asking = asyncio.create_task(host.asker.ask(Ask("Shall I?"), MAIN))
        assert await program.answer() == "Shall I? /yes 1 or /no 1"
        assert await program.ask("/yes 1") == "Fine."
        assert (await asking).is_yes
        asking = asyncio.create_task(host.asker.ask(Ask("And now?"), MAIN))
        await program.answer()
        assert await program.ask("/no 2") == "Fine."
        assert not (await asking).is_yes
        program.public("asker").is_there = False
        assert not (await host.asker.ask(Ask("Anybody?"), MAIN)).is_yes
        assert "May I" not in "".join(message.text for message in program.history)


@virtual_time
async def test_a_question_outside_a_turn_is_a_no_after_its_time_when_given_up_and_after_a_restart(
    tmp_path: Path,
) -> None:
    async with bare(tmp_path, ScriptedProvider(), plugins=[Asker, Wondering], seconds=1000) as program:
        host: Host = program.public("wondering")
        assert not (await host.asker.ask(Ask("Shall I?"), MAIN)).is_yes
        assert passed() == 900
        asking = asyncio.create_task(host.asker.ask(Ask("Given up?"), MAIN))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert program.rows("SELECT answer FROM approvals_asks") == [("no",), ("no",)]
        program.app.store.db.execute("UPDATE approvals_asks SET answer = '', by = '' WHERE id = 2")
    async with bare(tmp_path, ScriptedProvider(), plugins=[Asker, Wondering]) as program:
        assert program.rows("SELECT answer FROM approvals_asks") == [("no",), ("no",)]
