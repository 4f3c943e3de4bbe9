"""The file tools: what they show, what they change, and what they leave alone."""

import asyncio
import json
import os
import stat
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nanoclaw.core.messages import Attachment, Inbound, UserMessage
from nanoclaw.plugins.files import looking
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from nanoclaw.start.build import BUILT_IN
from tests.plugins.conftest import Hands
from tests.program import MAIN, new_id, results, running

# -- reading


def test_lines_are_numbered_and_paged(hands: Hands) -> None:
    (hands.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    assert hands("read_file", path="a.txt", offset=3, limit=2) == (
        "3\tline 3\n4\tline 4\n[more lines follow: offset=5 goes on]"
    )
    assert hands("read_file", path="a.txt", offset=999) == "999\tline 999\n1000\tline 1000"
    assert hands("read_file", path="a.txt").endswith("\n500\tline 500\n[more lines follow: offset=501 goes on]")
    assert hands("read_file", path="a.txt", offset=-5, limit=1).startswith("1\tline 1\n")
    assert "has 1000 lines: offset 1001 is beyond" in hands.error("read_file", path="a.txt", offset=1001)


def test_pages_together_are_the_whole_file(hands: Hands) -> None:
    lines = [f"{'é' * (n % 700)}{n}" for n in range(1, 900)]
    (hands.root / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    while True:
        page = hands("read_file", path="a.txt", offset=len(seen) + 1).split("\n")
        more = page.pop() if page[-1].startswith("[") else ""
        seen += [line.partition("\t")[2] for line in page]
        if not more:
            break
        assert more == f"[more lines follow: offset={len(seen) + 1} goes on]"
    assert seen == lines


def test_an_empty_file_says_so(hands: Hands) -> None:
    (hands.root / "a.txt").write_text("")
    assert hands("read_file", path="a.txt") == "[the file is empty]"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"a\r\nb\r\n", "1\ta\n2\tb"),
        (b"a\n\nb", "1\ta\n2\t\n3\tb"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "1\tcafé"),
        ("a\ncafé 漢".encode("utf-16"), "1\ta\n2\tcafé 漢\n[encoding UTF-16]"),
        ("\ufeffa\nb\n".encode("utf-16-be"), "1\ta\n2\tb\n[encoding UTF-16]"),
        (b"caf\xe9 \x80", "1\tcafé €\n[encoding Windows-1252]"),
        (b"caf\xe9 \x81", "1\tcafé \ufffd\n[encoding Latin-1]"),
        (
            "été à Nîmes ".encode() + b"\xff",
            "1\tété à Nîmes \ufffd\n[damaged UTF-8: unreadable bytes are shown as \ufffd]",
        ),
        (b"\x1b[31mred\x07\x7f\r.", "1\t␛[31mred␇␡␍."),
        (b"form\x0cfeed\xe2\x80\xa8one line", "1\tform␌feed\u2028one line"),
    ],
)
def test_text_is_read_in_every_encoding(hands: Hands, content: bytes, shown: str) -> None:
    (hands.root / "a.txt").write_bytes(content)
    assert hands("read_file", path="a.txt") == shown


def test_a_character_on_the_border_of_two_blocks_stays_whole(hands: Hands) -> None:
    (hands.root / "a.txt").write_text("x" * 1999 + "\n" + ("é" * 1000 + "\n") * 100)
    page = hands("read_file", path="a.txt", offset=2, limit=500)
    assert "\ufffd" not in page
    assert hands("read_file", path="a.txt", offset=101).endswith("\t" + "é" * 1000)


def test_binary_files_are_refused_with_a_reason(hands: Hands) -> None:
    for content in (b"\x7fELF\0\1", bytes(range(256)), bytes(range(1, 256)) * 3):
        (hands.root / "a.bin").write_bytes(content)
        assert "is binary" in hands.error("read_file", path="a.bin")


def test_an_image_is_shown_as_an_image(hands: Hands) -> None:
    from PIL import Image as pillow

    pillow.new("RGB", (2, 2)).save(hands.root / "a.png")
    result = hands.result("read_file", path="a.png")
    assert result.text == "[image a.png]"
    assert [(image.mime, image.name) for image in result.images] == [("image/png", "a.png")]
    (hands.root / "cut.png").write_bytes((hands.root / "a.png").read_bytes()[:40])
    assert "cut.png" in hands.error("read_file", path="cut.png")


def test_what_is_no_file_is_refused_at_once(hands: Hands) -> None:
    os.mkfifo(hands.root / "pipe")
    for path in ("pipe", "/dev/zero", "/proc/self/mem", "/dev/stdin"):
        assert hands.error("read_file", path=path)
    assert "is a folder" in hands.error("read_file", path=".")
    assert "does not exist" in hands.error("read_file", path="missing.txt")
    assert "NUL" in hands.error("read_file", path="a\0b")


