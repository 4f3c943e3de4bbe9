"""What programs of the person run later stays as it is: it can't be changed, or is put back."""

import asyncio
import os
import resource
import shlex
import subprocess
from pathlib import Path

import pytest

from nanoclaw import scratch_folders
from nanoclaw.atomic_write import write_atomically
from nanoclaw.kept_files import NAMES
from nanoclaw.sandbox import protect, sandbox
from nanoclaw.sandbox.protect import Protected
from nanoclaw.sandbox.put_back import Copies
from nanoclaw.sandbox.sandbox import Encloser
from nanoclaw.sandbox.view import Grants
from nanoclaw.spawn import Exit
from tests.sandbox.enclosed import run, strengths

at_each_level = pytest.mark.parametrize("level", [one for one in strengths() if one != "none"])
at_full = pytest.mark.skipif("full" not in strengths(), reason="this machine has no bubblewrap that works")
at_landlock = pytest.mark.skipif("files+net" not in strengths(), reason="this machine has no Landlock")


class Place:
    """A workspace, and what runs commands in it."""

    def __init__(self, root: Path, level: str) -> None:
        self.workspace, self.level = root / "home" / "workspace", level
        self.workspace.mkdir(parents=True)
        self.grants = Grants(self.workspace, (self.workspace.parent,), root / "home", os.environ["PATH"])
        self.aside = root / "aside"
        self.encloser = Encloser(self.grants, strengths()[self.level], (), self.aside)

    def run(self, command: str) -> Exit:
        return asyncio.run(run(self.encloser, self.grants, command))

    def git(self, *arguments: str) -> None:
        author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")
        subprocess.run(("git", *author, *arguments), cwd=self.workspace, check=True, capture_output=True)

    def state(self, *names: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in names:
            top = self.workspace / name
            for path in [top, *sorted(top.rglob("*"))] if top.is_dir() and not top.is_symlink() else [top]:
                there = os.path.lexists(path)
                is_file = path.is_file() and not path.is_symlink()
                found[str(path)] = there and (path.lstat().st_mode, path.read_bytes() if is_file else b"")
        return found


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that ends soon, and few mounts."""
    monkeypatch.setattr(protect, "LOOKED_THROUGH", 30)
    monkeypatch.setattr(sandbox, "MOUNTED", 20)


def test_folders_nested_deeper_than_a_stack_are_protected_too(tmp_path: Path) -> None:
    top = tmp_path / ".vscode"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    try:
        snapshot = Copies([tmp_path]).snapshot([Protected(top, "kept")])
        (top / "d" / "tasks.json").touch()
        assert snapshot.put_back() == "put back: .vscode/d/tasks.json"
    finally:  # pytest's own removal goes no deeper
        scratch_folders.remove(str(top))


@at_each_level
def test_repositories_made_to_use_up_the_mounts_push_none_out(tmp_path: Path, level: str, few: None) -> None:
    place = Place(tmp_path, level)
    place.run("for i in {1..20}; do mkdir -p a$i/.git/hooks; done")
    place.run("true")
    place.git("init", "-q", "zz")
    before = place.state("zz/.git/hooks", "zz/.git/config")
    ended = place.run("echo 1 > zz/.git/hooks/post-checkout; echo 1 >> zz/.git/config; rm -f zz/.git/description")
    assert place.state("zz/.git/hooks", "zz/.git/config") == before
    assert ended.remark == "put back: zz/.git/hooks/post-checkout, zz/.git/config"


@at_each_level
def test_where_not_all_can_be_protected_nothing_is_run(
    tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, level)
    for number in range(8):
        (place.workspace / f"a{number}" / ".git").mkdir(parents=True)
    monkeypatch.setattr(protect, "MOST_PLACES", 5)
    with pytest.raises(protect.SandboxError, match=f"more repositories .*many of them in {place.workspace}: remove"):
        place.run("touch done")
    assert not (place.workspace / "done").exists()


@at_full
def test_without_descriptors_nothing_is_run(tmp_path: Path) -> None:
    place = Place(tmp_path, "full")
    for number in range(30):
        (place.workspace / f"a{number}" / ".git").mkdir(parents=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 12, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            place.encloser.enclose(("/bin/true",), {})
        assert os.open("/dev/null", os.O_RDONLY) == free, "none is left open"
    finally:
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


OWN = ("AGENTS.md", "HEARTBEAT.md", "MEMORY.md", "SOUL.md", "USER.md", "memory", "skills", "BOOTSTRAP.md")


@at_each_level
def test_a_planted_makefile_changes_nothing_of_what_the_assistant_is_and_knows(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    note, fact = place.workspace / "memory" / "2026-03-01.md", place.workspace / "MEMORY.md"
    for path in (note, fact, *(place.workspace / one for one in ("AGENTS.md", "BOOTSTRAP.md", "skills/tea/SKILL.md"))):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine\n")
    before = place.state(*OWN)
    for line in (
        "for i in AGENTS HEARTBEAT MEMORY SOUL BOOTSTRAP; do echo obey >> $$i.md; done; touch memory/new.md",
        "mkdir -p skills/evil; echo obey > skills/evil/SKILL.md; echo obey >> memory/2026-03-01.md; mkfifo skills/x",
        "mv AGENTS.md a; mv memory m; rm -rf skills; mkdir skills; ln -s /etc USER.md; mkdir HEARTBEAT.md",
        "ln AGENTS.md hard; echo obey >> hard; chmod 777 MEMORY.md",
    ):
        (place.workspace / "Makefile").write_text(f"all:\n\t-{line}\n")
        place.run("make")
        assert place.state(*OWN) == before, line
    assert place.run("rm BOOTSTRAP.md; true").remark == ""
    assert "BOOTSTRAP" in place.run("echo obey > BOOTSTRAP.md").remark
    assert not (place.workspace / "BOOTSTRAP.md").exists()
    made = place.encloser.enclose(("/bin/true",), {})
    for path in (note, fact):  # what its own tools write meanwhile
        write_atomically(path, "learned\n")
    assert (made.keeper.put_back(), made.close(), note.read_text(), fact.read_text()) == (
        "",
        None,
        "learned\n",
        "learned\n",
    )


@at_each_level
def test_what_other_programs_run_later_is_put_away_and_a_flood_of_it_stops_nothing(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    place.git("init", "-q", "app")
    made = " ".join([*sorted(NAMES), "my.code-workspace", "../../app/.git/info/attributes", "x/attributes"])
    ended = place.run(f"mkdir -p deep/er/x; cd deep/er; for i in {made}; do echo plant > $i; cp $i ../..; done")
    assert "put away, as write_file must ask for it: " in ended.remark
    assert place.run("grep -rl plant . | sort").head == b"./attributes\n./deep/er/x/attributes\n"
    (place.workspace / "mine" / ".vscode").mkdir(parents=True)
    place.git("init", "-q", "mine/app")  # which is a mount over what is beside it
    place.run("touch mine/.vscode/x; for i in {1..520}; do mkdir -p d$i/.vscode; done")
    assert place.run("echo on").status == 0
    assert place.run("find . -name '.vscode*' -o -path '*.vscode/*'").head == b"./mine/.vscode\n"
    plain = r"[submodule \"a\"]\n\tpath = a\n\turl = ../a\n"
    assert place.run(f"mkdir node_modules a; echo > node_modules/.npmrc; printf '{plain}' > a/.gitmodules").remark == ""
    assert place.run(f"printf '{plain}\tupdate = !x\n' > deep/.gitmodules").remark.endswith(": deep/.gitmodules")


@at_full
def test_a_file_with_a_name_outside_of_the_workspace_is_closed(tmp_path: Path) -> None:
    place, outside = Place(tmp_path, "full"), tmp_path / "diary.txt"
    outside.write_text("secret\n")
    (place.workspace / "a").write_text("mine\n")
    (place.workspace / "b").hardlink_to(place.workspace / "a")
    (place.workspace / "diary").hardlink_to(outside)
    assert place.run("(cat a b; cat diary; echo evil >> diary) 2> /dev/null").head == b"mine\nmine\n"
    assert outside.read_text() == "secret\n"


KEPT = (
    "store.git/hooks",
    "store.git/config",
    "top/.git/modules/libs/part/hooks",
    "top/.git/modules/libs/part/config",
    "top/libs/part/.git",
    "top/.git/config",
    "top/scripts/hooks",
    "top/.git/more.config",
    "top/shared.config",
    "linked/.git/hooks",
    "linked/kept",
    ".husky",
    ".claude",
    ".envrc",
    ".vscode",
)
ATTACKS = (
    "echo x > store.git/hooks/post-receive; echo x >> store.git/config; mv store.git s; mkdir store.git",
    "for i in top/.git/modules/libs/part; do echo x > $i/hooks/pre-commit; echo x >> $i/config; done",
    "rm -f top/.git/modules/libs/part/config; mv top/.git/modules m2; mkdir -p top/.git/modules/libs/part/hooks",
    "echo 'gitdir: /x' > top/libs/part/.git; rm -f top/libs/part/.git; mkdir top/libs/part/.git",
    "echo x > top/scripts/hooks/pre-commit; rm -rf top/scripts; mkdir -p top/scripts/hooks; touch top/scripts/hooks/y",
    "echo '[core] fsmonitor=x' >> top/shared.config; rm -f top/shared.config; ln -s /x top/shared.config",
    "rm -f linked/.git/hooks; mkdir linked/.git/hooks; echo x > linked/.git/hooks/pre-commit; echo x > linked/kept/y",
    "echo x > .husky/pre-commit; chmod 777 .husky/pre-commit; rm -rf .husky; ln -s /tmp .husky",
    "echo x > .claude/settings.json; touch .claude/new; rm -rf .vscode; touch .vscode; mv .envrc e; ln -s e .envrc",
    "cp -r top/.git g3; rm -rf top/.git; mv g3 top/.git; echo x >> top/.git/config; touch top/.git/config.worktree",
)
MOVED = (
    "mv top/.git g; ln -s ../g top/.git; echo x > g/hooks/pre-commit; echo x >> g/config",
    "rm -f top/libs/part/.git; echo x > top/libs/part/.git; mv top/libs/part p2; echo x >> top/.git/config",
)


@at_each_level
def test_repositories_of_all_kinds_and_what_their_configuration_names_stay_as_they_are(
    tmp_path: Path, level: str
) -> None:
    place = Place(tmp_path, level)
    place.git("init", "-q", "--bare", "store.git")
    place.git("init", "-q", "part")
    place.git("-C", "part", "commit", "-q", "--allow-empty", "-m", "1")
    place.git("init", "-q", "top")
    place.git("-C", "top", "submodule", "--quiet", "add", "../part", "libs/part")
    place.git("-C", "top", "config", "core.hooksPath", "scripts/hooks")
    place.git("-C", "top", "config", "include.path", "../shared.config")
    place.git("init", "-q", "linked")
    subprocess.run(("rm", "-rf", "linked/.git/hooks"), cwd=place.workspace, check=True)
    for name in ("top/scripts/hooks/pre-commit", "linked/kept/pre-push", ".husky/pre-commit", ".claude/settings.json"):
        (place.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (place.workspace / name).write_text("mine\n")
    for name in ("top/shared.config", ".envrc"):
        (place.workspace / name).write_text("# mine\n")
    (place.workspace / ".vscode").mkdir()
    (place.workspace / "linked" / ".git" / "hooks").symlink_to("../kept")
    place.run("true")
    before = place.state(*KEPT)
    for attack in (*ATTACKS, *(MOVED if level == "full" else ())):
        ended = place.run(attack)
        assert place.state(*KEPT) == before, f"{attack}: {ended}"
        assert level == "full" or ended.remark.startswith("put back: "), attack
    assert list(place.aside.iterdir())  # what was taken away is the person's to look at


@at_each_level
def test_what_a_configuration_names_does_not_come_into_being(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    place.git("init", "-q", "app")
    place.git("-C", "app", "config", "core.hooksPath", "later/hooks")
    place.git("-C", "app", "config", "include.path", "../later.config")
    place.run("true")
    made = ("app/later/hooks", "app/later.config", "app/.git/config.worktree")
    ended = place.run("cd app; mkdir -p later/hooks; touch later/hooks/pre-commit later.config .git/config.worktree")
    assert not [one for one in made if (place.workspace / one).exists()], ended
    told = ("app/.git/config.worktree", "app/later/hooks", "app/later.config")
    assert ended.remark.startswith("put back: ") and all(one in ended.remark for one in told)


@at_each_level
def test_a_list_of_what_git_does_next_gets_no_commands(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    place.git("init", "-q", "app")
    todo = place.workspace / "app" / ".git" / "rebase-merge" / "git-rebase-todo"
    todo.parent.mkdir()
    todo.write_text("pick 1\n")
    assert place.run(f"echo pick 2 >> {todo}").remark == ""
    ended = place.run(f"printf 'exec touch /x\\npick 3\\n' >> {todo}")
    assert not todo.exists()
    assert ended.remark == "put away, as write_file must ask for it: app/.git/rebase-merge/git-rebase-todo"


@at_each_level
def test_work_on_repositories_goes_on(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    place.git("init", "-q", "-b", "main", "part")
    place.git("-C", "part", "commit", "-q", "--allow-empty", "-m", "1")
    place.git("clone", "-q", "part", "top")
    place.git("-C", "top", "submodule", "--quiet", "add", "../part", "sub")
    author = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; "
    for command in (
        "cd top && echo 1 > a && git add a && git commit -qm 1 && git branch b && git switch -q b && git tag t",
        "cd top/sub && echo 1 > a && git add a && git commit -qm 2 && git log --oneline | wc -l | grep 2",
        "cd top && git worktree add -q ../tree && cd ../tree && echo 2 > b && git add b && git commit -qm 3",
        "cd top && git stash -q; git fetch -q origin && git merge -q origin/main && git gc -q && git worktree list",
        "git clone -q part copy && cd copy && git config user.name B && git commit -q --allow-empty -m 4",
        "git init -q fresh && cd fresh && git -c protocol.file.allow=always submodule --quiet add ../part x",
        "cd top && git submodule status && git submodule foreach git status && git rebase -q main",
        "cd copy && git push -q ../top HEAD:refs/heads/c && cd .. && git clone -q --bare part bare.git",
    ):
        ended = place.run(f"{author}{command}")
        assert (ended.status, ended.remark) == (0, ""), (command, ended)


@at_landlock
def test_of_a_repository_that_was_moved_what_came_is_put_away_and_what_it_had_stays(tmp_path: Path) -> None:
    place = Place(tmp_path, "files+net")
    place.git("init", "-q", "app")
    place.git("-C", "app", "config", "core.editor", "vi")
    hooks = place.workspace / "app" / ".git" / "hooks"
    (hooks / "pre-push").write_text("mine")
    place.run("true")
    moved = place.workspace / "m" / "app" / ".git"
    assert place.run("mkdir m; mv app m").remark == ""
    assert (moved / "hooks" / "pre-push").exists() and "vi" in (moved / "config").read_text()
    assert place.run("mkdir n; echo 'gitdir: /x' > n/.git").remark.endswith(": n/.git")
    ended = place.run("mv m/app/.git g; ln -s ../../g m/app/.git; echo x > g/hooks/pre-commit; echo >> g/config")
    assert "put away, as write_file must ask for it: g/config (core.editor), g/hooks/pre-commit" in ended.remark
    assert (place.workspace / "g" / "hooks" / "pre-push").read_text() == "mine"


@at_each_level
def test_a_command_cannot_speak_for_its_keeper(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    speak = "for f in /proc/{1,$PPID}/fd/*; do echo -n '!Nothing was done' > $f; done 2>/dev/null"
    ended = place.run(f"{speak}; for n in 3 4 5 6 7 8 9; do echo '!x' > /proc/1/fd/$n; done; kill -INT 1; exit 3")
    assert (ended.why, ended.status) == ("exited", 3)


@at_each_level
def test_no_file_is_made_that_others_run_with_the_rights_of_its_owner(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    open_it = "import os; os.umask(0); os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755)"
    place.run(f"cp /bin/true a; chmod u+s a; chmod 2755 a; chmod 755 a; python3 -c {shlex.quote(open_it)}; echo 1 > c")
    modes = {path.name: path.stat().st_mode & 0o7777 for path in place.workspace.iterdir() if path.is_file()}
    assert modes == {"a": 0o755, "c": 0o644}


@at_each_level
def test_no_setting_of_the_kernel_can_be_opened_for_writing(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    place.run(
        "for f in /proc/sys/kernel/{core_pattern,hostname} /proc/sys/vm/drop_caches; do : 9<>$f && echo $f >> o; done"
    )
    assert not (place.workspace / "o").exists()
