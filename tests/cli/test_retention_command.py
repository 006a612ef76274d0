"""``mail-service retention run``."""

from mail_service.runtime import Runtime
from tests import steps
from tests.cli.conftest import Cli
from tests.conftest import Sql


def test_what_is_past_its_days_is_deleted_and_told(cli: Cli, rt: Runtime, sql: Sql) -> None:
    steps.write_email(rt, data={"name": "Ada"})
    steps.send_all(rt)
    sql.advance(31 * 86_400)
    ran = cli("retention", "run")
    assert ran.status == 0
    assert "content of 1 emails" in ran.out
    again = cli("retention", "run", "--json").json
    assert set(again.values()) == {0}
