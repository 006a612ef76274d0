"""The composition root: settings become a runtime. The only importer of gateways."""

import random
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from mail_service.domain.catalogue import Catalogue
from mail_service.domain.outcomes import Outcome
from mail_service.errors import Impossible, SettingsError, Unavailable
from mail_service.gateways import template_files
from mail_service.gateways.certificate_files import CertificateFetcher
from mail_service.gateways.certificates import CertificateCache
from mail_service.gateways.ses import SesMailer, ses_client
from mail_service.gateways.ses_suppressions import SesSuppressionList
from mail_service.gateways.sns import SnsReader
from mail_service.gateways.sqs import SqsDeadLetters, sqs_dead_letters
from mail_service.gateways.subscriptions import SubscriptionConfirmer, sns_clients
from mail_service.ports import OutgoingEmail, SendingQuota
from mail_service.runtime import Runtime
from mail_service.settings import Process, Settings
from mail_service.store import schema
from mail_service.store.database import Transactions
from mail_service.store.line import Line
from mail_service.store.pool import Database

POOL_SIZES = {
    # Of 20 connections, one web with two gunicorn workers, two workers and a clock use 11:
    # a worker 1 here, 1 for its drain and 1 for its broker; a gunicorn worker 2; the clock 1.
    Process.WEB: 2,
    Process.WORKER: 1,
    Process.CLOCK: 1,
    Process.COMMAND: 1,
    Process.RELEASE: 1,
}


class _NoMailer:
    """Stands where no mail is ever sent from: only workers hold a client for SES."""

    def send(self, email: OutgoingEmail) -> Outcome:
        raise Impossible(f"only a worker calls SES; attempt {email.request_tag}")

    def quota(self) -> SendingQuota:
        raise Unavailable("only a worker asks SES for its quota")


def database(settings: Settings, process: Process) -> Database:
    """Give this process's pool, not yet opened."""
    return Database(
        settings.database_url.get_secret_value(),
        name=f"mail-service {process}",
        size=POOL_SIZES[process],
    )


def line(settings: Settings) -> Line:
    """Give the one connection of a worker's drain."""
    return Line(settings.database_url.get_secret_value(), name="mail-service drain")


def settings_for(environ: Mapping[str, str], process: Process) -> Settings:
    """Read the settings and look at the templates they name, so that every problem is told at once.

    Raises SettingsError.
    """
    problems: dict[str, str] = {}
    settings: Settings | None = None
    try:
        settings = Settings.from_env(environ, process)
    except SettingsError as bad:
        problems = dict(bad.problems)
    if "TEMPLATE_DIR" not in problems:
        named = environ.get("TEMPLATE_DIR")
        wanted = (
            environ.get("ACCOUNT_TEMPLATE") or Settings.model_fields["account_template"].default
        )
        try:
            known = templates(Path(named) if named else None).names()
        except SettingsError as bad:
            problems |= bad.problems
        else:
            if wanted not in known:
                problems["ACCOUNT_TEMPLATE"] = f"expected one of {', '.join(known)}"
    if problems or settings is None:
        raise SettingsError(problems)
    return settings


def refuse_to_forget(settings: Settings) -> None:
    """Raise SettingsError where the database may forget commits. One that is away passes."""
    problem = schema.durability_problem(settings.database_url.get_secret_value())
    if problem is not None:
        raise SettingsError({"DATABASE_URL": problem})


def templates(directory: Path | None) -> Catalogue:
    """Give the templates of a directory, or the bundled ones. Raises SettingsError."""
    return Catalogue(template_files.read_directory(directory or template_files.BUNDLED))


def runtime(settings: Settings, process: Process, db: Transactions) -> Runtime:
    """Build what a process's workflows may reach for. No connection is made.

    Raises SettingsError when the templates are not usable.
    """
    mailer = _mailer(settings, process)
    return Runtime(
        settings=settings,
        db=db,
        address_key=settings.address_key_bytes,
        templates=templates(settings.template_dir),
        mailer=mailer,
        read_quota=mailer.quota,
        ses_list=SesSuppressionList(
            lambda: ses_client(
                settings.aws_region or None,
                settings.ses_endpoint_url,
                settings.ses_connect_timeout,
                settings.ses_read_timeout,
                1,
            )
        ),
        read_envelope=SnsReader(
            topic_arns=frozenset(settings.sns_topic_arns),
            signature_versions=frozenset(settings.sns_signature_versions),
            certificates=CertificateCache(CertificateFetcher()),
            max_bytes=settings.webhook_max_bytes,
            # A certificate's dates are about the world's time, which the database is not asked for
            # before a request is known to be genuine.
            clock=lambda: datetime.now(UTC),
            certificate_origins=settings.sns_cert_origins,
        ),
        confirm_subscription=SubscriptionConfirmer(
            sns_clients(endpoint_url=settings.sns_endpoint_url)
        ),
        new_id=uuid.uuid4,
        jitter=lambda: 1.0 - random.random(),  # noqa: S311 - spreads retries, guards nothing
    )


def dead_letters(settings: Settings, queue_url: str) -> SqsDeadLetters:
    """Give the letters of a dead-letter queue. Raises InvalidFields for what is no queue's URL."""
    return sqs_dead_letters(
        queue_url,
        region=settings.aws_region,
        allow_http=settings.app_env != "production",
    )


def _mailer(settings: Settings, process: Process) -> SesMailer | _NoMailer:
    if process is not Process.WORKER:
        return _NoMailer()
    return SesMailer(
        ses_client(
            settings.aws_region,
            settings.ses_endpoint_url,
            settings.ses_connect_timeout,
            settings.ses_read_timeout,
            settings.send_concurrency,
        ),
        settings.ses_configuration_set,
    )
