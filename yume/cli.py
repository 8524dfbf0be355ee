"""The `yume` command."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from yume import logs, settings
from yume.arguments import make_parser
from yume.errors import YumeError
from yume.settings import Settings

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main() -> None:
    """Run the command that the arguments name: 0 done, 1 refused with a reason, 2 usage."""
    with _output():
        arguments = make_parser().parse_args()
        try:
            found = settings.load()
            logs.configure(found.log_format, found.log_level)
            sys.exit(asyncio.run(_function(arguments.command)(arguments, found)))
        except YumeError as error:
            from yume.commands.printing import escaped  # noqa: PLC0415  # as above

            sys.exit(f"yume: {escaped(str(error))}")
        except KeyboardInterrupt:
            sys.exit(130)


def _function(command: str) -> Callable[[Namespace, Settings], Coroutine[Any, Any, int]]:
    """Load a command's room only now: help and wrong usage need none of what it loads."""
    room, _, name = command.partition(":")
    function: Callable[[Namespace, Settings], Coroutine[Any, Any, int]]
    function = getattr(import_module(f"yume.commands.{room}"), name)
    return function


@contextmanager
def _output() -> Iterator[None]:
    """End quietly where the output is a pipe that was closed, and with a word where it is full."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _drop_output()
        sys.exit(f"yume: the output cannot be written: {error.strerror}")


def _drop_output() -> None:
    """Keep the interpreter from flushing once more as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
