"""Skills: which ones there are, whose wins, what they lack, and what of them the model sees."""

import json
import os
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nanoclaw import log
from nanoclaw.core.errors import SkillError
from nanoclaw.plugins.skills import skills
from nanoclaw.plugins.skills.skills import Means, Skill, body, by_hand, discover, find, summary, survey
from nanoclaw.providers.scripted import ScriptedProvider
from tests.examples import examples
from tests.program import running

FORMS = examples(__file__, "skills.jsonl")


def skill(folder: Path, name: str, front: str = "", body: str = "How to do it.", description: str = "Does it.") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n{front}---\n\n{body}\n")
    return path


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(content if isinstance(content, bytes) else textwrap.dedent(content).encode())
    return path


def requires(**wanted: object) -> str:
    return f"metadata: {json.dumps({'nanoclaw': {'requires': wanted}})}\n"


def names(found: tuple[Skill, ...]) -> list[str]:
    return [one.name for one in found]


@pytest.fixture
def warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """The lines the log has shown since the last look."""
    skills._warn.cache_clear()
    log.start(tmp_path / "logs", lambda text: text)
    yield lambda: capsys.readouterr().err.splitlines()


# -- which ones there are


def test_the_first_folder_that_has_a_name_wins_whole(tmp_path: Path) -> None:
    mine, shipped = tmp_path / "mine", tmp_path / "shipped"
    skill(mine, "mail", description="My way.")
    skill(shipped, "mail", "always: true\n" + requires(bins=["no-such-command"]), description="The shipped way.")
    skill(shipped, "other")
    found = discover([mine, tmp_path / "missing", shipped])
    assert found == (
        Skill("mail", "My way.", mine / "mail" / "SKILL.md"),
        Skill("other", "Does it.", shipped / "other" / "SKILL.md"),
    )


def test_a_broken_skill_gives_way_to_a_whole_one_further_down_and_is_still_told(tmp_path: Path) -> None:
    path, told = written(tmp_path / "mine", "mail", "broken"), list[Skill]()
    skill(tmp_path / "shipped", "mail")
    (shown,) = discover([tmp_path / "mine", tmp_path / "shipped"], tell=told.append)
    assert shown.path == tmp_path / "shipped" / "mail" / "SKILL.md"
    assert [one.path for one in told] == [path]
    whole, broken = found = survey([tmp_path / "mine", tmp_path / "shipped"])
    assert (whole.problem, broken.path) == ("", path)
    assert find(found, "mail") == whole


def test_an_edited_skill_is_read_again(tmp_path: Path) -> None:
    path = skill(tmp_path, "mail", description="Old.")
    assert discover([tmp_path])[0].description == "Old."
    path.write_text(path.read_text().replace("Old.", "New."))
    assert discover([tmp_path])[0].description == "New."


def test_folders_without_a_skill_and_files_are_passed_over_in_silence(tmp_path: Path, warnings: Any) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "empty").mkdir()
    skill(tmp_path, "mail")
    assert names(discover([tmp_path, tmp_path / "README.md"])) == ["mail"]
    assert warnings() == []


# -- written for others


def test_a_skill_written_for_claude_works_unchanged(tmp_path: Path) -> None:
    text = """\
        ---
        name: pdf-forms
        description: Use whenever a PDF is filled in. This includes: reading, merging and "flattening" it.
        license: Proprietary. LICENSE.txt has complete terms
        compatibility: Needs python3
        allowed-tools: Bash(python:*) Read
        metadata:
          author: someone
          version: "1.0"
        ---

        # Forms

        See REFERENCE.md.
        """
    written(tmp_path, "pdf-forms", text)
    (found,) = discover([tmp_path])
    assert found.description.startswith('Use whenever a PDF is filled in. This includes: reading, merging and "flat')
    assert found.missing == ()
    assert body(found) == "# Forms\n\nSee REFERENCE.md."


@pytest.mark.parametrize(("front", "name"), FORMS["a skill is called as it says or as its folder"])
@pytest.mark.parametrize("file", ["SKILL.md", "skill.md"])
def test_a_skill_is_called_as_it_says_or_as_its_folder(tmp_path: Path, front: str, name: str, file: str) -> None:
    path = tmp_path / "pdf-main" / file
    path.parent.mkdir()
    path.write_text(f"---\n{front}description: Fills in forms.\n---\nHow to.\n")
    (found,) = discover([tmp_path])
    assert (found.name, found.path.samefile(path), found.description) == (name, True, "Fills in forms.")


