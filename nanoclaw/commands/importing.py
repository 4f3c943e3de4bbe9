"""`nanoclaw import`: shows what another assistant has, asks, and brings it over; its keys after a yes of their own."""

from __future__ import annotations

import hashlib
import json

from nanoclaw.atomic_write import write_atomically
from nanoclaw.commands.arguments import Options
from nanoclaw.commands.plugins import carry_out, says_yes
from nanoclaw.plugins.importer.plugin import read
from nanoclaw.start import secrets_file
from nanoclaw.start.config import Config


def import_(config: Config, options: Options) -> int:
    if options.source == "undo":
        return carry_out(config, "import", "undo", as_json=options.json) or _keys(config, {})
    found = read(options.source, options.folder, config.clock()())
    what = f"{options.source} {found.path}"
    status = carry_out(config, "import", f"{what} --dry-run", as_json=options.json, only_reads=True)
    if status or options.dry_run:
        return status
    if not (options.yes or says_yes("\nImport this?", "Nothing was imported.")):
        return 1
    status = carry_out(config, "import", f"{what} --yes {found.mark}", as_json=options.json)
    keys = {name: key for name, key in found.keys.items() if name not in config.keys.in_file}
    if keys and not status and not options.yes and says_yes(f"Take {', '.join(keys)}, too?", "No key was taken."):
        return _keys(config, keys)
    return status


def _keys(config: Config, keys: dict[str, str]) -> int:
    """Store keys in secrets.env, noting which; none: remove those that came and are still as they were."""
    secrets, note = config.home / secrets_file.NAME, config.home / "plugins" / "importer" / "keys.json"
    if keys:
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(note, json.dumps({name: _hash(key) for name, key in keys.items()}), 0o600)
        for name, key in keys.items():
            secrets_file.write(secrets, name, key)
        print(f"{', '.join(keys)}: in {secrets}, which only you can read.")
    elif note.exists():
        noted, there = json.loads(note.read_text()), secrets_file.read(secrets)
        for name in (name for name, key in there.items() if noted.get(name) == _hash(key)):
            secrets_file.write(secrets, name, "")
        note.unlink()
    return 0


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
