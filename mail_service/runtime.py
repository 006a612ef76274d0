"""What a workflow may reach for, in one frozen bundle. Domain and store never see it."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from mail_service.domain.catalogue import Catalogue
from mail_service.ports import ConfirmSubscription, Mailer, ReadEnvelope, ReadQuota, SesList
from mail_service.settings import Settings
from mail_service.store.database import Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One process's share of the outside. ``jitter`` gives random numbers in (0, 1]."""

    settings: Settings
    db: Transactions
    address_key: bytes
    templates: Catalogue
    mailer: Mailer
    read_quota: ReadQuota
    ses_list: SesList
    read_envelope: ReadEnvelope
    confirm_subscription: ConfirmSubscription
    new_id: Callable[[], UUID]
    jitter: Callable[[], float]
