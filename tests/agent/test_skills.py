"""Skills: which ones there are, whose wins, and what of them the model sees."""

from __future__ import annotations

import asyncio
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from nanoclaw.providers.scripted import ScriptedProvider
from nanoclaw.workspace.skills import Skill, discover, summary
from tests.agent.house import REPOSITORY, HandClock, builder_for, house, new_home


def skill(folder: Path, name: str, front: str = "", body: str = "How to do it.", description: str = "Does it.") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n{front}---\n\n{body}\n")
    return path


def requires(**wanted: object) -> str:
    import json

    return f"metadata: {json.dumps({'nanoclaw': {'requires': wanted}})}\n"


def test_the_first_folder_that_has_a_name_wins_whole(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    skill(mine, "mail", description="My way.")
    skill(shipped, "mail", "always: true\n", description="The shipped way.")
    skill(shipped, "other")
    found = discover([mine, tmp_path / "missing", shipped])
    assert [(one.name, one.description, one.always) for one in found] == [
        ("mail", "My way.", False),
        ("other", "Does it.", False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nname: bad\n",
        "---\n: [\n---\nbody",
        "---\n- a\n- b\n---\nbody",
        "---\nname: bad\n---\nbody",
        "---\ndescription: x\n---\nbody",
        "---\nname: other\ndescription: x\n---\nbody",
        "---\nname: bad\ndescription: ''\n---\nbody",
        "---\nname: bad\ndescription: [x]\n---\nbody",
        "---\nname: 2024-99-99\ndescription: x\n---\nbody",
        "---\n" + "[" * 50_000 + "\n---\nbody",
        "",
        b"\xff\xfe\x00",
    ],
    ids=range(13),
)
def test_a_broken_skill_is_off_and_the_others_load(tmp_path: Path, text: str | bytes) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    skill(tmp_path, "good")
    assert [one.name for one in discover([tmp_path])] == ["good"]


@pytest.mark.parametrize("damage", ["folder", "pipe", "dangling"])
def test_a_skill_that_is_no_file_is_off_and_the_others_load(tmp_path: Path, damage: str) -> None:
    (tmp_path / "bad").mkdir()
    path = tmp_path / "bad" / "SKILL.md"
    match damage:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
    skill(tmp_path, "good")
    assert [one.name for one in discover([tmp_path])] == ["good"]


def test_a_broken_skill_is_warned_of_once_for_each_state_of_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nanoclaw import log

    log.start(tmp_path / "logs", lambda text: text)
    path = skill(tmp_path, "fine")
    path.write_text("broken")
    for _ in range(3):
        assert discover([tmp_path]) == ()
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    assert "front matter" in warnings[0]


def test_an_edited_skill_is_read_again(tmp_path: Path) -> None:
    path = skill(tmp_path, "mail", description="Old.")
    assert discover([tmp_path])[0].description == "Old."
    path.write_text(path.read_text().replace("Old.", "Newer."))
    assert discover([tmp_path])[0].description == "Newer."


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        ({"bins": ["sh"]}, ()),
        ({"bins": ["sh", "no-such-command"]}, ("no-such-command (command)",)),
        ({"bins": "no-such-command"}, ("no-such-command (command)",)),
        ({"anyBins": ["no-such-command", "sh"]}, ()),
        ({"anyBins": ["no-a", "no-b"]}, ("one of no-a, no-b (command)",)),
        ({"env": ["SKILL_TEST_SET"]}, ()),
        ({"env": ["SKILL_TEST_UNSET"]}, ("SKILL_TEST_UNSET (environment)",)),
        ({"os": ["linux", "darwin"]}, ()),
        ({"os": ["windows"]}, ("windows (system)",)),
        ({}, ()),
    ],
)
def test_what_this_machine_lacks_for_a_skill_is_named(
    tmp_path: Path, wanted: dict[str, object], missing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILL_TEST_SET", "1")
    skill(tmp_path, "mail", requires(**wanted))
    assert discover([tmp_path])[0].missing == missing


def test_a_requirement_that_is_met_later_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skill(tmp_path, "mail", requires(env=["SKILL_TEST_LATER"]))
    assert discover([tmp_path])[0].missing
    monkeypatch.setenv("SKILL_TEST_LATER", "1")
    assert discover([tmp_path])[0].missing == ()


def test_the_summary_is_xml_whatever_a_skill_says_of_itself(tmp_path: Path) -> None:
    odd = Skill("a&b", 'say "hi" <b> & ]]> </skills>', Path('/a "b"/SKILL.md'), missing=('"gh" <x> (command)',))
    (parsed,) = ET.fromstring(summary([odd]))
    assert parsed.text == odd.description
    assert parsed.attrib == {
        "name": "a&b",
        "location": '/a "b"/SKILL.md',
        "available": "false",
        "missing": '"gh" <x> (command)',
    }


def test_a_skill_for_always_is_whole_in_the_prompt_and_one_that_lacks_something_only_listed(tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    skill(folder, "always-on", "always: true\n", body="Say ahoy.")
    skill(folder, "cannot", "always: true\n" + requires(bins=["no-such-command"]), body="Never shown.")
    skill(folder, "listed", body="Read me first.")

    async def story() -> None:
        with ScriptedProvider("Ahoy.") as model:
            async with house(tmp_path / "home", model, skills=(folder,)) as home:
                await home.ask("hi")
        text = model.requests[0].system.text
        assert "## always-on\n\nSay ahoy." in text
        assert "Never shown." not in text
        assert 'missing="no-such-command (command)"' in text
        assert '<skill name="listed"' in text
        assert "Read me first." not in text
        assert "---\nname" not in text

    asyncio.run(story())


def test_without_skills_there_is_no_word_of_them(tmp_path: Path) -> None:
    builder = builder_for(new_home(tmp_path), HandClock())
    assert "# Skills" not in builder.build_system_prompt()
    assert "# Active skills" not in builder.build_system_prompt()


def test_every_shipped_skill_loads_and_can_be_read_where_it_says(tmp_path: Path) -> None:
    shipped = REPOSITORY / "skills"
    found = discover([shipped])
    assert {one.path.parent.name for one in found} == {path.parent.name for path in shipped.glob("*/SKILL.md")}
    assert all(one.path.is_file() and one.description for one in found)
