"""Every event, envelope, request and sequence of tests/cases, signed and posted to the webhook.

The cases' own ``expect`` says what must hold: the status, the facts of the recipients that our call
named, and the suppressions. ``index.json`` explains the layers.
"""

import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import falcon.testing
import pytest

from api.app import create_app
from mail_service.domain.address import AddressInvalid, match_key, normalise
from mail_service.domain.outcomes import Accepted
from mail_service.runtime import Runtime
from mail_service.workflows import record
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.signing import body_of, make_reader, notification, sign
from tests.steps import call, send_all, take_one, write_email

EVENTS = Path(__file__).parent / "cases" / "events"
INDEX = json.loads((EVENTS / "index.json").read_text())["events"]
CASES = [case for case in INDEX if case["layer"] != "mime"]
FACTS = {
    "bounce": "bounced_at",
    "complaint": "complained_at",
    "delivery": "delivered_at",
    "delay": "delayed_at",
    "reject": "rejected_at",
}

Post = Callable[[], falcon.testing.Result]


@pytest.fixture
def client(rt: Runtime) -> falcon.testing.TestClient:
    reading = replace(rt, read_envelope=make_reader(versions=("1", "2")))
    return falcon.testing.TestClient(create_app(reading, lambda: None))


def post(
    client: falcon.testing.TestClient, body: bytes, headers: dict[str, str] | None = None
) -> falcon.testing.Result:
    return client.simulate_post(
        "/webhooks/ses/sns",
        body=body,
        headers=headers or {"Content-Type": "text/plain; charset=UTF-8"},
    )


def signed_envelope(envelope: dict[str, Any]) -> bytes:
    unsigned = {
        k: v
        for k, v in envelope.items()
        if k not in {"Signature", "SignatureVersion", "SigningCertURL"}
    }
    version = envelope.get("SignatureVersion", "2")
    signed = sign(unsigned, str(version))
    return body_of(signed | {"SignatureVersion": version})


def requests(client: falcon.testing.TestClient, case: dict[str, Any], text: str) -> Iterator[Post]:
    """Give what to post for a case, in order."""
    data = json.loads(text) if case["layer"] != "ses_message" else {}

    def event(message: str, number: int = 1, sns_message_id: str | None = None) -> Post:
        given = sns_message_id or f"00000000-0000-4000-8000-{number:012}"
        body = body_of(sign(notification(message, MessageId=given)))
        return lambda: post(client, body)

    match case["layer"]:
        case "ses_message":
            yield event(text)
        case "message_text" if "message_text" in data:
            yield event(data["message_text"])
        case "message_text":
            yield event("".join(part * times for part, times in data["message_text_repeat"]))
        case "message_text_big":
            filled = data["fill_char"] * data["fill_length"]
            yield event(json.dumps(data["message_template"]).replace("@FILL@", filled))
        case "sns_envelope":
            body = signed_envelope(data["envelope"])
            yield lambda: post(client, body)
        case "http_request":
            body = (
                signed_envelope(data["envelope"])
                if "envelope" in data
                else data.get("body_text", "").encode()
            )
            body = base64.b64decode(data["body_base64"]) if "body_base64" in data else body
            prefix = base64.b64decode(data.get("body_prefix_base64", ""))
            yield lambda: post(client, prefix + body, data.get("headers"))
        case "sequence":
            for number, step in enumerate(data["steps"], 1):
                yield event(json.dumps(step["message"]), number, step.get("sns_message_id"))
        case layer:
            pytest.fail(f"a layer nobody reads: {layer}")


def messages(case: dict[str, Any], text: str) -> list[dict[str, Any]]:
    """Give the SES events in a case, as far as they are objects, to know whom its mail went to."""
    try:
        data = json.loads(text)
    except ValueError:
        return []
    texts: list[Any] = (
        [data, data.get("message_text"), data.get("message_template"), data.get("body_text")]
        if isinstance(data, dict)
        else []
    )
    if isinstance(data, dict):
        texts += [data.get("envelope", {}).get("Message")] + [
            step["message"] for step in data.get("steps", [])
        ]
    found: list[dict[str, Any]] = []
    for item in texts:
        if isinstance(item, str):
            try:
                item = json.loads(item)
            except ValueError:
                continue
        if isinstance(item, dict) and isinstance(item.get("mail"), dict):
            found.append(item)
    return found


def destinations(case: dict[str, Any], text: str) -> list[str]:
    """Give the addresses that our call named: those of mail.destination that we would write to."""
    named: list[str] = []
    for message in messages(case, text):
        listed = message["mail"].get("destination")
        for address in listed if isinstance(listed, list) else []:
            try:
                wire = normalise(str(address), allow_reserved=True)
            except AddressInvalid:
                continue
            if wire not in named:
                named.append(wire)
    return named or ["ada@example.com"]


@pytest.fixture
def ours(rt: Runtime, mailer: ScriptedMailer) -> Callable[[dict[str, Any], str], None]:
    """Writes and submits the mail that a case is about, under its MessageId."""

    def write(case: dict[str, Any], text: str) -> None:
        message_id = case["expect"]["mail_message_id"]
        to = tuple(destinations(case, text))
        mailer.answers(Accepted(provider_message_id=message_id or "of-no-case"))
        write_email(rt, "case", to=to)
        send_all(rt)

    return write


