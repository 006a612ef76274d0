"""Every attack, every genuine message, and what moto signs, judged by npm's sns-validator as well.

Whatever it takes of the attacks is taken for a stated reason (docs/decisions/0006-sns-verification.md
says the same in words); whatever is genuine it takes, but for the kinds that are named.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.attacks.corpus import ATTACKS
from tests.conftest import cases_dir
from tests.differential.conftest import Npm
from tests.moto_signer import moto_signer
from tests.signing import body_of

pytestmark = pytest.mark.differential

WHY_TAKEN = {
    "certificate_address": "any host of one label under sns., any path and file that ends in .pem",
    "bad_certificate": "any key in whatever certificate: no dates, names, issuers, sizes or kinds",
    "signature_version": "both versions, whatever the topic is set to",
    "control_character": "any text in any field, so messages can be cut anew",
    "bad_field": "fields need only be there, whatever their type and text; the later of two spellings",
    "bad_time": "the time is never read",
    "unknown_type": "a type it does not know is a notification",
    "foreign_topic": "whose topic it is, is left to the caller",
    "header_mismatch": "headers are not seen",
    "not_json": "JSON.parse takes names that stand twice, large numbers and any depth",
    "too_large": "no limit",
}
BASE64 = {"space inside", "space before", "space behind", "padding gone", "more padding"} | {
    "loose last bits",
    "twice",
}
"""What its base64 reads over: blanks, padding, unused bits, and all that comes after padding."""


@pytest.fixture(scope="module")
def verdicts(npm: Npm) -> Mapping[str, str]:
    return npm({str(attack): (attack.body, attack.pem) for attack in ATTACKS})


def test_what_it_takes_of_the_attacks_it_takes_for_a_stated_reason(verdicts: Mapping[str, str]):
    taken = [attack for attack in ATTACKS if verdicts[str(attack)] == "accepted"]
    assert {a.name for a in taken if a.cause == "bad_signature"} == BASE64
    assert {a.cause for a in taken if a.cause != "bad_signature"} == set(WHY_TAKEN)


def test_it_refuses_what_is_wrong_by_its_signature_alone(verdicts: Mapping[str, str]):
    alone = [a for a in ATTACKS if a.cause == "bad_signature" and a.name not in BASE64]
    assert len(alone) > 50
    assert {verdicts[str(attack)] for attack in alone} == {"refused"}


def test_some_bodies_make_it_throw_in_place_of_an_answer(verdicts: Mapping[str, str]):
    crashed = {attack.name for attack in ATTACKS if verdicts[str(attack)] == "crashed"}
    assert {"null", "number", "SigningCertURL is null"} <= crashed
    assert "no answer" not in verdicts.values()


@pytest.mark.skipif(not cases_dir().is_dir(), reason="no cases from the field: set CASES_DIR")
def test_it_takes_every_genuine_message_of_the_cases_and_none_that_was_edited(npm: Npm):
    signed = cases_dir() / "signed"
    entries = json.loads((signed / "index.json").read_bytes())["messages"]
    asked = {e["file"]: _case(signed, e) for e in entries}
    verdicts = npm(asked)
    elsewhere = {"v1_localhost_cert_url_notification_sigok.json"}
    for entry in entries:
        genuine = entry["verified"] and entry["file"] not in elsewhere
        assert verdicts[entry["file"]] == ("accepted" if genuine else "refused"), entry["file"]


def _case(signed: Path, entry: Mapping[str, str]) -> tuple[bytes, bytes]:
    return (signed / entry["file"]).read_bytes(), (signed / entry["cert"]).read_bytes()


def test_it_judges_what_moto_signs_as_we_do(npm: Npm, monkeypatch: pytest.MonkeyPatch):
    with moto_signer(monkeypatch) as sign:
        plain, subject = sign("a\r\n\u2028ü", None), sign("text", "a subject")
    verdicts = npm({"plain": _body(*plain), "subject": _body(*subject)})
    assert verdicts == {"plain": "accepted", "subject": "refused"}


def _body(data: dict[str, object], pem: bytes) -> tuple[bytes, bytes]:
    return body_of(data), pem
