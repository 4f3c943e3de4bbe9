"""Some of the damaged stores of `make torture`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.damage import Stores, broken, stores


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return stores(tmp_path_factory.mktemp("stores"))


@pytest.mark.parametrize("seed", range(8))
def test_a_store_damaged_at_random_goes_on_and_the_damaged_file_is_kept(
    tmp_path: Path, given: Stores, seed: int
) -> None:
    assert [*broken(tmp_path / "home", given, seed)] == []
