"""The contract (“the seam”) between core and plugins: what a plugin is, what it is given and may answer.

A plugin may import this module, `tool`, `channel`, `provider`, `messages`, `events` and `errors` of `nanoclaw.core`,
and nothing else of nanoclaw. docs/plugins.md has a whole one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from nanoclaw.core.messages import (
    Address,
    AssistantMessage,
    Attachment,
    CheckedCall,
    Effect,
    Image,
    Inbound,
    Limits,
    Message,
    ModelRequest,
    NoteRef,
    Outbound,
    OwnersAnswer,
    Placed,
    Reach,
    Role,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from nanoclaw.core.messages import Ask as Ask
from nanoclaw.core.messages import MakeCalls as MakeCalls
from nanoclaw.core.messages import Mode as Mode
from nanoclaw.core.messages import Refuse as Refuse
from nanoclaw.core.messages import Scope as Scope
from nanoclaw.core.messages import Section as Section
from nanoclaw.core.messages import TryAgain as TryAgain
from nanoclaw.core.messages import Verdict as Verdict
from nanoclaw.named_tuple import NamedTuple as NamedTuple

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from nanoclaw.beneath import paths
    from nanoclaw.core.channel import Channel, ChannelSpec
    from nanoclaw.core.errors import ContextTooLong, ProviderError
    from nanoclaw.core.events import Event, Reason
    from nanoclaw.core.prompt_snapshot import Preview
    from nanoclaw.core.provider import Abilities, Embedded, EmbeddingModel, Provider
    from nanoclaw.core.records import Records
    from nanoclaw.redaction import Redactor

T = TypeVar("T")
RouteAnswer = Callable[[str, Mapping[str, str], bytes], Awaitable[tuple[int, str | Mapping[str, Any]]]]
"""Given the name in its path ('' for none), the headers by lower case names and the body, gives a status and a text,
or an object for JSON."""


class Tx(Protocol):
    """One transaction. Write at once, keep no reference to it, and never await."""

    # The rows that a statement returns; new ids come by RETURNING.
    def execute(self, sql: str, *values: object) -> list[Any]: ...
    # Put a message into the outbox and into that chat's history; its row. The model of the chat reads `remark` before
    # it, one sentence about why it was sent. What is not new to the chat's model stays out of its history.
    def send(self, outbound: Outbound, remark: str = "", *, is_news: bool = True) -> int: ...
    # Put a message into the inbox: its row, None for one that came before. It needs a `role`. `profile` is its own
    # one, in place of the usual one of its role and origin.
    def deliver(self, inbound: Inbound, profile: Profile | None = None) -> int | None: ...
    def after(self, call: Callable[[], object]) -> None: ...  # call something once all of this is on disk


class Profile(NamedTuple):
    """The rights of one kind of turn. Tools and commands name the profiles that they are open to (`open_to`)."""

    name: str
    mode: Mode = "full"
    only: frozenset[str] | None = None  # names of tools, of those that are open to it; None: all of them
    model: str = ""  # chosen for it; '' is that of its purpose
    purpose: str = ""  # of [models]; '' is the conversation, as where it has no model
    limits: Limits | None = None  # None: those of the configuration
    can_ask: bool = True  # somebody can be asked to choose; else the default is taken
    can_allow: bool = True  # somebody is there to say yes; else what asks for one is refused
    acts: bool = True  # False: a rehearsal, in which calls with effects are only told
    keeps: bool = True  # False: nothing of it is stored when it has ended
    wait: float = 0.0  # somebody waits so many seconds for a sign of the model, and then gives up; 0.0: as it takes
    words: str = ""  # for a person, such as "task {}" with its chat; '' for one that a person begins
    again: str = ""  # said of one that was broken off after it did {}, where its subject comes up again by itself
    blocks: bool = True  # others' text in its message stands in a block: no model of ours has written it


PERSON = Profile("person")
GUEST = Profile("guest", mode="guest", can_allow=False)
"""The profile of guests and groups. They may use only tools and commands whose `open_to` names the guest."""
BACKGROUND = Profile("background", mode="minimal")
"""The profile of a plugin's message that has no own one."""
PROFILES = {one.name: one for one in (PERSON, GUEST, BACKGROUND)}
"""Those that are there without any plugin."""


