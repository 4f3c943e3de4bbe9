"""A model for each purpose: each request reaches the model that [models] names for it, through the seam."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanoclaw.core.errors import ConfigError, NanoclawError, ProviderRefused
from nanoclaw.core.events import Notice
from nanoclaw.core.messages import Address, Attachment, Inbound, ModelRequest, SystemPrompt, UserMessage
from nanoclaw.core.plugin import Host, Plugin, Profile
from nanoclaw.plugins.delegate.plugin import Delegate
from nanoclaw.plugins.heartbeat.plugin import Heartbeat
from nanoclaw.plugins.schedule.plugin import Schedule
from nanoclaw.providers.scripted import ScriptedProvider, call
from nanoclaw.start.build import ModelFacts, build, checked
from nanoclaw.start.config import EFFORTS, PURPOSES
from tests.examples import examples
from tests.journeys.command import Ended, Home
from tests.model_server import ModelServer, Scripted, failing, says
from tests.plugins.media.test_attachments import picture
from tests.program import (
    NOON,
    REPOSITORY,
    FakeChannel,
    HandClock,
    Program,
    bare,
    config_of,
    everybody_is,
    new_id,
    running,
)


@pytest.fixture
def two_servers() -> Iterator[tuple[ModelServer, ModelServer]]:
    servers = ModelServer(), ModelServer()
    yield servers
    for one in servers:
        one.stop()


@asynccontextmanager
async def configured(
    root: Path, server: ModelServer, settings: str, plugins: Iterable[type[Plugin]] | None = None, **environment: str
) -> AsyncIterator[Program]:
    """The program with the models of its configuration: x/main at the server, and what the settings name."""
    main = f'[model]\nname = "x/main"\napi_base = "{server.base}"\n'
    channel, clock = FakeChannel(), HandClock()
    app = build(
        config_of(root, main + settings, **environment),
        model="x/main",
        channels=[channel],
        clock=clock,
        plugins=plugins and ["basics", "services", *plugins],
    )
    serving = asyncio.create_task(app.run())
    await asyncio.sleep(0)  # it serves before anything is said
    try:
        async with asyncio.timeout(60):
            yield Program(app, root, channel, clock)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await app.aclose()


def holding(into: list[Host]) -> type[Plugin]:
    """A plugin that gives its host away."""

    class Holding(Plugin):
        name = "holding"

        def __init__(self, host: Host, settings: None) -> None:
            into.append(host)

    return Holding


PROFILES = {"job": Schedule.profiles[0], "heartbeat": Heartbeat.profiles[0]}


async def turn(
    program: Program, host: Host, origin: str, change: Callable[[Profile], Profile] = lambda one: one
) -> None:
    """A turn of a plugin's, to its end."""
    profile = change(PROFILES.get(origin, Delegate.profiles[0]))
    inbound = Inbound(Address(origin, "1"), origin, new_id(), UserMessage("look", NOON, origin), role="owner")
    await host.write(lambda tx: tx.deliver(inbound, profile))
    await program.app.conversations.of(inbound.address).idle()


async def test_each_turn_goes_to_the_model_of_its_purpose_and_the_persons_to_the_configured_one(tmp_path: Path) -> None:
    settings = '[models]\ntasks = "scripted/t"\nheartbeat = "scripted/b"\nhelpers = { name = "scripted/h" }\n'
    names = {"": "scripted/model", "job": "scripted/t", "heartbeat": "scripted/b", "delegate": "scripted/h"}
    models = {origin: ScriptedProvider("done", model=name) for origin, name in names.items()}
    hosts: list[Host] = []
    async with bare(tmp_path, *models.values(), plugins=[holding(hosts)], settings=settings) as program:
        assert await program.ask("hello") == "done"
        for origin in ("job", "heartbeat", "delegate"):
            await turn(program, hosts[0], origin)
            assert [one.left for one in models.values()] == [
                origin != name and one.left for name, one in models.items()
            ]
        booked = program.rows("SELECT model FROM usage ORDER BY id")
    assert [name for (name,) in booked] == ["scripted/model", "scripted/t", "scripted/b", "scripted/h"]


