"""`nanoclaw skills add`: from a local folder or archive."""

from __future__ import annotations

import sys

from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import carry_out, says_yes
from nanoclaw.core.errors import ConfigError, SkillError
from nanoclaw.packages.pins import pin_of
from nanoclaw.packages.reading import stem, write
from nanoclaw.plugins.skills import described
from nanoclaw.plugins.skills.package import read, read_folder
from nanoclaw.start.config import Config


def add(config: Config, options: Options) -> int:
    """Show a whole skill, ask, copy it into the home, and pin the version shown."""
    if "skills" in config.plugins.off:
        raise ConfigError("the plugin skills is off: take it out of [plugins] off in config.toml")
    package = read(options.path)
    name = described.front_of(package, stem(options.path))[0].name
    if name.startswith(".") or not name:  # the folder of all skills, or that above it
        raise SkillError(f"{name!r} is not a name for a skill: give it one in its front matter")
    folder = config.home / "skills" / name
    there = read_folder(str(folder)) if folder.is_dir() else None
    was = pin_of(there) if there and there.sha256 != package.sha256 else None
    print(*described.lines(package, name, was), sep="\n", file=sys.stderr if options.json else sys.stdout)
    where = f"replace {folder}" if there else f"copy it to {folder}"
    if not options.yes and not says_yes(f"Use this skill, and {where}?"):
        return 1
    try:
        write(package, folder)
    except OSError as error:
        raise SkillError(f"the skill cannot be written to {folder}: {error.strerror or error}") from error
    return carry_out(config, "skills", f"trust {folder} {package.sha256}", as_json=options.json)