def profile_of(inbound: Inbound) -> Profile:
    """The profile of a message; everything of a guest's is a guest's. In a group others read the answer, so everybody
    is a guest there. Who waits only so long (`nanoclaw -m`) can't be asked."""
    found = PERSON if inbound.message.origin == "person" else BACKGROUND
    if inbound.role != "owner" or inbound.is_group:
        found = GUEST
    elif inbound.profile:
        found = load_profile(inbound.profile)
    return found._replace(can_ask=False, wait=inbound.wait_limit) if inbound.wait_limit else found


def dump_profile(profile: Profile) -> str:
    """A profile as it is stored with a message: its name, or the whole profile if a plugin brought it."""
    if PROFILES.get(profile.name) == profile:
        return profile.name
    limits = profile.limits._asdict() if profile.limits else None
    only = sorted(profile.only) if profile.only is not None else None
    return json.dumps(profile._replace(limits=limits, only=only)._asdict())  # type: ignore[arg-type]


def load_profile(text: str) -> Profile:
    """The profile that `dump_profile` wrote; the guest's for an unknown one."""
    if not text.startswith("{"):
        return PROFILES.get(text, GUEST)
    try:
        fields = json.loads(text)
        limits, only = fields.pop("limits"), fields.pop("only")
        only = None if only is None else frozenset(only)
        return Profile(**fields, limits=Limits(**limits) if limits else None, only=only)
    except (ValueError, TypeError, KeyError):
        return GUEST


class AskedModel(NamedTuple):
    """A model that is about to be asked. `window` is None if unknown; `factor` is between its own count of tokens and
    our estimate; `cuts_history`: it takes only the newest part of what it is sent."""

    name: str
    window: int | None
    factor: float
    cuts_history: bool
    sees_images: bool


class TurnRecord(NamedTuple):
    """An ended turn; `manifest` is stored at its beginning. If not `is_reported`, some of `usage` is our own count."""

    manifest: str
    messages: tuple[Message, ...]
    model: str
    reason: str
    usage: Usage
    is_reported: bool = True


class ConversationInfo(NamedTuple):
    """A stored conversation, for a list of them; `last` is when its newest turn began, as ISO 8601, or ''."""

    key: str  # channel:chat
    context: int
    words: str  # the first that were said in this context
    messages: int
    last: str


class StoredConversation(Protocol):
    """One conversation of the store, in its newest context."""

    id: int  # its row, which tables of plugins may name: what they have about it goes with it
    context: int  # /new begins another
    model: str  # chosen for it; '' is the configured one
    forgot: int  # how often something was forgotten

    @property
    def history(self) -> Sequence[Message]: ...  # what its model would be sent
    def placed(self) -> list[Placed]: ...  # the same, each with its row, 0 for a summary or lines
    def unsummed(self) -> list[Placed]: ...  # with the messages that lines stand for
    def has_lines(self) -> bool: ...  # if there ever were any in this context
    def whole(self) -> Sequence[Message]: ...  # all that was ever said in it
    def said(self, before: int, most: int) -> list[Placed]: ...  # the last before a row; nothing taken back
    def of_turn(self, turn: int, upto: int) -> list[Message]: ...  # up to a row, as they were said
    def last_turn(self) -> TurnRecord | None: ...  # the newest that has ended
    def results(self) -> int: ...  # how many results of tools there were
    def result(self, number: int) -> tuple[ToolCall | None, ToolResult] | None: ...  # one of them, counted from 1
    def use_model(self, model: str) -> None: ...
    # From now on shorten long texts up to a row to so many characters, or send `lines` in place of all up to it.
    def shorten(self, upto: int, chars: int = ..., lines: str = "") -> None: ...


