"""The skills that come with the program: each says when it is for, is short, and its commands run."""

import re
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from nanoclaw.plugins.skills.skills import Means, Skill, body, discover, summary, survey
from tests.program import REPOSITORY

SHIPPED = REPOSITORY / "skills"
NAMES = ["github", "memory", "schedule", "skill-creator", "summarize", "tmux", "weather"]
TOOLS = frozenset(
    {
        *("read_file", "write_file", "edit_file", "append_file", "list_dir", "find_files", "search_files", "exec"),
        *("memory_search", "memory_add", "memory_forget", "cron"),
    }
)


def shipped(name: str) -> Skill:
    return next(skill for skill in survey([SHIPPED]) if skill.name == name)


def commands(name: str) -> list[str]:
    """The indented blocks of a skill, each as one script."""
    blocks = re.findall(r"(?:^ {4,}.*\n)+", body(shipped(name)) + "\n", re.MULTILINE)
    return ["\n".join(line.strip() for line in block.splitlines()) for block in blocks]


def run(script: str, folder: Path, **environment: str) -> str:
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", **environment}
    command = ["bash", "-c", script]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done
    return done.stdout


def test_these_are_shipped() -> None:
    assert [skill.name for skill in survey([SHIPPED])] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_skill_is_sound(name: str) -> None:
    skill, text = shipped(name), body(shipped(name))
    assert skill.problem == ""
    assert not skill.always
    assert re.fullmatch(r"Use .*\.", skill.description)
    assert len(skill.description) <= 130
    assert text.startswith("# ")
    assert len(text.splitlines()) <= 60
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (skill.folder / link).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_skill_is_read_alike_by_other_programs(name: str) -> None:
    front = yaml.safe_load(shipped(name).path.read_text().split("---\n")[1])
    assert (front["name"], front["description"]) == (name, shipped(name).description)
    assert set(front) <= {"name", "description", "license", "metadata"}


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_skill_names_only_tools_there_are(name: str) -> None:
    named = set(re.findall(r"`((?:[a-z]+_(?:file|files|dir|search|get|add|forget))|exec|cron)`", body(shipped(name))))
    assert named <= TOOLS


def test_the_summary_of_all_shipped_skills_is_small() -> None:
    found = discover([SHIPPED], Means(TOOLS))
    assert [skill.name for skill in found] == NAMES
    assert len(summary(found)) - sum(len(str(skill.path)) for skill in found) < 1_100


def test_without_a_schedule_nothing_speaks_of_one() -> None:
    found = discover([SHIPPED], Means(TOOLS - {"cron"}))
    assert not re.search("schedule|remind|cron", summary(found).replace(str(SHIPPED), ""), re.IGNORECASE)


# -- tmux


def until(shown: str) -> str:
    """A command that ends once this is on the person's screen."""
    return f"until tmux capture-pane -p -t work:0.0 | grep -q '^{shown}'; do sleep 0.02; done"


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Path]:
    """A folder for sockets of its own, with the person's session `work` on the default one. The path of a socket has
    108 bytes."""
    if not shutil.which("tmux"):
        pytest.skip("no tmux here")
    session = "tmux -f /dev/null new-session -d -s work -x 100 -y 20 'PS1=ready: exec sh -i'"
    with TemporaryDirectory(dir="/tmp") as short:
        run(f"{session} && {until('ready:')}", tmp_path, TMUX_TMPDIR=short)
        yield Path(short)
        run("tmux kill-server", tmp_path, TMUX_TMPDIR=short)


def test_tmux_looks_into_the_persons_sessions_and_types_there(tmux: Path) -> None:
    look, type_into = commands("tmux")[:2]
    assert run(look, tmux, TMUX_TMPDIR=str(tmux)).startswith("work:0.0 sh")
    typed = type_into.replace("make test", "echo $((6*7))") + f"\n{until('42')}\n" + look.splitlines()[-1]
    assert "\n42\n" in run(typed, tmux, TMUX_TMPDIR=str(tmux))


