"""ContextBuilder: everything a model sees, in the order it sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path

from nanoclaw import bootstrap_files
from nanoclaw.beneath.paths import Reach
from nanoclaw.core import prompt_snapshot
from nanoclaw.core.chain import Chain
from nanoclaw.core.channel_registry import Channels
from nanoclaw.core.messages import Inbound, ToolCall, UserMessage
from nanoclaw.core.plugin import PERSON, Draft, Profile, Section, profile_of
from nanoclaw.core.prompt_snapshot import PromptSnapshot
from nanoclaw.named_tuple import NamedTuple
from nanoclaw.outside_text import block
from nanoclaw.runtime_metadata import escape, program_remark, runtime_metadata


class Built(NamedTuple):
    """Sections as they were built last, each with the name of its owner. `versions` also tells which are switched off;
    `stamp` changes with what they are made of, None if that cannot be told."""

    stamp: tuple[object, ...] | None
    sections: list[tuple[str, Section]]
    versions: dict[str, str]


class ContextBuilder:
    """Combines identity, bootstrap files and what plugins bring (memory, skills, rules …) into the system message;
    frames what the person said."""

    def __init__(
        self,
        reach: Reach,
        template: Path,
        clock: Callable[[], datetime],
        chain: Chain,
        channels: Channels,
        off: Collection[str] = (),
        redact: Callable[[str], str] = str,
    ) -> None:
        """A bootstrap file that equals the `template` counts as empty. `redact` hides known secrets."""
        self._reach, self._template, self._clock = reach, template, clock
        self._chain, self._channels, self._off = chain, channels, off
        self._redact = redact
        self._kept: dict[Profile, Built] = {}

    # --- what a context begins with ----------------------------------------------------------------------------------

    def begin(self, query: str = "", profile: Profile = PERSON, channel: str = "") -> PromptSnapshot:
        """A new context for its first message, which came through a channel."""
        tools = self._chain.prompt_tools(profile)
        built = self._build(query, profile)
        line = prompt_snapshot.channel_line(channel, self._channels.hints(channel)) if channel else ""
        own = [part._replace(text=self._redact(part.text)) for _, part in built.sections] + (
            [Section("capabilities", "Capabilities", line)] if line else []
        )
        return PromptSnapshot(
            profile.name,
            tuple(prompt_snapshot.merged(own, profile.mode, frozenset(self._off))),
            tools,
            built.versions,
            (channel,) if channel else (),
        )

    def resume(self, snapshot: PromptSnapshot, query: str, profile: Profile, channel: str) -> PromptSnapshot:
        """The same, or a new one if it is empty or its sources were changed by somebody else: that costs one miss of
        the provider's cache."""
        if snapshot.profile != profile.name:
            return self.begin(query, profile, channel)
        if snapshot.versions == self._built(profile).versions:
            return snapshot
        return self.begin(query, profile, channel)._replace(tools=snapshot.tools)

    def introduce(self, snapshot: PromptSnapshot, channel: str) -> tuple[PromptSnapshot, str]:
        """The snapshot that includes a message's channel, and what to tell the model about that; '' if it knows already
        or there is nothing to say."""
        if channel in snapshot.channels:
            return snapshot, ""
        known = (*(snapshot.channels or ("",)), channel)  # the system message stays as it is
        return snapshot._replace(channels=known), prompt_snapshot.channel_line(channel, self._channels.hints(channel))

    def with_own_changes(self, snapshot: PromptSnapshot, calls: Sequence[ToolCall], profile: Profile) -> PromptSnapshot:
        """The snapshot after a turn: what the turn's own calls changed on disk is known, and changes nothing in it."""
        (_, found, now), before = self._built(profile), snapshot.versions
        own = {
            key: now[key]
            for key, part in ((_key(owner, part), part) for owner, part in found)
            if now[key] != before.get(key)
            and any(self._may_have_changed(call, part.source) for call in calls)
            and not _is_removed(part, snapshot)
        }
        return snapshot._replace(versions={**before, **own}) if own else snapshot

    def _may_have_changed(self, call: ToolCall, source: str) -> bool:
        """True if a call that changes something names the source of a section, or no file at all."""
        is_change = self._chain.reach(call.name) != "none"
        names = [name for name in source.split(", ") if name]
        return is_change and ('"path"' not in call.arguments or any(name in call.arguments for name in names))

    def _built(self, profile: Profile) -> Built:
        """The sections of a profile, built again if what they are made of has changed."""
        kept = self._kept.get(profile)
        return kept if kept and kept.stamp and kept.stamp == self._stamp() else self._build("", profile)

    def _stamp(self) -> tuple[object, ...] | None:
        of_plugins = self._chain.stamp()
        return of_plugins and (bootstrap_files.stamp(self._reach.root, bootstrap_files.NAMES), *of_plugins)

    def _build(self, query: str, profile: Profile) -> Built:
        """All sections of a profile before they are joined."""
        mode, stamp = profile.mode, self._stamp()  # of before: a change meanwhile is seen the next time
        has_tools = bool(self._chain.tools(profile))
        files = bootstrap_files.read(self._reach, self._template, prompt_snapshot.FILES[mode])
        own = [prompt_snapshot.identity(self._reach, mode, has_tools), *prompt_snapshot.of_files(files, mode)]
        brought = self._chain.sections(query, profile) if mode != "none" else []
        found = [*(("core", part) for part in own), *brought]
        versions = {_key(owner, part): part.version or bootstrap_files.sha256_of(part.text) for owner, part in found}
        versions |= {"core off": " ".join(sorted(self._off))} if self._off else {}
        if len(self._kept) > 64:  # a job may have a profile of its own
            self._kept.clear()
        self._kept[profile] = Built(stamp, found, versions)
        return self._kept[profile]

    # --- what is sent ------------------------------------------------------------------------------------------------

    def frame(self, draft: Draft, now: datetime | None = None) -> tuple[UserMessage, UserMessage]:
        """The runtime metadata of a message, then its content."""
        now, inbound, message = now or self._clock(), draft.inbound, draft.message
        names = [f"{file.name} ({file.mime or 'unknown type'})" for file in draft.attachments]
        text = message.text
        if not text and not message.images:
            named = ", ".join(file.name for file in draft.attachments)
            text = f"(sent without text: {named})" if named else "(sent without text)"
        others, sources = list(draft.others), [message.outside] if message.outside else []
        if message.outside and text == message.text and not (inbound and not profile_of(inbound).blocks):
            others, text = [*others, (message.outside, text)], ""
        if inbound and inbound.overheard:
            others.insert(0, ("others in this group, before", inbound.overheard))
        text = "\n\n".join(filter(None, (*(block(source, escape(one)) for source, one in others if one), escape(text))))
        sources = list(dict.fromkeys([*(source for source, _ in others), *sources]))
        metadata = runtime_metadata(
            now,
            channel=inbound.address.channel if inbound else "",
            chat=inbound.address.chat if inbound else "",
            sender=_sender(inbound) if inbound else "",
            quote=draft.quote,
            files=names,
            notes=draft.remarks,
        )
        content = UserMessage(text, now, message.origin, message.images, ", ".join(sources))
        return UserMessage(metadata, now, "runtime"), content

    def remark(self, text: str) -> UserMessage:
        """Something that the program itself tells the model, under the tag."""
        now = self._clock()
        return UserMessage(program_remark(now, text), now, "runtime")


def _key(owner: str, part: Section) -> str:
    return f"{owner} {part.id} {part.title}"


def _is_removed(part: Section, snapshot: PromptSnapshot) -> bool:
    """True if a file was deleted that the context still shows, such as BOOTSTRAP.md."""
    gone = (code for code in part.diagnostics if code.startswith("missing_file "))
    return not set(gone) <= set(snapshot.diagnostics)


def _sender(inbound: Inbound) -> str:
    """The id comes first: people choose their names themselves."""
    return f"{inbound.sender}, who goes by the name “{inbound.name}”" if inbound.name else inbound.sender
