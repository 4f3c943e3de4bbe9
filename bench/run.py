"""All figures in one run, as one Markdown table: python bench/run.py [--nanobot COMMAND] [--pi COMMAND] [--only WORD]

Everything is measured on processes that a person would start, against a model on loopback that answers at once.
"""

from __future__ import annotations

import argparse
import ensurepip
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from measure import NANOCLAW, PYTHON, cpu_of, cpu_of_children, environment, instructions, run
from model_server import ModelServer, Reply
from terminal_start import Start, measure_start

HERE = Path(__file__).parent
PASS = [PYTHON, "-c", "pass"]
ROUNDS = 50
TURNS = 20
STORED = 2000

Row = tuple[str, str, str, str]
"""Figure, goal, measured, for comparison."""


class Bench:
    """Homes for the assistant in one folder, and the model they all talk to."""

    def __init__(self, folder: Path, server: ModelServer) -> None:
        self.folder, self.server = folder, server

    def home(self, name: str) -> dict[str, str]:
        """A fresh home with a workspace; returns the environment to run in."""
        env = environment(self.folder / name)
        (self.folder / name).mkdir()
        run([NANOCLAW, "init", "--model", "openai/gpt-5", "--api-base", self.server.url], env)
        config = Path(env["NANOCLAW_HOME"]) / "config.toml"
        config.write_text(f"{config.read_text()}\n[limits]\nrounds = {ROUNDS + 10}\n")
        return env

    def ask(self, env: dict[str, str], *options: str) -> None:
        output = run([NANOCLAW, "-m", "hi", *options], env).output
        assert "Hello." in output, output


# --- the rows, in the order of the table -----------------------------------------------------------------------------


def version(bench: Bench) -> Iterator[Row]:
    env, ours = environment(bench.folder), [_launcher(bench.folder), "--version"]
    pairs = [(run(ours, env).cpu, run(PASS, env).cpu) for _ in range(41)]
    ratio = median(ours / bare for ours, bare in pairs)
    counted, floor = instructions(ours, env), instructions(PASS, env)
    by_count = f"; {counted / floor:.2f} × by instructions" if counted and floor else ""
    comparison = "OpenClaw 8.7 ×, other peers 39–84 ×"
    yield "`nanoclaw --version`, CPU next to `python -c pass`", "≤ 2 ×", f"{ratio:.2f} ×{by_count}", comparison


def one_shot(bench: Bench) -> Iterator[Row]:
    env = bench.home("one-shot")
    bare = [PYTHON, str(HERE / "bare_httpx.py"), bench.server.url]
    bench.server.script()
    bench.ask(env)  # compiles and seeds what is compiled and seeded once
    run(bare, env)
    ours = max(run([NANOCLAW, "-m", "hi"], bench.home(f"one-shot-{n}")).peak_mb for n in range(3))
    floor = max(run(bare, env).peak_mb for _ in range(3))
    counted = _millions(instructions([NANOCLAW, "-m", "hi"], bench.home("one-shot-counted")))
    counted_bare = _millions(instructions(bare, env))
    peers = "llm 0.36 {}; nanobot 0.3.5 {}; Hermes {}"
    what = "`nanoclaw -m hi`, fresh workspace"
    yield (
        f"{what}: instructions",
        "≤ 1,400 M",
        counted,
        f"bare httpx agent in this run {counted_bare}; {peers.format('3,251 M', '6,615 M', '11,332 M')}",
    )
    yield (
        f"{what}: peak memory",
        "≤ 45 MB",
        f"{ours:.1f} MB",
        f"bare httpx agent in this run {floor:.1f} MB; {peers.format('64 MB', '116 MB', '114 MB')}",
    )


