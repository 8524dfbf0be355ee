from __future__ import annotations

import asyncio
import os

import pytest

from yume.local.practice import shell


async def test_exit_code_and_both_outputs_are_told(tmp_path):
    ended = await shell.run("echo out; echo err >&2; exit 7", tmp_path, limit_s=10)
    assert ended == shell.Ended(7, None, "out\n", "err\n")


async def test_a_signal_is_told_by_name_instead_of_an_exit_code(tmp_path):
    ended = await shell.run("kill -TERM $$", tmp_path, limit_s=10)
    assert (ended.exit_code, ended.signal, ended.timed_out) == (None, "SIGTERM", False)


async def test_past_its_limit_a_command_is_killed_with_its_children_and_what_it_wrote_is_kept(tmp_path):
    ended = await shell.run("echo begun; sleep 60 & sleep 60", tmp_path, limit_s=0.3)
    assert ended == shell.Ended(None, "SIGKILL", "begun\n", "", timed_out=True)


async def test_a_cancelled_command_leaves_no_process_behind(tmp_path):
    os.mkfifo(tmp_path / "pid")
    running = asyncio.create_task(shell.run("echo $$ > pid; sleep 60", tmp_path, limit_s=60))
    pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_nothing_of_the_callers_environment_reaches_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("YUME_SECRET", "leaked")
    ended = await shell.run("env; cat", tmp_path, limit_s=10)
    assert "leaked" not in ended.stdout
    assert f"HOME={tmp_path}" in ended.stdout
