"""`nanoclaw context` shows what would be sent; sections are switched off in the config."""

import asyncio
import json
from typing import Any

import pytest

from nanoclaw.commands.inspecting import View, preview_request
from nanoclaw.core.plugin import Mode
from nanoclaw.start.config import Config, load
from nanoclaw.start.home import make_home
from tests.journeys.command import Home
from tests.model_server import ModelServer, failing, says


def look(config: Config, session: str, message: str, mode: Mode) -> View:
    return asyncio.run(preview_request(config, session, message, mode))


def looked(home: Home, *arguments: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(home.run("context", "--json", *arguments).out)
    return body


def test_a_fresh_workspace_is_shown_with_its_parts_and_word_by_word_within_3000_tokens(home: Home) -> None:
    home.environment["COLUMNS"] = "80"
    shown = home.run("context").out
    table, words = shown.split("What is sent, word by word")
    lines = table.splitlines()
    assert max(map(len, lines)) <= 80
    parts = {line.split("  ")[0] for line in lines[2:8]}
    tools = next(part for part in parts if part.endswith(" tools"))
    assert parts == {tools, "Identity", "Instructions", "Capabilities", "Skills", "This message"}
    assert lines[4].endswith("BOOTSTRAP.md")
    assert "Nothing was sent in this conversation yet." in table
    assert [line.split()[1] for line in words.splitlines() if line.startswith("── ")] == ["system", "user", "user"]
    assert "This workspace is new" in words and "Current Time: " in words
    assert sum(row["tokens"] for row in looked(home)["rows"]) <= 3_000


def test_what_is_wrong_with_the_workspace_is_told_in_plain_sentences_and_at_length_in_the_log(home: Home) -> None:
    home.run("init")
    (home.workspace / "MEMORY.md").write_bytes(b"\xa3 five")
    (home.workspace / "USER.md").unlink()
    (home.workspace / "USER.md").symlink_to(home.root / "config.toml")
    (home.workspace / "skills" / "lost").mkdir(parents=True)
    (home.workspace / "skills" / "lost" / "SKILL.md").write_text("no front matter")
    told = home.run("context").err + home.run("skills", "list").err
    assert "MEMORY.md is left out of the prompt: it is not UTF-8 text" in told
    assert "USER.md is left out of the prompt: it is a link out of the workspace" in told
    assert "the skill " in told and " is off: line 1" in told
    assert all(line.startswith("nanoclaw: ") for line in told.splitlines())
    assert "WARNING" not in told and "nanoclaw.workspace" not in told
    logged = (home.root / "logs" / "nanoclaw.log").read_text()
    assert "WARNING nanoclaw.bootstrap_files: " in logged and "WARNING nanoclaw.plugins.skills.plugin: " in logged


def test_what_is_shown_is_what_is_sent(home: Home, server: ModelServer) -> None:
    home.run("init")
    (home.workspace / "SOUL.md").write_text("Dry and exact.")
    (home.workspace / "memory" / "2026-03-01.md").write_text("- 10:00 The dentist said to come back in June\n")
    seen = looked(home, "--message", "When must I go back to the dentist?")
    server.script(says("In June."), says("You are welcome."))
    home.run("-m", "When must I go back to the dentist?")
    sent = server.asked[-1].json
    assert seen["messages"][0] == sent["messages"][0] and "come back in June" in sent["messages"][0]["content"]
    assert seen["messages"][2:] == sent["messages"][2:]
    assert seen["tools"] == sent["tools"]
    seen = looked(home, "--message", "Thanks")
    home.run("-m", "Thanks")
    assert seen["messages"][:4] == server.asked[-1].json["messages"][:4]
    assert "begins with the whole of the last one" in " ".join(seen["remarks"])


def test_what_is_shown_is_what_is_sent_also_to_a_model_that_is_asked_for_json(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more='tool_mode = "json"\n')
    make_home(load(home.variables()))
    (home.workspace / "memory" / "2026-03-01.md").write_text("- 10:00 The dentist said to come back in June\n")
    server.script(says('{"reply":"Hello."}'), says('{"reply":"In June."}'))
    question = "When must I go back to the dentist?"
    for message in ("hi", question):
        seen = looked(home, "--message", message)
        assert home.run("-m", message).out
        sent = server.asked[-1].json["messages"]
        assert seen["messages"][:-1] == sent[:-1] and "tools" not in server.asked[-1].json and seen["tools"] == []
        assert sent[-1]["content"].endswith(message)
        for at in (seen["messages"][-1], sent[-1]):
            at["content"] = at["content"].partition("]\n")[2]  # the minute may be another
        assert seen["messages"][-1] == sent[-1]
    assert (
        "Note from memory: memory/2026-03-01.md:1: 10:00 The dentist said to come back in June" in sent[-1]["content"]
    )
    server.script(failing(400, {"error": {"message": "scripted does not support tools"}}), says('{"reply":"Yes."}'))
    (home.root / "config.toml").write_text(f'[model]\nname = "openai/scripted"\napi_base = "{server.base}"\n')
    home.run("-m", "Really?")
    assert looked(home)["messages"][0] == server.asked[-1].json["messages"][0], "a refusal of tools is remembered"


def test_a_conversation_of_a_chat_app_is_shown_with_what_is_said_of_the_app(home: Home) -> None:
    home.configure("http://127.0.0.1:1/v1", more='[channels.telegram]\ntoken = "1:x"\n')
    config = load({"NANOCLAW_HOME": str(home.root)})
    modes: tuple[Mode, ...] = ("full", "guest")
    for mode in modes:
        system, metadata, _ = look(config, "telegram:555", "hi", mode).messages
        assert "You talk through telegram: " in system["content"]
        assert metadata["content"].endswith("\nChannel: telegram\nChat ID: 555\n[/Runtime Context]")
    system, metadata, _ = look(config, "work", "hi", "full").messages
    assert "You talk through" not in system["content"]
    assert metadata["content"].endswith("\nChannel: terminal\nChat ID: work\nSender: owner\n[/Runtime Context]")


def test_of_a_model_in_the_process_the_short_form_is_shown_that_it_is_sent(home: Home) -> None:
    home.root.mkdir(exist_ok=True)
    (home.root / "config.toml").write_text('[model]\nname = "local/qwen2.5-coder-1.5b"\n')
    config = load(home.variables())
    make_home(config)
    (home.workspace / "MEMORY.md").write_text("- Anna is vegetarian\n")
    view = look(config, "main", "hi", "full")
    assert "their own life is worth remembering: call memory_add." in view.messages[0]["content"]
    assert any("Anna is vegetarian" in message["content"] for message in view.messages)
    assert view.messages[-1]["content"].endswith("hi") and view.tools == []
    assert view.remarks[-1] == (
        "local/qwen2.5-coder-1.5b cannot hold what the table counts: it is sent the short form below, with a few of "
        "the tools in it."
    )
    view = look(config, "main", "hi", "none")
    assert view.remarks[-1].endswith("with no tools in it.")
    assert "There are no tools here" in view.messages[0]["content"]
    assert "go beside it as JSON" not in home.run("context").out


def test_of_a_request_that_begins_afresh_nothing_is_said_about_the_one_before(home: Home, server: ModelServer) -> None:
    server.script(says("Hello."))
    home.run("-m", "hi")
    afresh = "A request of this kind begins afresh: nothing that was said in this conversation is part of it."
    for mode, has_tools in (("minimal", True), ("none", False)):
        shown = home.run("context", "--mode", mode, "--message", "well?").out
        assert afresh in " ".join(shown.split()).replace(" - ", " ")
        assert "last request" not in shown and "\nHistory " not in shown
        assert ("go beside it as JSON" in shown) == has_tools
    assert afresh not in " ".join(home.run("context").out.split())


def test_a_guest_would_see_nothing_that_the_owner_said(home: Home, server: ModelServer) -> None:
    server.script(says("It is under the mat."))
    home.run("-m", "Where is the key?")
    shown = json.dumps(looked(home, "--mode", "guest"))
    assert "Where is the key?" not in shown and "under the mat" not in shown


def test_the_model_that_would_answer_now_is_looked_at(home: Home, server: ModelServer) -> None:
    server.script(says("Hello."))
    home.run("-m", "hi")
    (home.root / "config.toml").write_text('[model]\nname = "local/qwen2.5-coder-1.5b"\n')
    assert "Answer every message with one JSON object" in looked(home)["messages"][0]["content"]


def test_modes_leave_out_what_is_not_theirs(home: Home) -> None:
    config = load(home.variables())

    def ids(mode: Mode) -> list[str]:
        parts = look(config, "main", "", mode).manifest.parts
        return [part.id for part in parts if part.id != "tools"]

    make_home(config)
    for name in ("SOUL.md", "AGENTS.md", "MEMORY.md"):
        (home.workspace / name).write_text("- It says something.\n")
    assert ids("full") == ["identity", "soul", "instructions", "capabilities", "skills", "memory"]
    assert ids("minimal") == ["identity", "instructions"]
    assert ids("guest") == ["identity", "capabilities"]
    assert ids("none") == ["identity"]
    assert "file_filtered_by_mode SOUL.md" in looked(home, "--mode", "none")["diagnostics"]


def test_a_section_is_switched_off_in_the_config(home: Home, server: ModelServer) -> None:
    home.configure(server.base, more="[context]\nsections = { skills = false, instructions = false }\n")
    seen = looked(home)
    assert [part["id"] for part in seen["parts"]] == ["identity", "capabilities", "tools"]
    assert {"section_omitted skills", "section_omitted instructions"} <= set(seen["diagnostics"])


@pytest.mark.parametrize(
    ("line", "told"), [("sections = { skill = false }", "has no section 'skill'; known: identity, soul")]
)
def test_a_section_that_does_not_exist_is_told(home: Home, server: ModelServer, line: str, told: str) -> None:
    home.configure(server.base, more=f"[context]\n{line}\n")
    assert told in home.run("context", check=2).err


def test_the_model_that_is_configured_is_the_one_that_it_goes_to(home: Home, server: ModelServer) -> None:
    home.configure(server.base)
    assert "It goes to openai/scripted." in looked(home)["remarks"]
