"""The commands of the command line, a module for each family; imported when it is asked for."""

FAMILIES: dict[str, str] = {
    **dict.fromkeys(("gateway", "web"), "talking"),
    **dict.fromkeys(("init", "status", "doctor", "backup", "restore"), "home"),
    "model": "models",
    "audit": "audit",
    **dict.fromkeys(("context", "usage", "sessions"), "showing"),
    **{name: name for name in ("jobs", "memory", "local", "heartbeat", "mcp", "skills", "keys")},
    "plugins": "plugin_files",
    "link": "linking",
    "import": "importing",
}
"""By command the module that carries it out; it is imported only then."""

ACTIONS = {
    "sessions": ("", "list", "show", "export"),
    "jobs": ("add", "rehearse"),
    "memory": ("search", "forget"),
    "skills": ("add",),
    "web": ("",),
}
"""Of these only some actions; all others are the same as in a chat."""
