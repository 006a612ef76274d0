"""Everything a sandbox is made of, put together and taken apart again."""

from dataclasses import dataclass
from pathlib import Path

from mail_service.sandbox.account import Account
from mail_service.sandbox.courier import Courier
from mail_service.sandbox.emitter import Emitter
from mail_service.sandbox.events import Identity
from mail_service.sandbox.knobs import KnobBoard, Knobs
from mail_service.sandbox.ledger import Ledger
from mail_service.sandbox.mails import Mails
from mail_service.sandbox.newsroom import Newsroom
from mail_service.sandbox.schedule import Schedule
from mail_service.sandbox.sender import Sender
from mail_service.sandbox.ses_api import SesApi
from mail_service.sandbox.ses_model import ses_model
from mail_service.sandbox.signing import Signer
from mail_service.sandbox.sns_api import SnsApi
from mail_service.sandbox.subscriber import Subscriber
from mail_service.sandbox.suppression import SuppressionList
from mail_service.sandbox.topics import Topics


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sandbox was asked to be."""

    topic_arn: str
    signer: Signer
    validate: bool
    log: Path | None
    delivery_log: Path | None
    seed: int
    mails: int


class Parts:
    """The parts of one sandbox, except for the server in front of them."""

    def __init__(self, plan: Plan, identity: Identity, url: str) -> None:
        self.signer = plan.signer
        self.knobs = KnobBoard(Knobs(seed=plan.seed))
        self.topics = Topics(self.knobs.now.signature_version)
        self.topics.ensure(plan.topic_arn)
        self.knobs.on_change(lambda knobs: self.topics.sign_with(knobs.signature_version))
        self.log = Ledger(plan.log)
        self.deliveries = Ledger(plan.delivery_log)
        self.mails = Mails(plan.mails)
        self.courier = Courier()
        self.schedule = Schedule()
        self.emitter = Emitter(
            url,
            plan.signer,
            self.topics,
            self.knobs,
            self.courier,
            self.schedule,
            self.deliveries,
        )
        self.newsroom = Newsroom(plan.topic_arn, identity, self.knobs, self.emitter, self.schedule)
        account = Account(self.knobs, plan.topic_arn)
        self.suppression = suppression = SuppressionList()
        sender = Sender(
            ses_model(),
            identity,
            self.knobs,
            account,
            suppression,
            self.mails,
            self.newsroom,
            self.log,
            validate=plan.validate,
        )
        self.ses = SesApi(
            ses_model(), self.knobs, account, suppression, sender, validate=plan.validate
        )
        self.subscriber = Subscriber(self.topics, self.emitter, self.schedule)
        self.sns = SnsApi(identity, self.topics, self.emitter, self.schedule)

    def close(self) -> None:
        """Drop what is not delivered, wait for what runs, close the logs."""
        self.subscriber.close()
        self.courier.close()
        self.schedule.close()
        self.log.close()
        self.deliveries.close()
