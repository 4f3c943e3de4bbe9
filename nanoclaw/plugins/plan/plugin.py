"""Plan mode: until the person approves a plan, only calls that change nothing run. Held by code, kept in the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from nanoclaw.core.errors import ToolError
from nanoclaw.core.events import StatusLines
from nanoclaw.core.messages import Address, Ask, CheckedCall, ModelRequest, OwnersAnswer, Refuse, UserMessage, Verdict
from nanoclaw.core.plugin import Command, Draft, Ended, Hears, Host, Plugin, Reply, Said, Tool, Turn, Tx
from nanoclaw.core.tool import ToolContext, tool
from nanoclaw.escapes import plain
from nanoclaw.named_tuple import NamedTuple

EXIT = "exit_plan_mode"
"""The name of the tool, as the field's coding agents have it."""

LONGEST = 8_000
"""Characters of a plan."""

YES, NO = "Okay, go ahead", "No"

ON = (
    "Plan mode is on: calls that change anything are refused. Look into it, then present your plan by "
    f"{EXIT}(plan), through call_tool where you have no such tool."
)
HELPER_ON = "Plan mode is on: calls that change anything are refused. Only look, and report what is to be done."
OFF = "Plan mode is off."
REFUSED = f"not run: plan mode is on. Only look, then present your plan with {EXIT}."
HELPER_REFUSED = "not run: plan mode is on. Only look, and report what is to be done."
ONE = "not shown: one plan at a time, and the last one of your answer counts."

APPROVED = "The person approved this plan, and plan mode is off. Carry it out now, and nothing else."
IS_OFF = "Plan mode is off: no yes to a plan is needed, just do what the person asked for."
REJECTED = "The person said no to this plan. Plan mode {}: end here, and ask what they want instead."
IN_WORDS = (
    "The plan is not approved: the person answered: “{1}”. Plan mode {0}. Change the plan accordingly, and "
    f"present all of it again with {EXIT}."
)
NO_ANSWER = "Nobody answered in time, so the plan is not approved. Plan mode {}: end here, and say so."
NOBODY = "Nobody is there to approve it, so plan mode stays on: give the plan as your answer."

STILL_ON = "(Plan mode is on: nothing is changed here until you approve a plan. /plan off ends it.)"
NOT_APPROVED = "(Its plan had to be approved first. It was not, so nothing was changed.)"
HOURS = 24.0
"""The time in which a plan can be approved."""
BEGUN = "Plan mode is on here: I only look, and show you a plan before I change anything. /plan off ends it."


class PlanMode(NamedTuple):
    """A conversation's row. `plan` is the last one that was approved, in the `turn`, by the `call`; `turn` is 0 once
    that has ended. `told` is the context whose model was told that the mode is on, -1 for none."""

    is_on: bool = False
    told: int = -1
    plan: str = ""
    turn: int = 0
    call: str = ""