def agrees(expected: str, status: int) -> bool:
    return any(
        str(status) == one or (one == "4xx" and 400 <= status < 500)
        for one in expected.split(" or ")
    )


def observed(sql: Sql) -> tuple[set[tuple[str, str]], set[str]]:
    rows = sql("SELECT * FROM mail_service.email_recipients")
    facts = {
        (kind, str(match_key(row["address"])))
        for row in rows
        for kind, column in FACTS.items()
        if row[column] is not None
    }
    return facts, {
        str(match_key(row["address"]))
        for row in sql("SELECT address FROM mail_service.suppressions WHERE released_at IS NULL")
    }


def expected_of(case: dict[str, Any], text: str) -> tuple[set[tuple[str, str]], set[str]]:
    facts: set[tuple[str, str]] = set()
    for kind, recipient in case["expect"]["facts"]:
        everybody = destinations(case, text) if recipient == "*" else [recipient]
        facts |= {(kind, str(match_key(address))) for address in everybody}
    return facts, {str(match_key(address)) for address in case["expect"]["suppress"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"].removesuffix(".json"))
def test_a_case_has_its_stated_status_facts_and_suppressions(
    case: dict[str, Any], client: falcon.testing.TestClient, ours: Callable[..., None], sql: Sql
) -> None:
    text = (EVENTS / case["file"]).read_text()
    ours(case, text)
    for go in requests(client, case, text):
        status = go().status_code
        assert agrees(case["expect"]["http"], status), status
    if not case["expect"].get("either"):
        assert observed(sql) == expected_of(case, text)


TAKEN = [case for case in CASES if case["expect"]["http"] == "200"]
SEQUENCES = [case for case in TAKEN if case["layer"] == "sequence"]
LONGEST = 5
"""Sequences up to this long are run in every order (120 of five steps); none of the cases is longer."""


def orders() -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
    for case in SEQUENCES:
        length = len(json.loads((EVENTS / case["file"]).read_text())["steps"])
        assert length <= LONGEST, f"{case['file']}: {length} steps are too many to try every order"
        for order in permutations(range(length)):
            yield case, order


@pytest.mark.parametrize(
    ("case", "order"),
    list(orders()),
    ids=lambda value: (
        value["file"].removesuffix(".json")
        if isinstance(value, dict)
        else "".join(str(n + 1) for n in value)
    ),
)
def test_the_steps_of_a_sequence_in_every_order_and_each_repeated_have_its_end(
    case: dict[str, Any],
    order: tuple[int, ...],
    client: falcon.testing.TestClient,
    ours: Callable[..., None],
    sql: Sql,
) -> None:
    """Each order, with every step twice in a row, and then the whole of it once more."""
    text = (EVENTS / case["file"]).read_text()
    ours(case, text)
    steps = list(requests(client, case, text))
    for n in [n for n in order for _ in range(2)] + list(order):
        assert steps[n]().status_code == 200
    assert observed(sql) == expected_of(case, text)
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == distinct(case, text)


def distinct(case: dict[str, Any], text: str) -> int:
    """Give how many SNS messages a case is made of."""
    if case["layer"] != "sequence":
        return 1
    steps = json.loads(text)["steps"]
    return len({step.get("sns_message_id", n) for n, step in enumerate(steps)})


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case["file"].removesuffix(".json"))
def test_a_case_that_came_before_its_message_id_was_saved_has_the_same_end(
    case: dict[str, Any],
    client: falcon.testing.TestClient,
    rt: Runtime,
    mailer: ScriptedMailer,
    sql: Sql,
) -> None:
    text = (EVENTS / case["file"]).read_text()
    mailer.answers(Accepted(provider_message_id=case["expect"]["mail_message_id"] or "of-no-case"))
    write_email(rt, "case", to=tuple(destinations(case, text)))
    ended = call(rt, take_one(rt))
    for go in requests(client, case, text):
        assert go().status_code == 200
    assert record.results(rt, [ended]) == []
    if not case["expect"].get("either"):
        assert observed(sql) == expected_of(case, text)


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case["file"].removesuffix(".json"))
def test_a_case_repeated_at_once_and_backwards_has_the_same_end(
    case: dict[str, Any], client: falcon.testing.TestClient, ours: Callable[..., None], sql: Sql
) -> None:
    text = (EVENTS / case["file"]).read_text()
    ours(case, text)
    steps = list(requests(client, case, text))
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda go: go().status_code, [*reversed(steps), *steps, *steps]))
    assert set(results) == {200}
    if not case["expect"].get("either"):
        assert observed(sql) == expected_of(case, text)
    stored = sql.one("SELECT count(*) FROM mail_service.ses_events")
    assert stored == (0 if "unsubscribe_confirmation" in case["file"] else distinct(case, text))


def test_every_file_is_in_the_index() -> None:
    assert {path.name for path in EVENTS.iterdir()} == {case["file"] for case in INDEX} | {
        "index.json"
    }
