"""One conformance test for both archives, on a real folder and a real S3 server, and the faults of F22."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import secrets
import stat
from urllib.parse import urlencode

import aioboto3
import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from yume.clients.archive import FolderArchive, LostEvidence, S3Archive, describe, open_archive, s3_config
from yume.clients.objects import checked_key
from yume.errors import PermanentError, TransientError


@pytest.fixture(scope="module")
def s3_bucket(s3):
    name = f"yume-{secrets.token_hex(4)}"

    async def create() -> None:
        async with raw_client(s3.endpoint, s3) as client:
            await client.create_bucket(Bucket=name)

    asyncio.run(create())
    return name


def raw_client(endpoint, s3, **settings):
    return aioboto3.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name="auto",
        aws_access_key_id=s3.access_key,
        aws_secret_access_key=s3.secret_key,
        config=s3_config().merge(Config(**settings)),
    )


def opened(s3, bucket, *, endpoint=None, secret_key=None):
    query = urlencode({"endpoint": endpoint or s3.endpoint, "region": "auto"})
    secret = SecretStr(secret_key or s3.secret_key)
    return open_archive(f"s3://{bucket}/some/prefix?{query}", access_key=s3.access_key, secret_key=secret)


@pytest.fixture(params=["folder", "s3"])
async def archive(request, tmp_path, s3, s3_bucket):
    places = {"folder": open_archive((tmp_path / "a b" / "archive").as_uri()), "s3": opened(s3, s3_bucket)}
    async with places[request.param] as archive:
        yield archive


@pytest.fixture
async def faulty(platform, s3):
    """An archive whose S3 server is played, so that it can fail; botocore's own patience is off."""
    async with raw_client(platform.base_url, s3, retries={"max_attempts": 0}) as client:
        yield S3Archive(client, "b", "some/prefix")


@pytest.fixture
def key():
    return f"runs/kamila/{secrets.token_hex(8)}.json"


@pytest.mark.parametrize("data", [b"", b"{}", b"\x00\xff\r\n" * 1000])
async def test_what_was_put_is_got(archive, key, data):
    await archive.put(key, data)
    assert await archive.get(key) == data


async def test_a_key_may_hold_any_script(archive, key):
    await archive.put(f"{key}/夢 +%2F?#&'~", b"{}")
    assert await archive.get(f"{key}/夢 +%2F?#&'~") == b"{}"


async def test_the_same_bytes_again_are_fine(archive, key):
    await archive.put(key, b"same")
    await archive.put(key, b"same")
    assert await archive.get(key) == b"same"


async def test_other_bytes_under_a_taken_key_are_refused(archive, key):
    await archive.put(key, b"first")
    with pytest.raises(PermanentError, match=rf"holds other bytes under .*{key}: [0-9a-f]{{64}} \(5 bytes\)"):
        await archive.put(key, b"second")
    assert await archive.get(key) == b"first"


async def test_a_missing_object_is_named(archive, key):
    await archive.put(f"{key}.other", b"")
    with pytest.raises(LostEvidence, match=f"{key}.*evidence is missing"):
        await archive.get(key)


async def test_whether_an_object_is_there_can_be_asked_without_an_error(archive, key):
    await archive.put(f"{key}.other", b"")
    assert await archive.find(key) is None
    await archive.put(key, b"{}")
    assert await archive.find(key) == b"{}"
    assert await archive.find(f"{key}.other") == b""


async def test_of_twenty_writers_at_once_exactly_one_wins(archive, key):
    candidates = [f"writer {n}".encode() * 1000 for n in range(20)]

    async def put(data):
        while True:
            try:
                return await archive.put(key, data)
            except TransientError:  # asked to come again: the race is on
                continue

    results = await asyncio.gather(*(put(data) for data in candidates), return_exceptions=True)
    winners = [data for data, result in zip(candidates, results, strict=True) if result is None]
    assert winners == [await archive.get(key)]
    assert all(type(result) is LostEvidence for result in results if result is not None)


async def test_fifty_megabytes_are_fine(archive, key):
    data = os.urandom(1_000_000) * 50
    await archive.put(key, data)
    assert hashlib.sha256(await archive.get(key)).digest() == hashlib.sha256(data).digest()


BAD_KEYS = [
    "",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a//b",
    "a/",
    "./a",
    "a/.",
    "a\x00b",
    "a\\..\\b",
    "\ud800",
]


