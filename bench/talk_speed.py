"""CPU time to index 20,000 messages of earlier conversations and to search them: python bench/talk_speed.py."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nanoclaw.plugins.memory.talk import TalkSearch
from nanoclaw.start.opening import open_store

MESSAGES, SESSIONS, WORDS = 20_000, 40, 8_000
NOW = datetime(2026, 3, 6, 12, tzinfo=UTC)


def fill(root: Path) -> None:
    """A store of two years of talk, with words as frequent as in a language."""
    open_store(root / "state.db").close()
    chance = random.Random(1)
    letters = "bdfgklmnprstvz"
    words = [
        "".join(chance.choice(letters) + chance.choice("aeiou") for _ in range(chance.randint(1, 4)))
        for _ in range(WORDS)
    ]
    weights = [1 / rank for rank in range(1, WORDS + 1)]
    with closing(sqlite3.connect(root / "state.db")) as db, db:
        for session in range(1, SESSIONS + 1):
            db.execute("INSERT INTO sessions (id, key) VALUES (?, ?)", (session, f"terminal:{session}"))
        inbox = json.dumps({"origin": "person", "role": "owner", "profile": ""})
        for turn in range(1, MESSAGES // 2 + 1):
            at = (NOW - timedelta(hours=2 * (MESSAGES // 2 - turn))).isoformat()
            row = (turn, "terminal", "1", str(turn), inbox, "done", at)
            sql = (
                "INSERT INTO inbox (id, channel, chat, external_id, body, state, received) VALUES (?, ?, ?, ?, ?, ?, ?)"
            )
            db.execute(sql, row)
            session = 1 + turn * SESSIONS // (MESSAGES // 2 + 1)
            sql = "INSERT INTO turns (id, session, inbox, started, ended, reason) VALUES (?, ?, ?, ?, ?, 'answered')"
            db.execute(sql, (turn, session, turn, at, at))
            for kind, count in (("user", 12), ("assistant", 50)):
                text = " ".join(chance.choices(words, weights, k=count)) + (" krakatau" if turn == 77 else "")
                body = json.dumps({"kind": kind, "text": text, "at": at, "origin": "person"})
                db.execute(
                    "INSERT INTO messages (session, context, turn, body) VALUES (?, 1, ?, ?)", (session, turn, body)
                )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fill(root)
        search = TalkSearch(root, root, lambda: NOW)
        began = time.process_time()
        assert search.quotes("krakatau", 5)
        while search.remark:
            search.quotes("krakatau", 5)
        print(f"indexing {MESSAGES:,} messages: {time.process_time() - began:.2f} s")
        queries = [
            "what did I say about the krakatau trip",
            "dentist on friday",
            "ba do fiti",
            "what was the name of naze",
        ]
        for name in ("first", "next"):
            if name == "first":
                search.close()
            began = time.process_time()
            for query in queries:
                search.quotes(query, 5)
            print(f"a search, {name} four: {(time.process_time() - began) / len(queries) * 1_000:.1f} ms")
        search.close()
        size = sum(path.stat().st_size for path in root.glob("index.db-talk*"))
        print(f"index: {size / 1e6:.1f} MB; store: {(root / 'state.db').stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