def terminal(bench: Bench, peers: dict[str, Peer]) -> Iterator[Row]:
    env = bench.home("terminal")
    commands = {"nanoclaw": ([NANOCLAW], env), **{name: (peer.chat, peer.env) for name, peer in peers.items()}}
    floors, starts = list[tuple[float, float]](), list[dict[str, Start]]()
    for _ in range(5):
        floor = run(PASS, env)
        floors.append((floor.cpu, floor.wall))
        starts.append({name: measure_start(*one, bench.server) for name, one in commands.items()})
    pass_cpu, pass_wall = (median(column) for column in zip(*floors, strict=True))

    def row(what: str, goal: str, cpu: Callable[[Start], float], wall: Callable[[Start], float]) -> Row:
        found = {
            name: (median(cpu(one[name]) for one in starts), median(wall(one[name]) for one in starts))
            for name in commands
        }
        ours, waited = found.pop("nanoclaw")
        measured = f"{ours:.3f} s CPU ({ours / pass_cpu:.1f} × `pass`); wall {waited / pass_wall:.0f} × `pass`"
        shares = (f"{ours / one:.2f} × {name}'s CPU, {waited / at:.2f} × its wall" for name, (one, at) in found.items())
        others = (
            f"{name} in this run: {one:.3f} s CPU, wall {at / pass_wall:.0f} × `pass`"
            for name, (one, at) in found.items()
        )
        return f"terminal: {what}", goal, "; ".join([measured, *shares]), "; ".join(others)

    yield row("start to prompt", "≤ 0.20 × nanobot's", lambda one: one.prompt_cpu, lambda one: one.prompt_wall)
    yield row("Enter to first request", "≤ pi's", lambda one: one.enter_cpu, lambda one: one.enter_wall)


def rounds(bench: Bench) -> Iterator[Row]:
    env = bench.home("rounds")
    plan = Path(env["NANOCLAW_HOME"]) / "workspace" / "plan.md"
    plan.write_text("".join(f"{number}: water the plants\n" for number in range(1, ROUNDS + 1)))
    kinds: tuple[tuple[str, str, str, Callable[[int], dict[str, Any]]], ...] = (
        ("read_file", "≤ 6 ms", "", lambda n: {"path": "plan.md", "offset": n + 1, "limit": 1}),
        (
            "exec",
            "≤ 50 ms",
            "without a sandbox pi 16 ms, nanobot 57 ms, Hermes 234 ms",
            lambda n: {"command": f"echo {n}"},
        ),
    )
    for name, goal, comparison, arguments in kinds:
        best = min((_rounds(bench, env, name, arguments) for _ in range(3)), key=mean)
        if name == "read_file":
            bare = min((_rounds(bench, env, name, arguments, plan.parent) for _ in range(3)), key=mean)
            comparison = f"bare httpx agent in this run {mean(bare):.1f} ms"
        yield (
            f"one tool round ({'`exec echo`' if name == 'exec' else '`read_file`'}) within a turn of {ROUNDS}",
            f"{goal} CPU, flat",
            f"{mean(best):.1f} ms; first ten {mean(best[:10]):.1f}, last ten {mean(best[-10:]):.1f}",
            comparison,
        )


def bodies(bench: Bench) -> Iterator[Row]:
    env = bench.home("bodies")
    note = {"path": "notes.md", "text": "water the plants\n"}
    calls: Reply = [("append_file", note), ("list_dir", {})]
    bench.server.script(*(reply for turn in range(TURNS) for reply in (calls, f"Done, {turn}.")))
    for turn in range(TURNS):
        run([NANOCLAW, "-m", f"Turn {turn}"], env)  # each in a process of its own
    held = [_is_start(one, other) for one, other in pairwise(bench.server.bodies)]
    yield (
        f"request bodies over {TURNS} turns, a process each: tools and messages begin with all of the previous body's",
        "all",
        f"{sum(held)} of {len(held)} pairs",
        "",
    )