def test_tmux_drives_a_program_on_a_socket_of_its_own(tmux: Path) -> None:
    drive = commands("tmux")[2]
    shown = run(drive, tmux, TMUX_TMPDIR=str(tmux))
    assert "\n42\n" in shown
    assert "not seen" not in shown
    assert run("tmux list-sessions -F '#{session_name}'", tmux, TMUX_TMPDIR=str(tmux)) == "work\n"


def test_tmux_leaves_a_window_with_the_person(tmux: Path) -> None:
    (leave,) = re.findall(r"`(tmux new-window [^`]*)`", body(shipped("tmux")))
    run(leave.replace("make all", "sleep 60"), tmux, TMUX_TMPDIR=str(tmux))
    assert "build" in run("tmux list-windows -t work -F '#{window_name}'", tmux, TMUX_TMPDIR=str(tmux))


# -- weather


class Service(BaseHTTPRequestHandler):
    """Takes the place of both weather services; answers with what it was asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
def test_weather_asks_the_services_for_the_place_and_the_days(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked = []
    for script in commands("weather"):
        for line in script.splitlines():
            assert line.startswith("curl -sS -m 15 ")
            asked.append(run(re.sub(r"https://[^/]+", f"http://127.0.0.1:{server.server_port}", line), tmp_path))
    server.shutdown()
    server.server_close()
    assert asked[:3] == [
        "/Berlin?m&0&T&lang=en",
        "/Berlin?m&T&lang=en",
        "/Berlin?format=%l:+%c+%t+(feels+%f),+%w,+%h,+%p",
    ]
    assert asked[3] == "/v1/search?name=Berlin&count=3&language=en"
    assert asked[4].startswith("/v1/forecast?latitude=52.52&longitude=13.41&timezone=auto&forecast_days=7&daily=")


# -- summarize

PAGE = """<html><head><title>T</title><style>x{}</style></head><body><h1>Rent &amp; lease</h1>
<p>It is <b>900 €</b><br>a month.</p><script>bad()</script><ul><li>one</li><li>two</li></ul></body></html>"""


def test_summarize_gets_the_words_out_of_a_saved_page(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    run(commands("summarize")[0], tmp_path)
    assert (tmp_path / "page.txt").read_text() == "Rent & lease\nIt is 900 €\na month.\none\ntwo\n"


@pytest.mark.skipif(not shutil.which("unzip"), reason="no unzip here")
def test_summarize_gets_the_words_out_of_a_letter(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "FILE.docx", "w") as letter:
        letter.writestr("word/document.xml", "<w:p><w:r><w:t>Dear Anna</w:t></w:r></w:p><w:p><w:t>Bye</w:t></w:p>")
    (command,) = re.findall(r"`(unzip [^`]*)`", body(shipped("summarize")))
    run(command, tmp_path)
    assert (tmp_path / "FILE.txt").read_text().split("\n")[:2] == ["Dear Anna", "Bye"]


# -- skill-creator


def test_a_skill_written_as_the_skill_creator_says_is_ready(tmp_path: Path) -> None:
    *template, metadata = commands("skill-creator")
    text = "\n\n".join(template).replace("NAME", "my-skill") + "\n"
    (tmp_path / "my-skill").mkdir()
    (tmp_path / "my-skill" / "SKILL.md").write_text(text)
    (found,) = discover([tmp_path])
    assert (found.name, found.missing) == ("my-skill", ())
    assert body(found).startswith("# Title")
    (tmp_path / "my-skill" / "SKILL.md").write_text(text.replace("---\n\n", f"{metadata}\n---\n\n", 1))
    assert "MY_KEY (environment)" in discover([tmp_path])[0].missing


# -- github


@pytest.mark.skipif(not shutil.which("gh"), reason="no gh here")
def test_github_names_only_flags_that_gh_has() -> None:
    for script in commands("github"):
        for line in script.splitlines():
            words = line.split(" | ")[0].split()
            verb = words[1:2] if words[1] == "api" else words[1:3]
            known = subprocess.run(["gh", *verb, "--help"], capture_output=True, text=True, check=True).stdout
            assert all(flag in known for flag in re.findall(r" (--?[a-zA-Z-]+)", line))
