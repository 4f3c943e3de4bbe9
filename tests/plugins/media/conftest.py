"""Files of these tests may have one MB."""

import pytest

from nanoclaw.plugins.media import plugin


@pytest.fixture(autouse=True)
def one_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "MOST_BYTES", 1_000_000)
