"""The dead-letter queue: what is asked of SQS, and what its refusals and absence come to."""

from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from mail_service.errors import InvalidFields, Unavailable
from mail_service.gateways.sqs import HIDDEN_SECONDS, SqsDeadLetters, sqs_dead_letters

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/dead-letters"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def stubbed() -> Any:
    client: Any = boto3.client("sqs", region_name="eu-west-1")
    with Stubber(client) as stub:
        yield SqsDeadLetters(client, URL, wait_seconds=2), stub
    stub.assert_no_pending_responses()


def test_ten_letters_are_taken_hidden_and_from_every_server(stubbed: Any) -> None:
    letters, stub = stubbed
    stub.add_response(
        "receive_message",
        {"Messages": [{"MessageId": "1", "ReceiptHandle": "r", "Body": '{"a": "ü"}'}]},
        {
            "QueueUrl": URL,
            "MaxNumberOfMessages": 10,
            "VisibilityTimeout": HIDDEN_SECONDS,
            "WaitTimeSeconds": 2,
        },
    )
    (letter,) = letters.receive()
    assert (letter.id, letter.receipt, letter.body) == ("1", "r", '{"a": "ü"}'.encode())
    assert "ü" not in repr(letter)


def test_an_empty_queue_gives_no_letters_and_nothing_is_asked_about_none(stubbed: Any) -> None:
    letters, stub = stubbed
    stub.add_response("receive_message", {}, None)
    assert letters.receive() == []
    letters.delete([])
    letters.give_back([])


def test_letters_are_deleted_and_given_back_ten_at_once(stubbed: Any) -> None:
    letters, stub = stubbed
    for ids in (range(10), range(2)):
        stub.add_response(
            "delete_message_batch",
            {"Successful": [], "Failed": []},
            {"QueueUrl": URL, "Entries": [{"Id": str(n), "ReceiptHandle": ANY} for n in ids]},
        )
    letters.delete([f"r{n}" for n in range(12)])
    stub.add_response(
        "change_message_visibility_batch",
        {"Successful": [], "Failed": []},
        {"QueueUrl": URL, "Entries": [{"Id": "0", "ReceiptHandle": "r", "VisibilityTimeout": 0}]},
    )
    letters.give_back(["r"])


def test_a_refusal_says_what_to_look_at(stubbed: Any) -> None:
    letters, stub = stubbed
    stub.add_client_error("get_queue_attributes", "AccessDenied", "User: arn:… is not authorized")
    with pytest.raises(Unavailable, match=r"AccessDenied.*credentials may receive") as refused:
        letters.waiting()
    assert "arn" not in str(refused.value)


def test_a_queue_that_does_not_answer_is_unavailable() -> None:
    letters = sqs_dead_letters(
        "http://127.0.0.1:1/123456789012/dead-letters", region="eu-west-1", allow_http=True
    )
    with pytest.raises(Unavailable, match="could not be asked"):
        letters.receive()


@pytest.mark.parametrize(
    ("url", "region"),
    [
        (URL, ""),
        ("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q", ""),
        ("https://vpce-1-abc.sqs.eu-west-1.vpce.amazonaws.com/123456789012/q", "eu-west-1"),
    ],
)
def test_the_region_is_the_urls_or_else_the_settings(url: str, region: str) -> None:
    assert sqs_dead_letters(url, region=region, allow_http=False)


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("", "eu-west-1"),
        ("dead-letters", "eu-west-1"),
        ("arn:aws:sqs:eu-west-1:123456789012:dead-letters", "eu-west-1"),
        ("http://sqs.eu-west-1.amazonaws.com/123456789012/dead-letters", "eu-west-1"),
        ("https://sqs.eu-west-1.amazonaws.com/", "eu-west-1"),
        ("file:///123456789012/dead-letters", "eu-west-1"),
        ("https://queues.example.com/123456789012/dead-letters", ""),
    ],
)
def test_what_is_no_queues_url_is_refused_before_anything_is_asked(url: str, region: str) -> None:
    with pytest.raises(InvalidFields, match="SQS_URL"):
        sqs_dead_letters(url, region=region, allow_http=False)
