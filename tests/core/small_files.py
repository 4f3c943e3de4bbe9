"""Four small tools on a folder, for tests in which a model works with files and no plugin is there."""

import os
from pathlib import Path

from nanoclaw.core.errors import ToolError
from nanoclaw.core.plugin import Tool
from nanoclaw.core.tool import tool


def small_file_tools(folder: Path) -> list[Tool]:
    async def read_file(path: str, offset: int = 1) -> str:
        """Reads a file from a line on."""
        if not (folder / path).exists():
            raise ToolError(f"there is no file {path}")
        return "\n".join((folder / path).read_text().splitlines()[offset - 1 :])

    async def write_file(path: str, content: str) -> str:
        """Writes a file."""
        (folder / path).write_text(content)
        return f"wrote {path}"

    async def append_file(path: str, content: str) -> str:
        """Adds a line to a file."""
        with (folder / path).open("a") as file:
            file.write(f"{content}\n")
        return f"added to {path}"

    async def list_dir() -> str:
        """Lists the files."""
        return "\n".join(sorted(os.listdir(folder)))  # noqa: PTH208

    return [
        tool(read_file, reach="none"),
        tool(write_file, reach="workspace"),
        tool(append_file, reach="workspace"),
        tool(list_dir, reach="none"),
    ]
