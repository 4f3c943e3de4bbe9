"""Commands about one conversation: what it is made of, which model answers it, how it begins anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nanoclaw.core import prompt_snapshot as openings
from nanoclaw.core.commands import Answer, Said
from nanoclaw.core.context import ContextBuilder
from nanoclaw.core.errors import NanoclawError
from nanoclaw.core.manifest import manifest
from nanoclaw.core.messages import AssistantMessage, Message, ToolSpec, Usage, UserMessage
from nanoclaw.core.provider import Provider
from nanoclaw.core.store.sessions import Session, Sessions
from nanoclaw.core.token_estimate import Calibration

if TYPE_CHECKING:
    from nanoclaw.plugins.memory.recall import Hit


def conversation_commands(
    sessions: Sessions,
    builder: ContextBuilder,
    specs: Sequence[ToolSpec],
    provider_for: Callable[[str], Provider],
    *,
    status: Callable[[], str],
    search: Callable[[str, int], list[Hit]],
    cost: Callable[[str, Usage], str],
    calibration: Calibration,
    window: Callable[[str], str],
    forget_window: Callable[[str], bool],
) -> dict[str, Answer]:
    """The commands by name. `status` are lines about the whole program, `search` finds notes, `cost` words a price.
    `window(model)` says by which window it goes; `forget_window(model)` tells whether one had been learned."""

    def model_name(session: Session) -> str:
        try:
            return provider_for(session.model).model
        except NanoclawError as error:
            return f"none ({error})"

    def model(said: Said) -> str:
        session = sessions.of(said.address)
        if not said.argument:
            name = model_name(session)
            goes_by = f" ({words})" if (words := window(name)) else ""
            return f"Model: {name}{goes_by}. Choose another with /model provider/name."
        name = provider_for(said.argument).model
        if name == model_name(session) and forget_window(name):
            return f"This conversation uses {name}. The window that was learned from an error is forgotten."
        session.use_model(said.argument)
        return f"This conversation now uses {said.argument}."

    def context(said: Said) -> str:
        from nanoclaw.plugins.inspect import xray

        session = sessions.of(said.address)
        opening, late = builder.reopen(session.memory, "", ())
        made_of = manifest("full", builder.sections("full", opening), opening, late, tuple(specs))
        model = model_name(session)
        shown = xray.rows(made_of, session.history, (), model, calibration.factor(model))
        return "\n\n".join([xray.table(shown), *xray.remarks(made_of, xray.past(session.last_turn()))])

    def why(said: Said) -> str:
        from nanoclaw.plugins.inspect import xray

        session = sessions.of(said.address)
        last = xray.past(session.last_turn())
        negated, _, text = said.argument.partition(" ")
        if negated.lower() == "not" and text.strip():
            return xray.why_not(text.strip(), xray.question_of(last.messages if last else ()), last, search)
        if said.argument:
            return (
                "/why tells where the last answer came from; /why not TEXT why a note with this text was not recalled."
            )
        opening = openings.load(session.memory or "")
        return xray.why(last, cost, opening.files["MEMORY.md"].text if opening and "MEMORY.md" in opening.files else "")

    def state(said: Said) -> str:
        session = sessions.of(said.address)
        if said.role == "guest":
            return _length(session.history)
        return f"{status()}\nModel: {model_name(session)}\n{_length(session.history)}"

    return {"model": model, "context": context, "why": why, "status": state}


def _length(history: Sequence[Message]) -> str:
    """How long a conversation is, as the person sees it, and what its answers took."""
    answers = [message for message in history if isinstance(message, AssistantMessage)]
    said = sum(isinstance(message, UserMessage) and message.origin != "runtime" for message in history)
    said += sum(bool(answer.text) for answer in answers)
    taken = [answer.usage.input_tokens for answer in answers if answer.usage]
    given = [answer.usage.output_tokens for answer in answers if answer.usage]
    return f"Messages: {said}\nTokens: {sum(taken):,} in, {sum(given):,} out"
