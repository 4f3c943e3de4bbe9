"""The browse tools as far as no browser is needed: when they are offered, what is said where they cannot be."""

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nanoclaw.core.errors import ConfigError
from nanoclaw.plugins.browse.asking import Use, is_named, use_of
from nanoclaw.plugins.browse.plugin import _begun, _effect
from nanoclaw.providers.scripted import ScriptedProvider
from tests.examples import examples
from tests.program import running

ACTIONS = examples(__file__, "browse.jsonl")


@pytest.fixture
def playwright(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is installed."""
    module = ModuleType("playwright")
    module.__spec__ = ModuleSpec("playwright", None)
    monkeypatch.setitem(sys.modules, "playwright", module)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a Chromium in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "chromium-browser").write_text("#!/bin/sh\n")
    (folder / "chromium-browser").chmod(0o755)
    return str(folder)


async def names(root: Path, path: str, settings: str = "", profile: str = "person") -> list[str]:
    async with running(root, settings=settings, environment={"PATH": path}) as program:
        chain = program.app.chain
        return [one.name for one in chain.tools(chain.profiles[profile]) if one.name.startswith("browse")]


async def findings(root: Path, path: str, settings: str = "") -> list[tuple[bool, str]]:
    async with running(root, settings=settings, environment={"PATH": path}) as program:
        found = await program.app.findings(deep=True)
        return [(one.is_well, one.text) for name, one in found if name == "browse"]


@pytest.mark.parametrize(("profile", "offered"), ACTIONS["who has the tools"])
async def test_who_has_the_tools(tmp_path: Path, playwright: None, path: str, profile: str, offered: int) -> None:
    assert len(await names(tmp_path, path, profile=profile)) == offered


async def test_without_the_extra_the_model_reads_that_it_has_no_browser_and_doctor_says_what_adds_it_if_asked_for(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "playwright", None)
    model = ScriptedProvider("Hm.")
    async with running(tmp_path, model, environment={"PATH": path}) as program:
        await program.ask("Look at shop.example")
    assert "You have no browser." in str(model.requests[0].system)
    assert await findings(tmp_path, path) == []
    ((is_well, said),) = await findings(tmp_path / "asked", path, f'[browse]\nchromium = "{path}/chromium-browser"\n')
    assert not is_well and "browser" in said and "install" in said


async def test_without_a_chromium_doctor_says_what_to_install(tmp_path: Path, playwright: None) -> None:
    assert await names(tmp_path, "/nowhere") == []
    ((is_well, said),) = await findings(tmp_path, "/nowhere")
    assert not is_well and "Install the package chromium" in said and "[browse] chromium" in said


async def test_a_chromium_of_ones_own_is_taken_and_one_that_is_not_there_is_said(
    tmp_path: Path, playwright: None, path: str
) -> None:
    own = f'[browse]\nchromium = "{path}/chromium-browser"\n'
    assert len(await names(tmp_path / "a", "/nowhere", own)) == 2
    wrong = '[browse]\nchromium = "/opt/none"\n'
    assert await names(tmp_path / "b", path, wrong) == []
    ((is_well, said),) = await findings(tmp_path / "b", path, wrong)
    assert not is_well and "'/opt/none'" in said


async def test_doctor_says_that_the_sandbox_is_off_for_root(
    tmp_path: Path, playwright: None, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, told in ((0, True), (1000, False)):
        monkeypatch.setattr(os, "geteuid", lambda number=number: number)
        ((is_well, said),) = await findings(tmp_path, path)
        assert is_well and said.startswith(f"{path}/chromium-browser")
        assert ("without its own sandbox" in said) == told


@pytest.mark.parametrize(("settings", "said"), ACTIONS["settings that cannot be are said"])
async def test_settings_that_cannot_be_are_said(tmp_path: Path, settings: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with running(tmp_path, settings=settings):
            pass


def test_a_line_of_the_audit_log_never_has_what_was_typed() -> None:
    assert _effect("click", 'button "Buy"', "", "shop.example").text == 'clicked button "Buy" at shop.example'
    typed = _effect("type", 'password "Word"', "hunter2", "shop.example").text
    assert typed == 'typed into password "Word" at shop.example'
    assert "hunter2" not in _begun({"action": "type", "element": 3, "value": "hunter2"}).text
    assert _effect("press", "", "Escape", "shop.example").text == "pressed Escape at shop.example"
    pressed = _effect("press", 'field "Pin"', "7", "shop.example").text
    assert pressed == 'pressed a key in field "Pin" at shop.example'


@pytest.mark.parametrize(("given", "label", "asked"), ACTIONS["what changes a page or leaves it asks for its host"])
def test_what_changes_a_page_or_leaves_it_asks_for_its_host(given: Any, label: str, asked: str) -> None:
    use = use_of(given, label, "a.example", "")
    assert use.is_asked == bool(asked) and (not asked or use.words == f"{asked[0].lower()}{asked[1:]} at a.example")
    assert use.scope and use.scope.key == "browse:a.example" and use.scope.is_place and "hunter2" not in use.exact


def test_at_a_host_that_the_person_named_only_uploading_asks_before() -> None:
    def use(action: str, here: str = "www.a.example", element: int = 1, **more: Any) -> Use:
        return use_of({"action": action, "element": element, **more}, "", here, "Order tea at a.example, please")

    free = use("type", value="Ann"), use("type", enter=True), use("click", value="yes"), use("press"), use("select")
    assert all(one.is_open and not one.is_asked for one in free)
    assert use("upload").is_asked and use("press", element=0).is_asked  # which may be in a frame of another host
    assert use("type", here="").scope is None and use("type", here="").is_asked  # a yes says nothing of the next


@pytest.mark.parametrize("said", ["a.example", "see https://www.A.example/x?y", "去a.example买", "a.example: type it"])
def test_a_host_is_named_by_its_address(said: str) -> None:
    assert is_named("a.example", said) and is_named("www.a.example", said) and not is_named("x.a.example", said)
    for other in ("b-a.example", "x.a.example", "a.example.evil", "m@a.example", "b.example/a.example", "a.example:81"):
        assert not is_named("a.example", other), other
