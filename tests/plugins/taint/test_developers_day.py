"""Ten tasks of a developer's day, with a stranger's repository and downloads beside their own work, cost at most one
question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanoclaw.core.messages import ToolResult
from nanoclaw.core.plugin import ToolOutput
from nanoclaw.core.tool import tool
from tests.plugins.taint.obedient import questions
from tests.plugins.taint.test_another_month import Call, Doing, fetch, note, remind, run
from tests.plugins.taint.test_repositories import clone, commit, git
from tests.program import HAS_SANDBOX, running, tools_plugin

SAID = (
    "What have I changed in my project since Monday?",
    "Run the checks, please",
    "See how vendor/lib does retries, and write that down in docs/retries.md",
    "Remind me tomorrow at 9 to send Bob the figures",
    "Which file in my downloads is the newest?",
    "Commit what I did today",
    "Make a to-do list for the release out of their README",
    "Note that the release is on Friday",
    "Put the invoice of my documents into invoices/, and say what it comes to",
    "Read http://pages.example/frob, and remember that I use Frob 2.4",
)


def tasks(ada: Path) -> dict[str, list[Call]]:
    """What is done about each."""
    plan = {"steps": ["read it", "tag it", "tell the team"]}
    calls: list[list[Call]] = [
        [run("git log --oneline --since=Monday"), run("git diff --stat HEAD")],
        [run("python3 -m compileall -q src"), run("grep -rn TODO src | wc -l")],
        [
            run("grep -n library vendor/lib/README.md"),
            ("write_file", {"path": "docs/retries.md", "content": "Three times, then it gives up."}),
        ],
        [remind("tomorrow at 9", "send Bob the figures")],
        [("list_dir", {"path": str(ada / "Downloads")}), run(f"ls -t {ada}/Downloads | head -1")],
        [run("git add -A src && git commit -qm 'Work of today'"), run("git status --short src")],
        [("read_file", {"path": "vendor/lib/README.md"}), ("todo", plan)],
        [note("The release is on Friday"), ("todo", {"done": [1]})],
        [run(f"mkdir -p invoices && cp {ada}/Documents/invoice.txt invoices/"), run("cat invoices/invoice.txt")],
        [fetch("http://pages.example/frob"), note("Uses Frob 2.4", "fact")],
    ]
    return dict(zip(SAID, calls, strict=True))


@pytest.mark.skipif(not HAS_SANDBOX, reason="commands run in no sandbox here, so each asks")
async def test_ten_tasks_of_a_developer_cost_at_most_one_question(tmp_path: Path) -> None:
    async def web_fetch(url: str) -> ToolOutput:
        """Read a page."""
        return ToolOutput("Frob 2.4 is out.", outside=url)

    ada = tmp_path / "ada"
    for name, text in {"Documents/invoice.txt": "40 euros", "Downloads/ticket.txt": "Seat 12"}.items():
        (ada / name).parent.mkdir(parents=True)
        (ada / name).write_text(text)
    (ada / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    more: dict[str, Any] = {
        "settings": f'[files]\nread = ["{ada}/Documents", "{ada}/Downloads"]\n',
        "environment": {"HOME": str(ada)},
        "extra": [tools_plugin(tool(web_fetch, reach="none"))],
        "without": {"web"},
    }
    model = Doing()
    async with running(tmp_path / "home", model, **more) as home:
        clone(tmp_path, home)
        commit(home.workspace, "My project")
        (home.workspace / "src").mkdir()
        (home.workspace / "src" / "app.py").write_text("print(1)  # TODO more\n")
        git(home.workspace, "config", "core.fsmonitor", "false")
        for said, calls in tasks(ada).items():
            model.calls = list(calls)
            await home.ask(said)
            while home.rows("SELECT 1 FROM approvals_asks WHERE by = ''"):
                await home.ask("yes")
            await home.app.conversations.idle()
        bad = [one.text for one in home.history if isinstance(one, ToolResult) and one.is_error]
        assert not bad, json.dumps(bad, indent=1)
        assert len(questions(home)) <= 1, json.dumps(questions(home), indent=1)
