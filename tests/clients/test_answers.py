"""A question reaches the model once: afterwards its answer lies in the archive, the same for everybody."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field, replace
from typing import Any

import aioboto3
import pytest
from pydantic import BaseModel, SecretStr

from yume.clients.answers import Remembering, key_of
from yume.clients.archive import LostEvidence, open_archive, s3_config
from yume.clients.model import Answered, usage_of
from yume.clients.rules import Rules
from yume.domain.question import Question
from yume.errors import PermanentError, TransientError
from yume.prompts import draft

QUESTION = Question("draft", "draft-1", {"items": [1], "language": "en"}, "the words")


class Said(BaseModel):
    words: str
    sure: float = 1.0


class Otherwise(BaseModel):
    number: int


@dataclass
class Fickle:
    """A model that never says the same twice; `gate` holds its answers back until the test lets them go."""

    name: str = "fickle"
    asked: list[Question] = field(default_factory=list)
    gate: asyncio.Barrier | None = None
    trouble: list[Exception] = field(default_factory=list)
    sure: float = 1.0
    said: str = "夢 answer"

    async def answer(self, question: Question, shape: Any, /) -> Any:
        self.asked.append(question)
        words = f"{self.said} {len(self.asked)}"
        if self.trouble:
            raise self.trouble.pop()
        if self.gate is not None:
            await self.gate.wait()
        return Answered(shape(words=words, sure=self.sure), calls=1)


@pytest.fixture
async def s3_archive(s3):
    bucket = f"answers-{secrets.token_hex(4)}"
    keys = {"aws_access_key_id": s3.access_key, "aws_secret_access_key": s3.secret_key}
    async with aioboto3.Session().client(
        "s3", endpoint_url=s3.endpoint, region_name="auto", config=s3_config(), **keys
    ) as client:
        await client.create_bucket(Bucket=bucket)
    url = f"s3://{bucket}/some/prefix?endpoint={s3.endpoint}"
    async with open_archive(url, access_key=s3.access_key, secret_key=SecretStr(s3.secret_key)) as archive:
        yield archive


@pytest.fixture
async def folder(tmp_path):
    (tmp_path / "archive").mkdir()
    async with open_archive((tmp_path / "archive").as_uri()) as archive:
        yield archive


@pytest.fixture(params=["folder", "s3_archive"])
def archive(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def model():
    return Fickle()


async def test_what_was_asked_once_is_remembered(archive, model):
    first = await Remembering(model, archive).answer(QUESTION, Said)
    again = await Remembering(model, archive).answer(QUESTION, Said)
    assert (first.calls, again.calls) == (1, 0)
    assert first.value == again.value == Said(words="夢 answer 1")
    assert model.asked == [QUESTION]


async def test_the_archive_holds_the_answer_as_json(archive, model):
    await Remembering(model, archive).answer(QUESTION, Said)
    assert json.loads(await archive.get(key_of("fickle", QUESTION))) == {"words": "夢 answer 1", "sure": 1.0}


async def test_other_words_for_the_same_question_ask_nothing(folder, model):
    remembering = Remembering(model, folder)
    await remembering.answer(QUESTION, Said)
    assert (await remembering.answer(replace(QUESTION, text="another fence"), Said)).calls == 0


@pytest.mark.parametrize(
    "changes", [{"version": "draft-2"}, {"body": {"items": [2], "language": "en"}}, {"step": "merge"}]
)
async def test_another_version_body_or_step_asks_again(folder, model, changes):
    remembering = Remembering(model, folder)
    await remembering.answer(QUESTION, Said)
    answered = await remembering.answer(replace(QUESTION, **changes), Said)
    assert (answered.calls, answered.value.words) == (1, "夢 answer 2")


@pytest.mark.parametrize("other", ["fickle-2", "Fickle", "fickle ", "夢"])
async def test_another_model_is_asked_for_itself(folder, model, other):
    await Remembering(model, folder).answer(QUESTION, Said)
    answered = await Remembering(Fickle(name=other), folder).answer(QUESTION, Said)
    assert answered.calls == 1
    assert Remembering(Fickle(name=other), folder).name == other


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("rules", "rules"),
        ("vendor/Model-4.5:beta", "vendor-model-4-5-beta"),
        ("../../etc", "-etc"),
        ("..", "-"),
        ("", "-"),
        ("夢", "-"),
        ("m" * 500, "m" * 64),
    ],
)
async def test_a_models_name_is_a_folders_whatever_it_is(folder, name, shown):
    key = key_of(name, QUESTION)
    assert key.split("/")[:2] == ["answers", shown]
    assert len(key.split("/")) == 3
    await folder.put(key, b"{}")


async def test_names_that_share_a_folder_share_no_answer():
    assert key_of("a/b", QUESTION).startswith("answers/a-b/")
    assert key_of("a:b", QUESTION).startswith("answers/a-b/")
    assert key_of("a/b", QUESTION) != key_of("a:b", QUESTION)


async def test_of_workers_that_ask_at_once_all_get_the_answer_that_lies_there(archive):
    model = Fickle(gate=asyncio.Barrier(8))

    async def ask() -> Answered[Said]:
        while True:
            try:
                return await Remembering(model, archive).answer(QUESTION, Said)
            except TransientError:  # S3 asks one of two writers to come again: by then an answer is there
                continue

    answers = await asyncio.gather(*(ask() for _ in range(8)))
    there = Said.model_validate_json(await archive.get(key_of("fickle", QUESTION)))
    assert [each.value for each in answers] == [there] * 8
    assert len(model.asked) == 8
    assert (await Remembering(model, archive).answer(QUESTION, Said)).value == there


async def test_a_race_counts_a_call_for_everybody_who_made_one(folder):
    model = Fickle(gate=asyncio.Barrier(2))
    both = await asyncio.gather(*(Remembering(model, folder).answer(QUESTION, Said) for _ in range(2)))
    assert [each.calls for each in both] == [1, 1]


@pytest.mark.parametrize("data", [b"", b"no json", b'{"other": 1}', b"\xff"])
async def test_an_archived_answer_that_cannot_be_read_is_named_and_not_asked_again(archive, model, data):
    key = key_of("fickle", QUESTION)
    await archive.put(key, data)
    with pytest.raises(PermanentError, match=rf"archived answer {key} \({len(data)} bytes\) is no .*Said"):
        await Remembering(model, archive).answer(QUESTION, Said)
    assert model.asked == []


async def test_an_answer_of_another_shape_is_named_and_not_asked_again(folder, model):
    await Remembering(model, folder).answer(QUESTION, Said)
    with pytest.raises(PermanentError, match=r"is no .*Otherwise: 1 errors, the first at /number") as caught:
        await Remembering(model, folder).answer(QUESTION, Otherwise)
    assert "夢" not in str(caught.value)
    assert len(model.asked) == 1


@pytest.mark.parametrize("error", [TransientError("busy"), PermanentError("unknown")])
async def test_what_the_model_refuses_is_not_remembered(folder, model, error):
    model.trouble.append(error)
    with pytest.raises(type(error), match=str(error)):
        await Remembering(model, folder).answer(QUESTION, Said)
    assert await folder.find(key_of("fickle", QUESTION)) is None
    assert (await Remembering(model, folder).answer(QUESTION, Said)).calls == 1


@pytest.mark.parametrize("changes", [{"sure": float("nan")}, {"said": "\ud800"}])
async def test_an_answer_that_json_cannot_hold_is_not_remembered(folder, model, changes):
    vars(model).update(changes)
    with pytest.raises(TransientError, match="fickle gave draft-1 an answer that JSON cannot hold"):
        await Remembering(model, folder).answer(QUESTION, Said)
    assert await folder.find(key_of("fickle", QUESTION)) is None


async def test_an_answer_that_cannot_be_archived_reaches_nobody(model):
    class Full:
        async def find(self, key: str, /) -> bytes | None:
            return None

        async def get(self, key: str, /) -> bytes:
            raise LostEvidence(key)

        async def put(self, key: str, data: bytes, /) -> None:
            raise TransientError("the disk is full")

    with pytest.raises(TransientError, match="the disk is full"):
        await Remembering(model, Full()).answer(QUESTION, Said)
    assert len(model.asked) == 1


async def test_the_rules_answer_the_same_from_the_archive(folder):
    question = draft.ask([], language="en")
    remembering = Remembering(Rules(), folder)
    first, again = [await remembering.answer(question, draft.Answer) for _ in range(2)]
    assert (first.value, first.calls, again.calls) == (again.value, 1, 0)
    assert first == await Rules().answer(question, draft.Answer)


def test_a_step_keeps_how_often_it_asked_and_how_often_it_need_not():
    answers = [Answered(Said(words="a"), calls=calls) for calls in (1, 0, 2, 0)]
    assert usage_of(Fickle(), answers) == {"model": "fickle", "calls": 3, "from_archive": 2}
    assert usage_of(Fickle(), []) == {"model": "fickle", "calls": 0, "from_archive": 0}
