"""Limits and strictness: what a body may be, and how each thing it may not be is named."""

import io
import json
from typing import Any

import pytest

from tests.api.conftest import ACCOUNT, EMAIL, Api

MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "a JSON object is needed"),
        (b"   ", "a JSON object is needed"),
        (b"{", "not JSON"),
        (b'{"email": "a@example.com",}', "not JSON"),
        (b'{"email": "a@example.com", "email": "b@example.com"}', "a name stands twice"),
        (b'{"email": "a@example.com", "data": {"x": 1, "x": 2}}', "a name stands twice"),
        (b'{"email": "a@example.com", "data": {"x": NaN}}', "NaN"),
        (b'{"email": "a@example.com", "data": {"x": -Infinity}}', "Infinity"),
        (b'{"email": "a@example.com", "data": {"x": 1e999}}', "too large"),
        (b'{"email": "a@example.com", "data": {"x": ' + b"9" * 100 + b"}}", "too long"),
        (b'{"data": ' + b"[" * 100_000, "nested deeper"),
        (b'{"data": ' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}", "nested deeper"),
        (b'{"email": "\xff\xfe"}', "not UTF-8"),
        ('{"email": "a@example.com"}'.encode("utf-16"), "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"email=a@example.com", "not JSON"),
    ],
)
def test_what_is_no_strict_json_is_malformed(standing: Api, body: bytes, says: str):
    answer = standing.post("/v1/accounts", body)
    assert answer.status_code == 400
    assert says in answer.json["detail"]
    assert "example.com" not in answer.text


@pytest.mark.parametrize("body", [[], [ACCOUNT], "text", 1, None, True])
def test_json_that_is_no_object_is_named_as_such(standing: Api, body: Any):
    answer = standing.post("/v1/accounts", json.dumps(body).encode())
    assert answer.status_code == 422
    assert answer.json["errors"] == {"body": "expected a JSON object"}


@pytest.mark.parametrize(
    "path", ["/v1/accounts", "/v1/emails", "/v1/emails/batch", "/v1/suppressions"]
)
def test_a_body_over_a_mebibyte_is_too_large(standing: Api, path: str):
    assert standing.post(path, b" " * (MEBIBYTE + 1)).status_code == 413
    assert standing.post(path, b" " * MEBIBYTE).status_code == 400