def test_shipped_skills_can_be_read_but_not_changed(hands: Hands, tmp_path: Path) -> None:
    path = str(tmp_path / "skills/SKILL.md")
    assert hands("read_file", path=path) == "1\thow to"
    assert "outside the workspace" in hands.error("edit_file", path=path, old="how", new="x")
    assert "its folder to [files] write in config.toml" in hands.error("write_file", path=path, content="x")


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000


def test_a_file_of_three_gigabytes_is_paged_with_flat_memory(hands: Hands) -> None:
    with (hands.root / "big.txt").open("wb") as file:
        file.write(b"a line\n" * 10_000)
        file.truncate(3_000_000_000)  # sparse: one more line, of NUL characters
    with little_memory():
        assert hands("read_file", path="big.txt", offset=9_999, limit=1).startswith("9999\ta line\n[more")
        assert "line of 100,0" in hands("read_file", path="big.txt", offset=10_001)


def test_a_picture_of_three_gigabytes_is_refused_unread(hands: Hands) -> None:
    with (hands.root / "big.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(3_000_000_000)
    with little_memory():
        assert "has more than 50 MB. Make it smaller first." in hands.error("read_file", path="big.png")


def test_one_line_of_ten_megabytes_is_cut_and_the_next_is_read(hands: Hands) -> None:
    (hands.root / "long.txt").write_bytes(b"x" * 10_000_000 + b"\r\nend\n")
    page = hands("read_file", path="long.txt")
    assert len(page) < 2_200
    assert "[... line of 10,000,00" in page
    assert page.endswith("\n2\tend")


# -- writing


def test_a_file_is_made_with_its_folders_then_overwritten(hands: Hands) -> None:
    assert hands("write_file", path="notes/deep/a.md", content="né\n") == "Created notes/deep/a.md (4 bytes)."
    assert hands("write_file", path="notes/deep/a.md", content="x" * 2_000) == "Overwrote notes/deep/a.md (2.0 kB)."
    assert (hands.root / "notes/deep/a.md").read_text() == "x" * 2_000


def test_a_script_stays_executable(hands: Hands) -> None:
    hands("write_file", path="run.sh", content="echo 1\n")
    (hands.root / "run.sh").chmod(0o755)
    hands("edit_file", path="run.sh", old="1", new="2")
    assert stat.S_IMODE((hands.root / "run.sh").stat().st_mode) == 0o755
    assert hands("exec", command="./run.sh") == "2\n[exit status 0]"


@pytest.mark.parametrize(
    "path", ["../out.txt", "/etc/nanoclaw", "link/x", "~/x", "a\0", "hard.txt", ".", "folder", "new/", "a.txt/x"]
)
def test_where_nothing_may_be_written_nothing_is(hands: Hands, tmp_path: Path, path: str) -> None:
    (hands.root / "link").symlink_to(tmp_path)
    (tmp_path / "one.txt").write_text("1")
    (hands.root / "hard.txt").hardlink_to(tmp_path / "one.txt")
    (hands.root / "folder").mkdir()
    (hands.root / "a.txt").write_text("a")
    before = sorted(tmp_path.rglob("*"))
    for name, arguments in {
        "write_file": {"content": "x"},
        "append_file": {"content": "x"},
        "edit_file": {"old": "1", "new": "2"},
    }.items():
        told = hands.error(name, path=path, **arguments)
        assert ("[files] write in" in told or name == "edit_file") if path[0] in "~/" else told
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "one.txt").read_text() == "1"


def test_appending_starts_a_new_line(hands: Hands) -> None:
    assert hands("append_file", path="a/list.md", content="- one") == "Created a/list.md (5 bytes)."
    assert hands("append_file", path="a/list.md", content="- two\n") == "Added to a/list.md (6 bytes)."
    assert (hands.root / "a/list.md").read_text() == "- one\n- two\n"


