"""`nanoclaw gateway` and the terminals that attach to it: real processes, a real socket, pseudo-terminals."""

import asyncio
import json
import signal
import socket
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanoclaw.core.delivery import Outbox
from nanoclaw.core.messages import Address, Outbound
from nanoclaw.core.store.db import Transactions
from nanoclaw.start.build import build
from nanoclaw.start.opening import read_store
from tests.journeys.command import Home, Running, remind
from tests.journeys.conftest import Start
from tests.model_server import ModelServer, call_delta, delta, events, failing, says
from tests.program import config_of

MAIN = Address("terminal", "main")


def pending(home: Home) -> list[str]:
    store = read_store(home.root / "state.db")
    try:
        return [row.outbound.text for row in Outbox(Transactions(store, lambda: datetime.now(UTC))).pending("terminal")]
    finally:
        store.close()


def test_a_question_is_answered_by_the_process_that_runs(home: Home, server: ModelServer, start: Start) -> None:
    gateway = start("gateway")
    server.script(says("Four."), says("From a pipe."))
    assert home.run("-m", "two and two?").out == "Four.\n"
    assert home.run("-m", "-", "--json", stdin="and this?").out.count("From a pipe.") == 1
    assert str(gateway.process.pid) in home.run("status").out
    assert pending(home) == []
    assert stat.S_IMODE((home.root / "gateway.sock").lstat().st_mode) == 0o600


def test_each_of_many_questions_at_once_gets_its_own_answer(home: Home, server: ModelServer, start: Start) -> None:
    start("gateway")
    server.script(*(says(f"Answer {number}.") for number in range(12)))
    processes = {f"question {number}": home.start("-m", f"question {number}") for number in range(12)}
    printed = {text: process.communicate(timeout=100)[0] for text, process in processes.items()}
    asked = [one.json["messages"][-1]["content"] for one in server.asked]
    assert printed == {text: f"Answer {number}.\n" for number, text in enumerate(asked)}


def test_what_is_printed_is_what_a_process_of_its_own_prints(home: Home, server: ModelServer, start: Start) -> None:
    calls = events(call_delta(0, "call_1", "list_dir", "{}"), delta("tool_calls"))
    server.script(calls, says("Two files."))
    alone = json.loads(home.run("-m", "look", "--json", "--session", "alone").out)
    start("gateway")
    server.script(calls, says("Two files."))
    attached = json.loads(home.run("-m", "look", "--json", "--session", "attached").out)
    for one in (alone, attached):
        del one["session"]
        one["tools"] = [{**tool, "seconds": 0} for tool in one["tools"]]
    assert attached == alone


def test_files_reach_the_process_that_runs(home: Home, server: ModelServer, start: Start, tmp_path: Path) -> None:
    start("gateway")
    (tmp_path / "poem.txt").write_text("the owl and the pussycat")
    server.script(says("An owl."))
    assert home.run("-m", "who?", "--file", str(tmp_path / "poem.txt")).out == "An owl.\n"
    assert "the owl and the pussycat" in json.dumps(server.asked[-1].json)


def test_a_failed_answer_is_no_output_and_status_1(home: Home, start: Start, server: ModelServer) -> None:
    start("gateway")
    ended = home.run("-m", "/model nonsense", "--json")
    assert "nonsense" in json.loads(ended.out)["answer"]
    server.script(failing(401))
    ended = home.run("-m", "hi", check=1)
    assert ended.out == ""
    assert "OPENAI_API_KEY" in ended.err


def test_nothing_to_ask_is_told_as_ever(home: Home, start: Start) -> None:
    start("gateway")
    assert "nothing to answer" in home.run("-m", "", check=2).err
    assert "already runs, with its own model" in home.run("-m", "hi", "--model", "openai/other", check=2).err


def test_a_plugin_left_out_at_a_terminal_that_attaches_is_said_to_run_there(
    home: Home, server: ModelServer, start: Start
) -> None:
    gateway = start("gateway")
    server.script(says("Four."))
    ended = home.run("--without", "heartbeat", "-m", "two and two?")
    said = f"process {gateway.process.pid} already runs with its own plugins: --without heartbeat has no effect"
    assert (ended.out, said in ended.err) == ("Four.\n", True)


