"""Accounts: a sign-up and its email in one request, written together or not at all."""

from collections.abc import Callable

from falcon import Request, Response
from pydantic import TypeAdapter

from api import bodies, keyed, presenting
from api.authentication import actor_of
from api.models import NewAccount
from api.paths import identifier
from api.routes import Operation, Said, answer, answer_text
from mail_service.runtime import Runtime
from mail_service.workflows import erase, idempotency, observe, registration
from mail_service.workflows.erase import Erased
from mail_service.workflows.idempotency import Answer
from mail_service.workflows.registration import AccountRequest, Opened

_ROUTE = "POST /v1/accounts"
_ERASED = TypeAdapter(Erased)

OPEN = Operation(
    summary="Open an account",
    about="Writes the account and the email that every new account gets, in one transaction.",
    group="Accounts",
    body=NewAccount,
    headers=keyed.HEADERS,
    answers={201: Said(meaning="The account and its email", content=presenting.AccountOpened)},
    errors={409: "The address has an account, or a twin of this request is being worked on"},
)
SHOW = Operation(
    summary="Look at an account",
    group="Accounts",
    answers={200: Said(meaning="The account", content=presenting.Account)},
)
ERASE = Operation(
    summary="Forget the person of an account",
    about="Address and name go from the account, from all mail to the address and from what events and "
    "notes say of it; pending mail is cancelled, suppressions stand. Not waited for: the emails `in_call`. "
    "Ask again once they have ended. Those `ambiguous` are to be accepted or abandoned.",
    group="Accounts",
    answers={200: Said(meaning="What was done", content=_ERASED)},
)


class Accounts:
    """``/v1/accounts`` and what lies under it."""

    def __init__(self, rt: Runtime, nudge: Callable[[], None]) -> None:
        self._rt = rt
        self._nudge = nudge

    def open(self, req: Request, resp: Response) -> None:
        """Write an account and its email, once per Idempotency-Key."""
        raw = bodies.read(req)
        key = keyed.key_of(req, _ROUTE, raw)
        body = bodies.parse(NewAccount, raw)
        write = registration.open_account(
            self._rt,
            AccountRequest(email=body.email, name=body.name, data=body.data or {}),
            actor=actor_of(req),
        )
        given = idempotency.answer(self._rt, key, write, _present)
        keyed.give(resp, given, self._nudge)

    def show(self, req: Request, resp: Response, account_id: str) -> None:
        """Give one account."""
        account = observe.account(self._rt, identifier(account_id, "account"))
        answer(resp, 200, presenting.account(account))

    def erase(self, req: Request, resp: Response, account_id: str) -> None:
        """Forget the person of an account; says what was done."""
        done = erase.account(self._rt, identifier(account_id, "account"), by=actor_of(req))
        answer_text(resp, 200, _ERASED.dump_json(done).decode())


def _present(opened: Opened) -> Answer:
    content = presenting.AccountOpened(
        account=presenting.account(opened.account), email=presenting.email(opened.email)
    )
    return Answer(status=201, text=content.model_dump_json(), due=True)