class Turn(Protocol):
    """One turn: the same object in each of its hooks. Reading it is always allowed, also when it has ended."""

    id: int
    conversation: Address
    address: Address
    sender: str
    role: Role
    origin: str  # "person", or the plugin that wrote the message which began it
    profile: Profile
    external_id: str  # the platform's id of the message that began it
    is_group: bool
    calls: tuple[ToolCall, ...]  # made by the model in it

    @property
    def session(self) -> StoredConversation: ...
    @property
    def request(self) -> ModelRequest: ...  # as it would be sent now
    @property
    def system(self) -> str: ...  # the system message as it is sent
    @property
    def history(self) -> tuple[Message, ...]: ...  # all that is sent after the system message
    @property
    def effects(self) -> tuple[Effect, ...]: ...  # what was done in it, of which the audit log has a line
    @property
    def outside(self) -> tuple[str, ...]: ...  # sources of others' text since the owner's last message; () is clean
    @property
    def usage(self) -> Usage: ...
    def now(self) -> datetime: ...  # a rehearsal has a clock of its own
    def later(self, change: Callable[[Tx], object]) -> None: ...  # make something part of the turn's next transaction
    def show(self, event: Event) -> None: ...  # where it was asked for
    # Send a summary in place of all up to a row, and begin the prompt anew for what `query` says.
    def begin_again(self, upto: int, summary: str, query: str) -> None: ...


OPEN_TO = ("person", "background")
"""The profiles that a tool is open to unless it says otherwise: never guests. What is open to "background" is so to
each profile of `Plugin.profiles`."""
ABOVE_0 = "more than 0"  # of a setting, as `Annotated[int, ABOVE_0]`; other numbers are 0 or more


class ToolOutput(NamedTuple):
    """The result of a tool where plain text is not enough."""

    text: str
    images: tuple[Image, ...] = ()
    outside: str = ""
    """The source of a text that no owner wrote, such as the address of a page."""
    is_error: bool = False
    """It ran, but failed in the end, such as a command whose exit status isn't 0."""
    diff: str = ""
    """Lines of what it changed, each with +, - or a space in front, for the person: the model doesn't see them."""


class Tool(NamedTuple):
    """A function that the model calls, with its schema, who may use it (`open_to`) and how far it reaches (`reach`)."""

    spec: ToolSpec
    run: Callable[..., Awaitable[str | ToolOutput]]
    reach: Reach  # calls of one answer whose reach is "none" run side by side
    wants_context: bool
    # Makes the line of the audit log from a call's arguments, before it runs; None where nothing is changed.
    audit: Callable[[dict[str, Any]], Effect | None] | None = None
    # Judges a call as a plugin's `before_tool` does; not again once its question with options is answered.
    check: Callable[[CheckedCall, Turn], Awaitable[Verdict]] | None = None
    ends: bool = False  # a call that succeeds is the last of its turn
    atomic: bool = False  # a call does nothing but one `context.write`
    side_by_side: bool = False  # calls of one answer run side by side, whatever its reach
    # Names of profiles. A tool that is open to guests keeps by itself to the conversation of its context.
    open_to: frozenset[str] = frozenset(OPEN_TO)
    is_there: bool = True  # False: no new context has it; a call by an older one is run, and says why it cannot be
    # True: the schema is of others, and may be any; a call's arguments are handed on as they are.
    is_foreign: bool = False

    @property
    def name(self) -> str:
        return self.spec.name

    def is_open(self, profile: Profile) -> bool:
        return profile.name in self.open_to and (profile.only is None or self.name in profile.only)


class Hears(NamedTuple):
    """Limits the turns and messages for which a hook is called: one of these is enough. Origins and channels; for hooks
    about calls also these tools, in any turn, and with `changes` all that may change something; for before_answer and
    on_end that are the turn's calls so far, and no other hook is limited so. With `rows` it is called while a table of
    the plugin has any: "cards WHERE is_open". For before_turn the origin is the message's. Without any it never is."""

    origins: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    changes: bool = False
    rows: str = ""


