"""The chat as a person sees it, in a real pseudo-terminal."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from nanoclaw.channels.terminal.window import _FRAMES
from tests.channels.conftest import Chat, Start
from tests.channels.screen import Screen


def idle(screen: Screen) -> bool:
    """Nothing is typed and no turn runs. The prompt alone stands there, too, while an answer still grows above it."""
    is_running = re.search(f"^ *[{_FRAMES}] ", screen.shown, re.MULTILINE)
    return bool(screen.lines) and screen.lines[-1].rstrip() == "›" and not is_running


def ask(chat: Chat, text: str, last_words: str) -> Screen:
    chat.say(text)
    return chat.expect(lambda screen: last_words in screen.text and idle(screen))


def busy(start: Start, text: str, shown: str) -> Chat:
    """A chat in the middle of an answer."""
    chat = start()
    chat.say(text)
    chat.expect(shown)
    return chat


def test_an_answer_is_shown_once_and_as_markdown(start: Start) -> None:
    screen = ask(start(), "markdown", "The end of the answer.")
    text = screen.text
    assert text.count("Heading one") == 1 and "# Heading" not in text
    assert " 1 first item\n 2 second item\n    • nested one" in text
    assert "a.md     12   a note about many things" in text
    assert text.count("def greet(name: str) -> str:") == 1 and "```" not in text
    assert text.count("The end of the answer.") == 1


def test_an_answer_taller_than_the_screen_is_whole_and_in_order(start: Start) -> None:
    chat = start(rows=10)
    for command, word in (("lines", "line-{} of the answer"), ("list", "item-{}"), ("code", "code_{0} = {0}")):
        screen = ask(chat, f"{command} 50", word.format(49))
        pattern = word.replace("{0}", r"(\d+)", 1).replace("{}", r"(\d+)").replace("{0}", r"\d+")
        found = [match[1] for line in screen.lines if (match := re.search(pattern + "$", line))]
        assert found == [str(number) for number in range(50)]


def test_a_narrow_screen_shows_every_word(start: Start) -> None:
    screen = ask(start(columns=20, rows=12), "markdown", "answer.")
    letters = re.sub(r"\s", "", screen.text)
    assert "你好世界" in letters and "anotherdefgreet" in letters.replace("│", "")
    assert "thislineislongenoughthatitdoesnotfitintoeightycolumnsofaterminal" in letters


def test_each_tool_call_is_a_line_with_outcome_and_time(start: Start) -> None:
    screen = ask(start(), "tools", "It has three lines.")
    assert "✓ read_file notes/x.md · 0.01 s, 5 B #1" in screen.lines
    assert "✗ read_file notes/x.md · there is no notes/x.md, 0.02 s, 41 B #2" in screen.lines
    assert screen.text.index("Let me look.") < screen.text.index("✓ read_file") < screen.text.index("It has three")


def test_fifty_quick_tools_are_fifty_lines_in_their_order(start: Start) -> None:
    lines = ask(start(rows=10), "many 50", "All read.").lines
    found = [line for line in lines if line.startswith("✓ read_file")]
    assert found == [f"✓ read_file notes/{n}.md · content {n}, 0.00 s #{n}" for n in range(1, 51)]


def test_a_change_shows_twenty_lines_that_fit_the_screen_and_counts_the_rest(start: Start) -> None:
    chat = start(columns=40)
    lines = ask(chat, "diff", "Changed.").lines
    first = next(n for n, line in enumerate(lines) if line.startswith("✓ edit_file"))
    assert lines[first] == "✓ edit_file 笔记/很… · +30 −1, 0.01 s #3"
    beginning = ["  @@ line 8 @@", "   same", "  -old [2J", "  +new 🎉 0 wide wide wide wide wide wi…"]
    assert lines[first + 1 : first + 5] == beginning
    assert lines[first + 21 : first + 23] == ["  … 13 lines more, /show 3", "Changed."]
    assert "\x1b[32m" in chat.raw and "\x1b[2J" not in chat.raw


def test_on_a_narrow_screen_what_is_said_of_a_failure_has_lines_of_its_own(start: Start) -> None:
    lines = ask(start(columns=34), "tools", "It has three lines.").lines
    at = next(n for n, line in enumerate(lines) if re.fullmatch("✗ read_file n.*0.02 s, 41 B #2", line))
    assert lines[at + 1] == "  there is no notes/x.md"


def test_two_tools_side_by_side_show_what_each_is_doing_and_one_never_heard_of_again_is_broken_off(
    start: Start,
) -> None:
    chat = start()
    chat.say("side")
    text = chat.expect("  testing").text
    assert re.search(r"exec left · \d+ s\n  compiling a\n  compiling b\n. exec right · \d+ s\n  testing", text)
    chat.go_on()
    lines = chat.expect(lambda screen: "broken off" in screen.text and idle(screen)).lines
    assert "✗ exec right · [exit status 1], 0.60 s #6" in lines
    assert any(re.fullmatch(r"✗ exec left · broken off, \d\.\d+ s", line) for line in lines)


def test_a_call_within_a_call_stands_below_it_while_it_runs_and_afterwards(start: Start) -> None:
    chat = start()
    chat.say("nest")
    text = chat.expect("page 1 of 2").text
    assert re.search(r". delegate look it up · \d+ s\n  . web_fetch a\.b · \d+ s\n    50% page 1 of 2", text)
    chat.go_on()
    lines = chat.expect(lambda screen: "It is there." in screen.text and idle(screen)).lines
    at = lines.index("✓ delegate look it up · found it, 0.60 s #4")
    assert lines[at + 1] == "  ✓ web_fetch a.b · 0.50 s, 7 B"


def test_a_list_that_a_tool_keeps_is_one_block_that_changes_in_its_place(start: Start) -> None:
    chat = start()
    chat.say("steps")
    seen = []
    for done in range(3):
        seen.append(chat.expect(f"to do: {done} of 2 done").text)
        chat.go_on()
    assert ["".join(re.findall(r"(\d) of 2 done", text)) for text in seen] == ["0", "1", "2"]
    lines = chat.expect(lambda screen: "All done." in screen.text and idle(screen)).lines
    at = lines.index("to do: 2 of 2 done")
    assert lines[at + 1] == "▸ read [2J" and "\x1b[2J" not in chat.raw
    assert [line for line in lines if "todo" in line] == ["✗ todo · there is no step 9, 0.01 s #4"]


def test_ctrl_o_shows_the_last_result_as_a_whole_and_gives_back_what_was_typed(start: Start) -> None:
    chat = start(rows=12)
    chat.press("\x0f")
    chat.expect("no tool has run here yet; /show looks for results of earlier")
    ask(chat, "tools", "It has three lines.")
    ask(chat, "diff", "Changed.")
    chat.press("half typed\x0f")
    chat.expect("#3 (3 of 3)")
    chat.expect("path: 笔记/很长的名字很长的名字很长的名字.md")
    chat.press("G")
    chat.expect("+new 🎉 29")
    chat.press("\x1b[D\x1b[D")
    chat.expect("✓ read_file notes/x.md · 0.01 s, 5 B #1 (1 of 3)")
    chat.press("q")
    chat.expect("› half typed")
    chat.press("\x15")
    ask(chat, "hello", "You said: hello")


def test_what_is_said_while_a_result_is_open_comes_when_it_is_closed(start: Start) -> None:
    chat = start(rows=12)
    ask(chat, "tools", "It has three lines.")
    chat.say("pause")
    chat.expect("A moment.")
    chat.press("\x0f")
    chat.expect("(2 of 2)")
    assert "A moment." not in chat.screen.shown
    chat.go_on()
    chat.press("\x03")
    lines = chat.expect(lambda screen: "A moment." in screen.text and idle(screen)).lines
    assert lines.count("A moment.") == 1


def test_a_running_tool_and_thinking_show_without_the_thoughts(start: Start) -> None:
    chat = start()
    chat.say("hang")
    chat.expect(lambda screen: re.search(r" exec sleep 60 · [1-9]\d* s", screen.text) is not None)
    assert "secret thoughts" not in chat.raw


def test_progress_is_a_bar_and_then_a_line(start: Start) -> None:
    chat = start()
    chat.say("load")
    chat.expect("% loading the model")
    chat.go_on()
    assert ask(chat, "hi", "You said: hi").lines.count("· loading the model") == 1


def test_nothing_turns_while_nobody_is_there_to_answer(start: Start) -> None:
    chat = busy(start, "gone", "nobody answers: trying again …")
    chat.expect(idle)
    chat.go_on()
    assert "nobody answers" not in ask(chat, "hi", "You said: hi").text


def test_no_control_byte_of_a_model_or_tool_reaches_the_terminal(start: Start) -> None:
    chat = start()
    ask(chat, "evil", "ware")
    for sequence in ("\x1b[2J", "\x9b", "\x1b]0;", "\x07"):
        assert sequence not in chat.raw


def test_ctrl_c_by_its_key_or_as_a_signal_stops_the_turn_and_the_chat_goes_on(start: Start) -> None:
    chat = busy(start, "hang", "exec sleep 60")
    chat.press("\x03")
    chat.expect(lambda screen: "Stopped." in screen.lines and idle(screen))
    assert chat.delivered()[-1]["text"] == "/stop"
    chat.say("slow")
    chat.expect("Wait for it")
    chat.signal(signal.SIGINT)
    lines = chat.expect(lambda screen: screen.lines.count("Stopped.") == 2 and idle(screen)).lines
    assert lines[-4:-1] == ["stopping … (Ctrl-C again leaves)", "Wait for it", "Stopped."], "it breaks no sentence"
    ask(chat, "hello", "You said: hello")


def test_a_second_ctrl_c_leaves(start: Start) -> None:
    chat = start()
    chat.press("\x03")
    chat.expect("Ctrl-C again")
    chat.press("\x03")
    chat.expect_left()
    chat = busy(start, "slow", "Wait for it")
    chat.press("\x03")
    chat.expect("Stopped.")
    chat.press("\x03")  # quickly, though the turn has stopped
    chat.expect_left()


def test_ctrl_c_clears_what_is_typed_first(start: Start) -> None:
    chat = start()
    chat.press("never mind")
    chat.expect("› never mind")
    chat.press("\x03")
    chat.expect(lambda screen: idle(screen) and "Ctrl-C again" not in screen.text)


def test_ctrl_d_and_exit_leave(start: Start) -> None:
    for keys in ("\x04", "/exit\r", "/quit\r", "/EXIT\r", "/exit now\r"):
        chat = start()
        chat.press(keys)
        chat.expect_left()
    assert chat.delivered() == []


def test_several_lines_make_one_message(start: Start) -> None:
    chat = start()
    chat.press("one\x1b\rtwo\nthree\\\rfour\x1b[200~ five\nsix\x1b[201~\r")
    chat.expect(lambda screen: "You said: one" in screen.text and idle(screen))
    assert [one["text"] for one in chat.delivered()] == ["one\ntwo\nthree\nfour five\nsix"]


def test_a_message_typed_during_a_turn_is_handed_in_at_once_and_shown_in_its_place(start: Start) -> None:
    chat = busy(start, "pause", "A moment.")
    chat.say("pause again")
    chat.say("/help")
    chat.say("fourth")
    chat.expect(lambda screen: screen.text.find("› fourth") > screen.text.find("A moment."))
    chat.go_on()
    chat.expect(lambda screen: screen.text.count("A moment.") == 2)
    chat.go_on()
    lines = chat.expect(lambda screen: "You said: fourth" in screen.text and idle(screen)).lines
    shown = ["› pause", "A moment.", "› /help", "what I can do", "leave", "› pause again", "A moment.", "› fourth"]
    places = [0]
    for words in [*shown, "You said: fourth"]:
        places.append(next(n for n, line in enumerate(lines) if n > places[-1] and words in line))
    assert [sum(line == one for line in lines) for one in ("› pause again", "› /help", "› fourth")] == [1, 1, 1]
    assert [one["text"] for one in chat.delivered()] == ["pause", "pause again", "/help", "fourth"]


def test_a_line_stands_below_the_answer_before_it_though_that_comes_once_its_own_turn_has_begun(start: Start) -> None:
    chat = busy(start, "late", "the model is at work")
    chat.say("second")
    chat.expect("› second")
    chat.go_on()
    lines = chat.expect(lambda screen: "You said: second" in screen.text and idle(screen)).lines
    shown = ["› late", "A late answer.", "› second", "You said: second"]
    assert [line for line in lines if line in shown] == shown


def test_what_code_answers_during_a_turn_stands_right_above_its_answer(start: Start) -> None:
    chat = busy(start, "pause", "A moment.")
    chat.say("second")
    chat.say("remind me")
    chat.expect("It is set.")
    chat.go_on()
    lines = chat.expect(lambda screen: "You said: second" in screen.text and idle(screen)).lines
    shown = ["› pause", "A moment.", "› remind me", "It is set.", "› second", "You said: second"]
    assert [line for line in lines if line in shown] == shown


def test_messages_that_join_the_turn_are_shown_where_they_did_and_nothing_waits_afterwards(start: Start) -> None:
    chat = start()
    chat.say("gather two")
    chat.expect("I gather.")
    chat.say("one more")
    chat.say("and another")
    lines = chat.expect(lambda screen: "You said: gather two" in screen.text and idle(screen)).lines
    shown = ["› gather two", "I gather.", "› one more", "› and another", "You said: gather two"]
    places = [next(n for n, line in enumerate(lines) if words in line) for words in shown]
    assert places == sorted(places)
    assert not any("not begun" in line for line in lines)


def test_what_a_stop_drops_is_not_shown_as_begun_and_returns_to_the_line(start: Start) -> None:
    chat = busy(start, "slow", "Wait for it")
    chat.say("second")
    chat.say("and that")
    chat.expect("› and that")
    chat.press("\x03")
    chat.expect(lambda screen: "\n".join(screen.shown.rstrip().splitlines()[-2:]) == "› second\n  and that")
    screen = chat.expect(
        lambda screen: "Stopped. Not begun: second; and that." in screen.text and "›" in screen.lines[-2]
    )
    assert [line.rstrip() for line in screen.lines].count("› second") == 1
    chat.say("third")
    chat.expect("You said: second")
    assert chat.delivered()[-1]["text"] == "second\nand that\nthird"
    ask(chat, "hello", "You said: hello")


def test_while_a_question_waits_the_lines_behind_it_wait_on_and_the_model_is_not_at_work(start: Start) -> None:
    chat = busy(start, "ask", "the model is at work")
    chat.say("second")
    chat.say("third")
    chat.expect("› third")
    chat.go_on()
    last = ["waiting for your answer", "› second", "› third", "›"]
    chat.expect(lambda screen: [line.rstrip() for line in screen.lines[-4:]] == last)
    chat.press("\x1b[1;3A thing\r")
    chat.expect(lambda screen: [line.rstrip() for line in screen.lines[-2:]] == ["› third thing", "›"])
    chat.press("\x1b[1;3A\x15\r")
    chat.expect(lambda screen: "third" not in screen.text)
    chat.go_on()
    chat.expect(lambda screen: "You said: second" in screen.text and idle(screen))
    assert [one["text"] for one in chat.delivered()] == ["ask", "second", "third", "third thing", ""]


def test_what_waits_when_the_person_leaves_is_said_to_be_not_begun(start: Start) -> None:
    chat = busy(start, "slow", "Wait for it")
    chat.say("second")
    chat.expect("› second")
    chat.say("/exit")
    chat.expect_left()
    lines = chat.screen.lines
    assert lines.index("› /exit") < lines.index("· not begun: second") and "› second" not in lines


def test_ctrl_c_stops_the_turn_though_something_is_typed(start: Start) -> None:
    chat = busy(start, "slow", "Wait for it")
    chat.press("half a thou")
    chat.expect("› half a thou")
    chat.press("\x03")
    chat.expect(lambda screen: "Stopped." in screen.lines and idle(screen))
    chat.press("\x1b[A")  # what was typed is not lost
    chat.expect("› half a thou")


def test_greeting_and_notices_break_between_words_and_what_was_typed_before_stands_below(start: Start) -> None:
    chat = start(columns=40, typed="hello\r")
    chat.expect(lambda screen: "You said: hello" in screen.text and idle(screen))
    lines = ask(chat, "warn", "notice").lines
    greeting = ["nanoclaw with canned answers, and a", "greeting that is longer than a screen of", "eighty columns"]
    assert lines[1:6] == [*greeting, "› hello", "You said: hello"]
    notice = ["· a" + 7 * " long", " ".join(8 * ["long"]), 5 * "long " + "notice"]
    assert [line for line in lines if "long l" in line or line.endswith("notice")] == notice


def test_commands_are_completed_and_answered(start: Start) -> None:
    chat = start()
    chat.press("/h")
    chat.expect("what I can do")
    chat.press("\t\r")
    chat.expect(lambda screen: "/stop: stop the turn" in screen.text and idle(screen))
    assert "/exit: leave" in chat.screen.text
    assert [one["text"] for one in chat.delivered()] == ["/help"]


def test_a_pipe_in_the_place_of_the_history_costs_the_lines_of_earlier_chats(start: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "history")
    chat = start()
    ask(chat, "markdown", "The end of the answer.")
    chat.press("\x1b[A")
    chat.expect("› markdown")
    assert (tmp_path / "history").is_fifo()


def test_history_is_kept_for_the_owner_only(start: Start, tmp_path: Path) -> None:
    chat = start()
    ask(chat, "remember me", "You said: remember me")
    chat.press("\x04")
    chat.expect_left()
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    chat = start()
    chat.press("\x1b[A")
    chat.expect("› remember me")


def test_a_picture_is_attached_and_said(start: Start, tmp_path: Path) -> None:
    picture = tmp_path / "my photo.jpg"
    picture.touch()
    chat = start()
    screen = ask(chat, f"what is on {str(picture).replace(' ', chr(92) + ' ')}?", "You said")
    assert "attached my photo.jpg" in screen.lines
    assert chat.delivered() == [{"text": "what is on [my photo.jpg]?", "attachments": [str(picture)]}]


def test_a_message_that_cannot_be_stored_is_said_and_the_chat_goes_on(start: Start) -> None:
    chat = start()
    chat.say("refuse")
    screen = chat.expect(lambda screen: screen.lines[-1].rstrip() == "› refuse" and "not accepted" in screen.text)
    assert "✗ not accepted: the disk is full: free some space and say it again" in screen.text
    chat.press("\x15")
    ask(chat, "hello", "You said: hello")


def test_no_color_draws_without_colour(start: Start) -> None:
    chat = start(NO_COLOR="1")
    ask(chat, "tools", "It has three lines.")
    ask(chat, "diff", "Changed.")
    chat.press("\x0f")
    chat.expect("q closes")
    chat.press("\x1b")
    chat.expect(idle)
    screen = ask(chat, "markdown", "The end of the answer.")
    assert "  -old [2J" in screen.lines
    assert not screen.styled and " 1 first item" in screen.lines


def test_a_dumb_terminal_gets_no_escape_code(start: Start) -> None:
    chat = start(TERM="dumb")

    def enter(text: str, expected: str) -> None:
        chat.expect(lambda screen: screen.lines[-1] == ">")
        chat.press(text + "\n")
        chat.expect(expected)

    enter("markdown", "The end of the answer.")
    enter("tools", "It has three lines.")
    enter("diff", "\n  … 13 lines more, /show 3\nChanged.")
    chat.go_on()  # ahead of the turn that waits
    enter("load", "Loaded.")
    enter("hang", "⚙ exec sleep 60 …")
    chat.signal(signal.SIGINT)
    chat.expect("Stopped.")
    enter("slow", "\nWait for")
    chat.signal(signal.SIGINT)
    chat.expect("stopping … (Ctrl-C again leaves)\nit\nStopped.")  # that breaks no word
    enter("one\\\ntwo", "You said: one\ntwo")
    chat.press("\x04")
    chat.expect_left()
    assert "\x1b" not in chat.raw
    assert "· loading the model" not in chat.screen.lines  # the last of the percentages has said it
    assert chat.screen.text.count("The end of the answer.") == 1
    assert [one["text"] for one in chat.delivered()][-2:] == ["/stop", "one\ntwo"]


def test_a_paste_after_enter_is_one_message(start: Start) -> None:
    """A terminal marks a paste as it was last told to; told off for a moment at each Enter, it would tear pastes."""
    chat = start()
    for number in range(3):
        ask(chat, f"hello {number}", f"You said: hello {number}")
    assert (chat.raw.count("\x1b[?2004h"), chat.raw.count("\x1b[?2004l")) == (1, 0)
    chat.press("go\r\x1b[200~one\rtwo\rthree\x1b[201~\r")
    chat.expect(lambda screen: "You said: one" in screen.text and idle(screen))
    assert [one["text"] for one in chat.delivered()][-2:] == ["go", "one\ntwo\nthree"]
    chat.press("\x04")
    chat.expect_left()
    assert chat.raw.count("\x1b[?2004l") == 1


def test_words_to_be_sent_again_stand_in_the_line_once_the_command_is_answered(start: Start) -> None:
    chat = start()
    chat.say("open the pod")
    chat.expect(lambda screen: screen.lines[-1].rstrip() == "› the pod")
    chat.press(" bay\r")
    chat.expect("You said: the pod bay")


def test_alt_up_fetches_a_line_that_waits_and_what_was_begun_meanwhile_is_said_anew(start: Start) -> None:
    chat = busy(start, "pause", "A moment.")
    chat.say("frist")
    chat.say("second")
    chat.press("\x1b[1;3A")
    chat.expect(lambda screen: screen.lines[-1].rstrip() == "› second")
    chat.press(" thing\r")
    chat.expect(lambda screen: [line.rstrip() for line in screen.lines].count("› second thing") == 1)
    chat.go_on()
    lines = chat.expect(lambda screen: "You said: second thing" in screen.text and idle(screen)).lines
    assert "› second" not in [line.rstrip() for line in lines]
    chat.say("pause")
    chat.expect("A moment.")
    chat.say("third")
    chat.press("\x1b[1;3A")
    chat.expect(lambda screen: screen.lines[-1].rstrip() == "› third")
    chat.go_on()
    chat.expect("You said: third")
    chat.press(" too\r")
    chat.expect("You said: third too")
    assert [one["text"] for one in chat.delivered()][1:4] == ["frist", "second", "second thing"]


def test_a_line_that_was_fetched_and_emptied_waits_no_more(start: Start) -> None:
    chat = busy(start, "pause", "A moment.")
    chat.say("first")
    chat.say("second")
    chat.press("\x1b[1;3A")
    chat.expect(lambda screen: screen.lines[-1].rstrip() == "› second")
    chat.press("\x15\r\r")
    chat.expect(lambda screen: "second" not in screen.text)
    chat.go_on()
    chat.expect(lambda screen: "You said: first" in screen.text and idle(screen))
    assert [one["text"] for one in chat.delivered()] == ["pause", "first", "second", ""]


def test_a_line_is_typed_in_an_editor(start: Start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'by hand' >> \"$1\"\n")
    editor.chmod(0o755)
    chat = start(EDITOR=str(editor), VISUAL=str(editor))
    chat.press("written ")
    chat.press("\x07")
    chat.expect("› written by hand")
    chat.press("\r")
    chat.expect("You said: written by hand")


def test_the_foot_of_the_screen_says_how_it_stands_where_there_is_room(start: Start) -> None:
    chat = start(columns=80)
    chat.say("foot main · 34 % of context")
    chat.expect(lambda screen: screen.lines[-1] == "main · 34 % of context")
    chat.say("go camp")
    chat.expect(lambda screen: "go camp" in screen.text and screen.lines[-1].rstrip() == "›")
    chat = start(columns=50)
    chat.say("foot main · 34 % of context")
    chat.expect(lambda screen: "You said" not in screen.text and idle(screen) and "Standing." in screen.text)


def test_a_command_by_hand_is_run_and_shown_to_the_model_unless_it_has_two_marks(start: Start) -> None:
    chat = start(SHELL="/bin/sh")
    chat.say("!echo by hand; false")
    chat.expect(lambda screen: "by hand" in screen.lines and "[exit status 1]" in screen.lines)
    chat.expect("your commands run in /")
    chat.expect("You said: /ran echo by hand; false")
    chat.say("!!echo for me alone")
    chat.expect(lambda screen: "for me alone" in screen.lines)
    chat.say("!sleep 100")
    chat.press("\x03")
    chat.expect("ended")
    ask(chat, "hello", "You said: hello")
    assert [one["text"] for one in chat.delivered()] == ["/ran echo by hand; false\nby hand\n[exit status 1]", "hello"]


def test_a_long_paste_is_shown_by_its_count_and_sent_whole(start: Start) -> None:
    chat = start()
    pasted = [f"line {number}" for number in range(214)]
    chat.press("sum up \x1b[200~" + "\r".join(pasted) + "\x1b[201~ please")
    chat.expect("› sum up [pasted 214 lines] please")
    chat.press("\r")
    screen = chat.expect(lambda screen: "You said: sum up" in screen.text and idle(screen))
    assert chat.delivered()[-1]["text"] == "\n".join(["sum up line 0", *pasted[1:-1], "line 213 please"])
    assert [line for line in screen.lines if "[pasted" in line] == ["› sum up [pasted 214 lines] please"]


def test_two_long_pastes_are_told_apart_and_one_is_taken_out_as_a_whole(start: Start) -> None:
    chat = start()
    for word in ("a", "b", "c"):
        chat.press("\x1b[200~" + "\r".join([word] * 20) + "\x1b[201~")
    chat.expect("› [pasted 20 lines][pasted 20 lines, no. 2][pasted 20 lines, no. 3]")
    chat.press("\x7f\r")
    chat.expect(lambda screen: "You said: a" in screen.text and idle(screen))
    assert chat.delivered()[-1]["text"] == "a\n" * 19 + "a" + "b\n" * 19 + "b"
