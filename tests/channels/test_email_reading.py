"""Reading mails: whose words they are, who wrote them, what a server says of their parts."""

import base64
import binascii
from email.message import EmailMessage
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.channels.email import fetch_answer, quotes, threads
from nanoclaw.channels.email.text import content, decoded, decoded_text, html_text
from nanoclaw.channels.email.trust import Author, Headers, author, is_address, is_vouched_for
from tests.channels import mail_server
from tests.examples import examples

ANN = Author("ann@lab.test", "Ann", True)
MAILS = examples(__file__, "email_reading.jsonl")


@pytest.mark.parametrize(("own", "quoted"), MAILS["own words above a quote"])
def test_quotes_and_signatures_below_an_answer_are_left_out(own: str, quoted: str) -> None:
    assert quotes.own_words(f"{own}\n\n{quoted}\n") == own


@pytest.mark.parametrize("said", MAILS["a line that answers is known whatever is quoted below"])
@pytest.mark.parametrize("quoted", ["", "\n\n> drink water\n> now", "\n\nBot:\n> water\n\n|> more"])
def test_a_line_that_answers_is_known_whatever_is_quoted_below(said: str, quoted: str) -> None:
    assert quotes.command(said + quoted) == said


@pytest.mark.parametrize("text", MAILS["other words are no answer by a number"])
def test_other_words_are_no_answer_by_a_number(text: str) -> None:
    assert quotes.command(text) == ""


def test_an_answer_below_what_it_quotes_is_kept() -> None:
    assert quotes.own_words("On Mon, 3 Nov 2025 at 10:00, Bob wrote:\n> Which day?\n> B\n\nTuesday.\n") == "Tuesday."


@pytest.mark.parametrize("text", MAILS["words of the author are never taken for a quote"])
def test_words_of_the_author_are_never_taken_for_a_quote(text: str) -> None:
    assert quotes.own_words(text) == text


@pytest.mark.parametrize("subject", ["Fwd: Report", "WG: Bericht", "TR : Rapport", "转发：报告"])
def test_what_is_forwarded_is_what_the_mail_is_about(subject: str) -> None:
    assert quotes.is_forward(subject, "")
    assert quotes.is_forward("Report", "Look\n\n---------- Forwarded message ---------\nFrom: Bob")
    assert not quotes.is_forward("Re: Report", "Tomorrow")


@pytest.mark.parametrize(
    "text", ["a" * 200_000, "> " * 100_000, ">\n" * 100_000, "From: a\n" * 25_000, "\n" * 200_000, "> a\nb\n" * 30_000]
)
@pytest.mark.timeout(60)
def test_a_long_text_takes_no_long_time(text: str) -> None:
    assert quotes.own_words(text) in text
    assert quotes.without_quoted_lines(text) is not None


@given(st.text())
def test_whatever_the_text_its_own_words_are_part_of_it(text: str) -> None:
    own = quotes.own_words(text)
    assert own in "\n".join(line.rstrip() for line in text.split("\n"))


def test_a_signature_is_no_quote_and_lines_that_are_quoted_between_are() -> None:
    assert not quotes.is_quoting("Hello\n\n-- \nAnn")
    assert quotes.is_quoting("> Which day?\nTuesday.\n> Where?\nHere.")
    assert (
        quotes.without_quoted_lines("On 3.11.2025 Pay evil <b@x.org> wrote:\n> Day?\nTuesday.\n> a\nb") == "Tuesday.\nb"
    )


def test_html_becomes_text_as_a_reader_sees_it() -> None:
    page = (
        "<html><head><title>no</title><style>p {}</style></head><body><p>Dear <b>Ann</b>,</p>"
        "<table><tr><td>a</td><td>1</td></tr></table><p style='display: none'>secret orders</p>"
        "<p>see <a href='https://x.test/y'>this</a></p></body></html>"
    )
    assert html_text(page, quotes=False).split() == ["Dear", "Ann,", "a", "1", "see", "[this](https://x.test/y)"]


@pytest.mark.parametrize("quoted", MAILS["quotes in html are left out"])
def test_quotes_in_html_are_left_out(quoted: str) -> None:
    page = f"<html><body><div>Yes.</div>{quoted}</body></html>"
    assert html_text(page, quotes=False) == "Yes."
    assert "Which?" in html_text(page, quotes=True)


@pytest.mark.parametrize(
    "page", ["", "\0", "<", "<?xml version='1.0' encoding='utf-8'?><p>x</p>", "<p>" * 5000, "<!-- x"]
)
def test_no_html_is_an_error(page: str) -> None:
    html_text(page, quotes=False)


