"""SendEmail: decides what becomes of each call and of the mail it carries."""

import threading
import time
from collections.abc import Callable

from mail_service.sandbox.account import Account
from mail_service.sandbox.calls import Call, glimpse
from mail_service.sandbox.connection import Connection, Request
from mail_service.sandbox.drafts import read_draft
from mail_service.sandbox.events import Event, Identity
from mail_service.sandbox.ids import new_ses_id
from mail_service.sandbox.knobs import KnobBoard, Knobs
from mail_service.sandbox.ledger import Ledger
from mail_service.sandbox.mails import Draft, Mail, Mails
from mail_service.sandbox.newsroom import Newsroom
from mail_service.sandbox.ses_errors import SesError, bad_request
from mail_service.sandbox.ses_model import Operation, SesModel, json_payload
from mail_service.sandbox.simulator import (
    BEHAVIOURS,
    PAUSED,
    SUCCESS,
    Behaviour,
    behaviour_of,
    is_simulated,
)
from mail_service.sandbox.stories import story
from mail_service.sandbox.suppression import Suppressed, SuppressionList

_CALLER = "sandbox"


class Sender:
    """Plays SES's side of SendEmail."""

    def __init__(
        self,
        model: SesModel,
        identity: Identity,
        knobs: KnobBoard,
        account: Account,
        suppression: SuppressionList,
        mails: Mails,
        newsroom: Newsroom,
        log: Ledger,
        *,
        validate: bool,
    ) -> None:
        self._model = model
        self._identity = identity
        self._knobs = knobs
        self._account = account
        self._suppression = suppression
        self._mails = mails
        self._newsroom = newsroom
        self._log = log
        self._validate = validate
        self._lock = threading.Lock()
        self._met: set[str] = set()

    def send(
        self, operation: Operation, request: Request, connection: Connection, request_id: str
    ) -> None:
        """Handle one SendEmail call to its end, whatever end its behaviour has."""
        knobs = self._knobs.now
        call = Call(request_id, connection, self._log)
        try:
            draft = self._read(operation, request, call)
            call.tags, call.recipients = draft.tags, draft.recipients
            behaviour = self._decide(draft, knobs)
        except SesError as error:
            call.refuse(error, knobs.answer_delay_seconds)
            return
        call.behaviour = behaviour.name
        if behaviour.accepted:
            self._accept(call, behaviour, draft, request, knobs)
        elif behaviour.answer == "never":
            call.hang()
        elif behaviour.answer == "reset":
            call.reset()
        else:
            call.refuse(self._error(behaviour, draft), knobs.answer_delay_seconds)

    def _read(self, operation: Operation, request: Request, call: Call) -> Draft:
        try:
            payload = json_payload(request.body)
            call.tags, call.recipients = glimpse(payload)
        finally:
            call.note("arrived")
        params = self._model.read(operation, {}, request.query, payload)
        if self._validate:
            self._model.check(operation, params)
            return read_draft(params, size=len(request.body))
        try:
            return read_draft(params, size=len(request.body))
        except (AttributeError, KeyError, TypeError) as error:
            raise bad_request(f"The request does not fit the model: {error!r}") from error

    def _decide(self, draft: Draft, knobs: Knobs) -> Behaviour:
        if knobs.sending_paused:
            return PAUSED
        if draft.configuration_set is not None:
            self._account.check_configuration_set(draft.configuration_set)
        behaviour = self._behaviour(draft, knobs)
        if behaviour.accepted and (refusal := self._account.spend(draft.recipients)):
            return refusal
        return behaviour

    def _behaviour(self, draft: Draft, knobs: Knobs) -> Behaviour:
        """The first behaviour that decides the call, else that of the first recipient."""
        found: list[Behaviour] = []
        forced = knobs.outcome_for(draft.source_address)
        for address in draft.recipients:
            wanted = BEHAVIOURS[forced] if forced else behaviour_of(address)
            if wanted.only_first_call and not self._first_call(address):
                wanted = SUCCESS
            if wanted.decides_the_call:
                return wanted
            found.append(wanted)
        return found[0]

    def _first_call(self, address: str) -> bool:
        with self._lock:
            first = address not in self._met
            self._met.add(address)
            return first

    def _error(self, behaviour: Behaviour, draft: Draft) -> SesError:
        region, sender = self._identity.region.upper(), draft.source_address
        text = behaviour.message.format(region=region, sender=sender)
        return SesError(behaviour.status, behaviour.code, text)

    def _accept(
        self, call: Call, behaviour: Behaviour, draft: Draft, request: Request, knobs: Knobs
    ) -> None:
        accepted_at = time.time()
        message_id = call.message_id = new_ses_id(accepted_at)
        call.note("accepted")
        mail = Mail(
            message_id=message_id,
            request_id=call.request_id,
            accepted_at=accepted_at,
            behaviour=behaviour.name,
            caller=_CALLER,
            source_ip=request.client,
            draft=draft,
            request=request.body,
        )
        self._mails.add(mail)
        start_telling = self._tell(mail, behaviour, knobs)
        delay = knobs.slow_seconds if behaviour.answer == "slow" else knobs.answer_delay_seconds
        if delay or behaviour.answer in {"never", "reset"}:
            start_telling()
            self._answer(call, behaviour, delay)
            return
        # An answer that is given at once is written before the events start, as with SES.
        try:
            self._answer(call, behaviour, delay)
        finally:
            start_telling()

    def _answer(self, call: Call, behaviour: Behaviour, delay: float) -> None:
        match behaviour.answer:
            case "never":
                call.hang()
            case "reset":
                call.reset()
            case "error":
                error = SesError(behaviour.status, behaviour.code, behaviour.message)
                call.answer_error(error, delay)
            case "garbage":
                call.answer({}, delay)
            case "ordinary" | "slow":
                call.answer({"MessageId": call.message_id}, delay)

    def _tell(self, mail: Mail, behaviour: Behaviour, knobs: Knobs) -> Callable[[], None]:
        recipients = mail.draft.recipients
        suppressed = self._suppression.matching(recipients)
        forced = knobs.outcome_for(mail.draft.source_address)
        events = story(recipients, mail.accepted_at, suppressed, forced)
        for event in events:
            self._suppress(event, mail, suppressed)
        return self._newsroom.story_of(mail, events, first_now=behaviour.send_event_first)

    def _suppress(self, event: Event, mail: Mail, suppressed: dict[str, str]) -> None:
        """List whom a hard bounce or a complaint is about; the simulator's are never listed."""
        permanent = event.details.get("bounceType") == "Permanent"
        if not (permanent or event.kind == "Complaint"):
            return
        reason = "BOUNCE" if permanent else "COMPLAINT"
        for address in event.recipients:
            if address not in suppressed and not is_simulated(address):
                feedback: str = event.details["feedbackId"]
                entry = Suppressed(address, reason, mail.accepted_at, mail.message_id, feedback)
                self._suppression.put(entry)
