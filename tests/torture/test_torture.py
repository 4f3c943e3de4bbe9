"""A sample of the disturbed days of `make torture`, and days with a promise broken on purpose, which must be seen."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.torture import shim
from tests.torture.commands import STORIES, story
from tests.torture.power import Loss
from tests.torture.run import Kind, kinds, seen, warmed
from tests.torture.shim import How
from tests.torture.trials import Trials

SEED = 7
SAMPLES = 3
"""So many points of each kind are looked at here: enough to see what is broken everywhere."""


@pytest.fixture(scope="module")
def many() -> Iterator[list[Trials]]:
    if reason := shim.obstacle():
        if os.environ.get("CI"):
            pytest.fail(f"the torture did not run: {reason}")
        warnings.warn(f"the torture did not run: {reason}", stacklevel=1)
        pytest.skip(reason)
    with warmed(1) as trials:
        yield trials


@pytest.mark.parametrize("kind", kinds(SEED), ids=lambda kind: kind.name)
def test_every_promise_holds_wherever_a_day_is_disturbed(many: list[Trials], kind: Kind) -> None:
    points = kind.points(many[0])
    outcomes = seen(kind, many, Random(kind.name).sample(points, SAMPLES))
    assert len(outcomes) >= SAMPLES
    assert [outcome for outcome in outcomes if outcome.broken] == []


@pytest.mark.parametrize("how", ["eio", "enospc"])
def test_every_promise_holds_where_the_first_start_is_disturbed_at_a_file_of_its_own(
    many: list[Trials], how: How
) -> None:
    """The journal of the store made, the folder of the new workspace synced."""
    calls = {(call.kind, Path(call.path).name): call.number for call in reversed(many[0].undisturbed.calls)}
    points = [calls["create", "state.db-wal"], *([calls["sync", "home"]] if how == "eio" else [])]
    outcomes = [many[0].refused(at, how) for at in points]
    assert [outcome for outcome in outcomes if outcome.broken] == []


@pytest.mark.parametrize("name", sorted(STORIES)[::7])
def test_a_command_wherever_it_is_killed_has_one_effect_and_one_reply(many: list[Trials], name: str) -> None:
    """A point of some; `make torture` has them all."""
    trials = story(many[0], name)
    point = Random(name).choice(trials.undisturbed.of_kinds("write", "sync"))
    assert trials.killed(point, "before").broken == ()


@pytest.fixture
def sabotaged(many: list[Trials], request: pytest.FixtureRequest) -> Iterator[Trials]:
    trials = Trials(many[0].server, many[0].folder / request.param.replace(" ", "-"), request.param)
    trials.folder.mkdir()
    yield trials


@pytest.mark.parametrize(
    ("sabotaged", "loss", "told"),
    [
        ("no sync of files", "data", "is none of what was written"),
        ("no sync of folders", "names", "is missing from the workspace"),
        ("no sync of the store", "data", "m1 was done and is not in the history"),
    ],
    indirect=["sabotaged"],
)
def test_what_is_not_synced_is_seen_to_be_lost(sabotaged: Trials, loss: Loss, told: str) -> None:
    (outcome,) = sabotaged.unpowered([len(sabotaged.undisturbed.calls)], [loss])
    assert any(told in broken for broken in outcome.broken)


@pytest.mark.parametrize("sabotaged", ["no transactions"], indirect=True)
def test_a_step_without_a_transaction_is_seen_to_be_half_done(sabotaged: Trials) -> None:
    syncs = sabotaged.undisturbed.of_kinds("sync")
    broken = (broken for at in syncs[120::5] for broken in sabotaged.killed(at, "after").broken)
    assert any("is not legal" in each or "neither answered nor told of" in each for each in broken)
