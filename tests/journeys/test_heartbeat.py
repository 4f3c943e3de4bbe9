"""The heartbeat as a person has it: a checklist in the workspace, a dry run, a beat by hand, a gateway that beats."""

import json
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.journeys.command import Home
from tests.model_server import ModelServer, Scripted, call_delta, delta, events, says

ALWAYS = '[heartbeat]\nactive = "00:00-24:00"\n'
WATCH = "- [ ] Tell me of letters that matter: watch notes/inbox.md\n"


def reports(notify: bool, text: str = "") -> Scripted:
    arguments = json.dumps({"notify": notify, "text": text})
    return events(call_delta(id="call-1", name="report", arguments=arguments), delta("tool_calls"))


def write(home: Home, name: str, text: str) -> None:
    path = home.workspace / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and "logs" not in path.parts
        and path.suffix not in (".db-shm", ".db-wal")
        and path.name != "level.json"  # of the sandbox, which a watched command runs in
    }


def test_a_dry_run_shows_what_would_be_asked_and_changes_nothing(home: Home, server: ModelServer) -> None:
    home.run("init")
    write(home, "HEARTBEAT.md", f"{WATCH}- [ ] Look around\n- [ ] watch $ echo hi\n")
    before = files(home.root)
    fresh = home.run("heartbeat", "--dry-run").out
    assert files(home.root) == before
    assert "- due: Look around" in fresh and "it is new" in fresh
    assert "- not due: Tell me of letters" in fresh and "first check" in fresh
    assert "The model would be asked:" in fresh and "1. Look around" in fresh
    server.script(reports(False))
    home.run("heartbeat")
    after = files(home.root)
    later = home.run("heartbeat", "--dry-run").out
    assert files(home.root) == after
    assert "every 4h, last" in later and later.endswith("Nothing is due: no model is asked.\n")
    write(home, "notes/inbox.md", "- a bill\n")
    assert "- due: Tell me of letters" in home.run("heartbeat", "--dry-run").out
    assert len(server.asked) == 1


def test_the_heartbeat_may_have_a_model_of_its_own(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more=f'{ALWAYS}[models]\nheartbeat = "openai/small"\n')
    home.run("init")
    write(home, "HEARTBEAT.md", "- [ ] Look around\n")
    server.script(reports(False), says("hello"))
    assert "has nothing to tell" in home.run("heartbeat").out
    home.run("-m", "hi")
    assert [asked.json["model"] for asked in server.asked] == ["small", "scripted"]
    assert "heartbeat" in home.run("usage", "--by", "origin").out


def test_a_heartbeat_without_a_working_model_says_so_and_is_due_again(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more=ALWAYS)
    home.run("init")
    write(home, "HEARTBEAT.md", "- [ ] Look around\n")
    said = home.run("heartbeat", check=1).err
    assert "had no result, and its lines stay due. The model gave no answer" in said
    assert said.count("The model gave no answer") == 1
    server.script(reports(False))
    assert "has nothing to tell" in home.run("heartbeat").out


def test_a_heartbeat_that_was_killed_is_finished_by_the_next_one(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more=ALWAYS)
    home.run("init")
    write(home, "HEARTBEAT.md", "- [ ] Look around\n")
    server.script(events(delta(content="Let me"), hang=True))
    killed = home.start("heartbeat")
    while not server.asked:
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"it ended with {killed.wait(0.05)}")
    killed.kill()
    killed.communicate(timeout=100)
    server.script(reports(True, "The door is open."), reports(False))
    assert "Told: The door is open." in home.run("heartbeat").out
    assert len(server.asked) == 3


def test_a_running_gateway_beats_when_it_is_told_to(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more=ALWAYS)
    home.run("init")
    write(home, "HEARTBEAT.md", WATCH)
    gateway = home.start("gateway")
    try:
        assert gateway.stdout is not None and "serves" in gateway.stdout.readline()
        assert "first check" in home.run("heartbeat").out
        write(home, "notes/inbox.md", "- a letter\n")
        assert "- due: Tell me of letters" in home.run("heartbeat", "--dry-run").out
        server.script(reports(False))
        assert "its report will follow" in home.run("heartbeat").out
        assert re.search("is as it was|under way", home.run("heartbeat").out)
    finally:
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=100)
    assert len(server.asked) == 1
