"""A page's text as the model gets it."""

from nanoclaw.plugins.browse.reading import goes_on, label, news, part, whole

FORM = """# Order
[1: field "Name" = "Ann, of 3, disabled"] [2: password "Word" = (filled)] [3: select "Colour" = "Blue" of Red, Blue]
[4: checkbox "As a gift" not checked] [5: button "Send"] [6: button "Pay" disabled] [7: date field "Day"] [8: link]
[9: clickable] words [10: button "Menu" collapsed]"""


def test_the_texts_of_frames_stand_where_the_frames_are() -> None:
    texts = ["top\n\x010\nbetween\n\x011\nend", "one\n\x010", "inner", "two"]
    assert [line for line in whole(texts).split("\n") if not line.startswith("---")] == [
        *("top", "one", "inner", "between", "two", "end")
    ]
    assert whole(["top\n\x010"]).count("frame") == 2  # one that could not be read leaves nothing else


def test_a_part_ends_with_a_line_and_the_last_with_the_text() -> None:
    text = "one\ntwo\nthree\n"
    assert part(text, 0, 9) == 8
    assert part(text, 8, 9) == len(text)
    assert part("x" * 50, 0, 9) == 9


def test_what_follows_begins_where_the_last_part_ended() -> None:
    old = "1\n2\n3\n"
    assert goes_on(old, 6, "1\n2\n3\n4\n") == 6  # it grew
    assert "3\n4\n5\n"[goes_on("1\n2\n3", 5, "3\n4\n5\n") :] == "4\n5\n"  # a list that drops what is above
    assert goes_on(old, 6, "something else") == 0


def test_only_what_is_new_is_told() -> None:
    assert news("a\nb\nc", "a\nc\nd") == ("d", 1)
    assert news("a", "a") == ("", 0)


def test_an_element_is_named_without_what_is_in_it() -> None:
    assert [label(FORM, number) for number in range(12)] == [
        *("", 'field "Name"', 'password "Word"', 'select "Colour"', 'checkbox "As a gift"', 'button "Send"'),
        *('button "Pay"', 'date field "Day"', "link", "clickable", 'button "Menu"', ""),
    ]
