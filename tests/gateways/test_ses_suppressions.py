"""SES's suppression list through the real client: what it answers, and what its refusals mean."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mail_service.domain.suppression import UNDATED, SuppressionReason
from mail_service.errors import SettingsError, Throttled, Unavailable
from mail_service.gateways.ses import ses_client
from mail_service.gateways.ses_suppressions import SesSuppressionList
from mail_service.sandbox import Sandbox, Signer

ADA = "ada+list@example.com"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(signer=Signer.generate()) as running:
        yield running


@pytest.fixture
def list_at() -> Iterator[Callable[[str], SesSuppressionList]]:
    clients: list[Any] = []

    def build(url: str) -> SesSuppressionList:
        clients.append(ses_client("eu-west-1", url, 20, 20, 1))
        return SesSuppressionList(lambda: clients[-1])

    yield build
    for client in clients:
        client.close()


@pytest.fixture
def ses(sandbox: Sandbox, list_at: Callable[[str], SesSuppressionList]) -> SesSuppressionList:
    sandbox.knobs(operations={})
    return list_at(sandbox.url)


def test_an_address_is_put_found_listed_and_deleted(ses: SesSuppressionList) -> None:
    assert ses.find(ADA) is None
    assert ses.delete(ADA) is False
    ses.put(ADA, SuppressionReason.COMPLAINT)
    found = ses.find(ADA)
    assert found is not None
    assert (found.address, found.reason) == (ADA, SuppressionReason.COMPLAINT)
    assert abs(datetime.now(UTC) - found.at) < timedelta(minutes=1)
    page = ses.page(None, None)
    assert page.entries == (found,)
    assert (page.next, page.unreadable) == (None, 0)
    assert ses.page(None, found.at + timedelta(hours=1)).entries == ()
    assert ses.page(None, found.at - timedelta(hours=1)).entries == (found,)
    assert ses.delete(ADA) is True
    assert ses.find(ADA) is None


@pytest.mark.parametrize("reason", [SuppressionReason.MANUAL, SuppressionReason.BOUNCE])
def test_what_is_no_complaint_is_put_as_a_bounce(
    ses: SesSuppressionList, sandbox: Sandbox, reason: SuppressionReason
) -> None:
    ses.put(ADA, reason)
    assert sandbox.suppressed() == {ADA: "BOUNCE"}
    ses.delete(ADA)


CALLS: dict[str, Callable[[SesSuppressionList], object]] = {
    "ListSuppressedDestinations": lambda ses: ses.page(None, None),
    "GetSuppressedDestination": lambda ses: ses.find(ADA),
    "PutSuppressedDestination": lambda ses: ses.put(ADA, SuppressionReason.BOUNCE),
    "DeleteSuppressedDestination": lambda ses: ses.delete(ADA),
}


@pytest.mark.parametrize("operation", CALLS)
def test_a_refusal_says_what_to_do_and_names_nobody(
    ses: SesSuppressionList, sandbox: Sandbox, operation: str
) -> None:
    sandbox.knobs(operations={operation: "denied"})
    with pytest.raises(Unavailable, match=f"ses:{operation}: allow this action") as denied:
        CALLS[operation](ses)
    assert "arn:" not in str(denied.value)
    assert denied.value.__suppress_context__
    sandbox.knobs(operations={operation: "throttled"})
    with pytest.raises(Throttled, match=operation):
        CALLS[operation](ses)
    sandbox.knobs(operations={operation: "unavailable"})
    with pytest.raises(Unavailable, match=f"{operation}: ServiceUnavailable") as away:
        CALLS[operation](ses)
    assert not isinstance(away.value, Throttled)
    assert ADA not in str(away.value)


def test_an_address_that_ses_does_not_take_is_refused_without_naming_it(
    ses: SesSuppressionList,
) -> None:
    with pytest.raises(Unavailable, match="BadRequestException") as refusal:
        ses.put("ada@exa_mple.com", SuppressionReason.BOUNCE)
    assert "ada" not in str(refusal.value)


class _Answering(ThreadingHTTPServer):
    status, body = 200, b""
    requests = 0


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server: Any = self.server
        server.requests += 1
        self.send_response(server.status)
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[_Answering]:
    server = _Answering(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>"),
        (200, b"[]"),
        (200, b'{"SuppressedDestination": 3}'),
        (200, b'{"SuppressedDestination": {"LastUpdateTime": "soon"}}'),
        (200, b"{}"),
        (302, b""),
        (404, b"<html>"),
        (500, b"\xff\xfe"),
    ],
)
def test_an_answer_that_is_none_of_ses_is_a_fault_after_one_request(
    answering: _Answering,
    list_at: Callable[[str], SesSuppressionList],
    status: int,
    body: bytes,
) -> None:
    answering.status, answering.body = status, body
    with pytest.raises(Unavailable):
        list_at(f"http://127.0.0.1:{answering.server_port}").find(ADA)
    assert answering.requests == 1


def test_entries_without_an_address_are_counted(
    answering: _Answering, list_at: Callable[[str], SesSuppressionList]
) -> None:
    answering.body = (
        b'{"SuppressedDestinationSummaries": [{"Reason": "BOUNCE", "LastUpdateTime": 1}, {},'
        b'{"EmailAddress": "b@example.com", "Reason": "NEW", "LastUpdateTime": 1}], "Other": 1}'
    )
    page = list_at(f"http://127.0.0.1:{answering.server_port}").page(None, None)
    assert [entry.address for entry in page.entries] == ["b@example.com"]
    assert page.entries[0].reason is SuppressionReason.BOUNCE
    assert (page.unreadable, page.next) == (2, None)


@pytest.mark.parametrize(
    "time",
    [
        "",
        ', "LastUpdateTime": null',
        ', "LastUpdateTime": "soon"',
        ', "LastUpdateTime": ""',
        ', "LastUpdateTime": {}',
        ', "LastUpdateTime": []',
        ', "LastUpdateTime": 1e300',
        ', "LastUpdateTime": -1e300',
        ', "LastUpdateTime": NaN',
        ', "LastUpdateTime": Infinity',
        ', "LastUpdateTime": -62167219200',
        ', "LastUpdateTime": 253402300800',
        ', "LastUpdateTime": "0000-00-00T00:00:00Z"',
    ],
)
def test_an_entry_whose_time_is_impossible_is_undated_and_the_others_are_read(
    answering: _Answering, list_at: Callable[[str], SesSuppressionList], time: str
) -> None:
    ses = list_at(f"http://127.0.0.1:{answering.server_port}")
    odd = f'{{"EmailAddress": "a@example.com", "Reason": "COMPLAINT"{time}}}'
    fine = '{"EmailAddress": "b@example.com", "Reason": "BOUNCE", "LastUpdateTime": 1700000000}'
    answering.body = f'{{"SuppressedDestinationSummaries": [{odd}, {fine}]}}'.encode()
    page = ses.page(None, None)
    assert [(one.address, one.at == UNDATED) for one in page.entries] == [
        ("a@example.com", True),
        ("b@example.com", False),
    ]
    assert page.unreadable == 0
    answering.body = f'{{"SuppressedDestination": {odd}}}'.encode()
    found = ses.find("a@example.com")
    assert found is not None
    assert (found.reason, found.at) == (SuppressionReason.COMPLAINT, UNDATED)


def test_ses_that_is_not_there_is_a_fault(
    list_at: Callable[[str], SesSuppressionList], closed_port: int
) -> None:
    with pytest.raises(Unavailable, match="EndpointConnectionError"):
        list_at(f"http://127.0.0.1:{closed_port}").page(None, None)


def test_a_region_that_is_missing_says_which_settings_to_set() -> None:
    def build() -> Any:
        raise SettingsError({"AWS_*": "boto3 can't use these settings: NoRegionError"})

    with pytest.raises(Unavailable, match="Set AWS_REGION"):
        SesSuppressionList(build).page(None, None)
