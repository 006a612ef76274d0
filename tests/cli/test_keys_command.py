"""``mail-service keys``: made once, listed without the secret, revoked at once."""

import json

from mail_service.runtime import Runtime
from mail_service.workflows import operate
from tests.cli.conftest import Cli


def test_a_new_key_stands_alone_on_the_last_line_and_opens(cli: Cli, rt: Runtime) -> None:
    made = cli("keys", "create", "--name", "shop", "--scope", "send", "--scope", "read")
    assert made.status == 0
    (key,) = made.out.splitlines()
    caller = operate.authenticate(rt.db, key)
    assert caller is not None
    assert caller.scopes == {"send", "read"}


def test_a_list_holds_no_secret(cli: Cli) -> None:
    made = cli("keys", "create", "--name", "shop", "--scope", "send", "--json").json
    listed = cli("keys", "list", "--json")
    assert [row["id"] for row in listed.json] == [made["id"]]
    assert made["key"].rpartition("_")[2] not in json.dumps(listed.json) + cli("keys", "list").out


def test_a_revoked_key_opens_nothing(cli: Cli, rt: Runtime) -> None:
    made = cli("keys", "create", "--name", "shop", "--scope", "send", "--json").json
    assert cli("keys", "revoke", made["id"]).status == 0
    assert operate.authenticate(rt.db, made["key"]) is None
    assert cli("keys", "revoke", made["id"]).status == 1


def test_an_unknown_scope_is_wrong_usage(cli: Cli) -> None:
    ran = cli("keys", "create", "--name", "shop", "--scope", "everything")
    assert ran.status == 2
    assert "send, read, operate" in ran.err
