from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.errors import PermanentError
from yume.local.nats import NatsServer
from yume.local.processes import Program, State, Supervisor, next_delay

_WAITS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
_IGNORES = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
_DEAF = [sys.executable, "-c", f"{_IGNORES}; import time; print('up', flush=True); time.sleep(60)"]
_SUPERVISES = """
import asyncio, sys
from pathlib import Path
from yume.local.processes import Program, Supervisor

async def main():
    waits = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
    program = Program("sleeper", waits, logs=Path(sys.argv[1]))
    async with Supervisor([program]) as supervisor:
        while "up" not in program.output():
            await asyncio.sleep(0.01)
        print(supervisor.state()[0].pid, flush=True)
        await supervisor.wait()

asyncio.run(main())
"""


async def until(reached):
    async with asyncio.timeout(20):
        while not reached():  # noqa: ASYNC110  # other processes set no event here
            await asyncio.sleep(0.01)


def starts(program):
    return program.log.exists() and program.log.read_text().count("up")


async def test_a_program_that_dies_is_started_again(folder):
    program = Program("worker", _WAITS, logs=folder)
    async with Supervisor([program]) as supervisor:
        await until(lambda: starts(program) == 1)
        first = supervisor.state()[0]
        assert first == State("worker", program.pid, 0)
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: starts(program) == 2)
        second = supervisor.state()[0]
    assert second.restarts == 1
    assert second.pid != first.pid


async def test_a_program_that_lives_is_left_alone(folder):
    program, other = Program("steady", _WAITS, logs=folder), Program("other", _WAITS, logs=folder)
    async with Supervisor([program, other]) as supervisor:
        await until(lambda: starts(program) and starts(other))
        pid = program.pid
        other.kill()
        await until(lambda: starts(other) == 2)
        assert program.pid == pid
        assert [state.restarts for state in supervisor.state()] == [0, 1]


async def test_leaving_stops_the_programs(folder):
    program = Program("worker", _WAITS, logs=folder)
    async with Supervisor([program]):
        await until(lambda: starts(program))
    assert program.process.returncode == -signal.SIGTERM


async def test_a_program_that_does_not_listen_is_killed_after_the_grace(folder):
    program = Program("deaf", _DEAF, logs=folder)
    async with Supervisor([program], grace_s=0.2):
        await until(lambda: starts(program))
    assert program.process.returncode == -signal.SIGKILL


async def test_all_programs_share_one_grace(folder):
    programs = [Program(f"deaf-{number}", _DEAF, logs=folder) for number in range(3)]
    async with Supervisor(programs, grace_s=0.5):
        await until(lambda: all(starts(program) for program in programs))
        left = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - left < 1.4


async def test_a_program_has_the_environment_that_it_was_given_and_no_other(folder, monkeypatch):
    monkeypatch.setenv("YUME_SECRET", "of another zone")
    code = "import os; print('up', os.environ.get('YUME_SECRET'), os.environ.get('YUME_ZONE'), flush=True)"
    program = Program("zone", [sys.executable, "-c", code], logs=folder, env={"YUME_ZONE": "ingest"})
    async with Supervisor([program]):
        await until(lambda: starts(program))
    assert program.log.read_text().startswith("up None ingest\n")


async def test_output_of_every_start_is_kept(folder):
    program = Program(
        "brief", [sys.executable, "-c", "import sys; print('up'); sys.exit('went')"], logs=folder
    )
    async with Supervisor([program]):
        await until(lambda: starts(program) >= 2)
    assert program.log.read_text().count("went") >= 1


async def test_a_program_that_does_not_exist_is_tried_again_and_named(folder):
    program = Program("missing", ["/no/such/program"], logs=folder)
    async with Supervisor([program]) as supervisor:
        await until(lambda: supervisor.state()[0].restarts >= 1)
    assert "/no/such/program: No such file or directory" in program.log.read_text()


async def test_a_killed_server_is_started_again_at_its_address_and_left_running(folder):
    server = NatsServer(folder).start()
    url, pid = server.url, server.pid
    try:
        async with Supervisor([], servers={"nats": server}) as supervisor:
            server.kill()
            await until(lambda: supervisor.state()[0].restarts == 1 and server.running)
        assert server.url == url
        assert server.pid != pid
        assert server.running
    finally:
        server.stop()


async def test_a_server_that_does_not_start_is_tried_again(folder):
    class Unwilling:
        running, pid, tries = False, None, 0

        def start(self):
            self.tries += 1
            raise PermanentError("not today")

    server = Unwilling()
    async with Supervisor([], servers={"unwilling": server}):
        await until(lambda: server.tries == 2)


async def test_waiting_ends_with_what_broke_the_watching(folder):
    class Broken:
        running, pid = False, None

        def start(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        async with Supervisor([], servers={"broken": Broken()}) as supervisor:
            await supervisor.wait()


def test_two_programs_of_one_name_are_refused(folder):
    with pytest.raises(PermanentError, match="one name"):
        Supervisor([Program("twin", _WAITS, logs=folder), Program("twin", _WAITS, logs=folder)])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_programs_end_with_a_killed_supervisor(folder, in_another_process, wait_until):
    with in_another_process(_SUPERVISES, str(folder)) as parent:
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


@given(st.lists(st.floats(0, 29.9), min_size=6, max_size=20))
def test_the_delay_doubles_from_a_fifth_of_a_second_to_five(lives):
    delays = [0.0]
    for lived_s in lives:
        delays.append(next_delay(delays[-1], lived_s=lived_s))
    assert delays[1:7] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert set(delays[7:]) <= {5.0}


@given(st.floats(0.2, 5), st.floats(30, 1e6))
def test_the_delay_is_short_again_after_thirty_seconds_alive(previous_s, lived_s):
    assert next_delay(previous_s, lived_s=lived_s) == 0.2
