"""What happens to the calls for S8's component: a person's commands are carried out, and told about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import structlog
from pydantic import ValidationError

from yume.errors import PermanentError
from yume.events import Data, Event, event
from yume.jetstream import JetStream
from yume.resources import Resources
from yume.settle import Message, bury, check_subject
from yume.stages import s8_commands
from yume.store import access, effects

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CommandHandler:
    """What happens to a call for S8's component: the rows say what is to be done, the call only when."""

    resources: Resources
    js: JetStream

    async def __call__(self, body: bytes) -> None:
        """Carry out the series' commands, and tell what became of each."""
        about = Data.model_validate(Event.model_validate_json(body).data)
        structlog.contextvars.bind_contextvars(step=s8_commands.NAME, series=about.series)
        await s8_commands.run(about, self.resources)
        for command, told in await s8_commands.tell(about, self.resources):
            for each in told:
                await self.js.store(each)
            async with self.resources.db.acquire() as db:
                await effects.mark_told(db, command.id)
            log.info("command_done", command=str(command.id), kind=command.kind, status=command.status)


@dataclass(frozen=True, slots=True)
class CommandUndertaker:
    """Gives up a call with the command at which it failed: that one may not block its series for ever."""

    resources: Resources
    js: JetStream

    async def bury(self, message: Message, reason: str) -> None:
        """Keep the bytes and the reason, fail the command at which it failed, call for the next."""
        await bury(self.js, message, reason)
        try:
            check_subject(message.body, message.subject)
            about = Data.model_validate(Event.model_validate_json(message.body).data)
        except (ValidationError, PermanentError):
            return  # it speaks for a series that is not its own: nothing of that one is touched
        async with self.resources.db.acquire() as db, db.transaction():
            series = await access.find_series(db, about.platform, about.series)
            waiting = await effects.commands_of(db, series.id) if series else []
            for command in waiting[:1]:
                await effects.refused(db, command.id, "failed", reason)
        for command in waiting[1:2]:
            data = about.model_dump() | {"dream_id": None, "command": str(command.id)}
            key = f"{command.id}/requested/after/{waiting[0].id}"
            await self.js.store(event("slot.requested", data, key=key, at=self.resources.now()))

    async def park(self, message: Message, reason: str) -> None:
        """Treat it as given up: a command is a person's already."""
        await self.bury(message, reason)

    async def put_off(self, message: Message, delay: timedelta) -> bool:
        """Leave it to NATS, which never gives such a call up."""
        del message, delay
        return False

    async def replay(self, message: Message, key: str) -> None:
        """Do nothing: what a person asked for once is done once."""
        log.info("message_ignored", subject=message.subject, reason="a command is not replayed", key=key)