class Draft(NamedTuple):
    """A message on its way into a turn, at its beginning or while it runs. `remarks` go into its runtime metadata, a
    line each; `quote` is the text that it answers; `notes` are those that its remarks show; `inbound` is as it came;
    `others` are texts of others that belong to it, each with its source."""

    message: UserMessage
    attachments: tuple[Attachment, ...] = ()
    remarks: tuple[str, ...] = ()
    quote: str = ""
    notes: tuple[NoteRef, ...] = ()
    inbound: Inbound | None = None
    others: tuple[tuple[str, str], ...] = ()


class Answer(NamedTuple):
    """The answer as the person gets it; the history keeps the model's own words."""

    text: str
    files: tuple[str, ...] = ()


class Ended(NamedTuple):
    """The end of a turn. If `outbound` is None nothing is sent; its address may differ from that of the message. `text`
    is the turn's outcome, even if nothing is sent; for a failed turn, the reason."""

    reason: Reason
    outbound: Outbound | None
    text: str = ""


class Later(NamedTuple):
    """A message is held until then, when it is judged again, as at each start; others of its chat pass it."""

    at: datetime


class Filter(Protocol):
    """Removes from an answer's stream what before_answer will remove from its text."""

    def feed(self, text: str) -> str: ...  # what may be shown by now
    def end(self) -> str: ...  # the rest


class Said(NamedTuple):
    """A command as it was entered. `profile` is that of the sender; `is_group`: others read the answer; `shell` are the
    words that start this program if it was entered as `nanoclaw NAME …`."""

    argument: str
    conversation: Address
    address: Address
    sender: str
    role: Role
    profile: str = "person"
    is_group: bool = False
    shell: str = ""


class Reply(NamedTuple):
    """Said by code; `data` is for --json, the page and the API; `change` is written with it, for async commands.
    Without `is_news` the model isn't told of it, as it hears in another way."""

    text: str
    data: Mapping[str, Any] | None = None
    change: Callable[[Tx], object] | None = None
    is_news: bool = True


Done = str | Reply | UserMessage
"""The result of a command. For a UserMessage the model is asked instead."""

EVERYBODY = frozenset({"person", "guest"})
"""Value of `open_to` for commands that guests may use, too."""


class Command(NamedTuple):
    """/name, and `nanoclaw name`. A plain function writes in the transaction that ends its message. One that is a
    `part_of` /memory is not listed; its older names and /memory NAME also call it."""

    name: str
    help: str
    run: Callable[[Said, Tx], Done] | Callable[[Said], Awaitable[Done]]
    group: str = "more"
    open_to: frozenset[str] = frozenset({"person"})
    waits: bool = False  # it takes its turn in the conversation's queue
    cli: bool = False  # `nanoclaw name` is no message of a conversation, and fails with an exit status
    private: bool = False  # not in groups, where others read the answer
    part_of: str = ""
    also: Sequence[str] = ()  # older names
    typed: str = ""  # by which a terminal gives it; what is behind its first line was not typed


class Finding(NamedTuple):
    """A line of status, doctor and audit; `name` is what was checked. `fix` repairs what the doctor itself found, and
    says what it did. `risk` is for audit: how much it exposes."""

    is_well: bool
    text: str
    name: str = ""
    fix: Callable[[], Awaitable[str]] | None = None
    risk: Literal["", "note", "warning", "bad"] = ""


class Log(Protocol):
    """Like loguru's, with the plugin's name in front: braces in `text` are filled with `values`."""

    def debug(self, text: str, *values: object) -> None: ...
    def info(self, text: str, *values: object) -> None: ...
    def warning(self, text: str, *values: object) -> None: ...
    def error(self, text: str, *values: object) -> None: ...


