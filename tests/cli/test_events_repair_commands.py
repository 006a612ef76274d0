"""``mail-service events replay | redrive | subscriptions``: repairs, told in words and in JSON."""

import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import UUID

import boto3
import pytest

from mail_service.runtime import Runtime
from tests import steps
from tests.cli.conftest import Cli
from tests.conftest import Sql
from tests.signing import body_of, notification, sign


@pytest.fixture
def queue(moto: str, cli: Cli) -> Iterator[tuple[str, Any]]:
    client = boto3.client("sqs", endpoint_url=moto, region_name="eu-west-1")
    url = client.create_queue(QueueName="dead-letters")["QueueUrl"]
    yield url, client
    client.delete_queue(QueueUrl=url)
    client.close()


def test_replay_tells_what_was_read_and_what_became_of_it(cli: Cli, rt: Runtime, sql: Sql) -> None:
    steps.sign_up(rt)
    (claim,) = steps.send_all(rt)
    tag = str(claim.row.attempt_id)
    steps.bring(rt, steps.ses_event("Bounce", tag=tag))
    steps.bring(rt, steps.ses_event("Bounce", tag=tag, message_id="of-another-call"))
    sql("UPDATE mail_service.ses_events SET status = 'foreign', attempt_id = NULL"
        " WHERE status = 'matched'")  # fmt: skip
    ran = cli("events", "replay", "--json")
    assert ran.json == {"total": 1, "read": 1, "became": {"matched": 1}, "quarantined": 1}
    assert "events read: 1 of about 1" in ran.err
    again = cli("events", "replay")
    assert again.status == 0
    assert again.out.splitlines()[0] == "0 read again"
    assert "events list --status quarantined" in again.out
    assert cli("events", "replay", "--status", "matched", "--json").json["read"] == 1
    assert cli("events", "replay", "--status", "quarantined").status == 2


def test_redrive_tells_what_stays_and_ends_with_one_while_something_does(
    cli: Cli, sql: Sql, queue: tuple[str, Any]
) -> None:
    url, client = queue
    # Nobody's certificate can be fetched here, so that genuine and forged letters stay alike.
    genuine = sign(notification("{}", MessageId=str(UUID(int=1)), TopicArn="arn:aws:sns:x:1:other"))
    client.send_message(QueueUrl=url, MessageBody=body_of(genuine).decode())
    client.send_message(QueueUrl=url, MessageBody="junk")
    ran = cli("events", "redrive", url, "--json")
    assert ran.status == 1
    assert ran.json == {
        "taken": {},
        "refused": {"foreign_topic": 1, "not_json": 1},
        "postponed": 0,
        "complete": True,
        "seen": 2,
        "left": 2,
        "dry_run": False,
    }
    assert "letters looked at: 2 of about 2" in ran.err
    dry = cli("events", "redrive", url, "--dry-run")
    assert dry.status == 1
    assert dry.out.splitlines() == [
        "0 would be taken",
        "2 can't be taken and stay: foreign_topic 1, not_json 1",
    ]


def test_an_empty_queue_is_fine(cli: Cli, queue: tuple[str, Any]) -> None:
    ran = cli("events", "redrive", queue[0])
    assert (ran.status, ran.out) == (0, "0 taken\n")


class Pressing(BaseHTTPRequestHandler):
    """A queue of one letter that presses Ctrl-C when it is asked for more; keeps what it was asked."""

    asked: ClassVar[list[tuple[str, Any]]] = []

    def do_POST(self) -> None:
        action = self.headers["X-Amz-Target"].partition(".")[2]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        earlier = [name for name, _ in self.asked]
        self.asked.append((action, request))
        answer: dict[str, Any] = {}
        if action == "ReceiveMessage" and action in earlier:
            os.kill(os.getpid(), signal.SIGINT)
        elif action == "ReceiveMessage":
            answer = {"Messages": [{"MessageId": "1", "ReceiptHandle": "r", "Body": "junk"}]}
        body = json.dumps(answer).encode()
        with contextlib.suppress(OSError):  # whoever was interrupted has hung up
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def pressing() -> Iterator[str]:
    Pressing.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pressing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/123456789012/dead-letters"
    server.shutdown()
    thread.join()
    server.server_close()


def test_ctrl_c_tells_how_far_it_came_and_gives_the_letters_back(cli: Cli, pressing: str) -> None:
    ran = cli("events", "redrive", pressing)
    assert ran.status == 130
    assert "Nothing is lost" in ran.err
    assert ran.out.splitlines() == ["0 taken", "1 can't be taken and stay: not_json 1"]
    action, request = Pressing.asked[-1]
    assert action == "ChangeMessageVisibilityBatch"
    (entry,) = request["Entries"]
    assert (entry["ReceiptHandle"], entry["VisibilityTimeout"]) == ("r", 0)


def test_redrive_asks_for_what_it_needs(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, queue: tuple[str, Any]
) -> None:
    assert cli("events", "redrive", "dead-letters").status == 2
    monkeypatch.delenv("SNS_TOPIC_ARNS")
    ran = cli("events", "redrive", queue[0])
    assert ran.status == 1
    assert "SNS_TOPIC_ARNS" in ran.err


def test_subscriptions_show_their_state(cli: Cli, rt: Runtime, sql: Sql) -> None:
    sql(
        "INSERT INTO mail_service.sns_subscriptions (id, topic_arn, sns_message_id, token, tries,"
        " last_error) VALUES (gen_random_uuid(), %s, 'one', 'secret-token', 3, 'SNS is away')",
        steps.TOPIC,
    )
    (row,) = cli("events", "subscriptions", "--json").json["items"]
    assert (row["state"], row["tries"], row["last_error"]) == ("offered", 3, "SNS is away")
    shown = cli("events", "subscriptions").out
    assert re.search(rf"{steps.TOPIC}\W+offered", shown)
    assert "secret-token" not in shown


def test_stats_and_the_email_tell_of_silence(cli: Cli, rt: Runtime, sql: Sql) -> None:
    email = steps.sign_up(rt)
    steps.send_all(rt)
    sql.advance(3000)
    shown = cli("stats").out
    assert "no event of any kind for" in shown
    assert "1 15 min to 1 h" in shown
    assert cli("stats", "--json").json["events"]["unconfirmed_by_age"]["15 min to 1 h"] == 1
    assert "unconfirmed: accepted, and no event came" in cli("emails", "show", email.email.id).out