def test_an_announced_length_over_the_limit_is_refused_without_reading(standing: Api):
    class Unread(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise AssertionError("the body was read")

    answer = standing.client.simulate_post(
        "/v1/accounts",
        headers={"Authorization": f"Bearer {standing.key}", "Content-Length": str(10**12)},
        extras={"wsgi.input": Unread()},
    )
    assert answer.status_code == 413


class Chunked(io.RawIOBase):
    """A body without an announced length, as a server hands it over that marks its end."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.given = 0

    def read(self, size: int = -1) -> bytes:
        piece = min(size, self.left, 1000)
        self.left -= piece
        self.given += piece
        return b" " * piece


def test_a_body_without_a_length_is_read_to_its_end_but_not_beyond_the_limit(standing: Api):
    headers = {"Authorization": f"Bearer {standing.key}"}
    small, endless = Chunked(5000), Chunked(10**12)
    for body, status in [(small, 400), (endless, 413)]:
        answer = standing.client.simulate_post(
            "/v1/accounts",
            headers=headers,
            extras={"wsgi.input": body, "wsgi.input_terminated": True},
        )
        assert answer.status_code == status
    assert small.given == 5000
    assert MEBIBYTE < endless.given <= 18 * MEBIBYTE


@pytest.mark.parametrize(
    ("fault", "status"), [(BlockingIOError, 408), (TimeoutError, 408), (ConnectionError, 400)]
)
def test_a_body_that_stalls_or_breaks_off_is_the_clients_fault(standing: Api, fault, status: int):
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise fault

    answer = standing.client.simulate_post(
        "/v1/accounts",
        headers={"Authorization": f"Bearer {standing.key}", "Content-Length": "10"},
        extras={"wsgi.input": Broken()},
    )
    assert answer.status_code == status


def test_half_a_body_writes_nothing(standing: Api):
    before = standing.count("accounts")
    body = json.dumps(ACCOUNT).encode()
    answer = standing.client.simulate_post(
        "/v1/accounts",
        body=body,
        headers={"Authorization": f"Bearer {standing.key}", "Content-Length": str(len(body) + 1)},
    )
    assert answer.status_code == 400
    assert standing.count("accounts") == before


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "text/plain", "application/x-www-form-urlencoded", "\xff", ""],
)
def test_the_content_type_changes_nothing(api: Api, content_type: str):
    answer = api.post("/v1/accounts", ACCOUNT, headers={"Content-Type": content_type})
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "field", ["Cc", "attachments", "state",
              "epoch", "id", "from_", "FROM"],
)  # fmt: skip
def test_an_unknown_field_is_named_and_never_ignored(standing: Api, field: str):
    before = standing.count("email_outbox")
    answer = standing.post("/v1/emails", EMAIL | {field: None})
    assert answer.status_code == 422
    assert answer.json["errors"] == {field: "is not a known field"}
    assert standing.count("email_outbox") == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"dedup_key": None}, {"dedup_key"}),
        ({"dedup_key": 1}, {"dedup_key"}),
        ({"dedup_key": ""}, {"dedup_key"}),
        ({"dedup_key": "for ada@example.com"}, {"dedup_key"}),
        ({"template": "no-such-v1"}, {"template"}),
        ({"template": ["welcome-v1"]}, {"template"}),
        ({"to": "ada@example.com"}, {"to"}),
        ({"to": []}, {"to"}),
        ({"to": None}, {"to"}),
        ({"to": [1]}, {"to.0"}),
        ({"to": ["ada@example.com", "nobody"]}, {"to.1"}),
        ({"to": ["ada@example.com"] * 51}, {"to"}),
        ({"to": ["\N{LATIN SMALL LETTER A WITH DIAERESIS}@example.com"]}, {"to.0"}),
        ({"cc": "ada@example.com"}, {"cc"}),
        ({"cc": [1]}, {"cc.0"}),
        ({"bcc": ["ada@example.com", "nobody"]}, {"bcc.1"}),
        ({"headers": []}, {"headers"}),
        ({"headers": {"X-A": 1}}, {"headers.X-A"}),
        ({"headers": {"X-A": None}}, {"headers.X-A"}),
        ({"headers": {"X-A": "a\r\nBcc: eve@example.com"}}, {"headers.X-A"}),
        ({"headers": {"to": "eve@elsewhere.example"}}, {"headers.to"}),
        ({"account_id": NotImplemented}, {"account_id"}),
        ({"data": []}, {"data"}),
        ({"data": {"name": 1}}, {"data.name"}),
        ({"reply_to": 1}, {"reply_to"}),
        ({"reply_to": "nobody"}, {"reply_to.0"}),
        ({"reply_to": ["nobody"]}, {"reply_to.0"}),
        ({"from": "ada@elsewhere.example"}, {"from"}),
        ({"from": "Ada\r\nBcc: eve@example.com <ada@example.com>"}, {"from"}),
        ({"from": "=?utf-8?b?DQo=?= <ada@example.com>"}, {"from"}),
        ({"from": "=?none?q?a?= <ada@example.com>"}, {"from"}),
        ({"on_ambiguous": "guess"}, {"on_ambiguous"}),
    ],
)
def test_an_unusable_field_is_named(standing: Api, change: dict[str, Any], named: set[str]):
    change = {k: "no-uuid" if v is NotImplemented else v for k, v in change.items()}
    answer = standing.post("/v1/emails", EMAIL | change)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == named
    assert all(
        "elsewhere" not in text and "Bcc" not in text for text in answer.json["errors"].values()
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": {"a": {"b": ["x", "\0"]}}}, "data.a.b.1"),
        ({"data": {"a\0": 1}}, "data.*"),
        ({"name": "\ud800"}, "name"),
        ({"email": "ada\0@example.com"}, "email"),
        ({"\udfff": 1}, "*"),
    ],
)
def test_text_that_no_database_stores_is_named(standing: Api, change: dict[str, Any], named: str):
    answer = standing.post("/v1/accounts", ACCOUNT | change)
    assert answer.status_code == 422
    assert named in answer.json["errors"]


def test_very_many_unknown_fields_give_a_bounded_answer(standing: Api):
    answer = standing.post("/v1/accounts", ACCOUNT | {f"field{n}": 1 for n in range(1000)})
    assert answer.status_code == 422
    assert len(answer.json["errors"]) == 50


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1.5", "limit"),
        ("limit=-1", "limit"),
        ("limit=", "limit"),
        ("limit=5&limit=6", "limit"),
        ("after=nonsense", "after"),
        ("after=MQ==", "after"),
        ("state=sent", "state"),
        ("created_after=yesterday", "created_after"),
        ("created_before=1700000000", "created_before"),
        ("recipient=nobody", "recipient"),
        ("template=%00", "template"),
        ("offset=3", "offset"),
        ("State=pending", "State"),
    ],
)
def test_an_unusable_query_parameter_is_named(standing: Api, query: str, named: str):
    answer = standing.get("/v1/emails", query_string=query)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {named}


@pytest.mark.parametrize("path", ["/v1/suppressions", "/v1/events"])
def test_every_list_names_unknown_query_parameters(standing: Api, path: str):
    answer = standing.get(path, query_string="colour=red")
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {"colour"}
