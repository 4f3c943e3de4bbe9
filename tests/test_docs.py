"""docs/config.md names every setting, links of docs/core.md lead to lines, and pictures show what the README says."""

import re
import runpy
from xml.etree import ElementTree

import pytest

from nanoclaw.channels.table import BUILT_IN
from tests.program import REPOSITORY
from tests.test_wrong_settings import SETTINGS

SCRIPT, PAGE = REPOSITORY / "docs" / "make" / "config.py", REPOSITORY / "docs" / "config.md"


def test_the_page_of_settings_is_what_the_code_says() -> None:
    written = runpy.run_path(str(SCRIPT))["page"]()
    assert PAGE.read_text("utf-8") == written, "docs/config.md is out of date: run `make docs`."


def test_the_links_of_the_page_about_the_core_lead_to_what_they_name() -> None:
    page, written = REPOSITORY / "docs" / "core.md", runpy.run_path(str(SCRIPT.with_name("core.py")))["written"]
    text = page.read_text("utf-8")
    assert text.count("#L") > 40
    assert text == written(text), "the lines in docs/core.md are out of date: run `make docs`."


def test_the_page_of_settings_has_every_key() -> None:
    table, keys = "", set()
    for line in PAGE.read_text("utf-8").splitlines():
        if title := re.fullmatch(r"## \[(.+)\]", line):
            table = title[1]
            keys.add(f"{table.partition('.')[0]}.*")
        elif row := re.match(r"- `(\w+) = ", line):
            keys |= {f"{table}.{row[1]}", f"{table}.{row[1]}.*"}
    channels = {f"channels.{name}" for name in BUILT_IN}
    keys |= {f"{one}.{key.rpartition('.')[2]}" for one in channels for key in keys if key.startswith("channels.NAME.")}
    assert {*SETTINGS} <= keys


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_shows_a_reminder_a_diff_and_a_question(theme: str) -> None:
    picture = REPOSITORY / "docs" / "pictures" / f"chat-{theme}.svg"
    lines = dict[str, str]()
    for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text"):
        lines[text.get("y", "")] = lines.get(text.get("y", ""), "") + (text.text or "").replace("\xa0", " ")
    shown = "\n".join(" ".join(line.split()) for line in lines.values())
    assert "a reminder, is set: Tue 9 Mar 2027, 09:00" in shown
    assert "-Friday to Sunday\n+Friday to Monday" in shown
    assert "Delete 3 files in ~/Pictures?" in shown
    assert not re.findall("/tmp|/home|/root|https?://", shown)
