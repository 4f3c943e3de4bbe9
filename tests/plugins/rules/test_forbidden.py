"""What a rule forbids, as a model says it, and which calls that holds from."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from nanoclaw.plugins.rules.plugin import Forbidden, dump, from_answer, load, what_is_forbidden
from tests.examples import examples

COMMANDS = examples(__file__, "commands.jsonl")

TOOLS = ("exec", "read_file", "write_file", "edit_file", "memory_add", "message")
PUSH = Forbidden(command="git push")


def refused(forbidden: Sequence[Forbidden], command: str) -> bool:
    return bool(what_is_forbidden(forbidden, "exec", True, {"command": command}, Path("/workspace")))


@pytest.mark.parametrize(("rule", "answer", "calls"), COMMANDS["a rule holds as a model reads it"])
def test_a_rule_holds_as_a_model_reads_it(rule: str, answer: dict[str, str], calls: list[str]) -> None:
    found = from_answer(f"Here:\n```json\n{json.dumps({'forbids': [answer]})}\n```", rule, TOOLS)
    assert found
    assert [command for command in calls if not refused(found, command)] == []
    assert not refused(found, "ls; git status; python3 x.py; echo git push")


def test_a_model_is_believed_only_what_can_be() -> None:
    given = [
        *({"tool": "no_such_tool"}, {"tool": "message"}, {"command": "curl x | sh"}, {"command": "$(x) y"}),
        *({"command": "a b c d e f g"}, {"path": "secret.txt", "reading": True}, {"path": "/etc"}, {}, {"tool": None}),
        *({"command": "rm -rf"}, {"command": "rm -rf"}, {"reading": True}),
    ]
    found = from_answer(json.dumps({"forbids": [*given, "x", 5]}), "Never read secret.txt or message Bob", TOOLS)
    assert found == [Forbidden(tool="message"), Forbidden(path="secret.txt", reading=True), Forbidden(command="rm -rf")]


@pytest.mark.parametrize(
    "answer",
    ["", "ok", "{", "}{", "[]", '{"forbids": 5}', '{"x": []}', "{" * 10_000 + "}", '{"x": ' + "[" * 100_000 + "}"],
)
def test_an_answer_in_another_form_says_nothing(answer: str) -> None:
    assert from_answer(answer, "never push", TOOLS) is None
    assert from_answer('{"forbids": []}', "be kind", TOOLS) == []


@pytest.mark.parametrize(("command", "calls", "allowed"), COMMANDS["options count in every order and spelling"])
def test_options_count_in_every_order_and_spelling(command: str, calls: list[str], allowed: list[str]) -> None:
    forbidden = [Forbidden(command=command)]
    assert [line for line in calls if not refused(forbidden, line)] == []
    assert [line for line in allowed if refused(forbidden, line)] == []


def test_words_in_a_text_are_no_command() -> None:
    assert not refused([PUSH], 'git commit -m "don\'t git push"')
    assert not what_is_forbidden([PUSH], "write_file", True, {"path": "x", "content": "git push"}, Path("/"))


def test_a_file_that_must_not_change_can_still_be_read(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to("notes")
    for forbidden in (Forbidden(path="notes/private.md"), Forbidden(path="notes/")):
        for path in ("notes/private.md", "./notes//private.md", str(tmp_path / "notes/private.md"), "link/private.md"):
            assert what_is_forbidden([forbidden], "write_file", True, {"path": path}, tmp_path), path
        assert not what_is_forbidden([forbidden], "read_file", False, {"path": "notes/private.md"}, tmp_path)
        assert not what_is_forbidden([forbidden], "write_file", True, {"path": "other.md"}, tmp_path)
    secret = [Forbidden(path="secret.txt", reading=True)]
    assert what_is_forbidden(secret, "read_file", False, {"path": "secret.txt"}, tmp_path)
    assert what_is_forbidden(secret, "write_file", True, {"path": "secret.txt"}, tmp_path)


def test_what_is_kept_is_read_again() -> None:
    forbidden = [PUSH, Forbidden(path="ä.txt", reading=True)]
    assert load(dump(forbidden)) == forbidden
    assert load('[{"command": ') is None
    assert load('[{"unknown": 1}]') is None
