"""Repositories that a command makes run nothing when the person's git comes by."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from nanoclaw.sandbox.git_config import harmless
from nanoclaw.sandbox.protect import Search
from tests.examples import examples
from tests.sandbox.enclosed import strengths
from tests.sandbox.test_protected import Place, at_each_level

KEYS = examples(__file__, "configurations.jsonl")

AUTHOR = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b; "
EVIL = """
evil() { printf '[core]\\n\\tfsmonitor = "touch {mark}; false"\\n\\tsshCommand = touch {mark}\\n' >> "$1"; }
monitor() { cp -p "$1" ../kept 2>/dev/null || true; evil "$1"; }
made() { git init -q "$1" && (cd "$1" && echo 1 > a && git add a && git commit -qm 1); }
entered() { git -C top update-index --add --cacheinfo 160000,$(git -C "$2" rev-parse HEAD),"$1"; }
"""

ATTACKS = {kind: script for kind, (script,) in examples(__file__, "repositories.jsonl").items()}


def owner_works(place: Place, root: Path) -> None:
    """All that the owner may do in his repository, and in every folder of it."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_TERMINAL_PROMPT": "0"}
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    folders = [place.workspace / "top"]
    inner = [one.parent for name in (".git", "HEAD") for one in folders[0].rglob(name)]
    folders += [one for one in inner if ".git" not in one.parts and one != folders[0]]
    for folder in folders:
        for arguments in (("status",), ("diff",), ("fetch",), ("submodule", "update"), ("commit", "-am", "2")):
            subprocess.run(("git", *author, *arguments), cwd=folder, env=environment, capture_output=True)


@pytest.mark.parametrize("kind", ATTACKS)
def test_what_git_would_run_is_taken_out_of_what_a_command_made(tmp_path: Path, kind: str) -> None:
    levels = [one for one in strengths() if one != "none"]  # each attack at one: what comes afterwards is the same
    if not levels:
        pytest.skip("this machine has no sandbox")
    place, mark = Place(tmp_path, levels[list(ATTACKS).index(kind) % len(levels)]), tmp_path / "ran"
    place.git("init", "-q", "top")
    (place.workspace / "top" / "old" / "node_modules" / "y").mkdir(parents=True)
    place.git("-C", "top", "commit", "-q", "--allow-empty", "-m", "1")
    place.run("true")
    script = f"{AUTHOR}{EVIL}{ATTACKS[kind]}".replace("{mark}", str(mark))
    ended = place.run(script)
    owner_works(place, tmp_path)
    assert not mark.exists(), ended
    assert "put away, as write_file must ask for it: " in ended.remark, ended


@at_each_level
def test_a_made_repository_works_in_no_folder_beyond_what_commands_write(tmp_path: Path, level: str) -> None:
    place, away = Place(tmp_path, level), tmp_path / "away"
    away.mkdir()
    for name, where in {"a": str(away), "b": f"../../../../../../..{away}", "c": "../link"}.items():
        made = f"git init -q {name}; ln -sfn {away} {name}/link; git config -f {name}/.git/config core.worktree {where}"
        ended = place.run(made)
        assert "worktree" not in (place.workspace / name / ".git" / "config").read_text()
        assert "core.worktree" in ended.remark, ended
    ended = place.run("git init -q d; git config -f d/.git/config core.worktree ../part")
    assert "worktree = ../part" in (place.workspace / "d" / ".git" / "config").read_text() and not ended.remark


@at_each_level
def test_a_result_names_what_was_taken_out_and_it_is_kept_aside(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    ended = place.run(
        "git init -q new && cd new && git config core.fsmonitor ./x && git config user.name Bob && "
        "git config alias.x '!./x' && echo x > .git/hooks/pre-push"
    )
    told = "new/.git/config (core.fsmonitor, alias.x), new/.git/hooks/pre-push"
    assert ended.remark == f"put away, as write_file must ask for it: {told}"
    config = (place.workspace / "new" / ".git" / "config").read_text()
    assert "Bob" in config and "./x" not in config
    assert any("fsmonitor" in one.read_text() for one in place.aside.iterdir() if one.name.endswith("-config"))
    assert place.run("true").remark == ""


@at_each_level
def test_a_link_to_itself_keeps_nothing_from_being_judged(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    (place.workspace / "a").mkdir()
    (place.workspace / "a" / ".envrc").symlink_to("../x")
    place.run("true")
    ended = place.run("mv a b; ln -s a a; git init -q new && git -C new config core.fsmonitor ./x")
    assert "put away, as write_file must ask for it: new/.git/config (core.fsmonitor)" in ended.remark
    assert (place.workspace / "a" / ".envrc").is_symlink()
    assert place.run("true").status == 0


@at_each_level
def test_repositories_made_as_usual_stay_as_they_were_made(tmp_path: Path, level: str) -> None:
    place = Place(tmp_path, level)
    place.git("init", "-q", "-b", "main", "part")
    place.git("-C", "part", "commit", "-q", "--allow-empty", "-m", "1")
    for command in (
        "git clone -q part a && cd a && git switch -qc b && git push -q origin b && git remote add other ../part",
        "git init -q c && cd c && git config user.email x@y && git config pull.rebase true && git config color.ui auto",
        "git clone -q --bare part d.git && git clone -q --mirror part e.git",
        "git init -q f && cd f && git -c protocol.file.allow=always submodule --quiet add ../part x; git commit -qm 1",
        "git clone -q part g && cd g && git worktree add -q ../h && git sparse-checkout init 2>/dev/null; git gc -q",
        "git clone -q --depth 1 file://$PWD/part i && cd i && git config --add remote.origin.fetch '+refs/x:refs/y'",
    ):
        ended = place.run(f"{AUTHOR}{command}")
        assert (ended.status, ended.remark) == (0, ""), (command, ended)


def test_a_plain_configuration_is_left_as_it_is() -> None:
    text = '[core]\n\tbare = false\n# mine \\\n[remote "origin"]\n\turl = git@example.org:a/b\n\tfetch = +refs/*\n'
    assert harmless(text, bool) == (text, ())


@pytest.mark.parametrize(("line", "taken"), KEYS["keys that git would run are taken out"])
def test_keys_that_git_would_run_are_taken_out(line: str, taken: str) -> None:
    found = harmless(f"{line}\n", bool)
    assert found.taken == (taken,)
    assert "x" not in found.text.replace("[include", "").partition("]")[2]


def test_hooks_among_thousands_of_files_are_taken_out(tmp_path: Path) -> None:
    git = tmp_path / "a" / ".git"
    for name in ("objects", "refs", "hooks"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    for number in range(5_100):
        (git / "hooks" / f"{number}.sample").touch()
    (git / "hooks" / "post-merge").touch()
    found, _ = Search([tmp_path]).came(time.time_ns(), (), ())
    assert [one.path for one in found] == [str(git / "hooks")]