class Conversations(Protocol):
    """The stored conversations, for plugins that show, use or end them."""

    def all(self) -> list[ConversationInfo]: ...  # the newest first
    def of(self, conversation: Address) -> StoredConversation: ...  # made where there is none
    # Begin a new context; what was said stays in the store. The texts that were waiting there, not answered any more.
    def reset(self, conversation: Address, tx: Tx) -> Sequence[str]: ...
    # Send a turn of the newest context, and all after it, to the model no more; the texts that were waiting.
    def take_back(self, conversation: Address, turn: int, tx: Tx) -> Sequence[str]: ...
    # Add turns from elsewhere; those that the owner `had_before`, with another program, are found at their own time.
    def add(
        self, conversation: Address, turns: Iterable[Sequence[Message]], tx: Tx, *, had_before: bool = False
    ) -> None: ...
    async def stop(self, conversation: Address) -> None: ...  # end what runs there
    def erase(self, conversation: Address, tx: Tx) -> Sequence[str]: ...  # all but its cost; the texts that were said
    def leaves(self, conversation: Address) -> bool: ...  # the program ends, and the next start goes on there
    async def free(self, conversation: Address) -> None: ...  # wait until nothing is being answered there
    def reload(self) -> None: ...  # take up what another hand changed in the store
    # Reload all, and keep running turns from storing again what `clean(text, is_here)` takes out; it was asked for in
    # `conversation`.
    def forget(self, clean: Callable[[str, bool], str], conversation: Address | None) -> None: ...


class Asker:
    """Asks the owner, and keeps what was asked and answered; `Plugin.asker` is one, and calls `host.resume`. As it is
    here nobody can be asked: each question is a no, or its default."""

    def says(
        self, call: CheckedCall, asks: Sequence[Ask], turn: Turn, *, was_asked: bool
    ) -> OwnersAnswer | tuple[Ask, ...]:
        """The owner's answer about a call, or what they are to be asked first. `asks` are for a yes, or it is one with
        options; the turn has waited for it if it `was_asked` about calls of this answer."""
        return asks[0].otherwise

    def chosen(self, call: CheckedCall, turn: Turn) -> OwnersAnswer | None:
        """The answer to a question with options about exactly this call, for which the turn has waited."""

    def ask_owner(self, tx: Tx, turn: Turn, asks: Sequence[tuple[CheckedCall, tuple[Ask, ...]]]) -> None:
        """The turn waits from this transaction on, for what is asked about calls of its answer."""

    def waits(self, turn: int) -> bool:
        """True while not all is answered."""
        return False

    def drop(self, turn: int) -> None:
        """It ends without the answers."""

    def restore(self) -> None:
        """The program serves from now on, before it resumes what an earlier one left."""

    def place(self, about: Address) -> Address | None:
        """The place where the owner can be asked now about an address."""
        return None

    async def ask(
        self, ask: Ask, about: Address, turn: Turn | None = None, call: CheckedCall | None = None
    ) -> OwnersAnswer:
        """The owner's answer, also amid a call of `turn`; time over, nobody there or a restart mean no, or the default.
        A yes with its scope that was given or extended to `call` counts."""
        return ask.otherwise


class KnownModels(Protocol):
    """The models of this run, made when first asked for."""

    # Raises ConfigError for one that cannot be used at present; '' is the configured one. Where a purpose has a model
    # of its own that goes first, and `model` answers where it cannot. It gives up after a `wait` without a sign.
    def of(self, model: str, purpose: str = "", wait: float = 0.0) -> Provider: ...
    def listing(self, chosen: str) -> Reply: ...  # all that is known; `chosen` is the conversation's. Asks no server
    # The model meant by a name or an alias, and a remark on one that may be misspelt. Raises ConfigError.
    def choose(self, wanted: str) -> tuple[str, str]: ...
    def place_of(self, model: str) -> tuple[str, str]: ...  # its address and key in the configuration, '' for none
    def abilities(self, model: str) -> Abilities: ...  # that were not refused by now
    def window_of(self, model: str) -> int | None: ...  # tokens that it takes in, None if unknown
    def forget_window(self, model: str) -> bool: ...  # what was learned of it; False when nothing was
    def cost(self, model: str, usage: Usage) -> float | None: ...  # US dollars for one request; None if unknown
    def cost_in_words(self, model: str, usage: Usage) -> str: ...
    def is_local(self, model: str) -> bool: ...  # a server on this machine answers, and that counts as free
    async def transcribe(self, model: str, name: str, sound: bytes) -> str: ...  # raises NanoclawError


