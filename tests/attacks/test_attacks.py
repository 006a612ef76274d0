"""No attack is believed, changes anything but its counter, or makes us ask anybody anything."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import structlog

from tests.attacks.attack import HARM, STATUSES, Attack, harmful
from tests.attacks.corpus import ATTACKS, ROWS
from tests.attacks.stage import Stage
from tests.signing import CERTIFICATE_URL, Shelf, body_of, confirmation, make_reader, sign

ANSWERS = {
    400: "not an SNS message",
    403: "not taken",
    413: "too large",
}
SECRETS = (HARM[:40], str(confirmation()["Token"]), "Action=Unsubscribe", "Action=Confirm")


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attack_is_refused_and_changes_nothing_but_its_counter(attack: Attack, standing: Stage):
    shelf = Shelf({CERTIFICATE_URL: attack.pem})
    standing.read = make_reader(shelf, versions=attack.versions)
    confirmed = len(standing.confirmed)
    with structlog.testing.capture_logs() as lines:
        seen = standing.post(attack.body, attack.headers)
    assert seen.status == attack.status
    assert json.loads(seen.body)["detail"] == ANSWERS[attack.status]
    assert seen.changed == frozenset()
    assert seen.counted == {attack.cause: 1}
    assert seen.network == ()
    assert len(standing.confirmed) == confirmed
    assert shelf.asked == [CERTIFICATE_URL] * attack.asks
    assert lines[0]["event"] == "webhook.refused"
    assert {line["event"] for line in lines} <= {"webhook.refused", "alarm"}
    assert not [secret for secret in SECRETS if secret in repr(lines)]


def test_what_the_attacks_are_made_of_is_believed(stage: Stage):
    seen = stage.post(body_of(sign(harmful())))
    assert seen.status == 200
    assert "mail_service.suppressions" in seen.changed, "it would have done harm"
    seen = stage.post(body_of(sign(harmful(Subject="a", MessageId="2"))))
    assert seen.status == 200
    for number, kind in enumerate(("SubscriptionConfirmation", "UnsubscribeConfirmation")):
        made = sign(confirmation(kind, MessageId=f"kind-{number}"))
        assert stage.post(body_of(made)).status == 200


def test_the_attacks_are_many_and_no_two_are_one():
    assert len(ATTACKS) >= 150
    requests = Counter((a.body, tuple(a.headers.items()), a.pem, a.versions) for a in ATTACKS)
    assert [count for count in requests.values() if count > 1] == []
    assert [name for name, count in Counter(map(str, ATTACKS)).items() if count > 1] == []


def test_every_row_of_the_table_is_tried():
    tested = {row.upper() for row in re.findall(r"_(w\d+)", _names_of_tests())}
    assert {attack.row for attack in ATTACKS} | tested == set(ROWS)
    assert set(ROWS) - {attack.row for attack in ATTACKS} == {"W3", "W4"}, "tried by test_origins"


def test_every_cause_of_a_refusal_is_the_answer_to_some_attack():
    causes = {attack.cause for attack in ATTACKS}
    assert causes >= set(STATUSES) | {"not_json", "bad_field", "control_character", "bad_time"}
    assert causes >= {"unknown_type", "header_mismatch", "raw_delivery"}


def _names_of_tests() -> str:
    here = Path(__file__).parent
    return "\n".join(
        name
        for path in here.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    )
