"""NamedTuple is as that of `typing`, in all that the program does with one."""

import pickle
import typing
from functools import cached_property
from typing import Any

import pytest

from nanoclaw import named_tuple


class _Ours(named_tuple.NamedTuple):
    """A point."""

    x: int
    y: "list[int]" = []  # noqa: RUF012

    @property
    def sum(self) -> int:
        return self.x + sum(self.y)


class _Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: "list[int]" = []  # noqa: RUF012

    @property
    def sum(self) -> int:
        return self.x + sum(self.y)


class _Below(_Ours):
    @cached_property
    def twice(self) -> int:
        return 2 * self.sum


def _seen(kind: Any) -> list[Any]:
    one = kind(1, y=[2])
    return [
        (*one, one.sum, kind(1).y, one._replace(x=5).sum, one._asdict(), one == (1, [2])),
        (kind.__doc__, kind._fields, kind._field_defaults, kind.__match_args__, kind.__module__),
        (typing.get_type_hints(kind), kind.__bases__, repr(one).partition("(")[2], kind._make([1, [2]]) == one),
    ]


def test_it_is_made_and_used_as_that_of_typing() -> None:
    assert _seen(_Ours) == _seen(_Theirs)
    assert pickle.loads(pickle.dumps(_Ours(3))) == _Ours(3)
    assert _Below(1, [2]).twice == 6
    with pytest.raises(TypeError, match="x"):
        _Ours()  # type: ignore[call-arg]
