"""The README's examples work as they are shown."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from nanoclaw.commands.arguments import parser
from nanoclaw.core.tool import Tool

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_every_file_of_ours_that_a_page_names_is_there() -> None:
    lacking = []
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "bench/README.md", *ROOT.glob("nanoclaw/**/*.md")):
        for name in re.findall(r"`([\w./]+/[\w.]+\.(?:py|sql|toml|md))`", page.read_text(encoding="utf-8")):
            places = (ROOT / name, ROOT / "nanoclaw" / name, page.parent / name)
            lacking += [f"{page.name}: {name}"] if not any(place.exists() for place in places) else []
        for name in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            lacking += [f"{page.name}: {name}"] if not (page.parent / name).exists() else []
    assert lacking == []


def test_the_tool_of_the_readme_is_a_tool() -> None:
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(code, names)
    roll = names["roll"]
    assert isinstance(roll, Tool)
    assert roll.spec.name == "dice"

    async def roll_it() -> str:
        return str(await roll.run(sides=2))

    assert 1 <= int(asyncio.run(roll_it())) <= 2


def test_the_config_of_the_readme_is_a_config(tmp_path: Path) -> None:
    from nanoclaw.core import config

    (code,) = blocks("toml")
    (tmp_path / "config.toml").write_text(code, encoding="utf-8")
    assert config.load({"NANOCLAW_HOME": str(tmp_path)}).model.name == "openai/gpt-5"


def commands() -> list[str]:
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line.partition("nanoclaw ")[2] for line in lines if re.match(r"(\S*/)?nanoclaw ", line)]


@pytest.mark.parametrize("command", commands())
def test_the_commands_of_the_readme_are_understood(command: str) -> None:
    assert parser().parse_args(shlex.split(command)).command


def test_the_verbs_of_the_readme_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for verb in set(re.findall(r"\bmake ([a-z]+)", "\n".join(blocks("sh")))):
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE), verb
