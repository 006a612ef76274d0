"""``mail-service demo --once``: the product's promise, checked on this machine from end to end."""

import re

from tests.cli import leftovers
from tests.demo.conftest import Start


def test_each_account_ends_where_it_should_and_nothing_is_left(start: Start) -> None:
    demo = start("--once")
    demo.wait_for("signing up")
    directory, family = demo.directory, demo.family
    status = demo.end()
    assert status == 0, demo.text
    assert leftovers.nothing_is_left(directory, family)

    def places(name: str) -> list[str]:
        return re.findall(rf"^ +[\d.]+ s  {name} +(\w+) +recipient", demo.text, re.MULTILINE)

    assert places("ordinary")[-1] == "submitted"
    assert places("suppressed")[-1] == "suppressed"
    doubt = places("timeout")
    assert doubt.index("ambiguous") < doubt.index("submitted")
    assert "read_timeout, settled by event" in demo.text
    assert "Each account ended where it should" in demo.text
    for address in ("/docs", "/inbox", "Authorization: Bearer ms_"):
        assert address in demo.text