def test_all_terminals_of_a_conversation_see_what_is_said_in_one(home: Home, server: ModelServer, start: Start) -> None:
    start("gateway")
    one, two, other = start(), start(), start("--session", "other")
    server.script(says("The answer is a heron."), says("A bittern."))
    one.say("which bird?")
    one.expect("The answer is a heron.")
    two.expect("The answer is a heron.")
    assert "another terminal: which bird?" in two.text
    assert home.run("-m", "and that one?").out == "A bittern.\n"
    assert "nanoclaw -m: and that one?" in two.expect("A bittern.")
    assert "bird" not in other.text


def test_a_question_can_be_stopped_from_its_terminal(home: Home, server: ModelServer, start: Start) -> None:
    gateway = start("gateway")
    server.script(events(delta(content="An endless story "), done=False, hang=True))
    asking = Running(home, "-m", "tell me")
    try:
        asking.expect("An endless story")
        asking.process.send_signal(signal.SIGINT)
        assert asking.ended() == 130
        assert "Stopped." in asking.text
    finally:
        asking.close()
    gateway.process.send_signal(signal.SIGTERM)  # it may be about to note that this was shown
    assert gateway.ended() == 0
    assert pending(home) == []


def test_a_client_that_is_killed_costs_nothing_and_its_answer_is_kept(
    home: Home, server: ModelServer, start: Start
) -> None:
    start("gateway")
    hanging, here = events(delta(content="A long "), done=False, hang=True), says("Still here.")
    server.script(hanging, here, here)  # which of the two is asked first depends on how quickly a program starts
    asking = Running(home, "-m", "tell me", "--session", "left")
    asking.expect("A long")
    asking.close()
    assert home.run("-m", "are you there?").out == "Still here.\n"


def test_what_came_while_nobody_was_there_is_shown_at_the_next_start(home: Home, start: Start) -> None:
    home.run("-m", "/status")

    async def send() -> None:
        app = build(config_of(home.root))
        app.transactions.write_now(lambda tx: tx.send(Outbound(MAIN, "Water the plants.")))
        await app.aclose()

    asyncio.run(send())
    start("gateway")
    assert "Water" not in home.run("-m", "/status").out  # a script is not a reader
    assert "Water the plants." in pending(home)  # the script's own answer is noted as sent a moment later
    shown = start().expect("Water the plants.")
    assert shown.index("while you were away") < shown.index("Water the plants.")
    assert "Water" not in start().text


def test_a_reminder_reaches_the_attached_terminal_and_is_answered_from_anywhere(home: Home, start: Start) -> None:
    remind(home, "call mum", datetime.now(UTC) - timedelta(hours=3))
    start("gateway")
    shown = start().expect("call mum")
    assert "3 h late" in shown
    home.run("-m", "done 1")
    assert "call mum" not in start().text


def test_without_a_gateway_an_open_terminal_reminds(home: Home, start: Start) -> None:
    remind(home, "call mum", datetime.now(UTC) - timedelta(hours=3))
    assert "call mum" not in home.run("-m", "/status").out
    start().expect("call mum")


def test_a_channel_that_dies_is_started_again(home: Home) -> None:
    home.run("-m", "/status")
    in_the_way = home.root / "gateway.sock" / "folder"
    in_the_way.mkdir(parents=True)
    gateway = Running(home, "gateway")
    try:
        gateway.expect("terminal failed and is restarted in 2 s")
        in_the_way.parent.joinpath("folder").rmdir()
        in_the_way.parent.rmdir()
        gateway.expect("serves")
        home.run("-m", "/status")
    finally:
        gateway.close()


def test_an_open_terminal_can_be_attached_to(home: Home, server: ModelServer, start: Start) -> None:
    owner = start()
    server.script(says("Four."))
    assert home.run("-m", "two and two?").out == "Four.\n"
    owner.expect("Four.")
    assert "nanoclaw -m: two and two?" in owner.text


