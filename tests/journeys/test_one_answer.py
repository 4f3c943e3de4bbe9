"""`nanoclaw -m TEXT` from the shell to a model server and back."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from nanoclaw import cli
from nanoclaw.commands import talking
from nanoclaw.core.store.history import whole_history
from nanoclaw.start.opening import read_store
from tests.core.store.test_db import held
from tests.journeys.command import Home, Running
from tests.model_server import ModelServer, Scripted, call_delta, delta, events, failing, says
from tests.program import REPOSITORY, assert_legal


def calls(name: str, arguments: dict[str, Any], id: str = "call_1") -> Scripted:
    return events(call_delta(0, id, name, json.dumps(arguments)), delta("tool_calls"))


def history_of(home: Home, key: str = "terminal:main") -> list[Any]:
    store = read_store(home.root / "state.db")
    history = whole_history(store, key)
    store.close()
    assert history is not None
    assert_legal(history)
    return history


def test_a_question_is_acted_on_answered_and_remembered_by_the_next_process(home: Home, server: ModelServer) -> None:
    server.script(calls("write_file", {"path": "notes/bird.txt", "content": "pelican"}), says("I wrote pelican."))
    first = home.run("-m", "Write the word pelican to notes/bird.txt")
    assert (home.workspace / "notes" / "bird.txt").read_text() == "pelican"
    assert first.out == "I wrote pelican.\n"
    server.script(says("You had me write pelican."))
    assert home.run("-m", "What did you write?").out == "You had me write pelican.\n"
    sent = server.asked[2].json["messages"]
    assert sent[: len(server.asked[1].json["messages"])] == server.asked[1].json["messages"]
    assert [message["role"] for message in sent[-2:]] == ["user", "user"]
    assert sent[-1]["content"] == "What did you write?"
    assert server.left == 0


def test_what_nobody_could_allow_is_told_beside_the_answer(home: Home, server: ModelServer) -> None:
    names = [f"{number}.txt" for number in range(5)]
    home.workspace.mkdir(parents=True, exist_ok=True)
    for name in names:
        (home.workspace / name).write_text("kept")
    server.script(calls("exec", {"command": "rm *.txt"}), says("They are still there."))
    asked = home.run("-m", "Delete them")
    assert (asked.status, asked.out) == (0, "They are still there.\n")
    assert asked.err == ("Not done, as nobody here can say yes: exec rm *.txt. Ask in `nanoclaw`.\n")
    assert sorted(one.name for one in home.workspace.glob("*.txt")) == names


def test_json_prints_one_object_and_nothing_else(home: Home, server: ModelServer) -> None:
    server.script(calls("list_dir", {}), says("Done “here”.", usage={"prompt_tokens": 7, "completion_tokens": 3}))
    ended = home.run("-m", "look", "--json", "--session", "work")
    assert ended.out.count("\n") == 1
    answer = json.loads(ended.out)
    assert answer["answer"] == "Done “here”."
    assert answer["reason"] == "answered"
    assert answer["session"] == "work"
    assert answer["tools"][0]["name"] == "list_dir"
    assert answer["usage"]["input_tokens"] == 7


def test_what_is_piped_in_is_part_of_the_question(home: Home, server: ModelServer) -> None:
    server.script(says("Short."), says("Only this."), says("Bytes."))
    home.run("-m", "Sum up:", stdin="a long text\n")
    assert server.asked[0].json["messages"][-1]["content"] == "Sum up:\n\na long text"
    home.run(stdin="just this\n")
    assert server.asked[1].json["messages"][-1]["content"] == "just this"
    home.environment["PYTHONIOENCODING"] = "utf-8:strict"  # as in most languages' settings
    home.run("-m", "-", stdin=b"half \xff of it")
    assert server.asked[2].json["messages"][-1]["content"] == "half \ufffd of it"
    shut = ["sh", "-c", 'exec "$@" <&-', "", *home.command()]  # its input is closed
    assert subprocess.run(shut, env=home.variables(), cwd=REPOSITORY, timeout=100, check=False).returncode == 0


def test_a_text_of_odd_bytes_on_the_command_line_is_answered(home: Home, server: ModelServer) -> None:
    server.script(says("Odd."))
    ended = subprocess.run(  # by a fresh interpreter, which decodes what it is given
        [*map(os.fsencode, home.command("-m")), b"caf\xe9"],
        input=b"",
        capture_output=True,
        env=home.variables(),
        cwd=REPOSITORY,
        timeout=100,
    )
    assert (ended.returncode, ended.stdout) == (0, b"Odd.\n"), ended


def test_a_conversation_with_odd_names_of_files_can_be_shown(home: Home, server: ModelServer) -> None:
    home.run("init")
    Path(os.fsdecode(bytes(home.workspace) + b"/caf\xe9.txt")).touch()
    server.script(calls("exec", {"command": "ls"}), calls("list_dir", {}), says("Seen \x1b[31mred."))
    home.run("-m", "look")
    home.environment["PYTHONIOENCODING"] = "utf-8:strict"
    shown = home.run("sessions", "show").out
    assert "list_dir: " in shown
    assert "Seen [31mred." in shown
    assert "[Runtime Context" not in shown
    exported = json.loads(home.run("sessions", "export").out)
    assert json.loads(home.run("--json", "sessions", "export").out) == exported
    assert [message["kind"] for message in exported["messages"]] == [
        *("user", "user"),
        *("assistant", "result"),
        *("assistant", "result"),
        "assistant",
    ]


def test_a_session_of_odd_bytes_is_refused_in_a_sentence(home: Home) -> None:
    command = [*map(os.fsencode, home.command("-m", "hi", "--session")), b"caf\xe9"]
    ended = subprocess.run(command, input=b"", capture_output=True, env=home.variables(), cwd=REPOSITORY, timeout=100)
    assert ended.returncode == 2, ended
    assert b"Traceback" not in ended.stderr


def test_sessions_know_nothing_of_each_other(home: Home, server: ModelServer) -> None:
    server.script(says("One."), says("Two."))
    home.run("-m", "a secret plan", "--session", "work")
    home.run("-m", "hello", "--session", "play")
    assert b"a secret plan" not in server.asked[1].body
    assert {item["name"] for item in json.loads(home.run("sessions", "list", "--json").out)["sessions"]} == {
        "terminal:work",
        "terminal:play",
    }


# -- when the model does not answer


def test_a_failed_answer_is_not_in_the_history_of_the_next(home: Home, server: ModelServer) -> None:
    server.script(failing(400), says("Better."))
    home.run("-m", "one", check=1)
    assert home.run("-m", "two").out == "Better.\n"
    assert "assistant" not in [message["role"] for message in server.asked[1].json["messages"]]


def test_a_missing_key_names_its_variable(home: Home) -> None:
    home.configure("https://api.example.org/v1", key=False)
    del home.environment["OPENAI_API_KEY"]
    ended = home.run("-m", "hi", check=None)
    assert ended.status in (1, 2)
    assert "OPENAI_API_KEY" in ended.out + ended.err


def test_another_model_than_the_one_of_helpers_is_told_beside_the_answer(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more='fallback = ["openai/scripted"]\n[models]\nhelpers = "openai/missing"\n')
    server.script(calls("delegate", {"task": "count"}), failing(404), says("42"), says("It is 42."))
    ended = home.run("-m", "count, with a helper")
    assert ended.out == "It is 42.\n" and "openai/missing was not found (404)" in ended.err, ended


def test_the_output_limit_is_sent_to_the_model(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more="output_tokens = 123\n")
    server.script(says("ok"))
    home.run("-m", "hi")
    assert 123 in server.asked[0].json.values()


# -- ended from outside


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_during_the_stream_ends_it_legally_and_the_next_start_works(
    home: Home, server: ModelServer, number: signal.Signals, status: int
) -> None:
    server.script(events(delta(content="The first half"), done=False, hang=True), says("Here again."))
    with home.start("-m", "tell me") as process:
        server.wait_for(1)
        assert len(history_of(home)) == 2
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    assert process.returncode == status, (out, err)
    assert "Traceback" not in err
    history_of(home)
    assert home.run("-m", "still there?").out == "Here again.\n"


def test_a_killed_turn_is_told_at_the_next_start_and_the_new_question_is_answered(
    home: Home, server: ModelServer
) -> None:
    server.script(events(delta(content="The first half"), done=False, hang=True), says("Here again."), says("Fine."))
    with home.start("-m", "tell me") as process:
        server.wait_for(1)
        process.kill()
        process.communicate()
    assert home.run("-m", "/budget").err == ""  # which only looks
    ended = home.run("-m", "still there?")
    asked = "I was interrupted while I worked on “tell me”. I did not repeat it. Ask again if it still matters."
    assert asked in ended.err
    assert ended.out == "Here again.\n"
    assert home.run("-m", "all well?").out == "Fine.\n"


def test_a_question_left_waiting_is_answered_and_so_is_the_new_one(home: Home, server: ModelServer) -> None:
    server.script(says("One."), says("To the old one."), says("To the new one."), says("Fine."))
    leave_waiting(home, "the old one")
    ended = home.run("-m", "the new one")
    assert "To the old one." in ended.err
    assert ended.out == "To the new one.\n"
    assert home.run("-m", "all well?").out == "Fine.\n"


def test_a_question_that_is_stopped_before_it_is_begun_is_not_carried_out_later(
    home: Home, server: ModelServer
) -> None:
    server.script(says("One."), events(delta(content="To the"), done=False, hang=True), says("Fine."))
    leave_waiting(home, "the old one")
    with home.start("-m", "/new") as process:
        server.wait_for(2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=100)
    assert process.returncode == 130
    assert home.run("-m", "all well?").out == "Fine.\n"
    assert "the old one" in json.dumps(server.asked[-1].json["messages"])


def leave_waiting(home: Home, text: str) -> None:
    """As a kill right after a message was accepted does, in a conversation with one answer."""
    home.run("-m", "first")
    with sqlite3.connect(home.root / "state.db") as db:
        db.execute(
            "INSERT INTO inbox (channel, chat, external_id, body, state, received)"
            " SELECT channel, chat, 'left', replace(body, 'first', ?), 'new', received FROM inbox",
            (text,),
        )
    db.close()


def test_a_question_waits_for_the_process_that_answers_another_and_says_for_which(
    home: Home, server: ModelServer
) -> None:
    server.script(events(delta(content="I think"), done=False, hang=True))
    with home.start("-m", "think long") as first:
        server.wait_for(1)
        with home.start("-m", "me too") as second:
            assert second.stderr
            assert second.stderr.readline() == f"nanoclaw: waiting for another nanoclaw (process {first.pid})\n"
            status = json.loads(home.run("status", "--json").out)
            assert status["running"] == first.pid
            server.script(says("Now."))
            first.kill()
            first.communicate()
            out, _ = second.communicate(timeout=100)
    assert second.returncode == 0
    assert out.endswith("Now.\n")


def test_a_gateway_waits_for_the_process_that_answers_a_question_and_says_for_which(
    home: Home, server: ModelServer
) -> None:
    server.script(events(delta(content="I think"), done=False, hang=True))
    with home.start("-m", "think long") as first:
        server.wait_for(1)
        with home.start("gateway") as gateway:
            assert gateway.stderr and gateway.stdout
            assert gateway.stderr.readline() == f"nanoclaw: waiting for another nanoclaw (process {first.pid})\n"
            first.kill()
            first.communicate()
            assert gateway.stdout.readline().startswith(f"nanoclaw gateway: process {gateway.pid} serves")
            gateway.terminate()
            gateway.communicate(timeout=100)


def test_four_questions_at_once_are_all_answered(home: Home, server: ModelServer) -> None:
    server.script(*[says("Here you are.")] * 4)
    processes = [home.start("-m", f"question {number}") for number in range(4)]
    ended = [(*process.communicate(timeout=100), process.returncode) for process in processes]
    assert [(out, status) for out, _, status in ended] == [("Here you are.\n", 0)] * 4, ended
    asked = {asked.json["messages"][-1]["content"] for asked in server.asked}
    assert asked == {f"question {number}" for number in range(4)}


def test_a_question_that_has_waited_long_enough_is_told_who_is_running(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NANOCLAW_HOME", str(home.root))
    monkeypatch.setattr(sys, "stdin", Path(os.devnull).open())  # noqa: SIM115
    monkeypatch.setattr(talking, "_PATIENCE_SECONDS", 0)
    with held(home.root / "state.db") as process:
        assert cli.run(["-m", "me too"]) == 1
        assert f"another nanoclaw (process {process.pid}) is using" in capsys.readouterr().err


# -- the machine


def test_a_workspace_that_cannot_be_written_is_told_in_a_sentence(home: Home) -> None:
    home.workspace.write_text("a file, not a folder")
    ended = home.run("-m", "hi", check=1)
    assert "workspace" in ended.err
    assert home.workspace.read_text() == "a file, not a folder"


def test_a_home_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    ended = Home(tmp_path / "home").run("-m", "hi", "--model", "ollama/x", check=None)
    assert ended.status in (1, 2)
    assert str(tmp_path / "home") in ended.err


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from nanoclaw.cli import run
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("room", [4_000, 90_000])
def test_a_full_disk_ends_in_a_sentence_and_the_next_start_finds_all_whole(
    home: Home, server: ModelServer, room: int
) -> None:
    server.script(says("First."), calls("read_file", {"path": "big.txt"}), says("x" * 90_000), says("Again."))
    home.run("-m", "first")
    before = history_of(home)
    (home.workspace / "big.txt").write_text("a line of text\n" * 1500)
    ended = subprocess.run(
        [sys.executable, "-c", FULL, str(room), "-m", "y" * 3000],
        capture_output=True,
        input="",
        text=True,
        env=home.variables(),
        cwd=REPOSITORY,
        timeout=100,
    )
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr, ended
    assert "disk" in ended.stdout + ended.stderr, ended
    assert history_of(home)[: len(before)] == before
    server._script[:] = [says("Again.")]
    assert home.run("-m", "again").out.endswith("Again.\n")


# -- what a start costs


@pytest.mark.parametrize("argv", [["--version"], ["-V"]], ids=["--version", "-V"])
def test_the_version_imports_nothing(argv: list[str], tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); sys.argv[1:] = sys.argv[1:]\n" + MODULES
    ended = Home(tmp_path / "home")
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, env=ended.variables(), cwd=REPOSITORY
    )
    assert done.stdout.startswith("nanoclaw ")
    assert done.stderr.split() == ["nanoclaw", "nanoclaw.__main__"]
    assert not (tmp_path / "home").exists()


MODULES = """
from nanoclaw.__main__ import run
status = run()
print(*sorted(set(sys.modules) - before), file=sys.stderr)
sys.exit(status)
"""


def test_a_plain_answer_imports_no_heavy_library(home: Home, server: ModelServer) -> None:
    server.script(calls("read_file", {"path": "AGENTS.md"}), says("Hi."))
    done = subprocess.run(
        [sys.executable, "-c", "import sys; before = set()\n" + MODULES, "-m", "hi"],
        capture_output=True,
        input="",
        text=True,
        env=home.variables(),
        cwd=REPOSITORY,
        timeout=100,
    )
    assert done.stdout == "Hi.\n", done
    heavy = {
        "litellm",
        "rich",
        "prompt_toolkit",
        "PIL",
        "numpy",
        "rank_bm25",
        "xllamacpp",
        "croniter",
        "openai",
        "yaml",
    }
    assert heavy & set(done.stderr.split()) == set()
    assert "nanoclaw.core.turn" in done.stderr.split()


def test_a_label_is_whole_where_the_output_goes_into_a_pipe(home: Home, server: ModelServer) -> None:
    command = f"printf '%s' {'x' * 200} > long.txt; exit 3"
    server.script(calls("exec", {"command": command}), says("It failed."))
    master, slave = os.openpty()
    try:
        with home.opened(stdin=slave, stdout=-1, stderr=-1, text=True) as process:
            os.write(master, b"go\n\x04")
            out, err = process.communicate(timeout=100)
    finally:
        os.close(master)
        os.close(slave)
    assert process.returncode == 0, err
    assert f"✗ exec {command} · [exit status 3; in the sandbox" in out


def test_who_has_asked_before_is_not_greeted_as_new(home: Home, server: ModelServer) -> None:
    server.script(says("Hello."))
    home.run("-m", "hi")
    terminal = Running(home)
    terminal.expect("> ")
    terminal.close()
    assert "/help" in terminal.text and "New here" not in terminal.text


# --- notes that were never read --------------------------------------------------------------------------------------


def imported_notes(home: Home, days: int, lines: int) -> None:
    """One word of its own a day: the first day has word0."""
    folder = home.workspace / "memory"
    folder.mkdir(parents=True)
    for number in range(days):
        day = date(2020, 1, 1) + timedelta(number)
        filler = "- and so on and so forth, as ever, in town\n" * lines
        (folder / f"{day}.md").write_text(f"- met word{number} in town\n{filler}")


def test_imported_notes_are_found_at_once_and_read_after_the_answer(home: Home, server: ModelServer) -> None:
    imported_notes(home, 400, 20)
    server.script(says("In town."), says("There, too."))
    home.run("-m", "Where did I meet word390?")
    assert "met word390 in town" in json.dumps(server.asked[0].json)
    with closing(sqlite3.connect(home.root / "index.db")) as index:
        assert index.execute("SELECT count(*) FROM files").fetchone()[0] == 400
    home.run("-m", "Where did I meet word9?")
    assert "met word9 in town" in json.dumps(server.asked[1].json)
