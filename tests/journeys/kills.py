"""A program that is killed in a turn with calls: what was accepted is answered or told, once, and what ran is known."""

import json
from pathlib import Path

from nanoclaw.core.messages import ModelRequest
from nanoclaw.core.store.db import Transactions
from nanoclaw.core.store.inbox import BROKEN_OFF, Inbox
from nanoclaw.providers.scripted import Answer, Say, call
from nanoclaw.start.opening import open_store
from tests.kills import Story, Watch, alive, different, say, sent
from tests.program import NOON, results

TURN = (
    Say("I write.", calls=(("write_file", {"path": "a.txt", "content": "x"}), ("memory_add", {"text": "wrote a.txt"}))),
    call("read_file", {"path": "a.txt"}),
)
WENT_ON = "(I was interrupted and continued.)\n\n"
SEEN = [
    *[(0, []), (2, ["write_file", "memory_add"]), (2, ["memory_add"])],  # the second waits for the first
    *[(2, []), (3, ["read_file"]), (3, [])],
]
"""How many results the history has in the end, and which calls were under way when the program was killed."""


async def go_on(root: Path, watch: Watch | None) -> None:
    """One turn; a later start goes on with it alone, and its model answers that it rains."""
    is_first = not (root / "home").exists()
    seen = list[str]()

    def model(request: ModelRequest) -> Answer:
        seen.extend(one.text for one in request.history)
        done = len(results(request.history))
        return "It is raining." if not is_first else TURN[done // 2] if done < 3 else "Done."

    if not is_first:
        store = open_store(root / "home" / "state.db")
        cuts = Inbox(Transactions(store, lambda: NOON)).open_turns()
        store.close()
        (root / "cuts").open("a").writelines(json.dumps([one.split()[0] for one in cut.calls]) + "\n" for cut in cuts)
    async with alive(root, watch, model) as program:
        if is_first:
            await say(program, "1", "write it down")
            (root / "accepted").touch()
    if not is_first and seen:
        (root / "seen").write_text("\n".join(seen))


async def broken(root: Path, kills: int) -> list[str]:
    before = sent(root)
    async with alive(root, None) as program:
        done = len(results(program.history))
        left = [*program.app.inbox.waiting(), *program.app.inbox.open_turns()]
    ends = {eval(text) for text in before}
    found = different(again=(sent(root), before), left=(left, []), ends=(len(ends), min(len(ends), 1)))
    if (root / "accepted").exists() and not ends:
        found.append("it was accepted, and is neither answered nor told of")
    if kills < 2:
        cuts = (root / "cuts").read_text().splitlines() if (root / "cuts").exists() else []
        usual = {"Done."} if not kills else {"Done.", "It is raining.", f"{WENT_ON}It is raining."}
        wanted = {f"{WENT_ON}It is raining."} if cuts else usual
        found += [f"{ends} in place of {wanted}"] * (not ends <= wanted)
        for under_way in map(json.loads, cuts):
            found += [f"{done} results after {under_way}"] * ((done, under_way) not in SEEN)
            seen = (root / "seen").read_text()
            found += different(told_of_calls=(BROKEN_OFF in seen, bool(under_way)))
    return found


STORIES = [Story("turn", go_on, broken)]
