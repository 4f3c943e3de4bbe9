"""`exec`: what the model learns of a command."""

import time

import pytest

from tests.plugins.conftest import Hands


def test_output_and_status_come_back(hands: Hands) -> None:
    assert hands.error("exec", command="echo hi; echo bad >&2; exit 3") == "hi\nbad\n[exit status 3]"
    assert hands("exec", command="true") == "[exit status 0]"


def test_a_word_that_looks_dangerous_is_only_a_word(hands: Hands) -> None:
    assert hands("exec", command='echo "remove rm -rf usage"').startswith("remove rm -rf usage")


def test_a_command_works_in_the_workspace(hands: Hands) -> None:
    hands("exec", command="mkdir notes && echo x > notes/a.txt")
    assert hands("read_file", path="notes/a.txt") == "1\tx"


def test_secrets_of_the_environment_do_not_reach_a_command(hands: Hands) -> None:
    assert "canary" not in hands("exec", command="env; cat /proc/$PPID/comm; set").lower()


def test_the_time_limit_gives_the_output_so_far(hands: Hands) -> None:
    text = hands.error("exec", command="echo begun; sleep 600", timeout_seconds=1)
    assert text == "begun\n[stopped after 1 s: the command was still running. Above is its output so far.]"


def test_what_was_left_in_the_background_is_ended_and_said(hands: Hands) -> None:
    text = hands("exec", command="sleep 600 & echo ready")
    assert text == "ready\n[exit status 0; 1 background process(es) were ended with it]"


def test_a_killed_command_names_the_signal(hands: Hands) -> None:
    assert hands.error("exec", command="kill -SEGV $$") == "[killed by SIGSEGV]"


def test_long_output_keeps_head_and_tail(hands: Hands) -> None:
    text = hands("exec", command="seq 1 100000")
    assert text.startswith("1\n2\n")
    assert "\n100000\n[all of it is in outputs/exec-" in text
    assert text.endswith("\n[exit status 0]")
    assert "[... about 578,895 bytes left out ...]" in text
    assert len(text) < 10_200
    text = hands("exec", command="seq 1 3000")
    assert "[... 3,892 characters left out ...]" in text


def test_a_line_of_ten_megabytes_keeps_head_and_tail_also_where_a_line_before_overwrote_itself(hands: Hands) -> None:
    begins = r"printf '10%%\r20%%\n'; printf HEAD; head -c 10000000 /dev/zero | tr '\0' x; echo TAIL"
    before = time.process_time()
    text = hands("exec", command=begins)
    assert time.process_time() - before < 2  # of 5 s when the search for what was overwritten was quadratic
    assert text.startswith("20%\nHEADxxx")
    assert "xxxTAIL\n[all of it is in outputs/exec-" in text
    assert len(text) < 10_300


def test_a_flood_is_stopped(hands: Hands) -> None:
    assert "bytes of output. Write it to a file" in hands.error("exec", command="yes")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (r"printf '\033[31mred\033[0m \033]0;title\007 \a\b\000'", "red"),
        (r"printf '10%%\r20%%\r100%%\n'", "100%"),
        (r"printf 'a\r\nb\r\n'", "a\nb"),
        (r"printf 'bad \377\376 bytes'", "bad \ufffd\ufffd bytes"),
        (r"printf '\302\2331m'", ""),
    ],
)
def test_output_is_made_readable(hands: Hands, command: str, shown: str) -> None:
    assert hands("exec", command=command).removesuffix("[exit status 0]").strip() == shown


def test_a_command_that_cannot_be_run_says_so(hands: Hands) -> None:
    assert "NUL" in hands.error("exec", command="echo \0")
    assert "empty" in hands.error("exec", command=" \n")
    assert "could not be started" in hands.error("exec", command="x" * 1_000_000)
    assert "[exit status 127]" in hands.error("exec", command="no-such-program")