def test_a_skill_written_for_openclaw_works_unchanged(tmp_path: Path) -> None:
    text = """\
        ---
        name: coder
        description: "Delegate to `x`: not for small edits."
        homepage: https://example.org/coder
        user-invocable: true
        metadata:
          {
            "openclaw":
              {
                "emoji": "🧩",
                "always": true,
                "os": ["darwin", "linux", "win32"],
                "requires": { "anyBins": ["no-a", "no-b"], "config": ["skills.entries.coder.enabled"], },
                "install": [{ "id": "x", "kind": "node", "bins": ["no-a"], }],
              },
          }
        ---
        Run {baseDir}/scripts/go.sh
        """
    path = written(tmp_path, "coder", text)
    (found,) = discover([tmp_path])
    assert found.description == "Delegate to `x`: not for small edits."
    assert found.missing == ("skills.entries.coder.enabled (config)", "one of no-a, no-b (command)")
    assert not found.always  # there it only says: list it whatever it lacks
    assert body(found) == f"Run {path.parent}/scripts/go.sh"


def test_a_skill_written_for_nanobot_works_unchanged(tmp_path: Path) -> None:
    text = """\
        ---
        name: screen
        description: 截图技能，当用户需要截图时使用此技能。
        metadata: {"nanobot":{"emoji":"📸","always":true,"requires":{"bins":["sh"],"env":["NO_SUCH_NAME"]}}}
        triggers:
        - "/screen"
        - "截图"
        ---
        body
        """
    written(tmp_path, "screen", text)
    (found,) = discover([tmp_path])
    assert (found.description, found.always) == ("截图技能，当用户需要截图时使用此技能。", True)
    assert found.missing == ("NO_SUCH_NAME (environment)",)


@pytest.mark.parametrize("front", FORMS["requirements are understood in every form they are written in"])
def test_requirements_are_understood_in_every_form_they_are_written_in(tmp_path: Path, front: str) -> None:
    skill(tmp_path, "mail", front + "\n")
    assert discover([tmp_path])[0].missing == ("no-such (command)",)


@pytest.mark.parametrize("front", ['metadata: {"openclaw": null}', "metadata: none", "metadata:", "metadata: [a, b]"])
def test_metadata_without_requirements_asks_for_nothing(tmp_path: Path, front: str) -> None:
    skill(tmp_path, "mail", front + "\n")
    assert discover([tmp_path])[0].missing == ()


@pytest.mark.parametrize("text", FORMS["front matter is read as people write it"])
def test_front_matter_is_read_as_people_write_it(tmp_path: Path, text: str) -> None:
    written(tmp_path, "a-b", text.replace('"name": x\n', ""))
    assert [(one.name, one.description) for one in discover([tmp_path])] == [("a-b", "Does it.")]


def test_a_skill_named_like_a_number_is_one(tmp_path: Path) -> None:
    skill(tmp_path, "2048", description="2024-01-02")
    assert [(one.name, one.description) for one in discover([tmp_path])] == [("2048", "2024-01-02")]


# -- what a run lacks


@pytest.mark.parametrize(("wanted", "missing"), FORMS["what this run lacks for a skill is named"])
def test_what_a_run_lacks_for_a_skill_is_named(tmp_path: Path, wanted: dict[str, object], missing: list[str]) -> None:
    settings = {"channels.telegram.token": "x", "limits.zero": 0}
    environment = {"PATH": os.environ["PATH"], "SKILL_SET": "1", "SKILL_EMPTY": ""}
    skill(tmp_path, "mail", requires(**wanted))
    assert discover([tmp_path], Means(frozenset(), settings.get, environment))[0].missing == tuple(missing)


