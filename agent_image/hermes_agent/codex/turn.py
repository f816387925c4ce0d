"""A turn that is handed to the program: its items become the transcript's rows and the journal, its end the turn's end.

Steps are written as they are told: `started` before an approval is answered, call and result when the item is completed.
A turn that was cut short is never begun again as if nothing had happened: the program is told that it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence

import structlog

from hermes_agent.approvals.gate import UNATTENDED_CHANNELS
from hermes_agent.codex.app_server import AppServer, Refused
from hermes_agent.codex.door import Door, Spending
from hermes_agent.codex.lines import NotItsProtocol, Piped, ProgramEnded
from hermes_agent.codex.program import Setting, Thread, open_thread, running, start_turn
from hermes_agent.codex.work import EMPTY, Work, words_before
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.liveness import Pulse
from hermes_agent.loop.outcome import EndReason, Outcome, TurnFailed
from hermes_agent.loop.ports import DeltaSink, Files, Store
from hermes_agent.loop.state import Turn
from hermes_agent.loop.steering import is_stored, new_goal, steering
from hermes_agent.model.base import ModelClient
from hermes_agent.model.hygiene import clean_text
from hermes_agent.prompt.first_message import STEERED, first_message
from hermes_agent.prompt.scheduled_message import scheduled_message
from hermes_agent.prompt.wording import PLATFORMS
from hermes_agent.sandbox import NotFound, Sandbox, SandboxError
from hermes_agent.stop import Note, Stopped, StopReason
from hermes_agent.tools.executor import Toolbox
from hermes_contracts.agent_config import AgentConfig, CodexConfig
from hermes_contracts.conversation import Message, Role, TextPart
from hermes_contracts.envelopes import Inbound
from hermes_contracts.errors import HermesError

log = structlog.get_logger()

TICK_SECONDS = 1.0
CONNECT_SECONDS = 30.0
LAST_WORD_SECONDS = 0.4
"""How long a program that is stopped may take to note it in its thread; a person's stop takes at most a second."""
AGAIN = (
    "[The agent was restarted while it worked on the following message. Part of it may be done already: look at what is "
    "there before you repeat anything.]\n\n"
)
KEEPS_ITSELF_SHORT = "Codex keeps its own conversation short by itself: there is nothing to compress here."
NARROWED = "This message was to run with fewer tools than this agent has, and a turn that Codex works on cannot be narrowed."