def test_a_second_gateway_names_the_process_that_runs(home: Home, start: Start) -> None:
    gateway = start("gateway")
    assert f"process {gateway.process.pid}" in home.run("gateway", check=1).err


def test_after_a_kill_the_next_one_starts_at_once(home: Home, server: ModelServer, start: Start) -> None:
    gateway = start("gateway")
    gateway.process.kill()
    gateway.process.wait()
    assert (home.root / "gateway.sock").exists()
    server.script(says("Alone."), says("Attached."))
    assert home.run("-m", "hi").out == "Alone.\n"
    start("gateway")
    assert home.run("-m", "hi").out == "Attached.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_ends_cleanly_and_leaves_its_turn_to_the_next(
    home: Home, server: ModelServer, start: Start, number: signal.Signals
) -> None:
    gateway, asking = start("gateway"), Running(home, "-m", "go")
    server.script(events(delta(content="Half "), done=False, hang=True), says("All of it."))
    asking.expect("Half")
    gateway.process.send_signal(number)
    assert gateway.ended() == 0
    assert asking.ended() == 1
    asking.close()
    assert not (home.root / "gateway.sock").exists()
    start("gateway")
    start().expect("All of it.")


def test_a_gateway_says_that_it_has_ended_also_where_something_hangs(
    home: Home, server: ModelServer, start: Start
) -> None:
    (home.root / "plugins").mkdir()
    work = "async def run(self):\n        await __import__('asyncio').to_thread(__import__('time').sleep, 60)\n"
    plugin = f"from nanoclaw.core.plugin import Plugin\nclass Hang(Plugin):\n    name = 'hang'\n    {work}"
    (home.root / "plugins/hang.py").write_text(plugin)
    home.configure(server.base, more='[plugins]\nenabled = ["hang"]\nunpinned = "load"\n')
    for times in (1, 2):
        gateway = start("gateway")
        for _ in range(times):
            gateway.press_ctrl_c()
            gateway.expect("stopping; what is not finished goes on at the next start. Ctrl-C again ends it at once.")
        assert gateway.ended() == 0 and "nanoclaw gateway: ended." in gateway.text


def test_a_home_with_a_long_path_can_be_attached_to(tmp_path: Path, server: ModelServer) -> None:
    home = Home(tmp_path / ("long" * 40))
    home.configure(server.base)
    gateway = Running(home, "gateway")
    try:
        gateway.expect("serves")
        server.script(says("Four."))
        assert home.run("-m", "two and two?").out == "Four.\n"
        assert str(gateway.process.pid) in home.run("status").out
    finally:
        gateway.close()


def test_status_and_doctor_tell_of_the_process_that_runs(home: Home, server: ModelServer, start: Start) -> None:
    gateway = start("gateway")
    told = json.loads(home.run("status", "--json").out)
    assert told["running"] == gateway.process.pid
    assert told["process"]["role"] == "gateway"
    assert told["process"]["channels"][0]["name"] == "terminal"
    assert any(name == "schedule" and "ticked" in text for name, _, text in told["process"]["findings"])
    assert (told["to_deliver"], told["not_delivered"], told["frozen"]) == (0, 0, False)
    server.script(says("hello"))
    checked = home.run("doctor", check=None).out
    assert f"ok    running: process {gateway.process.pid}, gateway" in checked
    assert "ok    schedule: the schedule ticked" in checked
    home.run("-m", "/panic")
    assert json.loads(home.run("status", "--json").out)["frozen"] is True


def test_web_ends_where_its_port_is_taken_and_a_gateway_does_not_say_that_it_serves_the_page(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        home.configure("http://127.0.0.1:9/v1", more=f"[page]\nport = {taken.getsockname()[1]}\n")
        told = home.run("web", check=1)
        assert "the page cannot be served at 127.0.0.1" in told.err and "serves" not in told.out
        with closing(Running(home, "gateway")) as gateway:
            text = gateway.expect("Ctrl-C ends it.")
        assert "the page cannot be served" in text and "serves terminal, api with" in text
