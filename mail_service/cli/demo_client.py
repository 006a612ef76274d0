"""The demo's own caller of the API: the same requests that anybody would make."""

import json
from typing import Any, cast
from urllib.parse import urlencode

import urllib3

from mail_service.errors import MailServiceError

Json = dict[str, Any]


class ApiRefused(MailServiceError):
    """The API answered something that the demo does not expect."""


class DemoClient:
    """Calls the API at ``url`` with a key."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(
            headers={"Authorization": f"Bearer {key}"}, retries=False, timeout=5
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def ready(self) -> bool:
        """Tell whether the web process answers, and its database too."""
        try:
            return self._pool.request("GET", f"{self.url}/readyz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def open_account(self, email: str, name: str) -> Json:
        """Sign up; gives the account's email."""
        answer = self._call("POST", "/v1/accounts", {"email": email, "name": name})
        return cast("Json", answer["email"])

    def suppress(self, address: str, note: str) -> None:
        """Stop mail to an address."""
        self._call("POST", "/v1/suppressions", {"address": address, "note": note})

    def suppressed(self, address: str) -> str | None:
        """Give the reason why an address gets no mail; None when it does."""
        query = urlencode({"address": address, "active": "true"})
        items = self._call("GET", f"/v1/suppressions?{query}")["items"]
        return str(items[0]["reason"]) if items else None

    def emails(self) -> list[Json]:
        """Give the newest emails, oldest of them first."""
        items = self._call("GET", "/v1/emails?limit=20")["items"]
        return list(reversed(cast("list[Json]", items)))

    def _call(self, method: str, path: str, body: Json | None = None) -> Json:
        try:
            answer = self._pool.request(method, f"{self.url}{path}", json=body)
        except urllib3.exceptions.HTTPError as fault:
            raise ApiRefused(f"{method} {path} got no answer: {type(fault).__name__}") from fault
        if answer.status not in (200, 201):
            said = answer.data.decode(errors="replace")[:500]
            raise ApiRefused(f"{method} {path} was answered with {answer.status}: {said}")
        return cast("Json", json.loads(answer.data))
