"""Bootstrap files within their limits."""

import errno
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanoclaw.beneath.paths import Reach
from nanoclaw.bootstrap_files import cut, fair_shares, read
from nanoclaw.core.errors import WorkspaceError
from nanoclaw.start.config import Config
from nanoclaw.start.home import make_home, seed


def files(root: Path, **contents: str) -> Path:
    (root / "ws").mkdir()
    for name, content in contents.items():
        (root / "ws" / f"{name}.md").write_text(content)
    return root / "ws"


def test_a_small_file_is_whole_beside_a_huge_one(tmp_path: Path) -> None:
    root = files(tmp_path, SOUL="s" * 50_000, MEMORY="m" * 900)
    found = read(Reach(root), tmp_path, file_limit=150_000, total_limit=20_000)
    assert (found["MEMORY.md"].text, found["MEMORY.md"].problem) == ("m" * 900, "")
    assert found["SOUL.md"].problem == "total_budget_truncated"
    assert len(found["SOUL.md"].text) + 900 <= 20_000


def test_all_files_together_stay_within_their_limit(tmp_path: Path) -> None:
    names = ("SOUL", "IDENTITY", "AGENTS", "TOOLS", "USER", "BOOTSTRAP", "MEMORY")
    found = read(Reach(files(tmp_path, **dict.fromkeys(names, "x" * 30_000))), tmp_path)
    assert sum(len(file.text) for file in found.values()) <= 60_000
    assert min(len(file.text) for file in found.values()) >= 2_000


def test_a_cut_keeps_head_and_tail_and_says_how_much(tmp_path: Path) -> None:
    text = "".join(chr(0x4E00 + number % 5000) for number in range(50_000))
    shown = cut("SOUL.md", text, 20_000)
    marker = "[... SOUL.md: kept 14000+4000 of 50000 characters, read the file for the rest ...]"
    assert shown == f"{text[:14_000]}\n{marker}\n{text[-4_000:]}"
    assert len(shown) <= 20_000


@given(st.lists(st.integers(0, 100_000), max_size=10), st.integers(0, 100_000))
def test_shares_never_exceed_the_total_nor_a_files_size(sizes: list[int], total: int) -> None:
    shares = fair_shares(sizes, total)
    assert sum(shares) <= total
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    fair = total // max(1, len(sizes))
    assert all(share >= min(size, fair) for share, size in zip(shares, sizes, strict=True))


@given(st.text(max_size=400), st.integers(0, 300))
def test_a_cut_text_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    assert len(cut("A.md", text, limit)) <= max(limit, 0) or len(text) <= limit


def test_a_file_of_5_mb_is_cut_like_any_other(tmp_path: Path) -> None:
    found = read(Reach(files(tmp_path, SOUL="ä" * 2_500_000)), tmp_path)
    assert found["SOUL.md"].problem == "file_truncated"
    assert "of 2500000 characters" in found["SOUL.md"].text


def test_a_link_out_of_the_workspace_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("secret")
    root = files(tmp_path)
    (root / "SOUL.md").symlink_to(tmp_path / "outside.md")
    (root / "real.md").write_text("mine")
    (root / "USER.md").symlink_to(root / "real.md")
    found = read(Reach(root), tmp_path)
    assert (found["SOUL.md"].text, found["SOUL.md"].problem) == ("", "file_read_error")
    assert found["USER.md"].text == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    root = files(tmp_path, SOUL="mine")
    (root / "SOUL.md").chmod(0)
    assert read(Reach(root), tmp_path)["SOUL.md"].problem == "file_read_error"


def test_a_file_of_headings_and_comments_costs_nothing(tmp_path: Path) -> None:
    root = files(tmp_path, SOUL="# Character\n\n<!-- say\nsomething -->\n", USER="# The person\nAnna")
    found = read(Reach(root), tmp_path)
    assert (found["SOUL.md"].text, found["USER.md"].text) == ("", "# The person\nAnna")


def test_comments_are_for_the_person_and_not_sent(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        AGENTS="# Rules\n\n<!-- For example:\n- Answer in German.\n-->\n\nBe quick. <!-- why not -->\n",
        SOUL="<!-- never closed\nDry.",
    )
    found = read(Reach(root), tmp_path)
    assert found["AGENTS.md"].text == "# Rules\n\nBe quick."
    assert found["SOUL.md"].text == "<!-- never closed\nDry."


@pytest.mark.parametrize("sign", ["<!--", "<!-- -->", "--><!--", "\n", "- ~~x~~\n", "# Skills\n", "[runtime\n"])
def test_five_megabytes_of_one_sign_take_no_time(tmp_path: Path, sign: str) -> None:
    root = files(tmp_path, MEMORY=sign * (5_000_000 // len(sign)) + "end")
    started = time.process_time()
    found = read(Reach(root), tmp_path)
    assert time.process_time() - started < 3
    assert found["MEMORY.md"].text.endswith("end")


@pytest.mark.parametrize("kind", ["folder", "bytes", "pipe", "loop", "too large"])
def test_what_is_no_text_in_the_place_of_a_file_is_a_read_error(tmp_path: Path, kind: str) -> None:
    root = files(tmp_path, USER="Anna")
    match kind:
        case "folder":
            (root / "SOUL.md").mkdir()
        case "bytes":
            (root / "SOUL.md").write_bytes(b"caf\xe9 \xff\xfe")
        case "pipe":
            os.mkfifo(root / "SOUL.md")
        case "loop":
            (root / "SOUL.md").symlink_to("SOUL.md")
        case "too large":
            with (root / "SOUL.md").open("wb") as file:
                file.truncate(3 * 2**30)
    found = read(Reach(root), tmp_path)
    assert (found["SOUL.md"].text, found["SOUL.md"].problem) == ("", "file_read_error")
    assert found["USER.md"].text == "Anna"


def test_a_disk_that_fills_up_while_seeding_leaves_no_half_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = files(tmp_path, AGENTS="rules", SOUL="dry")
    calls = iter((None, OSError(errno.ENOSPC, "No space left on device")))

    def full(descriptor: int) -> None:  # a disk cannot be filled at will here
        if error := next(calls):
            raise error

    with monkeypatch.context() as patch, pytest.raises(WorkspaceError, match="disk is full"):
        patch.setattr(os, "fsync", full)
        seed(tmp_path / "new", template)
    assert not (tmp_path / "new").exists()
    assert seed(tmp_path / "new", template) == ["AGENTS.md", "SOUL.md"]


def test_what_a_person_took_out_of_a_workspace_is_not_seeded_again(tmp_path: Path) -> None:
    template = files(tmp_path, AGENTS="rules", BOOTSTRAP="This workspace is new.")
    (tmp_path / "new").mkdir()
    assert seed(tmp_path / "new", template) == ["AGENTS.md", "BOOTSTRAP.md"]
    (tmp_path / "new" / "BOOTSTRAP.md").unlink()
    assert seed(tmp_path / "new", template) == []
    assert not (tmp_path / "new" / "BOOTSTRAP.md").exists()


def test_where_a_folder_cannot_be_locked_the_first_run_makes_the_workspace_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: int, how: int) -> None:  # as a network drive does
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr("fcntl.flock", refuse)
    config = Config(tmp_path / "home")
    assert "AGENTS.md" in make_home(config)
    assert (config.workspace_path / "AGENTS.md").is_file()