# -- editing


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one two three", "two", "2", b"one 2 three"),
        (b"a\r\nb\r\nc", "b", "x\ny", b"a\r\nx\r\ny\r\nc"),
        (b"a\r\nb\r\nc", "a\nb", "x\ny", b"x\r\ny\r\nc"),
        (b"a\r\nb\r\nc", "c", "x\ny", b"a\r\nb\r\nx\r\ny"),
        (b"a\nb\r\nc\n", "a", "x\ny", b"x\ny\nb\r\nc\n"),
        (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),
        (b"text\0\1\2\xff more", "text", "word", b"word\0\1\2\xff more"),
        ("\ufeffaé\r\nb".encode("utf-16-le"), "é\nb", "ê\nc", "\ufeffaê\r\nc".encode("utf-16-le")),
        ("\ufeffaĀb".encode("utf-16-be"), "Ā", "", "\ufeffab".encode("utf-16-be")),
        (b"caf\xe9 au lait", "café", "thé", b"th\xe9 au lait"),
        (b"bad \xff\xfe caf\xc3\xa9 \xc3\xa9", "café", "x", b"bad \xff\xfe x \xc3\xa9"),
        (b"gone\n", "gone\n", "", b""),
        (b"tabs\tand  spaces\n\n\n", "\tand  ", " ", b"tabs spaces\n\n\n"),
    ],
)
def test_an_edit_changes_that_and_no_other_byte(hands: Hands, before: bytes, old: str, new: str, after: bytes) -> None:
    (hands.root / "a.txt").write_bytes(before)
    hands("edit_file", path="a.txt", old=old, new=new)
    assert (hands.root / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("content", "old", "reason"),
    [
        ("a\nb\na\n", "a", "found 2 times in 'a.txt', at lines 1, 3. Nothing was changed"),
        ("aaa", "aa", "found 2 times"),
        ("x\n" * 50, "x", "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, …"),
        ("first\n    indented = 1\n", "indented  = 1", "Nearest is line 2: '    indented = 1'"),
        ("first\n\tindented\n", "  indented", "Line 2 is close: '\\tindented'"),
        ("first\nsecond\n", "2\tsecond", "Line 2 is close: 'second'"),
        ("first\n", "nothing like it", "nor anything like it"),
        ("first\n", "", "'old' is empty"),
        ("first\n", "new", "the same"),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing_and_helps(hands: Hands, content: str, old: str, reason: str) -> None:
    (hands.root / "a.txt").write_text(content)
    assert reason in hands.error("edit_file", path="a.txt", old=old, new="new")
    assert (hands.root / "a.txt").read_text() == content


def test_an_edit_that_the_encoding_cannot_hold_is_refused(hands: Hands) -> None:
    (hands.root / "a.txt").write_bytes(b"caf\xe9")
    assert "has the encoding Windows-1252, which has no '漢'" in hands.error(
        "edit_file", path="a.txt", old="caf", new="漢"
    )


def test_a_bom_is_not_found_as_text(hands: Hands) -> None:
    (hands.root / "a.txt").write_bytes(b"\xef\xbb\xbfa")
    assert "is not in" in hands.error("edit_file", path="a.txt", old="\ufeffa", new="b")


# -- looking around


def test_a_folder_is_listed_folders_first(hands: Hands) -> None:
    (hands.root / "zoo").mkdir()
    (hands.root / "a.txt").write_text("123")
    (hands.root / "link").symlink_to("/etc/passwd")
    os.mkfifo(hands.root / "pipe")
    (hands.root / "bad\x1b\nname").write_text("")
    shown = "zoo/\na.txt (3 bytes)\nbad␛␊name (0 bytes)\nlink -> /etc/passwd\npipe (not a plain file)"
    assert hands("list_dir") == shown
    assert hands("list_dir", path="zoo") == "[the folder is empty]"
    assert "does not exist" in hands.error("list_dir", path="nowhere")
    assert "outside" in hands.error("list_dir", path="..")


def test_names_that_are_no_unicode_do_no_harm(hands: Hands) -> None:
    with open(os.fsencode(hands.root) + b"/bad\xff.txt", "w") as file:  # noqa: PTH123  (a name of bytes)
        file.write("needle\n")
    assert "bad\ufffd.txt" in hands("list_dir")
    assert "bad\ufffd.txt" in hands("find_files", pattern="*.txt")
    assert hands("search_files", pattern="needle") == "bad\ufffd.txt:1: needle"


def test_a_large_folder_is_listed_in_part(hands: Hands) -> None:
    for number in range(250):
        (hands.root / f"{number:03}.txt").write_text("")
    text = hands("list_dir")
    assert text.endswith("199.txt (0 bytes)\n[50 more entries: find_files narrows it down]")
    assert hands("find_files", pattern="*.txt").endswith("\n[150 more, older ones]")


def test_files_are_found_newest_first(hands: Hands) -> None:
    for age, name in enumerate(("new.md", "notes/old.md", "notes/deep/oldest.md", "other.txt")):
        path = hands.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (1_000_000_000 - age, 1_000_000_000 - age))
    assert hands("find_files", pattern="*.md") == (
        "new.md (1 bytes)\nnotes/old.md (1 bytes)\nnotes/deep/oldest.md (1 bytes)"
    )
    assert hands("find_files", pattern="*.md", path="notes/deep") == "notes/deep/oldest.md (1 bytes)"
    assert hands("find_files", pattern="notes/*.md") == "notes/old.md (1 bytes)"
    assert hands("find_files", pattern="*.pdf") == "[no file matches '*.pdf']"


def test_lines_are_searched(hands: Hands) -> None:
    (hands.root / "notes").mkdir()
    (hands.root / "notes/a.md").write_text("One\ntwo\n")
    (hands.root / "b.txt").write_text("one \x1b[31m\n")
    assert hands("search_files", pattern="(?i)one") == "b.txt:1: one ␛[31m\nnotes/a.md:1: One"
    assert hands("search_files", pattern="o", path="notes") == "notes/a.md:2: two"
    assert hands("search_files", pattern="o", path="notes/a.md") == "notes/a.md:2: two"
    assert hands("search_files", pattern="o", glob="*.txt").startswith("b.txt:1:")
    assert hands("search_files", pattern="zebra") == "[no line matches 'zebra']"
    assert "is not a regular expression" in hands.error("search_files", pattern="(")
    assert "its folder to [files] read in config.toml" in hands.error("search_files", pattern="root", path="/etc")
    assert "does not exist" in hands.error("search_files", pattern="x", path="nowhere")


@pytest.mark.parametrize("tool", ["read_file", "search_files"])
async def test_a_link_in_the_place_of_an_attached_file_leads_nowhere(tmp_path: Path, tool: str) -> None:
    root, secret, beside = tmp_path / "workspace", tmp_path / "secrets.env", tmp_path / "b.txt"
    came = root / "media/a.txt"
    secret.write_text("KEY=1\n")
    secret.chmod(0o600)
    beside.write_text("KEY=2\n")
    came.parent.mkdir(parents=True)
    came.symlink_to(secret)
    (tmp_path / "other").symlink_to(root)
    attached = (came, tmp_path / "other/media/a.txt", beside)
    given = {"pattern": "KEY"} if tool == "search_files" else {}
    calls = tuple((tool, {"path": str(path), **given}) for path in (beside, secret, *attached[:2]))
    async with running(tmp_path, ScriptedProvider(Say(calls=calls), "ok"), plugins=["files"]) as program:
        await program.ask("look", files=tuple(Attachment(str(path), path.name) for path in attached))
        first, *others = (result.text for result in results(program.history))
    assert "KEY=2" in first
    assert all("outside the workspace" in text for text in others), others


def test_hits_are_bounded_in_number_and_length(hands: Hands) -> None:
    (hands.root / "a.txt").write_text("é" * 5_000 + "needle" + "漢" * 5_000 + "\n" + "needle\n" * 500)
    lines = hands("search_files", pattern="needle").split("\n")
    assert lines[0] == f"a.txt:1: {'é' * 100}needle{'漢' * 194}"
    assert len(lines) == looking.MOST_FOUND + 1
    assert lines[-1] == "[more than 100 hits: narrow it down]"


async def test_a_pattern_that_never_ends_is_stopped_and_delays_nobody(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "SEARCH_SECONDS", 1.0)
    (hands.root / "1.txt").write_text("aaa\n")
    (hands.root / "2.txt").write_text("a" * 50 + "!\n")
    search = asyncio.create_task(hands.run("search_files", json.dumps({"pattern": "(a+)+$"})))
    others = 0
    while not search.done():
        await asyncio.sleep(0.001)
        others += 1
    (text, others) = search.result().text, others
    assert text == "1.txt:1: aaa\n[stopped after 1 s: there may be more. Use a simpler pattern or a glob.]"
    assert others > 10


def test_a_long_line_shows_its_beginning_and_its_end(hands: Hands) -> None:
    hands("exec", command="(printf HEAD; head -c 10000000 /dev/zero | tr '\\0' x; echo TAIL) > long.txt")
    text = hands("read_file", path="long.txt")
    assert text.startswith("1\tHEADxxx")
    assert "xxx [... line of 10,000,008 characters; exec with cut -c shows the rest ...] xxx" in text
    assert text.endswith("xxxTAIL") and len(text) < 2_200


# --- folders besides the workspace -----------------------------------------------------------------------------------


OTHERS = {
    "git": ".git/hooks/pre-commit app/.git/config app/scripts/hooks/pre-push app/more.config linked/pre-commit "
    "store.git/hooks/post-receive .GIT/config",
    "direnv": "deep/er/.envrc",
    "your editor": ".vscode/tasks.json x.code-workspace",
    "other assistants": ".claude/settings.json",
    "your shell": ".profile",
    "your tools": "app/mise.toml",
    "": "app/Makefile app/scripts/build.sh gitignore .gitignore store.git/description",
}
RUN_LATER = {path: whose for whose, paths in OTHERS.items() for path in paths.split()}


def _repositories(root: Path) -> None:
    for name in ("app/.git/hooks", "app/scripts/hooks", "store.git/objects", "store.git/refs", "hooks"):
        (root / name).mkdir(parents=True)
    config = "[core]\n\thooksPath = scripts/hooks\n[include]\n\tpath = ../more.config\n"
    (root / "app" / ".git" / "config").write_text(config)
    (root / "store.git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "linked").symlink_to("app/.git/hooks")


@pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")
async def test_a_file_that_other_programs_run_later_is_asked_about(tmp_path: Path) -> None:
    _repositories(tmp_path / "workspace")
    steps = [call("write_file", {"path": path, "content": "x\n"}) for path in RUN_LATER]
    model = ScriptedProvider(*(one for step in steps for one in (step, "Hm.")))
    asked = dict[str, str]()
    async with running(tmp_path, model) as program:
        for path in RUN_LATER:
            await program.say("Go")
            said = await program.answer()
            asked[path] = said.partition("It would be run by ")[2].partition(" later, with your rights.")[0]
            if asked[path]:
                assert not (tmp_path / "workspace" / path).is_file() or path == "app/.git/config"
                await program.say("no")
                while await program.answer() != "Hm.":
                    pass
    assert asked == RUN_LATER


@pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")
async def test_where_nobody_is_there_no_file_is_written_that_others_run(tmp_path: Path) -> None:
    model = ScriptedProvider(call("write_file", {"path": ".envrc", "content": "x\n"}), "Hm.")
    async with running(tmp_path, model) as program:
        message = UserMessage("Do it", program.clock(), "job")
        inbound = Inbound(MAIN, "me", new_id(), message, role="owner")
        program.app.transactions.write_now(lambda tx: tx.deliver(inbound, program.app.chain.profiles["job"]))
        while await program.answer() != "Hm.":
            pass
        assert "run by direnv later" in results(program.history)[-1].text
    assert not (tmp_path / "workspace" / ".envrc").exists()


@pytest.mark.skipif("approvals" not in BUILT_IN, reason="nobody asks without approvals")
async def test_writing_outside_the_workspace_asks_and_the_yes_goes_on_for_that_folder(tmp_path: Path) -> None:
    site, inner = tmp_path / "site", tmp_path / "site" / "inner"
    inner.mkdir(parents=True)
    page, other = f"{site}/a.md", f"{inner}/b.md"
    model = ScriptedProvider(
        *(call("write_file", {"path": "here.md", "content": "free"}), "Free."),
        *(call("write_file", {"path": page, "content": "one"}), "One."),
        *(call("edit_file", {"path": page, "old": "one", "new": "two"}), "Two."),
        *(call("append_file", {"path": other, "content": "x"}), "Not done."),
    )
    settings = f'[files]\nwrite = ["{site}", "{inner}"]\n'
    async with running(tmp_path / "home", model, settings=settings) as program:
        assert await program.ask("here") == "Free."
        asked = await program.ask("there")
        assert asked.startswith(
            f"Write `{page}`?\n\n```\npath: {page}\ncontent: one\n```\n\n1. Yes\n"
            f"2. Yes for an hour: writing files in {site}\n3. Yes always: "
        )
        await program.say("always")
        assert "One." in {await program.answer() for _ in range(2)}
        assert await program.ask("change it") == "Two."
        assert (await program.ask("the other")).startswith(f"Add to `{other}`?")
        await program.say("no")
        assert "Not done." in {await program.answer() for _ in range(2)}
        assert Path(page).read_text() == "two" and not Path(other).exists()


async def test_a_path_of_the_home_is_none_of_the_workspace_in_the_audit_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "site").mkdir()
    model = ScriptedProvider(
        call("write_file", {"path": "~/site/a.md", "content": "x"}),
        *(call("write_file", {"path": "~/elsewhere.md", "content": "x"}), "Done."),
    )
    settings = f'[files]\nwrite = ["{tmp_path}/site"]\n[tools]\nallow = ["write_file"]\n'
    async with running(tmp_path / "home", model, settings=settings) as program:
        await program.ask("go")
        targets = [target for (target,) in program.rows("SELECT target FROM ledger ORDER BY id")]
        assert targets[:1] == [f"{tmp_path}/site/a.md"] and not any(target.startswith("~") for target in targets)
        assert not (program.workspace / "~").exists()
