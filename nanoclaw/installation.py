"""This installation: the words that start the program here, and the command that installs more of it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution

PACKAGE = "nanoclaw-assistant"


def start_command() -> str:
    """The command that starts this installation, as a person types it in the current folder: `nanoclaw` where the PATH
    finds it, else the path of the launcher beside this interpreter, or `PYTHON -m nanoclaw` without a launcher."""
    launcher = Path(sys.executable).with_name("nanoclaw")
    if not launcher.is_file():
        return f"{shlex.quote(sys.executable)} -m nanoclaw"
    found = shutil.which("nanoclaw")
    return "nanoclaw" if found and launcher.samefile(found) else _typed(launcher)


def install_command(extra: str = "") -> str:
    """The command that installs this program again, with one extra beside those it has, from where it came: pip, pipx
    and uv note that in direct_url.json (PEP 610), which is only absent for a package from an index."""
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.request import url2pathname

    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:  # a source tree that merely lies on the path
        return f"pip install '.[{extra}]' in the folder of nanoclaw's source"
    extras = ",".join(sorted({extra, *_extras(installed)} - {""}))
    if Path(sys.prefix, "container").is_file():  # of the Containerfile
        return f"podman build --build-arg EXTRAS={extras} in the folder of nanoclaw's source"
    extras = f"[{extras}]" if extras else ""
    url = str((origin := _origin(installed)).get("url", ""))
    if url.startswith("file:"):
        wanted = url2pathname(url.removeprefix("file://")) + extras
    else:
        vcs = (origin.get("vcs_info") or {}).get("vcs")
        wanted = f"{PACKAGE}{extras}" + (f" @ {vcs + '+' if vcs else ''}{url}" if url else "")
    editable = ["--editable"] if (origin.get("dir_info") or {}).get("editable") else []
    return " ".join([*_installer(), *editable, shlex.quote(wanted)])


def _installer() -> list[str]:
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return ["uv tool install"]
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return ["pipx install --force"]
    pip = Path(sys.executable).with_name("pip")
    if pip.is_file():
        return [_typed(pip), "install"]
    return ["uv pip install --python", shlex.quote(sys.executable)]


def _extras(installed: Distribution) -> list[str]:
    """The extras whose libraries are all here, without those that come with another one."""
    import re
    from importlib.metadata import PackageNotFoundError, distribution

    needs: dict[str, set[str]] = {}
    for one in installed.requires or ():
        if found := re.match(r"([\w.-]+)(?:\[([\w.,-]+)\])?.*extra\s*==\s*['\"]([\w.-]+)['\"]", one):
            needs.setdefault(found[3], set()).update(
                f"[{name}" for name in (found[2] or "").split(",") if found[1] == PACKAGE
            )
            needs[found[3]] |= {found[1]} - {PACKAGE}

    def libraries(extra: str) -> set[str]:
        return {lib for one in needs[extra] for lib in (libraries(one[1:]) if one[0] == "[" else [one])}

    def is_here(library: str) -> bool:
        try:
            return bool(distribution(library))
        except PackageNotFoundError:
            return False

    here = {extra: parts for extra in needs if all(map(is_here, parts := libraries(extra)))}
    return [extra for extra, parts in here.items() if not any(parts < other for other in here.values())]


def _origin(installed: Distribution) -> dict[str, Any]:
    import json

    try:
        found = json.loads(installed.read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _typed(path: Path) -> str:
    """A program's path, from the current folder where it is in it; from the root, where services run, all do."""
    try:
        folder = Path.cwd()
        path = path if folder == Path(folder.anchor) else path.relative_to(folder)
    except (ValueError, OSError):  # OSError: the current folder is gone
        return shlex.quote(str(path))
    if path.is_absolute():
        return shlex.quote(str(path))
    return shlex.quote(str(path) if path.parent != Path() else f"./{path}")