def test_a_command_that_comes_or_goes_is_seen(tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    skill(tmp_path / "skills", "mail", requires(bins=["brand-new"]))

    def missing() -> tuple[str, ...]:
        return discover([tmp_path / "skills"], Means(environment={"PATH": f"/no/such:{bin}"}))[0].missing

    assert missing() == ("brand-new (command)",)
    (bin / "brand-new").write_text("#!/bin/sh\n")
    assert missing() == ("brand-new (command)",)
    (bin / "brand-new").chmod(0o755)
    assert missing() == ()
    (bin / "brand-new").unlink()
    assert missing() == ("brand-new (command)",)


def test_a_skill_for_a_tool_that_is_not_in_this_run_is_not_spoken_of(tmp_path: Path) -> None:
    skill(tmp_path, "schedule", requires(tools=["cron"]))
    assert discover([tmp_path]) == ()
    assert [(one.name, one.missing) for one in survey([tmp_path])] == [("schedule", ("cron (tool)",))]
    assert names(discover([tmp_path], Means(frozenset({"cron"})))) == ["schedule"]


def test_tools_of_another_program_are_no_requirement(tmp_path: Path) -> None:
    skill(tmp_path, "mail", 'metadata: {"openclaw": {"requires": {"tools": ["sessions_spawn"]}}}\n')
    assert discover([tmp_path])[0].missing == ()


def test_a_skill_that_is_only_started_by_hand_is_not_spoken_of(tmp_path: Path) -> None:
    skill(tmp_path, "deploy", "disable-model-invocation: true\n")
    assert discover([tmp_path]) == ()
    assert find(survey([tmp_path]), "deploy").name == "deploy"


# -- bad input: that skill is off and told of once, others load

BROKEN: dict[str, tuple[str | bytes, int]] = {
    "no front matter": ("no front matter", 1),
    "empty": ("", 1),
    "no end": ("---\nname: bad\n", 1),
    "no entries": ("---\n---\nbody", 1),
    "bad YAML": ("---\nname: bad\ndescription: x\nextra: [\n---\nbody", 4),
    "no key": ("---\n: [\n---\nbody", 2),
    "a list": ("---\n- a\n- b\n---\nbody", 2),
    "a tab": ("---\nname: bad\ndescription: x\n\tmore: y\n---\nbody", 4),
    "bad quotes": ('---\nname: bad\ndescription: "x" y\n---\nbody', 3),
    "empty name": ("---\nname:\ndescription: x\n---\nbody", 2),
    "no description": ("---\nname: bad\n---\nbody", 1),
    "empty description": ("---\nname: bad\ndescription: ''\n---\nbody", 3),
    "description is a list": ("---\nname: bad\ndescription: [x]\n---\nbody", 3),
    "only control characters": ("---\nname: bad\ndescription: \x01\x02\n---\nbody", 3),
    "deep nesting": ("---\nname: bad\ndescription: x\nextra: " + "[" * 20_000 + "\n---\nbody", 4),
    "deep blocks": (
        "---\nname: bad\ndescription: x\nextra:\n" + "".join(" " * n + "- \n" for n in range(200)) + "---\n",
        0,
    ),
    "too large": ("---\nname: bad\ndescription: x\n" + "more: x\n" * 10_000 + "---\nbody", 1),
    "description of 100 kB": ("---\nname: bad\ndescription: " + "x" * 100_000 + "\n---\nbody", 1),
    "alias": ("---\nname: bad\ndescription: &a x\nmetadata: *a\n---\nbody", 4),
    "bomb": (
        "---\nname: bad\ndescription: x\nmetadata:\n  a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"  {new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        )
        + "---\nbody",
        0,
    ),
    "endless alias": ("---\nname: bad\ndescription: x\nmetadata: &a [*a]\n---\nbody", 0),
    "a Python object": ("---\nname: !!python/object/apply:os.system [true]\ndescription: x\n---\nbody", 2),
    "not UTF-8": (b"---\nname: bad\ndescription: \xff\xfe\n---\nbody", 3),
    "UTF-16": ("---\nname: bad\ndescription: x\n---\n".encode("utf-16"), 1),
    "NUL": (b"---\nname: b\0ad\ndescription: x\n---\n", 0),
    "two documents": ("---\nname: bad\ndescription: |\n  x\n...\nmore\n---\nbody", 0),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_skill_is_off_with_a_sentence_that_names_the_line(tmp_path: Path, case: str) -> None:
    content, line = BROKEN[case]
    told = list[Skill]()
    folder = tmp_path / "skills"
    path = written(folder, "bad", content)
    skill(folder, "good")
    found = discover([folder], tell=told.append)
    if case in ("deep blocks", "NUL"):  # unwise, but readable
        assert "good" in names(found)
        return
    assert names(found) == ["good"]
    assert [one.path for one in told] == [path]
    assert told[0].problem.startswith(f"line {line or ''}")


async def test_a_broken_skill_is_told_once_also_by_the_next_process_until_it_was_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def told() -> int:
        async with running(tmp_path, ScriptedProvider("Hello.", "Hello again.")) as program:
            await program.ask("hi")
            await program.ask("and again")
        return capsys.readouterr().err.count(f"the skill {path} is off: line 1")

    path = skill(tmp_path / "workspace" / "skills", "mail")
    whole = path.read_text()
    path.write_text("broken")
    assert [await told(), await told()] == [1, 0]
    path.write_text(whole)
    assert await told() == 0
    path.write_text("broken")
    assert await told() == 1


@pytest.mark.parametrize("damage", FORMS["a skill that is no plain file is off and the others load"])
def test_a_skill_that_is_no_plain_file_is_off_and_the_others_load(tmp_path: Path, damage: str) -> None:
    if damage == "locked" and os.geteuid() == 0:
        pytest.skip("root may read everything")
    folder = tmp_path / "skills"
    path = folder / "bad" / "SKILL.md"
    if damage == "folder cycle":
        folder.mkdir()
        path.parent.symlink_to("bad")
    else:
        path.parent.mkdir(parents=True)
    match damage:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to("nowhere")
        case "cycle":
            path.symlink_to("SKILL.md")
        case "out of the folder":
            path.symlink_to(skill(tmp_path / "elsewhere", "bad"))
        case "locked":
            path.write_text("x")
            path.chmod(0)
    skill(folder, "good")
    told = list[Skill]()
    assert names(discover([folder], tell=told.append)) == ["good"]
    assert [(one.path, one.problem[:6]) for one in told] == [(path, "line 1")]


def test_links_that_lead_back_up_are_not_followed_round(tmp_path: Path) -> None:
    skill(tmp_path, "good")
    (tmp_path / "good" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path)
    assert names(discover([tmp_path])) == ["good"]


def test_a_folder_of_skills_that_is_itself_a_link_is_read(tmp_path: Path) -> None:
    skill(tmp_path / "real", "good")
    (tmp_path / "link").symlink_to("real")
    assert names(discover([tmp_path / "link"])) == ["good"]


SECOND_LOOK = """
import sys
from pathlib import Path
from nanoclaw.plugins.skills.skills import discover
folders, seen = [Path(sys.argv[1])], []
first = discover(folders)
watched = ("open", "os.scandir", "os.listdir")
sys.addaudithook(lambda event, args: seen.append((event, str(args[0]))) if event in watched else None)
assert discover(folders) == first
print(len(first), sorted(seen), "yaml" in sys.modules)
"""


def second_look(folder: Path) -> str:
    """How many skills are found, the files opened and folders listed for that when they are known, and yaml."""
    command = [sys.executable, "-c", SECOND_LOOK, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_files_in_a_skill_are_not_listed(tmp_path: Path) -> None:
    skill(tmp_path, "big")
    (tmp_path / "big" / "1.txt").touch()
    assert second_look(tmp_path) == f"1 [('os.scandir', {str(tmp_path)!r})] False"


def test_ten_thousand_files_or_folders_beside_skills_are_bounded_told_once(tmp_path: Path, warnings: Any) -> None:
    folder = tmp_path / "skills"
    skill(folder, "good")
    skill(folder, "z-too-late")
    for number in range(5_000):
        (folder / f"x{number}.txt").touch()
        (folder / f"y{number}").mkdir()
    before = time.process_time()
    for _ in range(3):
        assert names(discover([folder])) == ["good"]
    assert time.process_time() - before < 5
    (told,) = warnings()
    assert "only the first 1,000" in told


def test_a_long_description_is_cut(tmp_path: Path) -> None:
    skill(tmp_path, "mail", description="word " * 1_000)
    (found,) = discover([tmp_path])
    assert len(found.description) == 1_024
    assert found.description.endswith("…")


def test_what_a_screen_or_xml_cannot_hold_is_left_out(tmp_path: Path) -> None:
    path = skill(tmp_path, "mail", description='"a\\u001b[31mb\\ud800\\u0000c 👨\u200d👩"')
    (found,) = discover([tmp_path])
    assert found == Skill("mail", "a[31mbc 👨\u200d👩", path)


# -- the body


def test_the_body_is_what_stands_below_the_front_matter(tmp_path: Path) -> None:
    path = skill(tmp_path, "mail", body="One.\r\n\n---\n\nTwo: {baseDir}/a {other}")
    (found,) = discover([tmp_path])
    assert body(found) == f"One.\n\n---\n\nTwo: {path.parent}/a {{other}}"


def test_a_huge_body_is_cut_and_says_so(tmp_path: Path) -> None:
    path = skill(tmp_path, "mail", body="é" * 1_000_000)
    text = body(discover([tmp_path])[0])
    assert len(text.encode()) < 61_000
    assert text.endswith(f"[cut after 60,000 bytes: {path} has the rest]")


def test_a_body_that_has_gone_is_empty(tmp_path: Path) -> None:
    path = skill(tmp_path, "mail")
    (found,) = discover([tmp_path])
    path.unlink()
    assert body(found) == ""


# -- the summary


def test_the_summary_is_xml_whatever_a_skill_says_of_itself() -> None:
    odd = Skill("a&b", 'say "hi" <b> & ]]> </skills>', Path('/a "b"\x01/SKILL.md'), missing=('"gh" <x> (command)',))
    (parsed,) = ET.fromstring(summary((odd,)))
    assert parsed.text == odd.description
    assert parsed.attrib == {
        "name": "a&b",
        "location": "skill:a&b",
        "available": "false",
        "missing": '"gh" <x> (command)',
    }


def test_without_skills_the_summary_is_empty() -> None:
    assert summary(()) == ""


def many(count: int, length: int = 100) -> list[Skill]:
    return [
        Skill(f"s{number:04}", "d" * length, Path(f"/home/skills/s{number:04}/SKILL.md"), missing=("x",) * (number % 2))
        for number in range(count)
    ]


def test_a_summary_over_budget_has_names_and_places_only() -> None:
    text = summary(tuple(many(200, 200)))
    assert len(text) <= 24_000
    elements = list(ET.fromstring(text))
    assert len(elements) == 200
    assert {element.text for element in elements} == {None}
    assert all(element.attrib["location"] == f"skill:{element.attrib['name']}" for element in elements)
    assert sum(element.attrib.get("available") == "false" for element in elements) == 100


@pytest.mark.parametrize("budget", [24_000, 5_000, 700])
def test_a_summary_still_over_budget_says_how_many_are_left_out_and_how_to_find_them(budget: int) -> None:
    text = summary(tuple(many(2_000)), budget)
    assert len(text) <= budget
    *elements, more = ET.fromstring(text)
    assert more.text == f"{2_000 - len(elements)} more are left out. To find them, use list_dir on /home/skills"
    assert not any("available" in element.attrib for element in elements)  # what can be used comes first


# -- by hand


def test_a_skill_is_found_by_hand_and_its_text_goes_with_the_task(tmp_path: Path) -> None:
    path = skill(tmp_path, "weather", body="Run {baseDir}/ask.sh")
    started = by_hand(find(survey([tmp_path]), "Weather"), "Berlin tomorrow")
    assert f"Run {path.parent}/ask.sh" in started
    assert str(path.parent) in started
    assert started.endswith("\n\nBerlin tomorrow")


@pytest.mark.parametrize("task", ["Berlin \\1 tomorrow", ""])
def test_a_skill_started_by_hand_has_its_arguments_where_it_asks_for_them(tmp_path: Path, task: str) -> None:
    skill(tmp_path, "weather", body="Look at $ARGUMENTS!")
    assert f"\nLook at {task}!\n" in by_hand(find(survey([tmp_path]), "weather"), task)


def test_a_skill_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    skill(tmp_path, "weather", requires(bins=["no-such"], tools=["cron"]))
    path = written(tmp_path, "broken", "x")
    found = survey([tmp_path])
    for name, told in {
        "wether": "There is no skill 'wether'. Near: weather.",
        "zzz": "There is no skill 'zzz'.",
        "weather": "The skill weather cannot be started. It lacks no-such (command), cron (tool).",
        "broken": f"The skill broken is off. {path}, line 1: it must begin with front matter between two lines of ---.",
    }.items():
        with pytest.raises(SkillError) as error:
            find(found, name)
        assert str(error.value) == told


# -- cost


def test_fifty_known_skills_are_not_read_again_at_each_message_and_need_no_yaml(tmp_path: Path) -> None:
    for number in range(50):
        wanted = {"bins": ["sh", f"no-such-{number}"], "env": ["HOME"]}
        skill(tmp_path, f"skill-{number}", requires(**wanted), description=f"Use when: it is {number}.")
    assert second_look(tmp_path) == f"50 [('os.scandir', {str(tmp_path)!r})] False"