async def test_what_is_not_set_is_the_conversations_model_and_a_profiles_own_model_goes_first(tmp_path: Path) -> None:
    main, own = ScriptedProvider("1", "2"), ScriptedProvider("3", model="scripted/own")
    hosts: list[Host] = []
    settings = '[models]\nhelpers = "scripted/nobody"'
    async with bare(tmp_path, main, own, plugins=[holding(hosts)], settings=settings) as program:
        await turn(program, hosts[0], "job")
        await turn(program, hosts[0], "heartbeat")
        await turn(program, hosts[0], "delegate", lambda profile: profile._replace(model="scripted/own"))
    assert (main.left, own.left) == (0, 0)


async def test_a_plugins_request_names_its_purpose(tmp_path: Path) -> None:
    main, titles = ScriptedProvider("from main"), ScriptedProvider("from titles", model="scripted/titles")
    hosts: list[Host] = []
    settings = '[models.titles]\nname = "scripted/titles"\neffort = "low"'
    async with bare(tmp_path, main, titles, plugins=[holding(hosts)], settings=settings):
        asked = ModelRequest(SystemPrompt("name this"), (UserMessage("hello", NOON),))
        assert (await hosts[0].complete(asked._replace(purpose="titles"))).text == "from titles"
        assert (await hosts[0].complete(asked)).text == "from main"
        with pytest.raises(NanoclawError, match="no purpose 'titel'; did you mean 'titles'"):
            await hosts[0].complete(asked._replace(purpose="titel"))
    assert [one.requests[0].effort for one in (titles, main)] == ["low", ""]


async def test_a_purpose_falls_back_in_its_order_and_at_last_to_the_conversations_model(tmp_path: Path) -> None:
    refused = ProviderRefused("scripted/t has no such model.")
    main, first = ScriptedProvider("hi", "by main"), ScriptedProvider(refused, model="scripted/t")
    second = ScriptedProvider("by second", ProviderRefused("scripted/s is down."), model="scripted/s")
    hosts: list[Host] = []
    settings = '[models.tasks]\nname = "scripted/t"\nfallback = ["scripted/gone", "scripted/s"]'
    async with bare(tmp_path, main, first, second, plugins=[holding(hosts)], settings=settings) as program:
        await turn(program, hosts[0], "job")
        assert (first.left, second.left) == (0, 1)
        await turn(program, hosts[0], "job")
        assert (first.left, second.left, main.left) == (0, 0, 1)
        assert (await program.ask("hello")) == "by main"  # the owner hears once what happened while nobody looked
        told = [event.text for _, event in program.channel.events if isinstance(event, Notice)]
    assert told == [
        "tasks: scripted/t has no such model; there is no model 'scripted/gone'; asking scripted/s instead",
        "tasks: scripted/s is down; asking scripted/model instead",
    ]


