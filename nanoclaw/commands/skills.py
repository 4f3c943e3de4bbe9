"""`nanoclaw skills`: which there are, one in full, and adding one from a local folder or archive."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from nanoclaw.commands.plugins import carry_out
from nanoclaw.core.config import Config
from nanoclaw.core.errors import ConfigError, SkillError
from nanoclaw.plugins.skills import described
from nanoclaw.plugins.skills.package import Package, read, read_folder
from nanoclaw.plugins.skills.pins import SkillPin


def listed(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "skills", "list", as_json=options.json, only_reads=True)


def show(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "skills", f"show {options.name}", as_json=options.json, only_reads=True)


def trust(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "skills", f"trust {options.name}", as_json=options.json)


def remove(config: Config, options: argparse.Namespace) -> int:
    return carry_out(config, "skills", f"remove {options.name}", as_json=options.json)


def add(config: Config, options: argparse.Namespace) -> int:
    """Show a skill as a whole, ask, copy it into the home, and pin it as it was shown."""
    if "skills" in config.plugins.off:
        raise ConfigError("the plugin skills is off: take it out of [plugins] off in config.toml")
    package = read(options.path)
    name = described.front_of(package, _stem(options.path))[0].name
    folder = config.home / "skills" / name
    there = read_folder(str(folder)) if folder.is_dir() else None
    if there is None or there.sha256 != package.sha256:
        was = there and SkillPin(
            there.sha256, there.hashes, {path: one.text or "" for path, one in there.files.items()}
        )
        print(*described.lines(package, name, was), sep="\n", file=sys.stderr if options.json else sys.stdout)
        where = f"replace {folder}" if there else f"copy it to {folder}"
        if not options.yes and not _says_yes(f"Use this skill, and {where}?"):
            return 1
        _put(package, folder)
    return carry_out(config, "skills", f"trust {folder} {package.sha256}", as_json=options.json)


def _stem(path: Path) -> str:
    """The name that a folder or archive gives a skill whose own is none."""
    name = path.resolve().name
    for ending in (".tar.gz", ".tgz", ".tar", ".zip"):
        name = name.removesuffix(ending)
    return name


def _says_yes(question: str) -> bool:
    from nanoclaw.yes_no import yes_or_no

    if sys.stdin is None or not sys.stdin.isatty():
        raise SkillError(f"{question} Nobody is here to say so: --yes does")
    print(f"{question} yes or no: ", end="", flush=True)
    is_yes = yes_or_no(sys.stdin.readline()) is True
    if not is_yes:
        print("Nothing was added.")
    return is_yes


def _put(package: Package, folder: Path) -> None:
    """Put a skill's files into the home, in place of an older one as a whole."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(prefix="skill-", dir=folder.parent.parent))
    try:
        new, old = made / "new", made / "old"
        for path, file in package.files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).write_bytes(file.data)
            (new / path).chmod(0o755 if file.can_run else 0o644)
        if folder.exists():
            folder.replace(old)
        new.replace(folder)
    except OSError as error:
        raise SkillError(f"the skill cannot be written to {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


COMMANDS = {
    "skills": listed,
    "skills list": listed,
    "skills show": show,
    "skills trust": trust,
    "skills remove": remove,
    "skills add": add,
}
