"""Every simple spelling of a command is seen; words that only look like one are not."""

from __future__ import annotations

import pytest

from nanoclaw.shell_words import commands_in

PUSH = ("git", "push")


@pytest.mark.parametrize(
    "line",
    [
        "git  push",
        "cd repo && git push",
        "cd repo; git push; ls",
        "true\ngit push",
        "false || git push",
        "git push &",
        "git push 2>&1 >log",
        "> log git push",
        "git log | git push",
        "(cd repo; git push)",
        "{ git push; }",
        "! git push",
        "if true; then git push; fi",
        "while read x; do git push; done < list",
        "case a in a) git push;; esac",
        "f() { git push; }; f",
        'sh -c "git push"',
        "bash -lc 'cd repo; git push'",
        "bash -c \"sh -c 'git push'\"",
        "eval git push",
        "eval 'git push'",
        "trap 'git push' EXIT",
        "su - me -c 'git push'",
        "GIT_DIR=x A=1 git push",
        "env -u X A=1 git push",
        "env -S 'git push'",
        "sudo -u me git push",
        "sudo -u me nohup nice -n 5 git push",
        "time git push",
        "timeout -k 5 10 git push",
        "exec git push",
        "command git push",
        "flock lock git push",
        "flock lock -c 'git push'",
        "flock -n -w 5 lock -c 'cd repo; git push'",
        "script -c 'git push' /dev/null",
        "script -qec 'git push' /dev/null",
        "script --command='git push' log",
        "sg staff -c 'git push'",
        "watch -n 5 'cd repo; git push'",
        "ssh -p 22 host 'cd repo && git push'",
        "ssh host git push",
        "parallel 'git push {}' ::: origin",
        "runuser - me -c 'git push'",
        "runuser -u me git push",
        "find . -name x -exec git push \\;",
        "echo x | xargs -n1 git push",
        "echo push | xargs git",
        "echo git push | sh",
        "printf 'git push\\n' | bash",
        "bash <<EOF\ngit push\nEOF",
        "bash <<-'EOF'\n\tgit push\n\tEOF\nls",
        "bash <<< 'git push'",
        "x=$(git push)",
        'echo "now: $(git push)"',
        "echo `git push`",
        "echo ${X:-$(git push)}",
        "diff <(git push) file",
        "g''it pu\\sh",
        "'git' \"push\"",
        "$'\\x67it' push",
        "git \\\n push",
        'echo "it\'s" && git push',
        "echo $((1 + (2 * 3))); git push",
        "git >log push",
        "git push >log <<EOF\nEOF",
        "cat <<EOF | sh\ngit push\nEOF",
        "if true; then sh; fi <<EOF\ngit push\nEOF",
        "(cd x; echo git push 2>&1) | sh",
        "git push; (",
        "'g'it push; echo '",
    ],
)
def test_a_command_is_found(line: str) -> None:
    assert PUSH in [words[:2] for words in commands_in(line)]


@pytest.mark.parametrize(
    "line",
    [
        'git commit -m "don\'t git push"',
        "git commit -m 'x; git push'",
        "echo git push",
        "echo 'a && git push'",
        "git log # then git push",
        "cat <<EOF\ngit push\nEOF",
        "cat <<< 'git push'",
        "grep 'git push' notes.md",
        "digit push",
        "git 'push it'x",
        "script git-push.log",
        "flock lock python3 -c 'git push'",
        "flock lock git commit -c push",
    ],
)
def test_words_that_no_command_is_made_of_are_none(line: str) -> None:
    assert PUSH not in [words[:2] for words in commands_in(line)]


@pytest.mark.parametrize(
    "line", ["", " ", "'", '"$(', "$(", "`", "${", "<<", "<<EOF", "|", "&&&", "))((", "\\", "$'\\x", "a <("]
)
def test_a_broken_line_is_read_to_its_end(line: str) -> None:
    list(commands_in(line))


def test_shells_within_shells_end_somewhere() -> None:
    assert len(list(commands_in("$(" * 5000))) < 5000
    assert len(list(commands_in("sudo " * 5000 + "ls"))) < 50
    assert PUSH in commands_in("a|" * 50_000 + "'git' push")
    assert PUSH in commands_in("$(" * 3000 + "git push" + ")" * 3000)