class Host(Protocol):
    """All that a plugin may do."""

    workspace: Path
    program_home: Path  # nanoclaw's folder, with config.toml; the one of the plugin itself is `home`
    shipped: Path  # what comes with the program: skills, workspace_template
    reach: paths.Reach  # the folders that tools may open
    environment: Mapping[str, str]  # of the process, with the keys of secrets.env
    redact: Redactor  # hides keys in a text; one that comes while running is added: redact.add(key)
    log: Log
    records: Records  # what was said, sent, done and paid

    @property
    def conversations(self) -> Conversations: ...
    @property
    def models(self) -> KnownModels: ...  # made after the plugins
    @property
    def home(self) -> Path: ...  # a folder of its own, made when it is first asked for
    # Of another's: of config.toml "net.allow", or the default; a PurposeModel for "models.titles"; tables of "channels"
    def setting(self, key: str) -> Any: ...
    # Write {"limits.rounds": 7, "model.api_base": None} into config.toml, for the next start. Raises ConfigError.
    def change_settings(self, changes: Mapping[str, Any]) -> Path | None: ...
    # Its channel_settings, for each configured channel.
    def channel_settings(self, kind: type[T]) -> Mapping[str, tuple[ChannelSpec, T]]: ...
    def plugins(self) -> Sequence[Plugin]: ...  # all that run
    def copies(self) -> Sequence[Path]: ...  # of the store, one a day and one before each change of its format
    def drop_bytes(self) -> None: ...  # leave nothing of what was deleted or replaced in the files of the store
    def serves(self, address: Address) -> bool: ...  # this process goes on there with what an earlier one left
    def is_gateway(self) -> bool: ...
    def is_frozen(self) -> bool: ...  # by /panic, until /resume
    def status(self) -> Mapping[str, Any]: ...  # seconds since the start; of each channel name, `alive` and `trouble`
    def now(self) -> datetime: ...  # the time in the person's zone
    def read(self, sql: str, *values: object) -> list[Any]: ...
    async def write(self, change: Callable[[Tx], T]) -> T: ...  # the result of a change, once it is on disk
    def write_now(self, change: Callable[[Tx], T]) -> T: ...  # the same; everything waits for it
    def get(self, name: str) -> Any: ...  # what that plugin made `public`; None where it isn't there
    def profile(self, name: str) -> Profile: ...
    def owner(self) -> Address | None: ...  # where the owner spoke last
    def show(self, address: Address, event: Event) -> None: ...
    # Be told of each event of every turn, with the place where it is shown, from now on.
    def watch(self, watcher: Callable[[Address, Event], None]) -> None: ...
    # Run something beside; it is logged when it fails, and cancelled at the end.
    def spawn(self, work: Coroutine[Any, Any, object]) -> None: ...
    def channel(self, name: str) -> Channel | None: ...  # the channel of that name that this process serves
    def tools(self, profile: Profile, *, anew: bool = False) -> Mapping[str, Tool]: ...  # `anew`: plugins are asked
    # Run a call through every gate; shown as a part of the call with the id `parent`, without one not at all.
    async def call(self, call: ToolCall, turn: Turn, parent: str = "") -> ToolResult: ...
    async def carry_out(self, command: str, said: Said) -> Reply: ...  # raises NanoclawError
    def commands(self, profile: str) -> Mapping[str, Command]: ...  # by name those that are open to it
    def about(self) -> Sequence[str]: ...  # lines about the program, and what is wrong with it
    # Ask the model (of the request's purpose; without a turn the `model` that it names), accounted for and within
    # every limit. Raises ProviderError.
    async def complete(
        self, request: ModelRequest, turn: Turn | None = None, show: Callable[[Event], None] = ...
    ) -> AssistantMessage: ...
    # Vectors of texts, or of a question about such, accounted for like that. Raises NanoclawError.
    async def embed(self, model: EmbeddingModel, texts: Sequence[str], is_query: bool, seconds: float) -> Embedded: ...
    # The request that a message would be part of if it came now. Nothing is kept, and no model is asked.
    async def preview(self, conversation: Address, inbound: Inbound, profile: Profile | None = None) -> Preview: ...
    def model_of(self, turn: Turn, purpose: str = "") -> AskedModel: ...  # raises ConfigError
    # What plugins want at the end of a summary, and the error of a model that one of them asked in vain.
    async def before_compaction(self, request: ModelRequest, turn: Turn) -> tuple[list[str], ProviderError | None]: ...
    # A turn without a message of its own, in a command's conversation.
    def beside(self, said: Said) -> AbstractAsyncContextManager[Turn]: ...
    @property
    def asker(self) -> Asker: ...
    def resume(self, turn: int) -> None: ...  # one that waits for the owner: all is answered
    # The text of a message sent to a chat, by the platform's id; '' if unknown. Then the sources of others' text that
    # had been read for it, where they differ from those of the conversation now.
    def sent_text(self, address: Address, platform_id: str, conversation: Address) -> tuple[str, str]: ...
    async def tell(self, inbound: Inbound, text: str) -> None: ...  # say something about a message, once
    async def deliver(self, inbound: Inbound) -> str | None: ...  # a message, as a channel brings one; code's answer


