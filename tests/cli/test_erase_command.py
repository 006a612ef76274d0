"""``mail-service erase``: one person is forgotten."""

from mail_service.domain.outcomes import Unknown
from mail_service.runtime import Runtime
from tests import steps
from tests.cli.conftest import Cli
from tests.conftest import Sql
from tests.fakes import ScriptedMailer


def test_a_person_is_forgotten_and_what_was_done_is_told(
    cli: Cli, rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    mailer.answers(Unknown(error_class="read_timeout"))
    doubtful = steps.sign_up(rt, "ada@example.com")
    steps.send_all(rt)
    steps.write_email(rt)
    ran = cli("erase", "Ada@Example.com")
    assert ran.status == 0
    assert "1 accounts, 2 emails (1 of them cancelled)" in ran.out
    assert f"ambiguous, to be accepted or abandoned: {doubtful.email.id}" in ran.out
    assert "ada@" not in str(sql.dump())
    again = cli("erase", "ada@example.com", "--json")
    assert (again.status, again.json["emails"]) == (0, 0)


def test_what_is_no_address_is_wrong_usage(cli: Cli) -> None:
    assert cli("erase", "nobody").status == 2
