"""The scripted provider keeps its own promises."""

import asyncio

import pytest

from nanoclaw.core.errors import ProviderError, ProviderUnavailable
from nanoclaw.core.messages import ModelRequest
from nanoclaw.providers.scripted import ScriptedProvider
from tests.providers.conftest import Heard, request


def test_steps_left_over_fail() -> None:
    unused = "1 of 1 scripted steps were not used, next: 'unused'"
    with pytest.raises(AssertionError, match=unused), ScriptedProvider("unused"):
        pass


def test_a_failure_inside_is_not_hidden_by_steps_left_over() -> None:
    with pytest.raises(ZeroDivisionError), ScriptedProvider("unused"):
        raise ZeroDivisionError


def test_a_script_that_runs_out_says_so(heard: Heard) -> None:
    with pytest.raises(ProviderError, match="the script has 0 steps and was asked for one more"):
        asyncio.run(ScriptedProvider().complete(request(), heard))


def test_a_function_may_raise(heard: Heard) -> None:
    def fail(asked: ModelRequest) -> str:
        raise ProviderUnavailable("later")

    with pytest.raises(ProviderUnavailable):
        asyncio.run(ScriptedProvider(fail).complete(request(), heard))
