"""The gate refuses connections while it is shut, and cuts no call that is under way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3

from mail_service.sandbox import Sandbox, Signer
from tests.journeys.programs import until
from tests.weather.gate import Gate

CALL = {
    "FromEmailAddress": "shop@example.com",
    "Destination": {"ToAddresses": ["ada@example.com"]},
    "Content": {"Simple": {"Subject": {"Data": "Hi"}, "Body": {"Text": {"Data": "Hi"}}}},
}


@pytest.fixture
def sandbox(signer: Signer) -> Iterator[Sandbox]:
    with Sandbox(signer=signer) as running:
        yield running


@pytest.fixture
def gate(sandbox: Sandbox) -> Iterator[Gate]:
    made = Gate(int(sandbox.url.rpartition(":")[2]))
    yield made
    made.close()


def send(pool: urllib3.PoolManager, gate: Gate) -> int:
    url = f"{gate.url}/v2/email/outbound-emails"
    return pool.request("POST", url, body=json.dumps(CALL).encode()).status


def test_while_it_is_shut_connections_are_refused_even_of_those_who_had_one(gate: Gate) -> None:
    with urllib3.PoolManager(retries=False, timeout=5) as pool:
        assert send(pool, gate) == 200
        gate.shut()
        with pytest.raises(urllib3.exceptions.NewConnectionError, match="refused"):
            send(pool, gate)
        gate.open()
        assert send(pool, gate) == 200


def test_a_call_under_way_gets_its_answer_when_it_is_shut(gate: Gate, sandbox: Sandbox) -> None:
    sandbox.knobs(answer_delay_seconds=0.3)
    with urllib3.PoolManager(retries=False, timeout=5) as pool, ThreadPoolExecutor(1) as thread:
        calling = thread.submit(send, pool, gate)
        until(lambda: sandbox.log() != [], "the call has arrived")
        gate.shut()
        assert calling.result(10) == 200
        assert [row["event"] for row in sandbox.log()] == ["arrived", "accepted", "answered"]
