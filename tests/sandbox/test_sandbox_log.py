"""The provider's log: what an auditor can rely on."""

import json
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sandbox_receiver import call_json, simple_mail, wait_for

from mail_service.sandbox import Sandbox, Signer
from mail_service.sandbox.ledger import Ledger

Send = Callable[..., str]


def raw_request(*recipients: str) -> bytes:
    body = json.dumps(simple_mail(*recipients)).encode()
    return b"POST /v2/email/outbound-emails HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )


def connect(sandbox: Sandbox) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(sandbox.url.rpartition(":")[2])), 5)


def has_rows(sandbox: Sandbox, number: int) -> bool:
    return len(sandbox.log()) == number


def kinds(sandbox: Sandbox) -> list[str]:
    return [row["event"] for row in sandbox.log()]


def test_a_row_tells_who_when_and_under_which_tags(send: Send, sandbox: Sandbox) -> None:
    message_id = send("ada@example.com")
    rows = wait_for(lambda: len(sandbox.log()) == 3 and sandbox.log())
    assert [row["seq"] for row in rows] == [1, 2, 3]
    assert [row["event"] for row in rows] == ["arrived", "accepted", "answered"]
    assert rows[0]["at"] <= rows[1]["at"] <= rows[2]["at"]
    assert len({row["request_id"] for row in rows}) == 1
    for row in rows:
        assert row["tags"] == {"request_tag": "t-1"}
        assert row["recipients"] == ["ada@example.com"]
        assert row["time"].endswith("Z")
    assert [row["message_id"] for row in rows] == [None, message_id, message_id]
    assert rows[2]["status"] == 200


def test_only_rows_after_a_seq_are_given(send: Send, sandbox: Sandbox) -> None:
    send("ada@example.com")
    wait_for(lambda: len(sandbox.log()) == 3)
    assert [row["seq"] for row in sandbox.log(after=2)] == [3]
    page = call_json(f"{sandbox.url}/_sandbox/log?after=1&limit=1")
    assert [row["seq"] for row in page["items"]] == [2]
    assert page["last_seq"] == 2
    assert call_json(f"{sandbox.url}/_sandbox/log?after=3") == {"items": [], "last_seq": 3}
    assert call_json(f"{sandbox.url}/_sandbox/deliveries") == {"items": [], "last_seq": 0}


def test_each_row_is_in_the_file_before_the_client_has_its_answer(
    client: Callable[..., Any], signer: Signer, tmp_path: Path
) -> None:
    log = tmp_path / "provider.jsonl"
    with Sandbox(signer=signer, log=log) as sandbox:
        ses = client("sesv2", sandbox.url)
        for number in range(1, 4):
            ses.send_email(**simple_mail("ada@example.com"))
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            assert sum(line["event"] == "accepted" for line in lines) == number


def test_a_log_is_continued_after_a_restart_even_when_its_last_line_is_torn(
    signer: Signer, client: Callable[..., Any], tmp_path: Path
) -> None:
    log = tmp_path / "provider.jsonl"
    for expected in ([1, 2, 3], [1, 2, 3, 5, 6, 7]):
        with Sandbox(signer=signer, log=log) as sandbox:
            client("sesv2", sandbox.url).send_email(**simple_mail("ada@example.com"))
            wait_for(partial(has_rows, sandbox, len(expected)))
            assert [row["seq"] for row in sandbox.log()] == expected
            assert [row["seq"] for row in sandbox.log(after=2)] == expected[2:]
        with log.open("a") as file:
            file.write('{"seq": 4, "ev')


def test_deliveries_are_logged_to_their_own_file(signer: Signer, tmp_path: Path) -> None:
    log = tmp_path / "deliveries.jsonl"
    with Sandbox(signer=signer, delivery_log=log) as sandbox:
        sandbox.publish("x", endpoint="http://127.0.0.1:1/nobody")
        (row,) = [json.loads(line) for line in log.read_text().splitlines()]
        assert sandbox.deliveries() == [row]
    assert row["status"] is None
    assert "ConnectionRefused" in row["error"]


def test_a_client_that_dies_during_the_answer_delay_leaves_an_accepted_unanswered_mail(
    sandbox: Sandbox,
) -> None:
    sandbox.knobs(answer_delay_seconds=30)
    with connect(sandbox) as sock:
        sock.sendall(raw_request("ada@example.com"))
        wait_for(lambda: kinds(sandbox) == ["arrived", "accepted"])
    wait_for(lambda: kinds(sandbox) == ["arrived", "accepted", "client_gone"])
    assert sandbox.log()[-1]["tags"] == {"request_tag": "t-1"}


def test_a_client_that_dies_before_its_refusal_never_had_an_answer(sandbox: Sandbox) -> None:
    sandbox.knobs(answer_delay_seconds=30)
    with connect(sandbox) as sock:
        sock.sendall(raw_request("rejected@simulator.amazonses.com"))
        wait_for(lambda: kinds(sandbox) == ["arrived", "refused"])
    wait_for(lambda: kinds(sandbox) == ["arrived", "refused", "client_gone"])


def test_half_a_request_never_arrived(sandbox: Sandbox) -> None:
    with connect(sandbox) as sock:
        sock.sendall(raw_request("ada@example.com")[:-10])
    with connect(sandbox) as sock:
        sock.sendall(raw_request("ada@example.com"))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    wait_for(lambda: len(kinds(sandbox)) == 3)
    assert kinds(sandbox) == ["arrived", "accepted", "answered"]


def test_a_client_that_left_right_after_its_request_is_not_said_to_be_answered(
    sandbox: Sandbox,
) -> None:
    sandbox.knobs(answer_delay_seconds=0.1)
    with connect(sandbox) as sock:
        sock.sendall(raw_request("ada@example.com"))
    wait_for(lambda: len(kinds(sandbox)) == 3)
    assert kinds(sandbox) == ["arrived", "accepted", "client_gone"]


def test_a_sandbox_that_stops_blames_no_client(signer: Signer, tmp_path: Path) -> None:
    log = tmp_path / "provider.jsonl"
    with Sandbox(signer=signer, log=log) as sandbox, connect(sandbox) as sock:
        sock.sendall(raw_request("timeout@simulator.amazonses.com"))
        wait_for(lambda: len(sandbox.log()) == 3)
        sandbox.close()
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events == ["arrived", "accepted", "hung"]


def test_many_threads_write_whole_rows_in_the_order_of_their_seq(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "log.jsonl")
    threads = [
        threading.Thread(target=lambda n=n: [ledger.append({"n": n}) for _ in range(50)])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = ledger.read()
    ledger.close()
    ledger.close()
    assert [row["seq"] for row in rows] == list(range(1, 401))
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)


def test_a_log_that_cannot_be_opened_stops_the_start(signer: Signer, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        Sandbox(signer=signer, log=tmp_path / "missing" / "log.jsonl")


def test_a_closed_sandbox_leaves_no_thread_behind(signer: Signer) -> None:
    before = set(threading.enumerate())
    with Sandbox(signer=signer) as sandbox, connect(sandbox) as sock:
        sock.sendall(raw_request("blackhole@simulator.amazonses.com"))
        wait_for(lambda: "hung" in kinds(sandbox))
        sandbox.close()
    assert set(threading.enumerate()) <= before
    sandbox.close()
