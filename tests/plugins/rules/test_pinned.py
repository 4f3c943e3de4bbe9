"""What a rule in plain words forbids, and what code must not read into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanoclaw.plugins.rules.pinned import Pinned

TOOLS = ("exec", "read_file", "write_file", "edit_file", "memory_add", "message")


def pinned(*rules: str, root: Path = Path("/workspace")) -> Pinned:
    return Pinned(lambda: rules, TOOLS, root)


@pytest.mark.parametrize(
    "rule",
    [
        "never use exec",
        "Never use the exec tool, it is dangerous.",
        "Please do not ever use exec again!",
        "No exec",
        "You must never call `exec`, no matter what",
        "I never want you to use exec",
        "Under no circumstances use exec on this machine",
        "exec is forbidden",
        "Use read_file, never exec",
        "Never use write_file, exec or edit_file",
        "Benutze niemals exec",
        "Verwende exec nicht, weil es gefährlich ist",
        "Auf keinen Fall exec benutzen",
        "kein exec",
        "N’utilise jamais exec",
        "n'utilise pas l'outil exec, s'il te plaît",
        "exec est interdit",
        "Nunca uses exec",
        "No uses la herramienta exec, por favor",
        "prohibido usar exec",
        "不要使用exec",
        "禁止使用 exec 工具",
        "永远不要调用exec",
        "请别用exec",
    ],
)
def test_a_forbidden_tool_cannot_be_called(rule: str) -> None:
    box = pinned(rule)
    refusal = box.refusal("exec", True, {"command": "ls"})
    assert rule in refusal
    assert "/unpin" in refusal
    assert box.refusal("read_file", False, {"path": "x"}) == ""
    assert box.how(rule).startswith("enforced: the tool")


@pytest.mark.parametrize(
    "rule",
    [
        "don't run git push",
        "Don’t run `git push`!",
        "never git push",
        "git push is not allowed",
        "You must never run git push on my machine",
        "no `git push`, ask me instead",
        'Do not use "git push"',
        "Führe niemals git push aus",
        "Kein `git push`!",
        "Ne lance pas git push",
        "pas de `git push`",
        "No ejecutes git push",
        "不要运行 git push",
        "请不要执行`git push`命令",
    ],
)
def test_a_forbidden_command_is_refused_in_exec(rule: str) -> None:
    box = pinned(rule)
    assert box.how(rule) == "enforced: exec refuses `git push`"
    for line in (
        "git push origin main",
        "cd x && git  push",
        "/usr/bin/git push",
        "git -C repo push",
        "git --no-pager push",
    ):
        assert rule in box.refusal("exec", True, {"command": line}), line
    for line in ('git commit -m "don\'t git push"', "git pull", "git commit -m push", "git log push", "echo git push"):
        assert box.refusal("exec", True, {"command": line}) == "", line
    assert box.refusal("write_file", True, {"path": "x", "content": "git push"}) == ""


@pytest.mark.parametrize(
    ("rule", "refused", "allowed"),
    [
        (
            "no rm -rf",
            ["rm -rf x", "rm -fr x", "rm -r -f x", "rm --recursive --force x", "rm x -rf"],
            ["rm x", "rm -r x"],
        ),
        ("never run `git push --force`", ["git push --force", "git push -f", "git push -f origin"], ["git push"]),
        ("never use sudo", ["sudo ls", "echo x | sudo tee y", "/usr/bin/sudo -u me ls"], ["echo sudo", "pseudo x"]),
        ("No sudo, no rm", ["sudo ls", "rm x"], ["ls"]),
        ("never run curl or wget", ["curl x", "wget x"], ["ls"]),
        ("never run ./deploy.sh", ["./deploy.sh", "sh -c ./deploy.sh"], ["cat deploy.sh"]),
        ("never run make install", ["make install", "make -C x install"], ["make test", "make"]),
        ("never run `kubectl delete`", ["kubectl -n x delete pod y"], ["kubectl get delete"]),
    ],
)
def test_options_count_in_every_order_and_spelling(rule: str, refused: list[str], allowed: list[str]) -> None:
    box = pinned(rule)
    assert [line for line in refused if not box.refusal("exec", True, {"command": line})] == []
    assert [line for line in allowed if box.refusal("exec", True, {"command": line})] == []


@pytest.mark.parametrize(
    "rule",
    [
        "never write to notes/private.md",
        "Don't change `notes/private.md`",
        "Schreibe nie in notes/private.md",
        "N'écris jamais dans notes/private.md",
        "No escribas en notes/private.md",
        "不要修改 notes/private.md",
        "never edit files in notes/",
    ],
)
def test_a_file_that_must_not_change_can_still_be_read(rule: str, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to("notes")
    box = pinned(rule, root=tmp_path)
    for path in ("notes/private.md", "./notes//private.md", str(tmp_path / "notes/private.md"), "link/private.md"):
        assert rule in box.refusal("write_file", True, {"path": path, "content": "x"}), path
    assert box.refusal("read_file", False, {"path": "notes/private.md"}) == ""
    assert box.refusal("write_file", True, {"path": "other.md"}) == ""
    assert "commands and notes are not watched" in box.how(rule)


def test_a_file_that_must_not_be_read_cannot_be_changed_either() -> None:
    box = pinned("Never read secret.txt")
    assert box.refusal("read_file", False, {"path": "secret.txt"})
    assert box.refusal("write_file", True, {"path": "secret.txt"})


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("always use exec for disk space", ""),
        ("Call me Anna", ""),
        ("Never push to GitHub", ""),
        ("Never make coffee", ""),
        ("Always ask before git push", ""),
        ("don't forget to use exec", "forget"),
        ("Do not hesitate to use exec", "hesitate"),
        ("never message Bob", "Bob"),
        ("never use exec to delete files", ""),
        ("never git push to main", "main"),
        ("never run `curl x | sh`", "curl x | sh"),
        ("never use exec unless I say so", "unless"),
        ("Unless I say so, never use exec", "Unless"),
        ("never run git push without asking me", "without"),
        ("Verwende exec nie ohne zu fragen", "ohne"),
        ("N'utilise pas exec sauf si je le demande", "sauf"),
        ("no uses exec sin preguntar", "sin"),
        ("除非我同意，不要使用exec", "除非"),
        ("Never say `hello`", "say"),
    ],
)
def test_what_code_does_not_wholly_understand_is_left_to_the_model(rule: str, why: str) -> None:
    box = pinned(rule)
    how = box.how(rule)
    assert how.startswith("for the model to follow")
    assert why in how
    for tool in TOOLS:
        assert box.refusal(tool, True, {"command": "git push", "path": "x"}) == ""


def test_any_text_can_be_a_rule() -> None:
    for text in (
        "",
        "`",
        "never",
        "never `",
        "never `` ",
        "不要",
        "no " * 250,
        "never use " + "exec, " * 80,
        "never run `'`",
    ):
        pinned(text).how(text)
