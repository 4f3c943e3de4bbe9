"""Models in the order of the person's wish: who is asked, who rests, and what the person is told."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from nanoclaw.core.errors import ConfigError, ContextTooLong, ProviderError, ProviderRefused, ProviderUnavailable
from nanoclaw.core.messages import AssistantMessage
from nanoclaw.core.provider import Provider
from nanoclaw.providers.failover import REST_SECONDS, Failover
from nanoclaw.providers.failures import BadRequest, Endpoint
from nanoclaw.providers.openai_compatible import OpenAICompatible
from nanoclaw.providers.scripted import Hang, ScriptedProvider, Step
from tests.model_server import ModelServer, delta, events, failing, says
from tests.providers.conftest import Heard, Waits, request

BUSY = ProviderUnavailable("a/one is busy (429). Try again later.")
DOWN = ProviderUnavailable("b/two cannot be reached: nothing listens at 127.0.0.1. Start the model server.")
NO_CREDIT = ProviderRefused("a/one has no quota or credit left (402). Check the plan.")


@dataclass
class House:
    """Two scripted models, or what making them raises, behind one Failover with a clock that is set by hand."""

    first: ScriptedProvider | Exception
    second: ScriptedProvider | Exception
    now: float = 0.0
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.failover: Failover = Failover(
            [("a/one", self._factory("a/one", self.first)), ("b/two", self._factory("b/two", self.second))],
            lambda: self.now,
        )

    def _factory(self, name: str, model: ScriptedProvider | Exception) -> Callable[[], Provider]:
        def make() -> Provider:
            self.made.append(name)
            if isinstance(model, Exception):
                raise model
            return model

        return make

    def ask(self, heard: Heard) -> AssistantMessage:
        return asyncio.run(self.failover.complete(request(), heard))


def one(*steps: Step, vision: bool = True) -> ScriptedProvider:
    return ScriptedProvider(*steps, model="a/one", vision=vision)


def two(*steps: Step, vision: bool = True) -> ScriptedProvider:
    return ScriptedProvider(*steps, model="b/two", vision=vision)


def test_a_model_that_answers_is_the_only_one_that_is_made(heard: Heard) -> None:
    house = House(one("hi", "again"), two())
    assert [house.ask(heard).text, house.ask(heard).text] == ["hi", "again"]
    assert house.made == ["a/one"] and heard.notices == [] and house.failover.model == "a/one"


@pytest.mark.parametrize("error", [BUSY, NO_CREDIT, ProviderError("a/one answered with a web page. Check it.")])
def test_the_next_is_asked_and_the_reason_told_once_while_the_first_rests(heard: Heard, error: ProviderError) -> None:
    house = House(one(error), two("hi", "again", "still"))
    answers = [house.ask(heard) for _ in range(3)]
    assert [answer.text for answer in answers] == ["hi", "again", "still"]
    assert {answer.model for answer in answers} == {"b/two"} and house.failover.model == "b/two"
    reason = str(error).split(":")[0].split(". ")[0]
    assert heard.notices == [f"{reason}; asking b/two instead"]


def test_after_its_rest_the_first_is_asked_again_and_an_outage_is_told_only_once(heard: Heard) -> None:
    house = House(one(BUSY, BUSY, "back", BUSY), two("x", "x", "x"))
    texts = []
    for now in (0.0, REST_SECONDS + 1, 2 * REST_SECONDS + 2, 2 * REST_SECONDS + 3):
        house.now = now
        texts.append(house.ask(heard).text)
    assert texts == ["x", "x", "back", "x"]
    assert heard.notices == ["a/one is busy (429); asking b/two instead"] * 2


def test_a_provider_that_asks_for_hours_rests_for_hours(heard: Heard) -> None:
    house = House(one(ProviderUnavailable("a/one is busy (429).", 7200.0), "back"), two("x", "y"))
    house.ask(heard)
    house.now = 7100.0
    assert house.ask(heard).text == "y"
    house.now = 7201.0
    assert house.ask(heard).text == "back"


def test_a_request_that_one_model_refuses_does_not_send_the_next_request_elsewhere(heard: Heard) -> None:
    house = House(one(BadRequest("a/one refused the request (400). Change it.", "bad image"), "hi"), two("seen"))
    assert [house.ask(heard).text, house.ask(heard).text] == ["seen", "hi"]
    assert heard.notices == ["a/one refused the request (400); asking b/two instead"]


def test_a_conversation_that_is_too_long_is_not_handed_on(heard: Heard) -> None:
    house = House(one(ContextTooLong("too long", 8192)), two("never"))
    with pytest.raises(ContextTooLong) as caught:
        house.ask(heard)
    assert caught.value.window == 8192 and house.made == ["a/one"]


def test_a_cancelled_request_is_not_handed_on(heard: Heard) -> None:
    async def run(house: House, hang: Hang) -> None:
        asked = asyncio.create_task(house.failover.complete(request(), heard))
        await hang.reached.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    hang = Hang()
    house = House(one(hang, "hi"), two())
    asyncio.run(run(house, hang))
    assert house.made == ["a/one"] and house.ask(heard).text == "hi"


def test_a_model_without_a_key_is_passed_over_with_its_reason(heard: Heard) -> None:
    house = House(ConfigError("a/one needs a key: set A_KEY, or model.api_key in config.toml."), two("hi", "hi"))
    assert house.ask(heard).text == house.ask(heard).text == "hi"
    assert heard.notices == ["a/one needs a key; asking b/two instead"]
    assert house.failover.supports_vision


def test_when_none_answers_one_sentence_names_each_with_its_reason(heard: Heard) -> None:
    house = House(one(BUSY), two(DOWN))
    with pytest.raises(ProviderUnavailable) as caught:
        house.ask(heard)
    assert str(caught.value) == (
        "No model answered: a/one is busy (429); b/two cannot be reached. "
        "Try again later, or choose another with /model."
    )
    house = House(one(NO_CREDIT), ConfigError("b/two needs a key: set B_KEY."))
    with pytest.raises(ProviderError, match=r"a/one has no quota or credit left \(402\); b/two needs a key") as refused:
        house.ask(heard)
    assert not isinstance(refused.value, ProviderUnavailable)


def test_all_at_rest_are_asked_all_the_same(heard: Heard) -> None:
    house = House(one(BUSY, "back"), two(DOWN))
    with pytest.raises(ProviderError):
        house.ask(heard)
    house.now = 1.0
    assert house.ask(heard).text == "back"


def test_a_single_model_fails_in_its_own_words(heard: Heard) -> None:
    failover = Failover([("a/one", lambda: one(BUSY))], lambda: 0.0)
    with pytest.raises(ProviderUnavailable) as caught:
        asyncio.run(failover.complete(request(), heard))
    assert caught.value is BUSY


def test_what_a_model_can_do_depends_on_who_is_asked_next(heard: Heard) -> None:
    small = two("hi", vision=False)
    small.cuts_history = True  # type: ignore[attr-defined]
    house = House(one(BUSY, vision=True), small)
    assert (house.failover.supports_vision, house.failover.cuts_history) == (True, False)
    house.ask(heard)
    assert (house.failover.supports_vision, house.failover.cuts_history) == (False, True)


def test_half_an_answer_is_said_to_start_again_with_another(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(*[events(delta(content="Half"), done=False, cut=True)] * 3, says("Whole"))

    def make(name: str) -> Callable[[], Provider]:
        return lambda: OpenAICompatible(Endpoint(name, server.base), retries=waits.retries)

    async def run() -> AssistantMessage:
        failover = Failover([("a/one", make("a/one")), ("b/two", make("b/two"))], lambda: 0.0)
        try:
            return await failover.complete(request(), heard)
        finally:
            await failover.aclose()

    answer = asyncio.run(run())
    assert (answer.text, answer.model) == ("Whole", "b/two")
    assert heard.notices[-1] == "a/one broke off its answer; asking b/two instead, whose answer starts again"


def test_an_empty_account_moves_on_without_a_second_try(server: ModelServer, waits: Waits, heard: Heard) -> None:
    server.script(failing(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}))
    provider = OpenAICompatible(Endpoint("a/one", server.base), retries=waits.retries)
    failover = Failover([("a/one", lambda: provider), ("b/two", lambda: two("hi"))], lambda: 0.0)
    assert asyncio.run(failover.complete(request(), heard)).text == "hi"
    assert waits.seconds == [] and len(server.asked) == 1
    assert heard.notices == ["a/one has no quota or credit left (429); asking b/two instead"]
