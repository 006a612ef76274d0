"""Emails: submit one, look at one, page through many."""

import json
from collections.abc import Callable, Sequence

from falcon import Request, Response

from api import bodies, errors, keyed, presenting
from api.authentication import actor_of
from api.models import EmailQuery, NewEmail, NewEmails
from api.paths import identifier
from api.routes import Operation, Said, answer
from mail_service.errors import InvalidFields, RequestRefused
from mail_service.runtime import Runtime
from mail_service.store.narrowing import Filter
from mail_service.workflows import idempotency, observe, submit
from mail_service.workflows.idempotency import Answer
from mail_service.workflows.intake import Submitted
from mail_service.workflows.submit import EmailRequest

_BATCH = "POST /v1/emails/batch"

SUBMIT = Operation(
    summary="Submit an email",
    about="The `dedup_key` is the idempotency key: one key, one email, whatever happens in between.",
    group="Emails",
    body=NewEmail,
    answers={
        201: Said(meaning="The new email", content=presenting.Email),
        200: Said(meaning="The key stands for this very email already", content=presenting.Email),
    },
    errors={409: "The key stands for an email with another content or recipient"},
)
BATCH = Operation(
    summary="Submit up to 500 emails",
    about="In one transaction, as if they came one by one: a `dedup_key` that repeats in the batch is "
    "met like one that stood before. A refused one is answered in its place and keeps back no other.",
    group="Emails",
    body=NewEmails,
    headers=keyed.HEADERS,
    answers={200: Said(meaning="What became of each, in order", content=presenting.Batch)},
    errors={409: "A twin of this request is being worked on"},
)
SHOW = Operation(
    summary="Look at an email",
    about="With its recipients, calls to SES, events and decisions.",
    group="Emails",
    answers={200: Said(meaning="The email", content=presenting.Email)},
)
PAGE = Operation(
    summary="Page through emails",
    group="Emails",
    query=EmailQuery,
    answers={200: Said(meaning="Emails, newest first", content=presenting.EmailPage)},
)


class Emails:
    """``/v1/emails`` and what lies under it."""

    def __init__(self, rt: Runtime, nudge: Callable[[], None]) -> None:
        self._rt = rt
        self._nudge = nudge

    def submit(self, req: Request, resp: Response) -> None:
        """Write one email, or give the one that stands under its key."""
        asked = _asked(bodies.parse(NewEmail, bodies.read(req)))
        write = submit.submit_email(self._rt, asked, actor=actor_of(req))
        submitted = self._rt.db.transact(write, found=write.found)
        if submitted.created:
            self._nudge()
        answer(resp, 201 if submitted.created else 200, presenting.email(submitted.email))

    def submit_batch(self, req: Request, resp: Response) -> None:
        """Write emails in one transaction, and say what each came to."""
        raw = bodies.read(req)
        key = keyed.key_of(req, _BATCH, raw)
        items: Sequence[object] = bodies.parse(NewEmails, raw, unread="emails").emails
        asked = [_read(item) for item in items]
        write = submit.submit_emails(self._rt, asked, actor=actor_of(req))
        keyed.give(resp, idempotency.answer(self._rt, key, write, _present), self._nudge)

    def show(self, req: Request, resp: Response, email_id: str) -> None:
        """Give one email with everything that happened to it."""
        view = observe.email(self._rt, identifier(email_id, "email"))
        answer(resp, 200, presenting.email(view))

    def page(self, req: Request, resp: Response) -> None:
        """Give emails newest first, narrowed by the query."""
        asked = bodies.query(EmailQuery, req)
        found = observe.list_emails(
            self._rt,
            Filter(
                state=asked.state,
                template=asked.template,
                address_hash=(
                    observe.address_hash(self._rt, "recipient", asked.recipient)
                    if asked.recipient is not None
                    else None
                ),
                provider_message_id=asked.provider_message_id,
                created_after=asked.created_after,
                created_before=asked.created_before,
            ),
            after=asked.after,
            limit=asked.limit,
        )
        items = [presenting.email(view) for view in found.items]
        answer(resp, 200, presenting.EmailPage(items=items, next=found.next))


def _asked(body: NewEmail) -> EmailRequest:
    return EmailRequest(
        dedup_key=body.dedup_key,
        template=body.template,
        to=body.to or (),
        account_id=body.account_id,
        cc=body.cc or (),
        bcc=body.bcc or (),
        data=body.data or {},
        reply_to=body.reply_to or (),
        headers=body.headers or {},
        sender=body.from_,
        on_ambiguous=body.on_ambiguous,
        send_at=body.send_at,
        not_after=body.not_after,
        priority=submit.DEFAULT_PRIORITY if body.priority is None else body.priority,
    )


def _read(item: object) -> EmailRequest | InvalidFields:
    try:
        return _asked(bodies.check(NewEmail, item))
    except InvalidFields as refused:
        return refused


def _present(results: Sequence[Submitted | RequestRefused]) -> Answer:
    items = [_item(result) for result in results]
    due = any(isinstance(result, Submitted) and result.created for result in results)
    # ASCII, as in errors.write.
    return Answer(status=200, text=json.dumps({"items": items}), due=due)


def _item(result: Submitted | RequestRefused) -> dict[str, object]:
    if isinstance(result, RequestRefused):
        problem = errors.problem_of(result)
        return {"status": problem.status, "error": errors.content(problem)}
    shown = presenting.email(result.email).model_dump(mode="json")
    return {"status": 201 if result.created else 200, "email": shown}