# --- who wrote it


def headers(*results: str, sender: str = "Ann <ann@lab.test>") -> Headers:
    lines = [f"Authentication-Results: {result}" for result in results] + [f"From: {sender}"]
    return Headers.of("\r\n".join(lines).encode() + b"\r\n\r\n")


@pytest.mark.parametrize("results", MAILS["an author is believed when the own server vouches for the domain"])
def test_an_author_is_believed_when_the_own_server_vouches_for_the_domain(results: list[str]) -> None:
    assert is_vouched_for(headers(*results), ANN, "mx.lab.test")
    assert not is_vouched_for(headers(*results), ANN, "")
    assert not is_vouched_for(headers(*results), Author("ann@lab.test.evil.test", "", True), "mx.lab.test")


@pytest.mark.parametrize("results", MAILS["vouches for nobody"])
def test_nothing_less_is_believed(results: list[str]) -> None:
    assert not is_vouched_for(headers(*results), ANN, "mx.lab.test")


@given(st.text(alphabet='ab;=()"\\ .@<>mx.lab.test dmarc=pass', max_size=60))
def test_no_comment_and_no_quote_vouches(said: str) -> None:
    inside = said.replace("\\", "").replace("(", "").replace(")", "").replace('"', "")
    for result in (
        f"mx.lab.test; spf=fail ({inside}) x=y",
        f'mx.lab.test; spf=fail smtp.mailfrom="{inside}"@evil.test',
    ):
        assert not is_vouched_for(headers(result), ANN, "mx.lab.test")


@pytest.mark.parametrize(("sender", "address", "is_certain"), MAILS["the author is one address without doubt"])
def test_the_author_is_one_address_without_doubt(sender: str, address: str, is_certain: bool) -> None:
    found = author(headers(sender=sender))
    assert found is not None
    assert (found.address, found.is_certain) == (address, is_certain)


@pytest.mark.parametrize(
    "sender", ["", "Ann", "undisclosed:;", "<>", "@", "a@b@c", "ann@lab.test" * 500, "\udcff@", "((((("]
)
def test_an_author_who_cannot_be_answered_is_none(sender: str) -> None:
    assert author(Headers((("from", sender),))) is None


def test_two_headers_that_name_an_author_leave_doubt_that_no_server_removes() -> None:
    vouched = ("authentication-results", "mx.lab.test; dmarc=pass header.from=lab.test")
    doubtful = Headers((vouched, ("from", "ann@lab.test"), ("from", "eve@evil.test")))
    found = author(doubtful)
    assert found is not None and not found.is_certain
    assert not is_vouched_for(doubtful, found, "mx.lab.test")
    assert is_vouched_for(doubtful, ANN, "mx.lab.test")


@given(st.text())
def test_a_name_is_one_short_line(name: str) -> None:
    found = author(Headers((("from", f"{name} <ann@lab.test>"),)))
    if found:
        assert len(found.name) <= 64
        assert found.name.isprintable() or not any(ord(character) < 32 for character in found.name)


@pytest.mark.parametrize("text", ["ann@lab.test", "a.b+c@x", "张@例子.测试", "a@[127.0.0.1]"])
def test_an_address_is_plain(text: str) -> None:
    assert is_address(text) == ("[" not in text)


# --- parts and bytes


def test_parts_are_found_in_the_order_of_their_numbers() -> None:
    letter = EmailMessage()
    letter.set_content("plain")
    letter.add_alternative("<p>page</p>", subtype="html")
    letter.add_attachment(b"x" * 5700, maintype="application", subtype="pdf", filename="a b.pdf")
    inner = EmailMessage()
    inner.set_content("inner")
    letter.add_attachment(inner)
    told = f"1 (UID 5 BODYSTRUCTURE {mail_server.structure(letter)})".encode()
    found = fetch_answer.parts(fetch_answer.fetched([told], 5)["BODYSTRUCTURE"])
    assert [(part.section, part.mime) for part in found] == [
        *(("1.1", "text/plain"), ("1.2", "text/html"), ("2", "application/pdf"), ("3", "message/rfc822"))
    ]
    assert (found[2].name, found[2].encoding, found[2].is_attached) == ("a b.pdf", "base64", True)
    assert 5600 <= found[2].size <= 5750