@pytest.mark.parametrize("bad", [*BAD_KEYS, "a" * 256, "a/" * 511 + "abc"])
async def test_a_key_that_leads_elsewhere_is_refused(archive, bad):
    with pytest.raises(PermanentError, match=r"archive key .* is (not relative|too long)"):
        await archive.put(bad, b"{}")
    for look in (archive.get, archive.find):
        with pytest.raises(PermanentError, match=r"archive key .* is (not relative|too long)"):
            await look(bad)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("./\\")))
def test_no_key_leaves_the_root(key):
    try:
        checked_key(key)
    except PermanentError:
        return
    assert os.path.normpath(f"/archive/{key}") == f"/archive/{key}"


async def test_files_and_folders_are_the_owners_alone(tmp_path):
    archive = FolderArchive(tmp_path / "archive")
    await archive.put("runs/1.json", b"{}")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"archive": 0o700, "runs": 0o700, "1.json": 0o600}


async def test_no_half_written_file_stays_behind(tmp_path):
    archive = FolderArchive(tmp_path)
    await archive.put("a", b"first")
    with pytest.raises(PermanentError):
        await archive.put("a", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


async def test_a_symbolic_link_does_not_lead_out(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    archive = FolderArchive(tmp_path / "archive")
    await archive.put("a/b", b"")
    (tmp_path / "archive" / "out").symlink_to(tmp_path)
    with pytest.raises(PermanentError, match="through a symbolic link"):
        await archive.get("out/secret")
    with pytest.raises(PermanentError, match="through a symbolic link"):
        await archive.put("out/new", b"")
    assert not (tmp_path / "new").exists()


async def test_a_volume_that_is_not_mounted_is_not_missing_evidence(tmp_path):
    archive = FolderArchive(tmp_path / "archive")
    for look in (archive.get, archive.find):
        with pytest.raises(PermanentError, match="is its volume mounted") as caught:
            await look("a")
        assert not isinstance(caught.value, LostEvidence)


async def test_a_file_where_a_folder_is_due_is_named(tmp_path):
    archive = FolderArchive(tmp_path)
    await archive.put("a", b"")
    with pytest.raises(PermanentError, match="key 'a/b'"):
        await archive.put("a/b", b"")


async def test_too_many_open_files_may_pass(tmp_path):
    archive = FolderArchive(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(TransientError, match="Too many open files"):
            await archive.put("a", b"x")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await archive.put("a", b"x")


async def test_a_bad_secret_says_what_to_check(s3, s3_bucket, key):
    async with opened(s3, s3_bucket, secret_key="another-secret") as archive:
        for call in (archive.put(key, b"{}"), archive.get(key), archive.find(key)):
            with pytest.raises(
                PermanentError, match="403 SignatureDoesNotMatch: check the access key"
            ) as caught:
                await call
            assert "another-secret" not in str(caught.value)


async def test_a_missing_bucket_is_not_missing_evidence(s3, key):
    async with opened(s3, "no-such-bucket") as archive:
        for look in (archive.get, archive.find):
            with pytest.raises(PermanentError, match="404 NoSuchBucket: create the bucket") as caught:
                await look(key)
            assert not isinstance(caught.value, LostEvidence)


async def test_an_object_changed_behind_our_back_is_lost_evidence(s3, s3_bucket, key):
    async with raw_client(s3.endpoint, s3) as client, opened(s3, s3_bucket) as archive:
        await archive.put(key, b"true")
        metadata = {"sha256": hashlib.sha256(b"true").hexdigest()}
        await client.put_object(Bucket=s3_bucket, Key=f"some/prefix/{key}", Body=b"false", Metadata=metadata)
        for call in (archive.get(key), archive.find(key), archive.put(key, b"true")):
            with pytest.raises(LostEvidence, match="evidence has changed"):
                await call


async def test_an_object_without_its_sha256_is_not_ours(s3, s3_bucket, key):
    async with raw_client(s3.endpoint, s3) as client, opened(s3, s3_bucket) as archive:
        await client.put_object(Bucket=s3_bucket, Key=f"some/prefix/{key}", Body=b"{}")
        with pytest.raises(LostEvidence, match="was put as sha256 None"):
            await archive.get(key)


async def test_nobody_listening_may_pass(s3, key):
    async with raw_client("http://127.0.0.1:1", s3, retries={"max_attempts": 0}) as client:
        with pytest.raises(TransientError, match="no answer, Could not connect"):
            await S3Archive(client, "b").get(key)


async def test_silence_may_pass(s3, platform, key):
    platform.on("GET", f"/b/{key}", platform.silence())
    settings = {"retries": {"max_attempts": 0}, "read_timeout": 0.2}
    async with raw_client(platform.base_url, s3, **settings) as client:
        with pytest.raises(TransientError, match="no answer, Read timeout"):
            await S3Archive(client, "b").get(key)


@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_trouble_of_the_server_may_pass(platform, faulty, status):
    body = f"<Error><Code>SlowDown{status}</Code></Error>".encode()
    platform.on("GET", "/b/some/prefix/a", platform.raw(body, status))
    platform.on("PUT", "/b/some/prefix/a", platform.raw(body, status))
    for call in (faulty.get("a"), faulty.find("a"), faulty.put("a", b"")):
        with pytest.raises(TransientError, match=f"answered {status} SlowDown{status}"):
            await call


async def test_a_key_that_may_not_list_is_told_so_and_nothing_counts_as_missing(platform, faulty):
    platform.on("GET", "/b/some/prefix/a", platform.raw(b"<Error><Code>AccessDenied</Code></Error>", 403))
    with pytest.raises(PermanentError, match=r"403 AccessDenied.*objects and list them") as caught:
        await faulty.find("a")
    assert not isinstance(caught.value, LostEvidence)


async def test_a_checksum_header_that_is_refused_is_final(platform, faulty):
    body = b"<Error><Code>NotImplemented</Code></Error>"
    platform.on("PUT", "/b/some/prefix/a", platform.raw(body, 501))
    with pytest.raises(PermanentError, match="501 NotImplemented"):
        await faulty.put("a", b"")


async def test_half_an_object_may_pass(platform, faulty):
    async def cut():
        return platform.raw(b"half", Content_Length="8")

    platform.on("GET", "/b/some/prefix/a", cut)
    with pytest.raises(TransientError, match="came only in part"):
        await faulty.get("a")


async def test_a_put_carries_its_condition_and_no_checksum_of_boto(platform, faulty):
    platform.on("PUT", "/b/some/prefix/a", platform.raw(b""))
    await faulty.put("a", b"{}")
    (request,) = platform.requests
    assert request.headers["if-none-match"] == "*"
    assert request.headers["x-amz-meta-sha256"] == hashlib.sha256(b"{}").hexdigest()
    assert not [name for name in request.headers if "checksum" in name or "trailer" in name]


async def test_the_client_has_the_settings_under_which_r2_works(s3, s3_bucket):
    async with opened(s3, s3_bucket) as archive:
        assert isinstance(archive, S3Archive)
        for config in (s3_config(), archive.client.meta.config):
            assert config.signature_version == "s3v4"
            assert config.request_checksum_calculation == "when_required"
            assert config.response_checksum_validation == "when_required"
            assert config.s3["addressing_style"] == "path"
            assert config.retries["mode"] == "standard"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/archive",
        "file:relative",
        "file://host/folder",
        "file:///folder?a=b",
        "s3:///prefix",
        "s3://bucket/a#b",
        "https://bucket.example/",
        "s3://[bucket",
        "s3://key:hunter2@bucket/",
        "s3://bucket?secret_key=hunter2",
        "s3://bucket?endpoint=http://key:hunter2@127.0.0.1",
        "s3://bucket?endpoint=127.0.0.1:9000",
    ],
)
async def test_a_url_of_another_form_is_refused_unseen(url):
    with pytest.raises(PermanentError, match=r"the archive|an archive of scheme") as caught:
        async with open_archive(url, access_key="a", secret_key=SecretStr("s")):
            pass
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"endpoint": "http://127.0.0.1:1"}, "needs an access key and a secret key"),
        ({"access_key": "a", "secret_key": SecretStr("")}, "needs an access key and a secret key"),
        ({"access_key": "a", "secret_key": SecretStr("s")}, "needs an endpoint"),
        ({"access_key": "a", "secret_key": SecretStr("s"), "endpoint": "nowhere"}, "endpoint is not http"),
    ],
)
async def test_what_an_s3_archive_lacks_is_named(options, why):
    with pytest.raises(PermanentError, match=why):
        async with open_archive("s3://bucket/prefix", **options):
            pass


def test_a_url_is_described_without_its_query():
    assert describe("file:///var/lib/yume%20x") == "file:///var/lib/yume%20x"
    assert (
        describe("s3://bucket/a/b?region=auto&endpoint=http://127.0.0.1:9")
        == "s3://bucket/a/b at http://127.0.0.1:9"
    )
    assert describe("s3://bucket") == "s3://bucket"
