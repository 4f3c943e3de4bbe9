"""`nanoclaw jobs …`: its arguments, and the line in the chat that does the same."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`action` says what is asked."""
    actions = parser.add_subparsers(metavar="ACTION")

    def add_action(name: str, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        added.set_defaults(action=name)
        return added

    adding = add_action("add", "set a reminder, or a task")
    adding.add_argument("said", nargs="+", metavar="WHEN TEXT", help="or one text, as /jobs add takes it: WHEN: TEXT")
    adding.add_argument("--task", action="store_true", help="ask the model, in place of sending the text")
    adding.add_argument("--to", default="", metavar="CHANNEL:CHAT", help="default: terminal:main")
    adding.add_argument("--zone", default="", metavar="ZONE", help="such as Europe/Berlin; default: yours")
    adding.add_argument("--nag", default="", metavar="'10m x6'", help="repeat until it is done")
    adding.add_argument("--skip", action="store_true", help="a repeat that was missed does not fire later")
    adding.add_argument("--may-schedule", action="store_true", help="the task may make jobs itself")
    adding.add_argument("--plan", action="store_true", help="the task does nothing before you approve its plan")
    rehearsing = add_action("rehearse", "what a job would send: nothing is sent or changed")
    rehearsing.add_argument("id", metavar="ID")
    rehearsing.add_argument("--at", default="", metavar="WHEN", help="as if it were then; default: its next time")


def line(options: argparse.Namespace) -> str:
    """The command without its slash."""
    if options.action == "rehearse":
        return f"rehearse {options.id} {options.at}"
    flags = [flag for flag in ("task", "skip", "may_schedule", "plan") if getattr(options, flag)]
    words = [f"--{flag.replace('_', '-')}" for flag in flags]
    words += [f"--{name} {getattr(options, name)}" for name in ("to", "zone", "nag") if getattr(options, name)]
    return " ".join(["jobs add", *words, _said(options.said)])


def _said(said: list[str]) -> str:
    """The time, a colon and the text: said as in the chat, or as arguments of which the first is the time."""
    is_parted = len(said) == 2 or (len(said) > 2 and any(" " in one for one in said))
    return f"{said[0].removesuffix(':')}: {' '.join(said[1:])}" if is_parted else " ".join(said)