class Plugin:
    """One capability, whole. Override what you need; None always means: leave it as it is."""

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()  # made before it, where they are there at all
    # A NamedTuple with defaults, read from its table of config.toml. Its `check()`, if it has one, raises ConfigError;
    # its `secrets(environment)` gives further values that must never show.
    settings: ClassVar[type | None] = None
    secrets: ClassVar[tuple[str, ...]] = ()  # those of the settings that must never show
    keys: ClassVar[Mapping[str, str]] = {}  # settings that stand elsewhere: {"day_usd": "limits.day_usd", "all": "x.*"}
    channel_settings: ClassVar[type | None] = None  # a NamedTuple of settings that it has in the table of every channel
    migrations: ClassVar[tuple[str, ...]] = ()  # SQL of its tables, called NAME_…; run before it is made
    profiles: ClassVar[tuple[Profile, ...]] = ()  # of turns that it begins; others have them by host.profile(name)
    marks: ClassVar[tuple[str, ...]] = ()  # "table.column" with nobody's words: forgetting leaves them alone
    seconds: ClassVar[float] = 10.0  # the longest that one of its steps may take
    # By hook about turns and calls, where it is not asked each time; it may change while it runs.
    hears: Mapping[str, Hears] = {}
    public: Any = None  # what host.get(name) gives to others
    asker: Asker | None = None  # that of the first plugin with one is asked

    def __init__(self, host: Host, settings: Any) -> None:
        """No I/O but host.read. `settings` is an instance of its `settings`, None without."""

    def tools(self) -> Iterable[Tool]:
        """Called at the start, and again when a context begins if there is a `before_context`."""
        return ()

    def restrict_tools(self, tools: Sequence[Tool]) -> Iterable[Tool] | None:
        """Close tools of any plugin to some profiles: return the same ones, each with an `open_to` that may be smaller.
        Called with `tools`; if it raises, no tool is open."""
        return None

    def prompt_tools(self, specs: Sequence[ToolSpec], profile: Profile) -> Iterable[ToolSpec] | None:
        """Choose the tools that the prompt of a new context lists; a model calls the others by `call_tool`."""
        return None

    def banner(self) -> str:
        """A line for /status about how it is; '' for none."""
        return ""

    def owners_chats(self) -> Sequence[Address]:
        """Chats that the owner has alone with the assistant, the most recent first."""
        return ()

    def commands(self) -> Iterable[Command]:
        return ()

    @property
    def stamp(self) -> Hashable:
        """Changes with what its sections are made of, such as the time and size of files; any constant if they follow
        from the profile alone. None: they are asked for at each message."""
        return None

    def sections(self, query: str, profile: Profile) -> Iterable[Section]:
        """Parts of the prompt, kept with the context. `query` is the message that begins it; '' if only changes are
        checked."""
        return ()

    def channels(self) -> Iterable[Channel]:
        return ()

    def providers(self) -> Mapping[str, Callable[[str], Provider]]:
        """By prefix: {"acme": make} answers for "acme/large", and is called with that name; "" is any other prefix."""
        return {}

    def routes(self) -> Mapping[str, RouteAnswer]:
        """Paths for other programs on the page's server: {"POST /hooks/{name}": answer}. An answer decides itself whom
        it lets in."""
        return {}

    def files(self) -> Mapping[Path, Literal["kept", "derived"]]:
        """Files and folders with the person's data, besides its home."""
        return {}

    async def check(self, deep: bool) -> Iterable[Finding]:
        """Findings for status; with `deep`, for doctor, it may take time."""
        return ()

    async def audit(self) -> Iterable[Finding]:
        """Report the access that it grants, and to whom; called on a copy of the store."""
        return ()

    async def run(self) -> None:
        """Background work while the program serves; /panic cancels it, /resume starts it again."""

    def reload(self) -> None:
        """Called when its tables or files were changed by others: forget, restore."""

    async def aclose(self) -> None: ...
    def on_message(self, inbound: Inbound, tx: Tx) -> Inbound | Reply | Literal["ignore"] | None:
        """Decide about a message inside the transaction that accepts it: its role and conversation, an answer by code,
        or nothing at all. Called in the order of the plugins."""
        return None

    def conversation_of(self, address: Address) -> Address | None:
        """The conversation that an address belongs to, if that is another one: messages sent there enter its
        history."""
        return None

    # `tools` is about to be asked, for a new context or for a call of a tool that isn't there: make it ready.
    async def before_context(self, turn: Turn) -> None: ...
    async def before_turn(self, draft: Draft, turn: Turn) -> Draft | None:
        """Complete a message that enters a turn, also one that joins a running turn."""
        return None

    async def make_room(self, turn: Turn, error: ContextTooLong | None) -> bool:
        """Shorten what is sent where the next request would be too long, or with `error` the last one was. Called
        before each request. Returns True if the next one is shorter."""
        return False

    async def before_model(self, request: ModelRequest, turn: Turn | None) -> Limits | AssistantMessage | None:
        """Shorten a request's limits, answer it in the model's place, or refuse it by raising ProviderError."""
        return None

    def after_model(self, request: ModelRequest, answer: AssistantMessage | None, turn: Turn | None) -> None:
        """Always called, with None if there was no complete answer."""

    def stream(self, turn: Turn) -> Filter | None:
        return None

    async def before_tool(self, call: CheckedCall, turn: Turn) -> Verdict:
        """Judge a call before any call of its answer runs. If it raises, the call is refused."""
        return None

    def on_progress(self, text: str, turn: Turn) -> str | None:
        """Change the progress text of a running tool."""

    async def after_tool(self, call: CheckedCall, result: ToolResult, turn: Turn) -> ToolResult | None: ...

    async def before_answer(self, answer: Answer, turn: Turn) -> Answer | TryAgain | MakeCalls | None:
        return None

    def on_end(self, ended: Ended, turn: Turn, tx: Tx) -> Ended | None:
        """Called in the turn's last transaction, for every reason; it may send the answer elsewhere or nowhere."""
        return None

    def before_send(self, outbound: Outbound, why: str, tx: Tx) -> Outbound | Later | Literal["drop"] | None:
        """Judge a message that is about to go out: an "answer", "reminder", "question" (it has buttons) or "notice".
        Nobody waits for one that `came` by itself. Its `key` is its row of the outbox."""

    def on_reset(self, conversation: Address, tx: Tx) -> None: ...  # in the transaction in which /new ends a context
    async def before_compaction(self, request: ModelRequest, turn: Turn) -> str | None:
        """Called before a conversation is summarized. Its text ends the summary."""
