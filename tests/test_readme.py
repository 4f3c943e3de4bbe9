"""The examples of the README and the pages in docs are ones that the program understands."""

import re
import shlex
from pathlib import Path

import pytest

from nanoclaw.commands.arguments import is_built_in, parsed

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))


def lines() -> list[str]:
    """What a page has somebody type in a shell."""
    blocks = [re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE) for page in PAGES]
    return [line.split(" #")[0].strip() for page in blocks for block in page for line in block.splitlines()]


def test_every_file_of_ours_that_a_page_names_is_there() -> None:
    lacking = []
    for page in (*PAGES, ROOT / "bench/README.md", *ROOT.glob("nanoclaw/**/*.md")):
        for name in re.findall(r"`([\w./]+/[\w.]+\.(?:py|sql|toml|md))`", page.read_text(encoding="utf-8")):
            places = (ROOT / name, ROOT / "nanoclaw" / name, page.parent / name)
            lacking += [f"{page.name}: {name}"] if not any(place.exists() for place in places) else []
        for name in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            lacking += [f"{page.name}: {name}"] if not (page.parent / name).exists() else []
    assert lacking == []


def commands() -> list[str]:
    """What stands behind `nanoclaw`, as far as it is the command line's own, not the chat's or an MCP server's."""
    found = [line.partition("nanoclaw")[2].partition(" -- ")[0] for line in lines() if line.startswith("nanoclaw ")]
    return sorted(one for one in {*found} - {""} if one[1] == "-" or is_built_in(*one.split()[:2]))


@pytest.mark.parametrize("command", commands())
def test_the_commands_of_the_pages_are_understood(command: str) -> None:
    assert parsed(shlex.split(command)).command


def test_the_verbs_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for verb in set(re.findall(r"\bmake ([a-z]+)", "\n".join(lines()))):
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE), verb
