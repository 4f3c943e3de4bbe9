"""docs/config.md names every setting as the code has it."""

from __future__ import annotations

import re
import runpy

from tests.program import REPOSITORY
from tests.test_wrong_settings import SETTINGS

SCRIPT = REPOSITORY / "docs" / "config.py"


def test_the_page_of_settings_is_what_the_code_says() -> None:
    written = runpy.run_path(str(SCRIPT))["page"]()
    assert SCRIPT.with_suffix(".md").read_text("utf-8") == written, "docs/config.md is out of date: run `make docs`."


def test_the_page_of_settings_has_every_key() -> None:
    table, keys = "", set()
    for line in SCRIPT.with_suffix(".md").read_text("utf-8").splitlines():
        if title := re.fullmatch(r"## \[(.+)\]", line):
            table = title[1]
            keys.add(f"{table.partition('.')[0]}.*")
        elif row := re.match(r"\| `(\w+)` \|", line):
            keys |= {f"{table}.{row[1]}", f"{table}.{row[1]}.*"}
    channels = {"channels.telegram", "channels.matrix", "channels.email"}
    keys |= {f"{one}.{key.rpartition('.')[2]}" for one in channels for key in keys if key.startswith("channels.NAME.")}
    assert {*SETTINGS} <= keys
