"""NamedTuple as `typing` has it, for 0.42 million instructions a class in place of 0.91: no annotation is looked at."""

from __future__ import annotations

import sys
from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 14):  # whose classes keep annotations in another way
    from typing import NamedTuple as NamedTuple
else:

    class _Meta(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            types = body.pop("__annotations__", {})
            defaults = [body.pop(field) for field in types if field in body]
            made = namedtuple(name, types, defaults=defaults, module=body.pop("__module__"))
            made.__annotations__ = types
            for key, value in body.items():
                setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Meta, "NamedTuple", (), {})
