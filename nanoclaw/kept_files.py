"""The one list of files that no command writes, and that tools write only after a yes: what the assistant is, and what
programs of the person run later."""

from __future__ import annotations

from collections.abc import Sequence

OWN = ("AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "IDENTITY.md", "HEARTBEAT.md", "MEMORY.md", "memory", "skills")
"""In the workspace itself: what the assistant is, knows and does. Its own tools change these, no command does."""

MAY_GO = "BOOTSTRAP.md"
"""The same, which a command may remove."""

_RUN = {
    "direnv": ".envrc .direnv",
    "your editor": ".vscode .idea .zed .exrc .nvimrc .nvim.lua .vimrc .lvimrc .dir-locals.el .dir-locals-2.el"
    " .devcontainer .code-workspace",
    "other assistants": ".mcp.json .claude .cursor .windsurf .gemini .codex .aider.conf.yml",
    "git": ".git .husky .githooks .gitconfig .gitmodules",
    "your shell": ".bashrc .bash_profile .bash_login .bash_logout .profile .inputrc .zshrc .zshenv .zprofile .zlogin",
    "your tools": ".npmrc .yarnrc.yml .cargo .Rprofile .gdbinit .pdbrc .irbrc mise.toml .tool-versions .ripgreprc",
}
RUN_BY = {name: who for who, names in _RUN.items() for name in names.split()}
"""In each folder: what a program of the person runs later, outside of the sandbox, and which program that is."""

NAMES = frozenset(RUN_BY) - {".git"}
"""Those that are kept whole; of a repository only parts are."""

_BY_ENDING = ".code-workspace"
_FOLDED = {name.casefold(): who for name, who in RUN_BY.items()}
_OWN_FOLDED = frozenset(name.casefold() for name in (*OWN, MAY_GO))


def who_runs(parts: Sequence[str]) -> str:
    """The program that runs a file later, told by the names on the way to it; '' for none."""
    names = [one.casefold() for one in parts]
    who = (_FOLDED.get(one) or ("your editor" if one.endswith(_BY_ENDING) else "") for one in names)
    return next(filter(None, who), "")


def is_own(parts: Sequence[str]) -> bool:
    """True for a file of the workspace that says what the assistant is, knows or does."""
    return bool(parts) and parts[0].casefold() in _OWN_FOLDED


def is_named(name: str) -> bool:
    return name in NAMES or name.endswith(_BY_ENDING)