class CodexTurns:
    """Runs the turns of one session; `loop.ports.Turns`."""

    def __init__(  # noqa: PLR0913 - all that a turn needs meets here, named
        self,
        config: AgentConfig,
        codex: CodexConfig,
        store: Store,
        model: ModelClient,
        window: Callable[[], Awaitable[int]],
        toolbox: Toolbox,
        limits: Limits,
        deltas: DeltaSink,
        files: Files | None = None,
    ) -> None:
        self.toolbox = toolbox
        self.pulse = Pulse()
        self._config = config
        self._codex = codex
        self._store = store
        self._model = model
        self._window = window
        self._limits = limits
        self._deltas = deltas
        self._files = files

    def opening(self, inbound: Inbound) -> Message:
        """Return the row that begins a turn."""
        return scheduled_message(inbound, inbound.run) if inbound.run is not None else first_message(inbound)

    async def by_hand(self, turn: Turn, focus: str) -> str:
        """Say why there is nothing to compress here; `loop.ports.HandCompaction`."""
        del turn, focus
        return KEEPS_ITSELF_SHORT

    async def run(self, turn: Turn, inbound: Inbound) -> Outcome:
        """Run a turn to its end, which the caller commits. Raises TurnFailed, Stopped, HermesError (the store's)."""
        spending = Spending(turn)
        attended = inbound.run is None and inbound.channel not in UNATTENDED_CHANNELS
        work = Work(self._store, turn, spending, self._deltas, self._config.approvals, attended=attended)
        try:
            if turn.step == 0:
                await work.append((self.opening(inbound),))
            if not self.toolbox.allows("terminal", "file"):
                raise TurnFailed(EndReason.RESTRICTION, NARROWED)
            text = asked_in(turn.transcript.messages)
            return await self._until_done(work, inbound, AGAIN + text if turn.resumed else text)
        finally:
            turn.usage += spending.take()

    async def _until_done(self, work: Work, inbound: Inbound, text: str) -> Outcome:
        turn = work.turn
        while True:
            try:
                return await turn.stop.race(self._handed_over(work, inbound, text))
            except TurnFailed as failed:
                await work.close_open("Its end was not told: the turn ended before it. Its effect is unknown.")
                failed.outcome = work.after_words(failed.outcome)
                raise
            except Stopped as stopped:
                note = turn.stop.take_redirect()
                await work.close_open(
                    "Stopped while it was running; its effect may be partial."
                    if stopped.reason is not StopReason.REDIRECT
                    else "Stopped while it was running: the user gave a new goal. Its effect may be partial."
                )
                if note is None:
                    raise
                text = await self._turn_to(work, note)

    async def _turn_to(self, work: Work, note: Note) -> str:
        turn = work.turn
        if turn.shown:
            turn.shown = False
            self._deltas.emit("restart")
        if not is_stored(turn.transcript, note):
            await work.append(new_goal(note))
        work.forget_words()
        turn.stop.on_stored(note)
        return note.text

    async def _handed_over(self, work: Work, inbound: Inbound, text: str) -> Outcome:
        """Start the program, let it work, and end it. Raises TurnFailed."""
        sandbox = Sandbox(self._config.socket_path, connect_seconds=CONNECT_SECONDS)
        command = self._codex.command[0]
        try:
            setting = await self._setting(inbound)

            async def serve(relay: Piped, server: AppServer) -> None:
                door = Door(self._model, self._limits, self._deltas, self.pulse, work.turn, work.spending, server.fail)
                await door.serve(relay)

            text = await self._with_files(text)
            using = self._files.using() if self._files is not None else contextlib.nullcontext()
            async with using, running(sandbox, setting, serve) as server:
                said = work.turn.transcript
                thread = await open_thread(sandbox, server, setting, said.conversation, said.undone)
                if thread.is_new:
                    text = words_before(said.messages) + text
                return await self._follow(work, server, thread, text)
        except NotFound as error:
            log.warning("codex.missing", command=command)
            sentence = (
                f"The program {command} or python3 is not in this agent's sandbox image. Whoever runs this agent has to "
                "name an image that has both (sandbox.image), or another program (model.codex.command)."
            )
            raise TurnFailed(EndReason.PROGRAM_FAILED, sentence) from error
        except ProgramEnded as error:
            sentence = f"The Codex program ended in the middle of the work ({error}). What it had done stays done."
            raise TurnFailed(EndReason.PROGRAM_FAILED, sentence) from error
        except NotItsProtocol as error:
            sentence = f"The Codex program sent something that cannot be read ({error}), so I stopped it."
            raise TurnFailed(EndReason.PROGRAM_FAILED, sentence) from error
        except Refused as error:
            raise TurnFailed(EndReason.PROGRAM_FAILED, f"The Codex program refused the work: {error}") from error
        except TimeoutError as error:
            raise TurnFailed(EndReason.PROGRAM_FAILED, "The Codex program did not answer, so I stopped it.") from error
        except SandboxError as error:
            raise TurnFailed(EndReason.PROGRAM_FAILED, f"The sandbox failed: {error.message}") from error
        finally:
            await sandbox.close()

    async def _with_files(self, text: str) -> str:
        """Wait for the workspace; put before the words what is to be told of it."""
        if self._files is None:
            return text
        late, note = await self._files.arrived(), self._files.note()
        self._files.told()
        return "\n\n".join(part for part in (note, late, text) if part)

    async def _setting(self, inbound: Inbound) -> Setting:
        window = 0
        with contextlib.suppress(HermesError):
            window = await self._window()
        return Setting(self._codex.command, self._config.model, instructions_of(self._config, inbound), window)

    async def _follow(self, work: Work, server: AppServer, thread: Thread, text: str) -> Outcome:
        """Follow the program until it is done with everything that the person said."""
        while True:
            turn_id = await start_turn(server, thread, text)
            try:
                await self._until_completed(work, server, thread, turn_id)
            except asyncio.CancelledError:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(LAST_WORD_SECONDS):
                        await server.request("turn/interrupt", {"threadId": thread.id, "turnId": turn_id})
                raise
            notes = work.steers()
            if not notes:
                return work.outcome()
            await work.answered(notes)
            text = "\n\n".join(note.text for note in notes)

    async def _until_completed(self, work: Work, server: AppServer, thread: Thread, turn_id: str) -> None:
        steerable = True
        while True:
            steerable = steerable and await self._pass_on(work, server, thread, turn_id)
            notice = await server.next(TICK_SECONDS)
            if notice is None:
                if work.is_running:
                    self.pulse.beat()
                continue
            self.pulse.beat()
            if notice.params.get("threadId") != thread.id:
                if notice.request_id is not None:
                    await server.answer(notice, None)
            elif notice.request_id is not None:
                await server.answer(notice, work.approve(notice))
            elif notice.method == "turn/completed":
                work.completed(notice.params)
                return
            else:
                await work.take(notice)

    async def _pass_on(self, work: Work, server: AppServer, thread: Thread, turn_id: str) -> bool:
        """Hand over what the person said meanwhile; False when the program takes no more: that follows its answer."""
        notes: Sequence[Note] = work.steers()
        for position, note in enumerate(notes):
            words: dict[str, object] = {"threadId": thread.id, "expectedTurnId": turn_id}
            try:
                await server.request("turn/steer", {**words, "input": [{"type": "text", "text": note.text}]})
            except Refused:
                work.later(notes[position:])
                return False
            await work.append((steering([note]),))
            work.turn.stop.on_stored(note)
        return True


def instructions_of(config: AgentConfig, inbound: Inbound) -> str:
    """Return what the program is told beside its own prompt: the persona, the channel, the caller's instructions."""
    texts = (config.persona, PLATFORMS.get(inbound.channel, ""), config.platform_hints.get(inbound.channel, ""))
    return "\n\n".join(filter(None, (clean_text(text).strip() for text in (*texts, inbound.instructions))))


def asked_in(rows: Sequence[bytes]) -> str:
    """Return the newest message of the person's in a transcript that is no word into a running turn."""
    for row in reversed(rows):
        message = Message.model_validate(json.loads(row))
        if message.role is Role.USER and not message.text().startswith(STEERED):
            return _plain(message)
    return EMPTY


def _plain(message: Message) -> str:
    pictures = sum(1 for part in message.parts if not isinstance(part, TextPart))
    text = message.text() or EMPTY
    return f"{text}\n\n[{pictures} picture(s) came with this message and cannot be shown here]" if pictures else text
