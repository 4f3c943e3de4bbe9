"""What the house is made of only grows when somebody says so."""

import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from tests import figures
from tests.examples import examples
from tests.figures import Figures, counted, higher, lower, measured, write

KINDS = examples(__file__, "figures.jsonl")

LONG = 600


def allowed(file: Path = figures.FILE) -> Figures:
    return tomllib.loads(file.read_text(encoding="utf-8"))


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="counted with 3.11: newer ones inline some functions")
def test_no_figure_grew_and_lower_ones_are_written() -> None:
    found = measured(figures.REPOSITORY)
    if said := [*higher(allowed(), found), *lower(allowed(), found)]:
        pytest.fail("\n".join(said), pytrace=False)


def test_a_long_file_is_said() -> None:
    paths = sorted((figures.REPOSITORY / "nanoclaw").rglob("*.py"))
    counts = {path: path.read_text(encoding="utf-8").count("\n") for path in paths}
    if long := [f"{path.relative_to(figures.REPOSITORY)} ({lines})" for path, lines in counts.items() if lines > LONG]:
        warnings.warn(f"over {LONG} lines, perhaps more than one idea: {', '.join(long)}", stacklevel=1)


TREE = {
    "nanoclaw/core/turn.py": "x = 1\n" * 200,
    "nanoclaw/core/store/db.py": "y = 1\n" * 100,
    "nanoclaw/plugins/todo/plugin.py": "z = 1\n" * 50,
    "nanoclaw/escapes.py": "e = 1\n" * 10,
    "tests/test_turn.py": "t = 1\n" * 400,
    "README.md": "one two three\n",
}
HEAD = "# said by hand\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small repository whose figures are those of its file."""
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    lines = [HEAD]
    for table, rows in counted(tmp_path).items():
        lines += [f"[{table}]\n", *(f'"{name}" = {figure}  # why {name}\n' for name, figure in rows.items())]
    (tmp_path / "figures.toml").write_text("".join(lines))
    return tmp_path


def add(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + text)


def said(tree: Path) -> list[str]:
    found, most = counted(tree), allowed(tree / "figures.toml")
    return [*higher(most, found), *lower(most, found)]


def make_figures(tree: Path) -> int:
    return write(tree / "figures.toml", counted(tree))


def test_a_figure_that_is_the_same_is_no_news(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "figures.toml").read_text()
    assert said(tree) == []
    assert make_figures(tree) == 0
    assert capsys.readouterr().out == "No figure is lower.\n"
    assert (tree / "figures.toml").read_text() == before


def test_a_line_more_is_said_of_each_room_it_is_in(tree: Path) -> None:
    add(tree / "nanoclaw/core/store/db.py", "new = 1\n")
    do = "take something away, or give a new room its own budget in tests/figures.toml"
    assert said(tree) == [
        f"all of nanoclaw grew by 1 line to 361 (360 allowed): {do}",
        f"core grew by 1 line to 301 (300 allowed): {do}",
        f"core/store grew by 1 line to 101 (100 allowed): {do}",
    ]


def test_make_figures_refuses_a_higher_one_and_writes_none(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "figures.toml").read_text()
    add(tree / "nanoclaw/core/turn.py", "new = 1\n")
    (tree / "tests/test_turn.py").write_text("")
    assert make_figures(tree) == 1
    assert "core grew by 1 line to 301 (300 allowed)" in capsys.readouterr().out
    assert (tree / "figures.toml").read_text() == before


def test_one_in_a_hundred_less_is_room_to_work_in_and_more_is_to_be_written(tree: Path) -> None:
    (tree / "tests/test_turn.py").write_text("t = 1\n" * 396)
    assert said(tree) == []
    (tree / "tests/test_turn.py").write_text("t = 1\n" * 392)
    do = "run `make figures`, which writes the lower figure into tests/figures.toml"
    assert said(tree) == [f"all of tests fell by 8 lines to 392 (400 allowed): {do}"]


def test_make_figures_writes_what_is_lower_and_leaves_comments(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "tests/test_turn.py").write_text("t = 1\n" * 399)
    before = (tree / "figures.toml").read_text()
    assert make_figures(tree) == 0
    assert capsys.readouterr().out == "all of tests: 399 (was 400)\n"
    assert (tree / "figures.toml").read_text() == before.replace('"all of tests" = 400', '"all of tests" = 399')


@pytest.mark.parametrize(("path", "room"), KINDS["new rooms"])
def test_a_new_room_needs_a_budget(tree: Path, path: str, room: str, capsys: pytest.CaptureFixture[str]) -> None:
    add(tree / "nanoclaw" / path, "new = 1\n" * 12)
    budget = f'add its budget to [lines] in tests/figures.toml, "{room}" = 12, and say so in the commit'
    assert f"{room} is new, with 12 lines: {budget}" in said(tree)
    assert make_figures(tree) == 1
    assert f"{room} is new" in capsys.readouterr().out


def test_a_room_that_is_gone_takes_its_line_along(tree: Path) -> None:
    (tree / "nanoclaw/plugins/todo/plugin.py").unlink()
    assert "plugins/todo is gone: run `make figures`, which takes it out of tests/figures.toml" in said(tree)
    assert make_figures(tree) == 0
    assert said(tree) == []
    assert "todo" not in (tree / "figures.toml").read_text()


@pytest.mark.parametrize(("path", "text", "figure"), KINDS["less"])
def test_what_is_to_become_less_is_counted(tree: Path, path: str, text: str, figure: str) -> None:
    add(tree / "nanoclaw/core/turn.py", "from nanoclaw.core.a import A\n")
    add(tree / "nanoclaw/core/store/migrations/001.sql", "CREATE TABLE inbox (id);\n")
    assert counted(tree)["counts"][figure] == 0
    add(tree / "nanoclaw" / path, text)
    assert counted(tree)["counts"][figure] > 0


def test_others_releases_and_systems_may_change_the_install_by_so_much() -> None:
    most = {"install": {"megabytes": 100}}
    assert [higher(most, {"install": {"megabytes": size}}) for size in (76, 110)] == [[], []]
    assert [lower(most, {"install": {"megabytes": size}}) for size in (76, 110)] == [[], []]
    assert len(higher(most, {"install": {"megabytes": 111}})) == 1
    assert len(lower(most, {"install": {"megabytes": 74}})) == 1


def test_another_python_wins_nothing_with_a_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Later versions make no function of a comprehension."""
    (tmp_path / "figures.toml").write_text("[message]\nfunctions = 600\n")
    monkeypatch.setattr(sys, "version_info", (3, 13, 1, "final", 0))
    found = {"message": {"functions": 500}}
    assert lower(allowed(tmp_path / "figures.toml"), found) == []
    assert write(tmp_path / "figures.toml", found) == 0
    assert allowed(tmp_path / "figures.toml") == {"message": {"functions": 600}}


def test_slow_tests_are_written_when_they_are_fewer_and_stop_nobody(tmp_path: Path) -> None:
    file = tmp_path / "figures.toml"
    file.write_text("[told]\n'tests over one second' = 133\n")
    assert write(file, {"told": {"tests over one second": 200}}) == 0
    assert allowed(file) == {"told": {"tests over one second": 133}}
    assert write(file, {"told": {"tests over one second": 90}}) == 0
    assert allowed(file) == {"told": {"tests over one second": 90}}