class PlanModes:
    """Who is in plan mode: what the plugin makes public, for those who begin turns of their own."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def of(self, conversation: Address) -> PlanMode:
        rows = self._host.read(_SELECT, str(conversation))
        return PlanMode(bool(rows[0][0]), *rows[0][1:]) if rows else PlanMode()

    def is_on(self, conversation: Address) -> bool:
        return self.of(conversation).is_on

    def begin(self, tx: Tx, conversation: Address) -> None:
        """Put a conversation into plan mode."""
        sql = "INSERT INTO plan_modes (conversation, is_on) VALUES (?, 1)"
        tx.execute(f"{sql} ON CONFLICT (conversation) DO UPDATE SET is_on = 1", str(conversation))

    def inherit(self, tx: Tx, parent: Address, child: Address) -> None:
        """Put a helper into plan mode that is begun in it."""
        if tx.execute("SELECT 1 FROM plan_modes WHERE conversation = ? AND is_on", str(parent)):
            self.begin(tx, child)


_SELECT = "SELECT is_on, told, plan, turn, call FROM plan_modes WHERE conversation = ?"


class Plan(Plugin):
    name = "plan"
    hears: Mapping[str, Hears] = {
        "before_tool": Hears(tools=(EXIT,), changes=True),
        **dict.fromkeys(("before_turn", "on_end"), Hears(rows="plan_modes")),
    }
    migrations = (
        """
        CREATE TABLE plan_modes (
            conversation TEXT PRIMARY KEY,
            is_on INTEGER NOT NULL,
            told INTEGER NOT NULL DEFAULT -1,       -- the context whose model knows that it is on
            plan TEXT NOT NULL DEFAULT '',          -- the last one that was approved
            turn INTEGER NOT NULL DEFAULT 0,        -- the turn that carries it out
            call TEXT NOT NULL DEFAULT ''           -- by which it was presented
        ) STRICT;
        """,
    )
    marks = ("plan_modes.conversation", "plan_modes.call")

    def __init__(self, host: Host, settings: None) -> None:
        self._host = host
        self.public = self._modes = PlanModes(host)

    def tools(self) -> Iterable[Tool]:
        return [tool(self._exit_plan_mode, reach="none", open_to=("person", "job"))]

    def commands(self) -> Iterable[Command]:
        help_ = "a plan first, and nothing is changed before your yes: /plan TEXT, /plan off, /plan show"
        return [Command("plan", help_, self._plan, "work", private=True)]

    # --- said by the person ------------------------------------------------------------------------------------------

    def _plan(self, said: Said, tx: Tx) -> Reply | str | UserMessage:
        mode, word = self._modes.of(said.conversation), said.argument.casefold()
        if word == "show":
            return mode.plan or "No plan was approved here yet."
        if word == "off":
            tx.execute("UPDATE plan_modes SET is_on = 0 WHERE conversation = ?", str(said.conversation))
            self._show(tx, said.address, "")
            return "Plan mode is off." if mode.is_on else "Plan mode is not on here: /plan begins it."
        self._modes.begin(tx, said.conversation)
        self._show(tx, said.address, STATUS)
        return BEGUN if word in ("", "on") else UserMessage(said.argument, self._host.now())

    # --- said by the model -------------------------------------------------------------------------------------------

    async def _exit_plan_mode(self, context: ToolContext, plan: str) -> str:
        """In plan mode: show the person your plan, and wait for the yes."""
        mode, answer = self._modes.of(context.conversation), context.answer
        if _is_of(mode, context.turn, context.call, plan):  # a crash came between the yes and the rest
            return APPROVED
        if answer is None:
            return IS_OFF
        if answer.by == "nobody":
            raise ToolError(NOBODY)
        if (answer.by, answer.text) != ("owner", YES):
            raise ToolError(_not_yet(answer, "stays on" if mode.is_on else "is off"))
        await context.write(partial(self._approve, context, plan))
        return APPROVED

    def _approve(self, context: ToolContext, plan: str, tx: Tx) -> None:
        sql = "UPDATE plan_modes SET is_on = 0, told = -1, plan = ?, turn = ?, call = ? WHERE conversation = ?"
        tx.execute(sql, plan, context.turn, context.call, str(context.conversation))
        self._show(tx, context.address, "")

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Refuse what changes anything, and ask about a plan."""
        mode = self._modes.of(turn.conversation)
        if call.name == EXIT:
            return self._presented(call, turn) if mode.is_on else None
        if not (mode.is_on or self._is_parent_on(turn)):
            return None
        schedule = self._host.get("schedule") if call.name == "cron" else None
        is_theirs = schedule and call.id.startswith(schedule.by_code)
        if is_theirs or (call.name == DELEGATE and self._host.get(DELEGATE)):
            return None  # a reminder that the person plainly asked for; a helper begun in plan mode, which is in it
        return Refuse(REFUSED if _can_present(turn) else HELPER_REFUSED)

    def _presented(self, call: CheckedCall, turn: Turn) -> Verdict:
        plan = plain(str(call.arguments["plan"])).strip()
        if not plan:
            return Refuse("the plan is empty: say what you are going to do, step by step.")
        if len(plan) > LONGEST:
            return Refuse(f"the plan has {len(plan):,} characters, and {LONGEST:,} is the limit: shorten it.")
        if next((one.id for one in reversed(turn.calls) if one.name == EXIT), call.id) != call.id:
            return Refuse(ONE)
        shown = self._host.redact(plan)
        question = f"The plan:\n\n{shown}\n\nShall I carry it out?"
        return Ask(question, (YES, NO), NO, HOURS * 3600, is_free=True, asks_back=True)

    def _is_parent_on(self, turn: Turn) -> bool:
        """True for a helper of a conversation that has been put into plan mode since."""
        delegate = self._host.get(DELEGATE)
        parent = delegate.parent_of(turn.conversation) if delegate else None
        return parent is not None and self._modes.is_on(parent)

    # --- known to the model ------------------------------------------------------------------------------------------

    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        mode, key = self._modes.of(turn.conversation), str(turn.conversation)
        context = self._host.records.context(turn.conversation)
        if mode.is_on:
            if turn.id:  # else it is a preview
                self._host.show(turn.address, StatusLines(self.name, STATUS))
            remark, told = ON if _can_present(turn) else HELPER_ON, context
        elif mode.told == context:
            remark, told = OFF, -1
        else:
            return None
        if told != mode.told:
            turn.later(lambda tx: tx.execute("UPDATE plan_modes SET told = ? WHERE conversation = ?", told, key))
        return draft._replace(remarks=(*draft.remarks, remark))

    async def before_compaction(self, request: ModelRequest, turn: Turn) -> str | None:
        """The mode stays known, and the plan that is carried out in sight."""
        mode = self._modes.of(turn.conversation)
        if mode.is_on:
            return ON if _can_present(turn) else HELPER_ON
        return f"The plan that the person approved for this turn:\n{mode.plan}" if 0 < mode.turn == turn.id else None

    # --- the end of a turn -------------------------------------------------------------------------------------------

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """End what was approved with its turn; tell the person of a mode that is still on."""
        mode, key = self._modes.of(turn.conversation), str(turn.conversation)
        if mode.turn:
            tx.execute("UPDATE plan_modes SET turn = 0 WHERE conversation = ?", key)
        if turn.profile.name in ("job", "helper"):  # it was for this turn
            tx.execute("DELETE FROM plan_modes WHERE conversation = ?", key)
        if not mode.is_on or not _can_present(turn) or ended.outbound is None or ended.reason != "answered":
            return None
        note = NOT_APPROVED if turn.profile.name == "job" else STILL_ON
        text = f"{ended.outbound.text}\n\n{note}".strip()
        return ended._replace(outbound=ended.outbound._replace(text=text), text=text)

    async def run(self) -> None:
        """Show the mode of conversations at a start."""
        for (conversation,) in self._host.read("SELECT conversation FROM plan_modes WHERE is_on"):
            self._host.show(Address(*conversation.split(":", 1)), StatusLines(self.name, STATUS))

    def _show(self, tx: Tx, address: Address, text: str) -> None:
        tx.after(lambda: self._host.show(address, StatusLines(self.name, text)))


STATUS, DELEGATE = "plan mode", "delegate"


def _can_present(turn: Turn) -> bool:
    return turn.profile.name in ("person", "job")


def _is_of(mode: PlanMode, turn: int, call: str, plan: str) -> bool:
    return 0 < mode.turn == turn and mode.call == call and mode.plan == plan


def _not_yet(answer: OwnersAnswer, mode: str) -> str:
    text = NO_ANSWER if answer.by == "time" else REJECTED if answer.text == NO else IN_WORDS
    return text.format(mode, answer.text.strip())