@pytest.mark.parametrize(("settings", "said"), examples(__file__, "models.jsonl")["wrong"])
def test_what_is_wrong_in_models_is_said_in_one_sentence(tmp_path: Path, settings: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        config_of(tmp_path, settings)
    assert said in str(error.value)
    assert str(tmp_path / "config.toml") in str(error.value)
    assert str(error.value)[-1] in ".?"


def test_aliases_stand_for_models_wherever_config_toml_names_one(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        '[model]\nname = "Fast"\nfallback = ["big"]\n[models]\ntasks = "fast"\n[models.helpers]\nname = "big"\n'
        'fallback = ["fast"]\n[models.aliases]\nfast = "openai/gpt-5-mini"\nbig = "openai/gpt-5"',
    )
    assert (config.model.name, config.model.fallback) == ("openai/gpt-5-mini", ("openai/gpt-5",))
    helpers = config.purposes.of("helpers")
    assert (config.purposes.of("tasks").name, helpers.name) == ("openai/gpt-5-mini", "openai/gpt-5")
    assert helpers.fallback == ("openai/gpt-5-mini",)


PNG = picture()
PICTURE = (Attachment("", "cat.png", "image/png", "r1", len(PNG)),)


def showing() -> FakeChannel:
    channel = FakeChannel()
    channel.held["r1"] = PNG
    return channel


async def test_a_message_with_a_picture_goes_to_the_model_that_sees_and_the_next_one_back(tmp_path: Path) -> None:
    blind = ScriptedProvider("hello", "you showed a cat", vision=False)
    eyes = ScriptedProvider(call("list_files"), "a cat", model="scripted/eyes")
    settings = '[models.pictures]\nname = "scripted/eyes"\neffort = "low"'
    async with running(tmp_path, blind, eyes, settings=settings, channel=showing()) as program:
        assert await program.ask("hello") == "hello"
        assert await program.ask("what is this?", files=PICTURE) == "a cat"  # each request of its turn
        assert await program.ask("and before?") == "you showed a cat"
        told = [event.text for _, event in program.channel.events if isinstance(event, Notice)]
    assert "scripted/model cannot see images, so scripted/eyes is asked" in told
    assert not [line for line in told if "only their names" in line]
    first, second = blind.requests
    assert second.system == first.system and second.tools == first.tools  # what is cached of its prompt stays
    assert second.history[: len(first.history)] == first.history
    assert [request.effort for request in (*eyes.requests, second)] == ["low", "low", ""]


async def test_a_model_that_sees_is_shown_pictures_itself(tmp_path: Path) -> None:
    main, eyes = ScriptedProvider("a cat"), ScriptedProvider(model="scripted/eyes")
    settings = '[models]\npictures = "scripted/eyes"'
    async with running(tmp_path, main, eyes, settings=settings, channel=showing()) as program:
        assert await program.ask("what is this?", files=PICTURE) == "a cat"


async def test_a_model_that_refuses_a_picture_is_not_asked_again_without_it(
    tmp_path: Path, two_servers: tuple[ModelServer, ModelServer]
) -> None:
    blind, eyes = two_servers
    blind.script(failing(400, {"error": {"message": "image input is not supported, provide the mmproj"}}))
    eyes.script(says("a cat"))
    async with configured(tmp_path, blind, f'[models.pictures]\nname = "x/eyes"\napi_base = "{eyes.base}"') as program:
        program.channel.held["r1"] = PNG
        assert await program.ask("what is this?", files=PICTURE) == "a cat"
        assert (len(blind.asked), len(eyes.asked)) == (1, 1)
        assert "image_url" in str(eyes.asked[0].json["messages"][-1])
        assert ModelFacts(program.app.store).abilities("x/main").sees_images is False


async def test_a_person_does_not_wait_behind_the_heartbeat_of_a_local_server_unsaid(
    tmp_path: Path, two_servers: tuple[ModelServer, ModelServer]
) -> None:
    server, _ = two_servers
    server.script(says("hello"))
    hosts: list[Host] = []
    async with configured(tmp_path, server, "", [everybody_is("owner"), holding(hosts)]) as program:
        queue = program.app.models.of("")._queue  # type: ignore[attr-defined]
        async with queue.place("", lambda event: None):  # somebody else's request is under way
            beat = asyncio.create_task(turn(program, hosts[0], "heartbeat"))
            while not queue._waiting:  # noqa: ASYNC110 - nobody is told of a heartbeat that waits
                await asyncio.sleep(0)
            assert server.asked == []
        server.script(says("done"))
        assert await program.ask("hello") in ("hello", "done")
        await beat
    assert len(server.asked) == 2


# --- /model and nanoclaw model ---------------------------------------------------------------------------------------

LISTED = """
[model]
name = "openai/gpt-5"
effort = "medium"
fallback = ["groq/llama-3.3-70b-versatile"]
[models]
tasks = "mini"
heartbeat = { name = "anthropic/claude-haiku-4-5", effort = "low" }
[models.aliases]
mini = "openai/gpt-5-mini"
"""


def listed(root: Path, *words: str, settings: str = LISTED, **environment: str) -> Ended:
    config_of(root, settings)
    return Home(root, environment).run("model", *words)


def test_nanoclaw_model_lists_purposes_models_keys_windows_and_prices(tmp_path: Path) -> None:
    shown = listed(tmp_path, OPENAI_API_KEY="sk-not-shown-anywhere").out
    assert shown.startswith("Model: openai/gpt-5 (window: ")
    assert "- conversation: openai/gpt-5; effort medium; then groq/llama-3.3-70b-versatile\n" in shown
    assert "- tasks: openai/gpt-5-mini\n" in shown
    trouble = "cannot be asked, so the next is: anthropic/claude-haiku-4-5 needs a key"
    assert f"- heartbeat: anthropic/claude-haiku-4-5; effort low; {trouble}" in shown
    assert "- summaries, helpers, pictures: the conversation's model\n" in shown
    assert "- transcription: none, voice notes are not transcribed\n" in shown
    mini = next(line for line in shown.splitlines() if line.startswith("- openai/gpt-5-mini:"))
    assert re.search(r"OPENAI_API_KEY is set; [\d,]+ tokens; \$0\.25 in, \$2\.00 out; alias mini", mini)
    assert "anthropic/claude-haiku-4-5: ANTHROPIC_API_KEY is not set" in shown
    assert "\n\nKnown (prices" in shown and shown.count("anthropic/claude-haiku-4-5 needs a key") == 1
    assert "sk-not-shown" not in shown


def test_nanoclaw_model_as_json(tmp_path: Path) -> None:
    found = json.loads(listed(tmp_path, "--json", OPENAI_API_KEY="sk-x").out)
    by_purpose = {one["purpose"]: one for one in found["purposes"]}
    assert (found["model"], by_purpose["tasks"]["model"]) == ("openai/gpt-5", "openai/gpt-5-mini")
    assert by_purpose["conversation"]["effort"] == "medium" and by_purpose["summaries"]["model"] == ""
    mini = next(one for one in found["models"] if one["name"] == "openai/gpt-5-mini")
    assert (mini["aliases"], mini["is_key_set"], mini["input_usd"], mini["is_local"]) == (["mini"], True, 0.25, False)


def test_nanoclaw_model_without_any_configuration_says_how_one_is_chosen(tmp_path: Path) -> None:
    assert listed(tmp_path, settings="").out.startswith("Model: chosen at each start")
    own = listed(tmp_path, settings='[model]\nname = "local/qwen2.5-coder-1.5b"\n').out
    assert "- local/qwen2.5-coder-1.5b: on this machine; 4,096 tokens" in own


async def test_slash_model_takes_aliases_and_names_what_is_near(
    tmp_path: Path, two_servers: tuple[ModelServer, ModelServer]
) -> None:
    here = two_servers[0].base
    settings = f'[models.helpers]\nname = "x/help"\napi_base = "{here}"\n[models.aliases]\nmini = "openai/gpt-5-mini"'
    async with configured(tmp_path, two_servers[0], settings, OPENAI_API_KEY="sk-x") as program:
        assert "x/help: on this machine; window unknown" in await program.ask("/model")
        assert await program.ask("/model mini") == "This conversation now uses openai/gpt-5-mini."
        assert "Model: openai/gpt-5-mini (window: " in await program.ask("/model")
        assert "Similar: mini." in await program.ask("/model mimi")
        said = await program.ask("/model openai/gpt-5-mimi")
        assert "is not among the models known here; did you mean openai/gpt-5-mini?" in said
        assert await program.ask("/model x/main") == "This conversation now uses x/main."
    assert not two_servers[0].asked


async def test_status_names_a_purpose_whose_model_cannot_answer(
    tmp_path: Path, two_servers: tuple[ModelServer, ModelServer]
) -> None:
    main, down = two_servers
    settings = f"""[models]
titles = "anthropic/claude-haiku-4-5"
[models.tasks]
name = "x/t"
api_base = "{down.base}"
"""
    down.script(failing(404, {"error": {"message": "no such model"}}))
    main.script(says("done"))
    hosts: list[Host] = []
    async with configured(tmp_path, main, settings, [everybody_is("owner"), holding(hosts)]) as program:
        await turn(program, hosts[0], "job")
        said = await program.ask("/status")
        found = [one.text for name, one in await program.app.findings() if name.startswith("model for")]
    assert "The model for titles does not answer: anthropic/claude-haiku-4-5 needs a key: set ANTHROPIC_API_KEY" in said
    assert "The model for tasks does not answer: x/t" in said
    assert len(found) == 2
    assert (len(down.asked), len(main.asked)) == (1, 1)


def test_doctor_asks_the_model_of_each_purpose(tmp_path: Path, two_servers: tuple[ModelServer, ModelServer]) -> None:
    main, own = two_servers
    main.script(says("hello"))
    own.script(says("hi"))
    settings = f"""[model]
name = "x/main"
api_base = "{main.base}"
[models]
heartbeat = "x/own"
transcription = "groq/whisper-large-v3"
[models.tasks]
name = "x/own"
api_base = "{own.base}"
"""
    config_of(tmp_path, settings)
    ran = Home(tmp_path, {}).run("doctor", check=1)
    assert "ok    model: x/main answers: 'hello'" in ran.out
    assert "ok    model for heartbeat, tasks: x/own answers: 'hi'" in ran.out
    assert "wrong model for transcription: groq/whisper-large-v3 needs a key: set GROQ_API_KEY" in ran.out


# --- docs/models.md --------------------------------------------------------------------------------------------------

PAGE = (REPOSITORY / "docs" / "models.md").read_text()


def test_the_page_says_what_is(tmp_path: Path) -> None:
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (shown,) = re.findall(r"^```\n(For:.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    checked(config_of(tmp_path, settings))
    assert shown in listed(tmp_path, settings=settings, OPENAI_API_KEY="sk-x").out
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(PURPOSES)
    assert f"`effort` is one of {', '.join(EFFORTS)};" in PAGE


# --- the rest --------------------------------------------------------------------------------------------------------


async def test_voice_notes_go_to_the_model_for_them_and_to_the_next_where_it_cannot(
    tmp_path: Path, two_servers: tuple[ModelServer, ModelServer]
) -> None:
    main, ears = two_servers
    main.script(says("You called."))
    ears.script(Scripted((b'{"text": "call me back"}',), headers={"content-type": "application/json"}))
    settings = '[models.transcription]\nname = "groq/whisper-large-v3"\nfallback = ["openai/whisper-1"]'
    at = f'\n[models.titles]\nname = "openai/whisper-1"\napi_base = "{ears.base}"'  # gives that model its address
    async with configured(tmp_path, main, settings + at) as program:
        program.channel.held["v1"] = b"OggS" + bytes(60)
        note = (Attachment("", "note.ogg", "audio/ogg", "v1", 64, is_voice=True),)
        assert await program.ask("", files=note) == "You called."
    assert [one.path for one in ears.asked][:1] == ["/v1/audio/transcriptions"]
    assert "call me back" in str(main.asked[0].json["messages"][-1])


async def test_a_task_that_waited_over_a_restart_goes_to_its_model(tmp_path: Path) -> None:
    own = ScriptedProvider("done", model="scripted/t")
    settings = '[models]\ntasks = "scripted/t"'
    hosts: list[Host] = []
    job = Inbound(Address("job", "1"), "job", new_id(), UserMessage("look", NOON, "job"), role="owner")
    async with bare(tmp_path, ScriptedProvider(), own, plugins=[holding(hosts)], settings=settings) as program:
        await program.ask("/panic")
        await hosts[0].write(lambda tx: tx.deliver(job, Schedule.profiles[0]))
        assert own.left == 1
    async with bare(
        tmp_path, ScriptedProvider(), own, plugins=[holding(hosts)], settings=settings, wakes=True
    ) as program:
        await program.ask("/resume")
        await asyncio.sleep(0)
        await program.app.conversations.of(job.address).idle()
    assert own.left == 0
