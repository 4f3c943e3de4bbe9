"""Commands of the assistant run in a sandbox: what the model, the person and a job learn of it."""

import asyncio
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nanoclaw import scratch_folders
from nanoclaw.commands.greeting import urgent
from nanoclaw.core.messages import Inbound, UserMessage
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.sandbox import sandbox as library
from nanoclaw.sandbox.sandbox import Level, Strength
from nanoclaw.sandbox.view import Grants
from tests.net.web_server import reply, serving
from tests.program import MAIN, new_id, results, running
from tests.sandbox.enclosed import own_seconds, sleeping, strengths
from tests.virtual_time import skip

at_full = pytest.mark.skipif("full" not in strengths(), reason="this machine has no bubblewrap that works")
at_any = pytest.mark.skipif("none" in strengths(), reason="this machine has no sandbox")


ASKS = '[sandbox]\nlevel = "files"\n'  # the default; without it tests do without a sandbox where the machine has none
INSIDE = {one: f"in the sandbox{f' ({one})' * (one != 'full')}" for one in ("files", "files+net", "full")}


@pytest.fixture(params=[name for name in strengths() if name != "none"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Level]:
    """Each level that this machine has, as the best one."""
    yield from having(strengths()[request.param], monkeypatch)


def having(strength: Strength, monkeypatch: pytest.MonkeyPatch) -> Iterator[Level]:
    monkeypatch.setitem(library._known, library.facts(), strength)
    yield strength.level


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has none."""
    monkeypatch.setitem(library._known, library.facts(), Strength("none", "", ("it needs Linux",)))


async def one(tmp_path: Path, command: str, settings: str = "") -> str:
    """The result of a command."""
    model = ScriptedProvider(call("exec", {"command": command}), "Hm.")
    async with running(tmp_path, model, settings=settings) as program:
        await program.ask("Go")
        return results(program.history)[-1].text


@at_any
async def test_a_command_works_in_the_workspace_sees_no_key_and_says_its_level(tmp_path: Path, level: Level) -> None:
    (tmp_path / "secrets.env").write_text("A_KEY=CANARY-1\n")
    (tmp_path / "secrets.env").chmod(0o600)
    told = await one(tmp_path, "echo here > a.txt; cat a.txt; cat ../secrets.env ../state.db")
    assert told.startswith("here\n") and "CANARY" not in told
    assert told.splitlines()[-1].startswith(f"[exit status 1; {INSIDE[level]}: writes only to the workspace")
    assert (tmp_path / "workspace" / "a.txt").read_text() == "here\n"
    assert (await one(tmp_path / "second", "true")) == f"[exit status 0; {INSIDE[level]}]"


@at_any
async def test_a_time_limit_leaves_time_for_a_last_word_and_no_process(tmp_path: Path, level: Level) -> None:
    seconds = own_seconds()
    deaf = f"(trap '' TERM; env -i setsid sleep {seconds} &)"
    command = f"trap 'echo bye; exit' TERM; {deaf}; echo hi; echo > begun; while :; do sleep 0.05; done"
    step = call("exec", {"command": command, "timeout_seconds": 600})
    async with running(tmp_path, ScriptedProvider(step, "Hm."), seconds=1000) as program:
        await program.say("Go")
        while not (program.workspace / "begun").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        skip(600)
        await program.answer()
        told = results(program.history)[0].text
        assert told.startswith("hi\n") and "bye\n[stopped after 600 s" in told and f"({INSIDE[level]}" in told
    assert not sleeping(seconds)


@at_any
async def test_a_stop_ends_all_of_it(tmp_path: Path, level: Level) -> None:
    seconds = own_seconds()
    step = call("exec", {"command": f"setsid sleep {seconds} & mkfifo gate; read go < gate", "timeout_seconds": 60})
    async with running(tmp_path, ScriptedProvider(step)) as program:
        await program.say("Go")
        while not (program.workspace / "gate").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.01)
        assert await program.ask("/stop") == "Stopped."
        assert not sleeping(seconds)


@at_any
async def test_statuses_signals_and_what_is_left_are_told_as_without_it(tmp_path: Path, level: Level) -> None:
    steps = ("kill -SEGV $$", "sleep 600 & echo ready", "yes | head -1", "exit 7")
    model = ScriptedProvider(*(call("exec", {"command": one}) for one in steps), "Hm.")
    async with running(tmp_path, model) as program:
        await program.ask("Go")
        told = [one.text for one in results(program.history)]
    assert told[0].startswith(f"[killed by SIGSEGV; {INSIDE[level]}: ") and told[0].endswith("no network]")
    assert told[1:] == [
        f"ready\n[exit status 0; 1 background process(es) were ended with it; {INSIDE[level]}]",
        f"y\n[exit status 0; {INSIDE[level]}]",
        told[0].replace("killed by SIGSEGV", "exit status 7"),
    ]


@at_any
async def test_a_command_in_the_background_is_kept_too(tmp_path: Path, level: Level) -> None:
    (tmp_path / "config.toml").write_text("# CANARY-2\n")
    command = "read line; echo $line; cat ../config.toml; echo over"
    model = ScriptedProvider(
        call("exec", {"command": command, "background": True}),
        call("process", {"action": "input", "id": 1, "text": "typed"}),
        call("process", {"action": "wait", "id": 1}),
        "Hm.",
    )
    async with running(tmp_path, model, wakes=True) as program:
        await program.say("Go")
        await program.answer_with("Hm.")
        begun, _, ended = (one.text for one in results(program.history))
        assert begun.endswith(f"[{INSIDE[level]}]")
        assert ended.startswith("typed\n") and "CANARY" not in ended and "over\n[process 1: exit status 0" in ended


@at_full
async def test_more_folders_are_seen_where_the_person_says_so(tmp_path: Path) -> None:
    for name in ("seen", "changed", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(f"{name}\n")
    settings = f'[files]\nread = ["{tmp_path}/seen"]\nwrite = ["{tmp_path}/changed"]\n'
    folders = " ".join(f"{tmp_path}/{name}" for name in ("seen", "changed", "other"))
    told = await one(tmp_path / "home", f"for one in {folders}; do cat $one/x; echo new > $one/y; done", settings)
    assert "seen\n" in told and "changed\n" in told and "other\n" not in told
    assert [(tmp_path / name / "y").exists() for name in ("seen", "changed", "other")] == [False, True, False]


@at_any
async def test_a_workspace_is_there_by_each_of_its_names(tmp_path: Path, level: Level) -> None:
    (tmp_path / "real" / "me" / "bin").mkdir(parents=True)
    (tmp_path / "homes").symlink_to("real")
    tool = tmp_path / "real" / "me" / "bin" / "greet"
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    spelled = tmp_path / "homes" / "me"
    command = f"echo 1 > {spelled}/.nanoclaw/workspace/a; cat {tmp_path}/real/me/.nanoclaw/workspace/a; greet"
    step = call("exec", {"command": command})
    environment = {"HOME": str(spelled), "PATH": f"{spelled}/bin:/usr/bin:/bin"}
    async with running(spelled / ".nanoclaw", ScriptedProvider(step, "Hm."), environment=environment) as program:
        await program.ask("Go")
        assert results(program.history)[0].text == f"1\nhello\n[exit status 0; {INSIDE[level]}]"


@at_any
async def test_a_large_folder_with_the_keys_in_it_and_a_path_nobody_may_read(tmp_path: Path, level: Level) -> None:
    person = tmp_path / "person"
    (person / "closed" / "bin").mkdir(parents=True)
    for number in range(1_500):
        (person / f"a-folder-with-a-longer-name-{number}").touch()
    (person / "a.txt").write_text("seen\n")
    home = person / ".nanoclaw"
    home.mkdir()
    (home / "config.toml").write_text(f'[files]\nread = ["{person}"]\n')
    step = call("exec", {"command": f"cat {person}/a.txt; cat {home}/config.toml"})
    path = f"{person}/closed/bin:/usr/bin:/bin"
    (person / "closed").chmod(0)
    async with running(home, ScriptedProvider(step, "Hm."), environment={"PATH": path}) as program:
        await program.ask("Go")
        told = results(program.history)[0].text
    (person / "closed").chmod(0o700)
    assert told.startswith("seen\n") and "[sandbox]" not in told and f"{INSIDE[level]}" in told


@at_any
async def test_what_a_killed_program_left_goes_at_the_next_start(
    tmp_path: Path, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left = tmp_path / "nanoclaw-exec-4194305.1-abc" / "home"
    left.mkdir(parents=True)
    assert await one(tmp_path / "home", "true") == f"[exit status 0; {INSIDE[level]}]"
    assert not list(tmp_path.glob("nanoclaw-*"))


@at_full
async def test_a_repository_that_must_stay_as_it_is_says_where_it_changes(tmp_path: Path) -> None:
    steps = (call("exec", {"command": one}) for one in ("git init -q .", "git remote add origin x"))
    async with running(tmp_path, ScriptedProvider(*steps, "Hm.")) as program:
        await program.ask("Go")
        told = results(program.history)[1].text
    assert told.endswith("; .git/config and hooks change only outside of it; `beyond` asks the person for more]")
    assert "changes memory, skills and AGENTS.md: write_file" in await one(tmp_path, "sed -i s/a/b/ AGENTS.md")


@at_any
async def test_hooks_stay_as_they_are_over_a_restart_however_many_folders_come(
    tmp_path: Path, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nanoclaw.sandbox.protect.LOOKED_THROUGH", 30)
    hook = tmp_path / "workspace" / "app" / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("mine\n")
    assert (await one(tmp_path, "mkdir d{1..60}")) == f"[exit status 0; {INSIDE[level]}]"
    told = await one(tmp_path, "echo theirs > app/.git/hooks/pre-commit; true")
    assert hook.read_text() == "mine\n"
    few = "; too many folders: a repository that no command saw yet may be unprotected"
    assert f"[exit status 0; {INSIDE[level]}{few}" in told
    back = "" if level == "full" else "; put back: app/.git/hooks/pre-commit"
    assert told.endswith(f"{few}{back}]")
    kept = [path.read_text() for path in (tmp_path / "plugins" / "sandbox").glob("put-back/*")]
    assert kept == ([] if level == "full" else ["theirs\n"])


@at_any
async def test_git_knows_the_person_wherever_the_person_said_it(tmp_path: Path, level: Level) -> None:
    person = tmp_path / "person"
    (person / ".config" / "git").mkdir(parents=True)
    (person / ".config" / "git" / "config").write_text("[user]\n\tname = Old\n\temail = ann@example.org\n")
    (person / ".gitconfig").write_text("[user]\n\tname = Ann\n")
    step = call("exec", {"command": "git config user.name; git config user.email"})
    async with running(tmp_path / "home", ScriptedProvider(step, "Hm."), environment={"HOME": str(person)}) as program:
        await program.ask("Go")
        assert results(program.history)[0].text.startswith("Ann\nann@example.org\n[exit status 0")


@at_any
def test_without_a_folder_for_temporary_files_there_is_no_level_and_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    found = library._try(Grants(tmp_path, (), tmp_path, "/usr/bin"))
    assert found.level == "none" and "no folder for temporary files: No such file or directory" in found.lacks[-1]


@at_full
async def test_the_network_is_what_the_person_opens(tmp_path: Path) -> None:
    async with serving(reply(b"hello")) as (address, asked):
        place = address.removeprefix("http://")
        fetch = "import urllib.request as u; print(u.urlopen('{}').read())"
        command = f'python3 -c "{fetch.format(address)}"'
        closed = await one(tmp_path / "closed", command)
        assert "Error" in closed and not asked
        settings = f'[net]\nallow = ["{place}"]\n[sandbox]\nhosts = ["{place}"]\n'
        assert "b'hello'" in await one(tmp_path / "open", command, settings)
        assert len(asked) == 1
        other = f'python3 -c "{fetch.format("http://127.0.0.1:9/")}"'
        assert "403" in await one(tmp_path / "other", other, settings)


@at_any
async def test_the_level_is_said_at_the_start_by_status_and_by_doctor(tmp_path: Path, level: Level) -> None:
    async with running(tmp_path) as program:
        said = {"full": "no network.", "files+net": "no network; hooks that they change are put back."}[level]
        assert urgent(program.app)[0] == f"Commands run in a sandbox ({level}): the workspace, {said}"
        assert f"Commands run in a sandbox ({level}): the workspace, {said}" in await program.ask("/status")
        (found,) = [one for name, one in await program.app.findings(deep=False) if name == "sandbox"]
        assert found.is_well and found.text.startswith(level)


async def test_the_greeting_says_why_a_level_is_less_and_what_makes_it_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(having(Strength("files+net", "", ("bubblewrap is not installed",)), monkeypatch))
    async with running(tmp_path / "a") as program:
        said = urgent(program.app)[0]
        assert re.search(r"\. `apt install bubblewrap` or `.*install.*[\[,]sandbox\W.*` makes it full\.$", said)
    list(having(Strength("none", "", ("it needs Linux",)), monkeypatch))
    async with running(tmp_path / "b", settings=ASKS) as program:
        asks = "Commands run without a sandbox, so each asks you first. The reason: it needs Linux."
        assert urgent(program.app)[0] == asks


async def test_without_a_sandbox_each_command_needs_a_yes(tmp_path: Path, nothing: None) -> None:
    step = call("exec", {"command": "echo did it"})
    async with running(tmp_path, ScriptedProvider(step, "Done.", step, "Not done."), settings=ASKS) as program:
        await program.say("Go")
        assert (await program.answer()).startswith("Run this without a sandbox?")
        await program.say("yes")
        assert await _until(program, "Done.")
        assert results(program.history)[0].text == "did it\n[exit status 0; no sandbox]"
        await program.say("Again")
        assert "without a sandbox?" in await program.answer()
        await program.say("no")
        assert await _until(program, "Not done.")
        assert "did it" not in results(program.history)[1].text


async def _until(program: object, said: str) -> bool:
    while (await program.answer()) != said:  # type: ignore[attr-defined]
        pass
    return True


async def test_without_a_sandbox_a_task_runs_no_command(tmp_path: Path, nothing: None) -> None:
    step = call("exec", {"command": "touch done"})
    async with running(tmp_path, ScriptedProvider(step, "Hm."), settings=ASKS) as program:
        message = UserMessage("Do it", program.clock(), "job")
        inbound = Inbound(MAIN, "me", new_id(), message, role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        assert await _until(program, "Hm.")
        assert not (program.workspace / "done").exists()
        assert "sandbox" in results(program.history)[0].text


async def test_who_knows_what_it_means_can_do_without_one(tmp_path: Path, nothing: None) -> None:
    told = await one(tmp_path, "echo did it", '[sandbox]\nlevel = "none"\n')
    assert told == "did it\n[exit status 0; no sandbox]"


async def test_a_level_that_is_less_than_was_said_is_refused_until_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "plugins" / "sandbox"
    folder.mkdir(parents=True)
    said = {"facts": "of another day", "strength": ["full", "/usr/bin/bwrap", []]}
    (folder / "level.json").write_text(json.dumps(said))
    list(having(Strength("files", "", ("bubblewrap is not installed",)), monkeypatch))
    step = call("exec", {"command": "touch done"})
    async with running(tmp_path, ScriptedProvider(step, "Hm.", step, "Now."), settings=ASKS) as program:
        lowered = "Commands don't run: the sandbox of commands was 'full' and would now be 'files' (bubblewrap"
        assert urgent(program.app)[0].startswith(lowered)
        await program.ask("Go")
        told = results(program.history)[0].text
        assert "was 'full' and would now be 'files' (bubblewrap is not installed)" in told
        assert not (program.workspace / "done").exists()
        (found,) = [one for name, one in await program.app.findings() if name == "sandbox"]
        assert found.text.startswith("files (bubblewrap is not installed)")
        assert await program.ask("Again") == "Now."
        assert results(program.history)[1].text == "[exit status 0; in the sandbox (files)]"
        assert found.text.startswith("files (bubblewrap is not installed)")


@at_full
async def test_a_sandbox_that_cannot_be_made_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    list(having(Strength("full", str(broken)), monkeypatch))
    told = await one(tmp_path / "home", "touch done")
    assert told.startswith("bwrap: No permissions to create a new namespace\n[not run: the sandbox could not be set up")
    assert not (tmp_path / "home" / "workspace" / "done").exists()


async def test_a_heartbeat_watches_no_command_without_one(tmp_path: Path, nothing: None) -> None:
    async with running(tmp_path, settings=ASKS) as program:
        shell = program.public("shell")
        with pytest.raises(Exception, match="only the person can allow"):
            await shell.prepare_alone("true", {})


@pytest.mark.parametrize(
    ("settings", "said"), [('level = "some"', "must be one of"), ('hosts = ["https://x.org/"]', "is not a host")]
)
async def test_settings_that_are_wrong_say_so(tmp_path: Path, settings: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        async with running(tmp_path, settings=f"[sandbox]\n{settings}\n"):
            pass


@pytest.mark.usefixtures("nothing")
async def test_without_a_sandbox_each_line_for_a_process_asks_too(tmp_path: Path) -> None:
    model = ScriptedProvider(
        call("exec", {"command": "sh", "background": True}),
        call("process", {"action": "input", "id": 1, "text": "touch typed"}),
        call("process", {"action": "input", "id": 1, "text": ""}),
        call("process", {"action": "wait", "id": 1}),
        "Hm.",
    )
    async with running(tmp_path, model, settings=ASKS, wakes=True) as program:
        assert (await program.ask("Go")).startswith("Run this without a sandbox?")
        await program.ask("yes")
        assert (await program.answer()).startswith("Give this to process 1, which runs without a sandbox? It")
        await program.ask("no")
        await program.answer()
        assert not (program.workspace / "typed").exists()


@at_any
async def test_a_stop_while_a_sandbox_is_made_leaves_nothing_open(
    tmp_path: Path, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on, enclose = threading.Event(), threading.Event(), library.Encloser.enclose
    made, opened = list[library.Enclosed](), dict[int, os.stat_result]()

    def slowly(*given: Any) -> library.Enclosed:
        begun.set()
        assert goes_on.wait(100)
        made.append(enclose(*given))
        opened.update({one: os.fstat(one) for one in (*made[0].keeper.descriptors, made[0].keeper.report)})
        return made[0]

    async with running(tmp_path, ScriptedProvider("Hm.")) as program:
        sandbox = program.app.public("sandbox")
        bounds = program.app.public("shell").bounds
        monkeypatch.setattr(library.Encloser, "enclose", slowly)
        making = asyncio.create_task(sandbox.enclose(("/bin/true",), {}, bounds))
        await asyncio.to_thread(begun.wait, 100)
        making.cancel()
        asyncio.get_running_loop().call_soon(goes_on.set)
        with pytest.raises(asyncio.CancelledError):
            await making
        assert opened
        assert not [one for one, was in opened.items() if is_still(one, was)]
        assert not made[0].keeper.folder or not Path(made[0].keeper.folder).exists()


def is_still(descriptor: int, was: os.stat_result) -> bool:
    """Its number may be another file's meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), was)
    except OSError:
        return False


@at_any
async def test_folders_nested_too_deeply_to_be_removed_keep_nothing_from_being_put_back(
    tmp_path: Path, level: Level
) -> None:
    nest = "import os\nfor _ in range(1100):\n os.mkdir('d'); os.chdir('d')"
    command = (
        f'for one in "${{TMPDIR:-/tmp}}" .git/hooks; do (cd "$one"; python3 -c "{nest}"); done; echo x > .git/hooks/a'
    )
    model = ScriptedProvider(*(call("exec", {"command": one}) for one in (command, "echo fine")), "Hm.")
    try:
        async with running(tmp_path, model) as program:
            hooks = program.workspace / ".git/hooks"
            hooks.mkdir(parents=True)
            (program.workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
            await program.ask("Go")
            assert list(hooks.iterdir()) == []
            assert results(program.history)[-1].text == f"fine\n[exit status 0; {INSIDE[level]}]"
            assert not list(Path(tempfile.gettempdir()).glob(f"{scratch_folders.prefix('exec')}*"))
    finally:  # pytest's own removal goes no deeper
        for one in ("plugins", "workspace"):
            scratch_folders.remove(str(tmp_path / one))


@at_any
async def test_keys_with_a_second_name_in_the_workspace_are_not_read(tmp_path: Path, level: Level) -> None:
    (tmp_path / "config.toml").write_text("# CANARY-3\n")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "elsewhere").hardlink_to(tmp_path / "config.toml")
    assert (await one(tmp_path, "true")) == f"[exit status 0; {INSIDE[level]}]"
    (tmp_path / "workspace" / "innocent").hardlink_to(tmp_path / "config.toml")
    told = await one(tmp_path, "cat innocent")
    assert told.startswith("not run: ") and "has a second name (a hard link) where commands could read it" in told
