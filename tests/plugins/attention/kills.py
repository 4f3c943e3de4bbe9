"""A program that is killed while it collects and tells: each message comes once, alone or in a digest."""

from functools import partial
from pathlib import Path

from nanoclaw.core.messages import Outbound
from tests.kills import Story, Watch, alive, different, is_there, sent
from tests.program import MAIN, NOON, HandClock


async def go_on(texts: tuple[str, ...], root: Path, watch: Watch | None) -> None:
    (root / "home").mkdir(exist_ok=True)
    (root / "home/config.toml").write_text('[attention]\nhours = ["18:00"]\n')
    clock = HandClock()
    async with alive(root, watch, clock=clock) as program:
        for text in texts:
            if not is_there(program, f"SELECT 1 FROM outbox WHERE text = '{text}'"):
                await program.app.transactions.write(lambda tx, text=text: tx.send(Outbound(MAIN, text, came=NOON)))  # type: ignore[misc]
        await program.app.delivery.flush("terminal")
        clock.now = NOON.replace(hour=18)


async def broken(texts: tuple[str, ...], root: Path, kills: int) -> list[str]:
    await go_on(texts, root, None)
    told = sent(root)
    return different(messages=(len(told), 1), **{text: (told[0].count(text), 1) for text in texts})


STORIES = [
    Story(f"attention: {len(texts)}", partial(go_on, texts), partial(broken, texts))
    for texts in (("one",), ("one", "two", "three"))
]
