"""Who asks, and whether they may: a Bearer key becomes a Caller with scopes."""

import hashlib
import re
import time
from collections.abc import Sequence

import falcon
from falcon import Request, Response

from api.routes import Route, Scopes, scopes
from mail_service.runtime import Runtime
from mail_service.workflows import operate
from mail_service.workflows.operate import KEY_GOOD_FOR_SECONDS, Caller

_CALLER = "mail_service.caller"
_BEARER = re.compile(r"bearer +([A-Za-z0-9_-]{1,200})", re.IGNORECASE | re.ASCII)
_KEYS_IN_ADDRESSES = frozenset(
    {"access_token", "api_key", "apikey", "authorization", "key", "token"}
)


class Authentication:
    """Falcon middleware: no responder of a scoped route runs without a caller who has the scope."""

    def __init__(self, rt: Runtime, routes: Sequence[Route]) -> None:
        self._rt = rt
        self._scopes: Scopes = scopes(routes)
        self._known: dict[bytes, tuple[float, Caller]] = {}

    def process_resource(
        self, req: Request, resp: Response, resource: object, params: dict[str, str]
    ) -> None:
        """Find out who asks. Raises 401 or 403; routes without a scope are open."""
        scope = self._scopes.get((req.method, req.uri_template or ""))
        if scope is None:
            return
        caller = self._identify(req)
        if scope not in caller.scopes:
            raise falcon.HTTPForbidden(
                description=f"this route needs a key with the scope {scope}",
                headers={"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
            )
        req.env[_CALLER] = caller

    def _identify(self, req: Request) -> Caller:
        if _KEYS_IN_ADDRESSES & {name.lower() for name in req.params}:
            # Addresses end up in logs and histories, so such a key is as good as published.
            raise _unauthorized("keys belong in the header Authorization, never in an address")
        header = req.get_header("Authorization")
        if header is None:
            raise _unauthorized("send a header Authorization: Bearer <key>")
        # A header sent twice comes joined by a comma, which no key holds.
        presented = _BEARER.fullmatch(header)
        caller = self._opened_by(presented[1]) if presented is not None else None
        if caller is None:
            raise _unauthorized("this key opens nothing", ' error="invalid_token"')
        return caller

    def _opened_by(self, presented: str) -> Caller | None:
        """Give who a key belongs to; one that was good a moment ago is not looked up again.

        Under load the look-up costs more than everything else about a request that is not its own work.
        What is remembered is a hash, and never that a key opens nothing.
        """
        name = hashlib.sha256(presented.encode()).digest()
        known = self._known.get(name)
        now = time.monotonic()
        if known is not None and now < known[0]:
            return known[1]
        caller = operate.authenticate(self._rt.db, presented)
        if caller is None:
            self._known.pop(name, None)
        else:
            self._known[name] = (now + KEY_GOOD_FOR_SECONDS, caller)
        return caller


def _unauthorized(detail: str, error: str = ' realm="mail-service"') -> falcon.HTTPUnauthorized:
    return falcon.HTTPUnauthorized(
        description=detail, headers={"WWW-Authenticate": f"Bearer{error}"}
    )


def caller_of(req: Request) -> Caller:
    """Give who asks; only for routes with a scope."""
    caller: object = req.env[_CALLER]
    if not isinstance(caller, Caller):
        raise TypeError("the caller is set by the middleware alone")
    return caller


def actor_of(req: Request) -> str:
    """Give the name under which the caller's acts are recorded: the key's id, which names no person."""
    return f"key:{caller_of(req).key_id}"
