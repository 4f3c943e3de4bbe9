"""`nanoclaw mcp …`: its arguments."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`action` says what is asked; without one the servers are listed. What stands after "--" is `program`."""
    parser.set_defaults(action="list", json=False)
    actions = parser.add_subparsers(metavar="ACTION")

    def add_action(name: str, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
        added.set_defaults(action=name)
        added.add_argument("--json", action="store_true")
        return added

    add_action("list", "the configured servers, and what is known about each")
    adding = add_action("add", "add a server: nanoclaw mcp add NAME -- COMMAND ARGUMENT…, or with --url")
    adding.add_argument("name", metavar="NAME")
    adding.add_argument("--url", default="", metavar="URL", help="of a server that runs elsewhere")
    adding.add_argument(
        "--header", action="append", default=[], metavar="'NAME: VALUE'", help="such as 'Authorization: Bearer $TOKEN'"
    )
    adding.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for it; NAME=$NAME is yours"
    )
    adding.add_argument("--cwd", default="", metavar="FOLDER", help="default: the workspace")
    adding.add_argument(
        "--root", action="append", dest="roots", default=[], metavar="FOLDER", help="that it is told of"
    )
    adding.add_argument("--allow", action="append", default=[], metavar="GLOB", help="only these of its tools")
    adding.add_argument("--deny", action="append", default=[], metavar="GLOB", help="none of these tools")
    adding.add_argument("--reads", action="append", default=[], metavar="GLOB", help="tools that change nothing")
    add_action("remove", "take a server out").add_argument("name", metavar="NAME")
    add_action("test", "connect to a server, signing in where it wants that").add_argument("name", metavar="NAME")
    add_action("tools", "the tools of a server, or of all").add_argument("name", nargs="?", default="", metavar="NAME")