def test_names_of_files_are_read_however_they_are_written() -> None:
    def name(parameters: bytes) -> str:
        told = (
            b'1 (UID 5 BODYSTRUCTURE ("image" "png" NIL NIL NIL "base64" 10 NIL ("attachment" (%s)) NIL))' % parameters
        )
        return fetch_answer.parts(fetch_answer.fetched([told], 5)["BODYSTRUCTURE"])[0].name

    assert name(b'"filename" "a.png"') == "a.png"
    assert name(b'"filename" "=?utf-8?q?gr=C3=B6=C3=9Fe=2Epng?="') == "größe.png"
    assert name(b'"filename*" "utf-8\'\'gr%C3%B6%C3%9Fe.png"') == "größe.png"
    assert name(b'"filename*0*" "utf-8\'\'gr%C3%B6" "filename*1" "sse.png"') == "grösse.png"
    assert name(b'"filename*" "x\'\'\xff%"') != "a.png"


def test_a_literal_and_news_of_other_mails_are_read() -> None:
    data = [b"3 (FLAGS (\\Seen) UID 4)", (b"2 (UID 5 BODY[HEADER]<0> {5}", b'a)("b'), b" INTERNALDATE NIL)"]
    assert fetch_answer.fetched(data, 5) == {"UID": b"5", "BODY[HEADER]<0>": b'a)("b', "INTERNALDATE": None}
    assert fetch_answer.fetched([None], 5) == {}


@given(st.lists(st.one_of(st.binary(), st.tuples(st.binary(), st.binary()))))
def test_no_answer_of_a_server_is_worse_than_a_value_error(data: list[object]) -> None:
    try:
        found = fetch_answer.fetched(data, 1)
        fetch_answer.parts(found.get("BODYSTRUCTURE"))
    except ValueError:
        pass


@given(st.binary(), st.sampled_from(["base64", "quoted-printable", "7bit", "x-uuencode", ""]), st.text(max_size=12))
def test_any_bytes_are_text(data: bytes, encoding: str, charset: str) -> None:
    said = decoded_text(content(data, encoding), charset)
    assert "\r" not in said and "\0" not in said


@pytest.mark.parametrize(
    ("data", "charset", "said"),
    [
        ("größe".encode(), "utf-8", "größe"),
        ("größe".encode("latin-1"), "iso-8859-1", "größe"),
        ("größe".encode("latin-1"), "utf-8", "größe"),
        ("“so”".encode("cp1252"), "iso-8859-1", "“so”"),
        ("㐀".encode("gb18030"), "gb2312", "㐀"),
        ("größe".encode(), "us-ascii", "größe"),
        (b"x", "punycode", "x"),
        (b"\\x41", "unicode_escape", "\\x41"),
    ],
)
def test_a_wrong_charset_costs_no_words(data: bytes, charset: str, said: str) -> None:
    assert decoded_text(data, charset) == said


@given(st.binary(), st.integers(0, 100))
def test_broken_base64_gives_what_it_has(data: bytes, end: int) -> None:
    content(data, "base64")
    letters = base64.b64encode(data).rstrip(b"=")[:end]
    assert content(letters, "base64") == data[: len(letters) * 3 // 4]


@given(st.binary(max_size=300), st.lists(st.integers(0, 500), max_size=4), st.booleans())
def test_a_file_is_the_same_wherever_its_pieces_are_cut(data: bytes, cuts: list[int], is_base64: bool) -> None:
    encoded = base64.encodebytes(data) if is_base64 else binascii.b2a_qp(data, istext=False)
    lines = encoded.replace(b"\n", b"\r\n")
    pieces = [lines[start:end] for start, end in pairwise([0, *sorted(cuts), len(lines) + 500])]
    assert b"".join(decoded(pieces, "base64" if is_base64 else "quoted-printable")) == data


# --- threads


def test_a_mail_of_ours_carries_its_conversation() -> None:
    own = threads.own_id("a" * 64, "0123456789ab", "lab.test")
    assert threads.own_thread(["<x@y>", own, "<z@y>"], "lab.test") == "0123456789ab"
    assert threads.own_thread([threads.own_id("a" * 64, "", "lab.test")], "lab.test") == ""
    assert threads.own_thread([own], "other.test") is None
    assert threads.own_thread([], "lab.test") is None


def test_the_chain_of_a_long_conversation_stays_short_and_keeps_its_beginning() -> None:
    conversation = threads.MailThread("x", "<0@y>")
    for number in range(1, 50):
        conversation = conversation.answered(f"<{number}@y>")
    assert conversation.references[0] == "<0@y>"
    assert conversation.references[-1] == "<48@y>"
    assert len(conversation.references) < 20
