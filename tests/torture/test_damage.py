"""Some of the damaged homes of `make torture`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.damage import Home, broken, lived_in


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return lived_in(tmp_path_factory.mktemp("lived"))


@pytest.mark.parametrize("seed", [*range(8), 73, 83, 1034])
def test_a_home_damaged_at_random_starts_names_what_is_missing_and_answers(
    tmp_path: Path, home: Home, seed: int
) -> None:
    assert [*broken(tmp_path / "home", home, seed)] == []


@pytest.mark.parametrize("seed", [*range(200, 208), 226, 251, 1016, 1054])
def test_a_home_whose_list_of_tables_is_damaged_names_what_is_missing_and_only_that(
    tmp_path: Path, home: Home, seed: int
) -> None:
    assert [*broken(tmp_path / "home", home, seed, aimed=True)] == []