def long_session(bench: Bench) -> Iterator[Row]:
    env = bench.home("long")
    bench.server.script()
    bench.ask(env, "--session", "warm")
    bench.server.script()
    timed = _timed(env, "one_shot", STORED)
    sent = next(body["messages"] for body in bench.server.bodies if len(body["messages"]) > STORED)
    said = [message for message in sent if message["role"] != "system"]
    lost = STORED + 2 - len(said)  # the new message and its metadata come on top
    complete = sum(f"Question {turn}:" in json.dumps(said) for turn in range(STORED // 5))
    pairs = [
        (run([NANOCLAW, "-m", "hi", "--session", "long"], env).cpu, run([NANOCLAW, "-m", "hi", *new], env).cpu)
        for new in (["--session", f"other-{number}"] for number in range(15))
    ]
    whole = median(long - new for long, new in pairs) * 1000
    counted = [instructions([NANOCLAW, "-m", "hi", "--session", name], env) for name in ("long", "counted")]
    by_count = f"; {counted[0] - counted[1]:.0f} M instructions" if counted[0] and counted[1] else ""
    yield (
        f"a session of {STORED:,} stored messages next to a new one",
        "≤ 30 ms CPU more, nothing lost",
        f"{timed['more']:.0f} ms more ({timed['loading']:.0f} of them loading){by_count}; "
        f"as whole commands {whole:.0f} ms, which is noisy; "
        f"{lost} messages lost, {complete} of {STORED // 5} questions sent",
        "nanobot classic 1.0 s; nanobot 0.3.5 drops the history",
    )


def lengths(bench: Bench) -> Iterator[Row]:
    bench.server.script()
    found = {length: _timed(bench.home(f"length-{length}"), "turns", length) for length in (0, 500, 20_000)}
    grown = _timed(bench.home("grown"), "grown", 500)
    each = ", ".join(f"{times['median']:.1f} ms at {length:,}" for length, times in found.items())
    yield (
        "a turn in a conversation of so many messages, in a running process",
        "≤ 20 ms CPU, flat",
        f"{each}; {grown['first']:.1f} ms in the first and {grown['last']:.1f} in the last 50 of 500 turns",
        "",
    )


def prompt(bench: Bench, peers: dict[str, Peer]) -> Iterator[Row]:
    counted = {"nanoclaw": _first_request(bench, [NANOCLAW, "-m", "hi"], bench.home("prompt"))}
    counted |= {name: _first_request(bench, [*peer.once, "hi"], peer.env) for name, peer in peers.items()}
    ours = counted.pop("nanoclaw")
    name = "first request of a fresh workspace: system messages, and tools as compact JSON, o200k tokens"
    yield name, "≤ 3,000", ours, "; ".join(f"{one} in this run {size}" for one, size in counted.items())


def _first_request(bench: Bench, command: list[str], env: dict[str, str]) -> str:
    """Tokens of what a program sends before any word is said."""
    bench.server.script()
    run(command, env)
    body = bench.server.bodies[0]
    system = "\n".join(_text(one["content"]) for one in body["messages"] if one["role"] in ("system", "developer"))
    tools = json.dumps(body["tools"], ensure_ascii=False, separators=(",", ":"))
    counter = subprocess.run(
        [PYTHON, str(HERE / "tokens.py")], input=json.dumps([system, tools]), capture_output=True, text=True
    )
    if counter.returncode:
        return f"about {(len(system) + len(tools)) / 4:,.0f} (estimated: a token for four characters)"
    counts = json.loads(counter.stdout)
    return f"{sum(counts):,} (system prompt {counts[0]:,}, {len(body['tools'])} tools {counts[1]:,})"


def _text(content: Any) -> str:
    """The text of a message, whichever form a program gives it."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def lasting(bench: Bench) -> Iterator[Row]:
    from durability import rows  # not before: a child's peak of memory is never below that of its parent

    yield from rows(bench.folder)


# --- what they are made of -------------------------------------------------------------------------------------------


def _timed(env: dict[str, str], what: str, number: int) -> dict[str, float]:
    output = run([PYTHON, str(HERE / "long_session.py"), what, str(number)], env).output
    return json.loads(output.splitlines()[-1])  # type: ignore[no-any-return]


def _rounds(
    bench: Bench, env: dict[str, str], tool: str, arguments: Callable[[int], dict[str, Any]], bare: Path | None = None
) -> list[float]:
    """CPU milliseconds of each round: what the process has used from one request to the next. `bare`: the folder that
    the bare httpx agent works in, in place of ours."""
    bench.server.script(*([(tool, arguments(number))] for number in range(ROUNDS)))
    command = [NANOCLAW, "-m", "hi", "--session", f"{tool}-{os.urandom(4).hex()}"]
    if bare:
        command = [PYTHON, str(HERE / "bare_httpx.py"), bench.server.url]
    process = subprocess.Popen(command, env=env, cwd=bare, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    used: list[float] = []
    bench.server.on_request = lambda: used.append(cpu_of(process.pid) + cpu_of_children(process.pid))
    try:
        process.wait(120)
    finally:
        bench.server.on_request = lambda: None
        process.kill()
    assert len(used) == ROUNDS + 1, f"{len(used)} requests instead of {ROUNDS + 1}"
    results = [message for message in bench.server.bodies[-1]["messages"] if message["role"] == "tool"]
    assert len({message["content"] for message in results}) in (1, ROUNDS), "the rounds did not all do the same"
    return [(later - earlier) * 1000 for earlier, later in pairwise(used)]


def _is_start(one: dict[str, Any], other: dict[str, Any]) -> bool:
    messages = one["messages"]
    return bool(one["tools"] == other["tools"] and messages == other["messages"][: len(messages)])


class Peer(NamedTuple):
    """Somebody else's program: how it chats in a terminal, how it answers once, and the home it runs in."""

    chat: list[str]
    once: list[str]
    env: dict[str, str]


def _nanobot(bench: Bench, command: str) -> Peer:
    env = environment(bench.folder / "nanobot")
    config = {
        "agents": {"defaults": {"model": "gpt-5", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "none", "apiBase": bench.server.url}},
    }
    _write(bench.folder / "nanobot" / ".nanobot" / "config.json", config)
    return Peer([command, "agent", "--classic"], [command, "agent", "-m"], env)


def _pi(bench: Bench, command: str) -> Peer:
    env = {**environment(bench.folder / "pi"), "PI_OFFLINE": "1"}
    model = {"baseUrl": bench.server.url, "api": "openai-completions", "apiKey": "none", "models": [{"id": "gpt-5"}]}
    _write(bench.folder / "pi" / ".pi" / "agent" / "models.json", {"providers": {"bench": model}})
    asked = [command, "--provider", "bench", "--model", "gpt-5", "--no-session"]
    return Peer(asked, [*asked, "-p"], env)


def _write(file: Path, config: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(config))


def _launcher(folder: Path) -> str:
    """The console script as the pip that comes with this Python makes it."""
    make = (
        "import sys; from pip._internal.operations.install.wheel import PipScriptMaker; "
        "maker = PipScriptMaker(None, sys.argv[1]); maker.variants, maker.set_mode = {''}, True; "
        "print(*maker.make('nanoclaw = nanoclaw.__main__:main'))"
    )
    pip = next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    env = {**os.environ, "PYTHONPATH": str(pip)}
    return subprocess.run(
        [PYTHON, "-c", make, str(folder)], env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def _millions(count: float | None) -> str:
    return f"{count:,.0f} M" if count else "no valgrind here"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nanobot", default="", metavar="COMMAND", help="a nanobot to measure side by side")
    parser.add_argument("--pi", default="", metavar="COMMAND", help="a pi to measure side by side")
    parser.add_argument("--only", default="", metavar="WORD", help="only the benches whose name has this word")
    asked = parser.parse_args()

    @cache
    def peers(bench: Bench) -> dict[str, Peer]:
        made = {"nanobot": (_nanobot, asked.nanobot), "pi": (_pi, asked.pi)}
        return {name: make(bench, command) for name, (make, command) in made.items() if command}

    benches: dict[str, Callable[[Bench], Iterator[Row]]] = {
        "version": version,
        "one_shot": one_shot,
        "terminal": lambda bench: terminal(bench, peers(bench)),
        "rounds": rounds,
        "bodies": bodies,
        "long_session": long_session,
        "lengths": lengths,
        "prompt": lambda bench: prompt(bench, peers(bench)),
        "durability": lasting,
    }
    print(f"Python {platform.python_version()}, {_cpu_name()}, {os.cpu_count()} cores\n")
    print("| figure | goal | measured | for comparison |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        bench = Bench(Path(folder), server)
        for name, rows in benches.items():
            if asked.only in name:
                for row in rows(bench):
                    print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
