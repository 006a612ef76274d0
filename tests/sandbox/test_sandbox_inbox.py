"""The inbox, as JSON and as pages."""

import socket
from collections.abc import Callable
from typing import Any

import pytest
from sandbox_receiver import Receiver, call, call_json, simple_mail, wait_for

from mail_service.sandbox import Sandbox, Signer

Send = Callable[..., str]
EVIL = "<script>alert(1)</script>"


def rich_mail(recipient: str, subject: str) -> dict[str, Any]:
    params = simple_mail(recipient)
    params["Content"]["Simple"] |= {
        "Subject": {"Data": subject},
        "Body": {
            "Text": {"Data": f"{EVIL} see https://app.example.com/confirm?token=abc&x=1 now"},
            "Html": {
                "Data": '<p>Hi<a href="https://app.example.com/confirm?token=abc&amp;x=1">c</a>'
                + EVIL
            },
        },
    }
    return params


def test_a_test_can_fetch_the_link_of_a_mail(ses: Any, sandbox: Sandbox) -> None:
    ses.send_email(**rich_mail("ada@example.com", "Confirm"))
    ses.send_email(**simple_mail("bob@example.com"))
    found = call_json(f"{sandbox.url}/_sandbox/inbox?to=ADA@example.com")["items"]
    assert [mail["links"] for mail in found] == [["https://app.example.com/confirm?token=abc&x=1"]]
    assert len(call_json(f"{sandbox.url}/_sandbox/inbox?limit=1")["items"]) == 1
    assert [mail["subject"] for mail in sandbox.inbox(search="confirm")] == ["Confirm"]


def test_the_front_page_leads_to_the_inbox(sandbox: Sandbox) -> None:
    port = int(sandbox.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 302")
    assert b"Location: /inbox" in answer


def test_the_list_shows_the_newest_mail_first_with_its_outcome_and_events(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    send("ada@example.com")
    send("bounce@simulator.amazonses.com")
    wait_for(lambda: len(sandbox.deliveries()) == 4)
    status, headers, body = call(f"{sandbox.url}/inbox")
    page = body.decode()
    assert status == 200
    assert page.index("bounce@simulator") < page.index("ada@example.com")
    assert '<span class="badge bad">bounced</span>' in page
    assert '<span class="badge good">delivered</span>' in page
    assert "Bounce ✓" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_a_mail_shows_its_text_headers_tags_request_and_events(ses: Any, sandbox: Sandbox) -> None:
    message_id = ses.send_email(**rich_mail("ada@example.com", EVIL))["MessageId"]
    status, _, body = call(f"{sandbox.url}/inbox/{message_id}")
    page = body.decode()
    assert status == 200
    assert EVIL not in page
    for shown in (
        message_id,
        "X-Request-Tag",
        "Tag request_tag",
        "transactional",
        "&#34;eventType&#34;: &#34;Send&#34;",
        "&#34;FromEmailAddress&#34;",
        "https://app.example.com/confirm?token=abc&amp;x=1",
        'sandbox=""',
    ):
        assert shown in page


def test_the_html_of_a_mail_may_run_and_fetch_nothing(ses: Any, sandbox: Sandbox) -> None:
    message_id = ses.send_email(**rich_mail("ada@example.com", "x"))["MessageId"]
    status, headers, body = call(f"{sandbox.url}/inbox/{message_id}/html")
    assert status == 200
    assert EVIL in body.decode()
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script-src" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_pages_that_do_not_exist_say_so(send: Send, sandbox: Sandbox) -> None:
    message_id = send("ada@example.com")
    for path in ("/inbox/none", f"/inbox/{message_id}/html", "/other", "/inbox/../x"):
        assert call(sandbox.url + path)[0] == 404, path
    assert call(f"{sandbox.url}/inbox", b"x")[0] == 405


@pytest.mark.parametrize("words", ["", "?q=nothing%20%3Cb%3E"])
def test_an_empty_list_says_why_it_is_empty(words: str, sandbox: Sandbox) -> None:
    page = call(f"{sandbox.url}/inbox{words}")[2].decode()
    assert ("No mail matches “nothing &lt;b&gt;”." if words else "No mail yet.") in page


def test_a_long_list_is_paged_and_searched(send: Send, sandbox: Sandbox) -> None:
    for number in range(51):
        send(f"user{number}@example.com")
    first = call(f"{sandbox.url}/inbox")[2].decode()
    assert "user50@" in first
    assert "user0@" not in first
    assert "older" in first
    assert "user0@" in call(f"{sandbox.url}/inbox?page=1")[2].decode()
    found = call(f"{sandbox.url}/inbox?q=USER7@")[2].decode()
    assert "user7@" in found
    assert "user8@" not in found


def test_the_oldest_mails_are_let_go_and_the_log_keeps_its_rows(
    signer: Signer, client: Callable[..., Any]
) -> None:
    with Sandbox(signer=signer, mails=3) as sandbox:
        ses = client("sesv2", sandbox.url)
        for number in range(5):
            ses.send_email(**simple_mail(f"{number}@example.com"))
        kept = [mail["recipients"] for mail in sandbox.inbox()]
        assert kept == [["4@example.com"], ["3@example.com"], ["2@example.com"]]
        assert sum(row["event"] == "accepted" for row in sandbox.log()) == 5
