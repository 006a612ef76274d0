"""The targets without a fuzzer: what is known holds, and each target sees a broken promise."""

import subprocess
import sys
from email.utils import formataddr
from pathlib import Path

import pytest

from mail_service.domain.events import EventKind, Fact, FactKind, Notification, ProviderEvent
from tests.fuzz import (
    addresses,
    canonical_string,
    certificate_address,
    envelope,
    headers,
    ses_event,
)
from tests.fuzz.inputs import BETWEEN, input_of, texts_of
from tests.fuzz.running import Ended
from tests.fuzz.targets import FOUND, TARGETS
from tests.signing import NOW, TOPIC, string_to_sign

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_and_everything_that_was_ever_found_keeps_the_promise(name: str):
    inputs = list(TARGETS[name].inputs())
    assert len(inputs) >= 5
    for data in inputs:
        TARGETS[name].check(data)


def test_what_was_found_belongs_to_a_target():
    assert {path.name for path in FOUND.iterdir()} <= set(TARGETS)


def broken_when(check, seeds, **broken: object) -> bool:
    """Whether some seed shows it."""
    for data in seeds():
        try:
            check(data, **broken)
        except AssertionError:
            return True
    return False


def test_an_envelope_that_was_never_signed_is_seen():
    def believe(headers: object, body: bytes) -> Notification:
        return Notification(topic_arn=TOPIC, sns_message_id="m", at=NOW, text=body.decode())

    assert broken_when(envelope.check, envelope.seeds, read=believe)


def test_a_header_that_makes_something_believable_is_seen():
    def believe(headers: dict[str, str], body: bytes):
        return envelope.reader()({}, body if headers else b"{}")

    assert broken_when(envelope.check, envelope.seeds, read=believe)


@pytest.mark.parametrize(
    "host_of",
    [
        lambda arn: "sns.eu-west-1.amazonaws.com.evil.example",
        lambda arn: f"sns.{arn.split(':')[3]}.amazonaws.com@x" if arn.count(":") == 5 else None,
        lambda arn: "sns.us-east-1.amazonaws.com" if arn.count(":") == 5 else None,
    ],
    ids=["another suffix", "user-info", "another region"],
)
def test_a_host_that_is_not_the_topics_is_seen(host_of):
    assert broken_when(certificate_address.check, certificate_address.seeds, host_of=host_of)


@pytest.mark.parametrize(
    "signed_text",
    [
        lambda fields: string_to_sign(fields)[:-1].encode(),
        lambda fields: string_to_sign({k: v for k, v in fields.items() if k != "Subject"}).encode(),
        lambda fields: string_to_sign(fields).replace("\r", "").encode("utf-8", "replace"),
    ],
    ids=["last line feed", "Subject", "carriage returns"],
)
def test_a_signed_text_that_is_not_awss_is_seen(signed_text):
    def seeds():
        yield from canonical_string.seeds()
        yield input_of("", "a\r\n", "id", canonical_string.AT)

    assert broken_when(canonical_string.check, seeds, signed_text=signed_text)


@pytest.mark.parametrize(
    "fact",
    [
        Fact(kind=FactKind.BOUNCED, address="\ud800@example.com", at=None),
        Fact(kind=FactKind.BOUNCED, address="no address", at=None),
        Fact(kind=FactKind.BOUNCED, address=None, at=None),
        Fact(kind=FactKind.BOUNCED, address="a@example.com", at=None, type="a\0"),
        Fact(kind=FactKind.BOUNCED, address="a@example.com", at=None, type="x" * 65),
    ],
    ids=["half a character", "no address", "nobody", "NUL", "long"],
)
def test_a_fact_that_can_not_be_stored_is_seen(fact: Fact):
    def read(text: str, **_: str) -> ProviderEvent:
        return ProviderEvent(
            kind=EventKind.BOUNCE,
            provider_message_id=None,
            request_tag=None,
            occurred_at=None,
            facts=(fact,),
        )

    with pytest.raises((AssertionError, ValueError)):
        ses_event.check(b"{}", read=read)


@pytest.mark.parametrize(
    "normalise",
    [lambda text, **_: text, lambda text, **_: text.strip().lower()],
    ids=["nothing is checked", "the local part is changed"],
)
def test_an_address_that_is_not_one_is_seen(normalise):
    assert broken_when(addresses.check, addresses.seeds, normalise=normalise)


@pytest.mark.parametrize(
    "form",
    [formataddr, lambda pair: f"{pair[0]}\nX: y <{pair[1]}>", lambda pair: "eve@example.com"],
    ids=["the library alone", "a header more", "another sender"],
)
def test_a_line_of_a_callers_own_in_a_header_is_seen(form):
    def joined(name: str, address: str) -> str:
        return form((name, address))

    assert broken_when(headers.check, headers.seeds, form=joined)


def test_texts_come_back_as_they_were():
    assert texts_of(input_of("a", "\udcff", ""), 5) == ["a", "\udcff", "", "", ""]
    assert BETWEEN not in "".join(texts_of(b"a\x1fb", 1))


@pytest.mark.parametrize(
    ("runs", "status", "found"), [(0, 0, ()), (9, 77, ()), (9, 0, (Path("crash-1"),))]
)
def test_a_run_is_fine_only_if_it_ran_to_its_end_and_found_nothing(runs, status, found):
    ended = {"name": "n", "seconds": 1, "corpus": 1, "last_words": ""}
    assert not Ended(runs=runs, status=status, findings=found, **ended).fine
    assert Ended(runs=9, status=0, findings=(), **ended).fine


def test_one_input_is_checked_again_without_a_fuzzer():
    (good, *_) = sorted((FOUND / "addresses").iterdir())
    command = [sys.executable, "-m", "tests.fuzz", "--only", "addresses", "--again", str(good)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "addresses: the promise holds for this input\n")


def test_the_fuzzers_own_lock_pins_every_hash_and_names_no_registry():
    text = (ROOT / "tests" / "fuzz" / "requirements.txt").read_text()
    assert "://" not in text
    assert 0 < text.count("==") <= text.count("--hash=sha256:")
