"""Every route against every scope: the table below is written by hand, from interface.md."""

from typing import Any

import pytest

from tests.api.conftest import ACCOUNT, ALL, EMAIL, NOBODY, Api, key_of

ROUTES: list[tuple[str, str, Any, str]] = [
    ("POST", "/v1/accounts", ACCOUNT, "send"),
    ("GET", f"/v1/accounts/{NOBODY}", None, "read"),
    ("DELETE", f"/v1/accounts/{NOBODY}", None, "operate"),
    ("POST", "/v1/emails", EMAIL, "send"),
    ("POST", "/v1/emails/batch", {"emails": [EMAIL]}, "send"),
    ("GET", "/v1/emails", None, "read"),
    ("GET", f"/v1/emails/{NOBODY}", None, "read"),
    ("POST", f"/v1/emails/{NOBODY}/cancel", None, "send"),
    ("POST", f"/v1/emails/{NOBODY}/resolve",
     {"decision": "abandon", "reason": "r", "attempt_id": NOBODY}, "operate"),
    ("POST", f"/v1/emails/{NOBODY}/requeue", {"reason": "r"}, "operate"),
    ("GET", "/v1/holds", None, "read"),
    ("POST", f"/v1/holds/{NOBODY}/clear", {"reason": "r"}, "operate"),
    ("GET", "/v1/suppressions", None, "read"),
    ("POST", "/v1/suppressions", {"address": "ada@example.com"}, "operate"),
    ("POST", f"/v1/suppressions/{NOBODY}/release", {"rule": "operator_error", "reason": "r"}, "operate"),
    ("GET", "/v1/events", None, "read"),
    ("GET", "/v1/stats", None, "read"),
]  # fmt: skip
OPEN = [("GET", "/metrics"), ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json"),
        ("GET", "/docs")]  # fmt: skip


def test_the_table_of_this_test_is_the_table_of_the_api(standing: Api):
    documented = {
        (method.upper(), path): operation["security"]
        for path, methods in standing.document["paths"].items()
        for method, operation in methods.items()
    }
    scoped = {
        (method, path.replace(NOBODY, "{id}")): [{"key": [scope]}]
        for method, path, _, scope in ROUTES
    }
    found = {
        (method, "/".join("{id}" if part[:1] == "{" else part for part in path.split("/"))): needs
        for (method, path), needs in documented.items()
        if needs
    }
    assert found == scoped


@pytest.mark.parametrize(("method", "path", "body", "scope"), ROUTES)
def test_a_route_opens_to_its_scope_and_to_no_other(
    standing: Api, method: str, path: str, body: Any, scope: str
):
    for held in ALL:
        answer = standing(method, path, body, key=key_of(standing.rt, held))
        if held == scope:
            assert answer.status_code in {200, 201, 404}
        else:
            assert answer.status_code == 403
            assert answer.headers["www-authenticate"] == (
                f'Bearer error="insufficient_scope", scope="{scope}"'
            )
    others = tuple(held for held in ALL if held != scope)
    assert standing(method, path, body, key=key_of(standing.rt, *others)).status_code == 403


@pytest.mark.parametrize(("method", "path", "body", "scope"), ROUTES)
def test_a_scoped_route_asks_for_a_key(
    standing: Api, method: str, path: str, body: Any, scope: str
):
    answer = standing(method, path, body, key=None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="mail-service"'


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_an_open_route_needs_no_key(standing: Api, method: str, path: str):
    assert standing(method, path, key=None).status_code == 200


@pytest.mark.parametrize("path", ["/v1/emails", "/v1/stats", "/healthz", "/docs"])
def test_head_answers_like_get_without_a_body(standing: Api, path: str):
    head, get = standing("HEAD", path), standing("GET", path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_head_needs_the_scope_of_get(standing: Api):
    assert standing("HEAD", "/v1/emails", key=key_of(standing.rt, "send")).status_code == 403
    assert standing("HEAD", "/v1/emails", key=None).status_code == 401


def test_options_tells_the_methods_without_a_key(standing: Api):
    answer = standing("OPTIONS", "/v1/emails", key=None)
    assert answer.status_code in {200, 204}
    assert {part.strip() for part in answer.headers["allow"].split(",")} == {"GET", "HEAD", "POST"}
