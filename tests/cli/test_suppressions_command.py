"""``mail-service suppressions``: who gets no mail, and the rules by which that ends."""

import os
import pwd

from mail_service.runtime import Runtime
from tests import steps
from tests.cli.conftest import Cli
from tests.conftest import Sql


def _complain(rt: Runtime, address: str) -> None:
    steps.sign_up(rt, address)
    (claim,) = steps.send_all(rt)
    event = steps.ses_event(
        "Complaint",
        tag=str(claim.row.attempt_id),
        recipients=(address,),
        complaintFeedbackType="abuse",
    )
    steps.bring(rt, event)


def test_an_address_is_suppressed_once_and_listed(cli: Cli) -> None:
    added = cli("suppressions", "add", "Ada@Example.com", "--note", "asked on the phone")
    assert added.status == 0
    assert "Ada@example.com is suppressed now" in added.out
    again = cli("suppressions", "add", "ada@example.com", "--json").json
    assert again["created"] is False
    (row,) = cli("suppressions", "list", "--json").json["items"]
    assert row["id"] == again["id"]
    assert (row["reason"], row["note"]) == ("manual", "asked on the phone")


def test_decisions_bear_the_name_of_the_unix_user(cli: Cli, sql: Sql) -> None:
    cli("suppressions", "add", "ada@example.com")
    release = ("--rule", "operator_error", "--reason", "wrong address")
    assert cli("suppressions", "release", "ada@example.com", *release).status == 0
    me = f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    (row,) = sql("SELECT source, released_by FROM mail_service.suppressions")
    assert row == {"source": me, "released_by": me}


def test_a_list_is_narrowed(cli: Cli, rt: Runtime) -> None:
    _complain(rt, "carol@example.com")
    cli("suppressions", "add", "dave@example.com")
    cli(
        *("suppressions", "release", "dave@example.com"),
        *("--rule", "address_confirmed", "--reason", "wrote to us"),
    )

    def addresses(*filters: str) -> list[str]:
        rows = cli("suppressions", "list", "--json", *filters).json["items"]
        return [row["address"] for row in rows]

    assert addresses() == ["dave@example.com", "carol@example.com"]
    assert addresses("--active") == ["carol@example.com"]
    assert addresses("--released") == ["dave@example.com"]
    assert addresses("--reason", "complaint") == ["carol@example.com"]
    assert addresses("--address", "CAROL@example.com") == ["carol@example.com"]


def test_a_complaint_is_lifted_only_with_consent_and_confirmation(cli: Cli, rt: Runtime) -> None:
    _complain(rt, "carol@example.com")
    wrong = cli(
        *("suppressions", "release", "carol@example.com"),
        *("--rule", "operator_error", "--reason", "they asked"),
    )
    assert wrong.status == 1
    assert "consent_renewed" in wrong.err
    right = cli(
        *("suppressions", "release", "carol@example.com", "--confirm", "--json"),
        *("--rule", "consent_renewed", "--reason", "signed up again"),
    )
    assert right.json["release_rule"] == "consent_renewed"


def test_what_is_not_suppressed_can_not_be_lifted(cli: Cli) -> None:
    ran = cli(
        *("suppressions", "release", "ada@example.com"),
        *("--rule", "operator_error", "--reason", "x"),
    )
    assert ran.status == 1
    assert ran.err == "ada@example.com is not suppressed\n"


def test_what_is_no_address_and_no_id_is_wrong_usage(cli: Cli) -> None:
    assert cli("suppressions", "add", "nonsense").status == 2
    lift = ("--rule", "operator_error", "--reason", "x")
    assert cli("suppressions", "release", "nonsense", *lift).status == 2
