"""The environment, checked once: every bad key at once, by name, with what is expected.

``interface.md`` section 3 is the contract. The environment comes as a mapping from the process
entries; nothing here reads it. Secrets are ``SecretStr``, so they show in no repr, error or log.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from mail_service.domain.address import AddressInvalid, format_sender, normalise, split_sender
from mail_service.errors import SettingsError


class Process(StrEnum):
    """Who reads the settings; each needs its own share of them."""

    RELEASE = "release"
    WEB = "web"
    WORKER = "worker"
    CLOCK = "clock"
    COMMAND = "command"


_NEEDED: Mapping[Process, tuple[str, ...]] = {
    Process.RELEASE: ("DATABASE_URL",),
    Process.WEB: (
        "DATABASE_URL",
        "AWS_REGION",
        "MAIL_FROM",
        "SNS_TOPIC_ARNS",
        "ADDRESS_KEY",
        "CONSOLE_SECRET",
    ),
    Process.WORKER: ("DATABASE_URL", "AWS_REGION", "MAIL_FROM", "SNS_TOPIC_ARNS", "ADDRESS_KEY"),
    Process.CLOCK: ("DATABASE_URL", "ADDRESS_KEY"),
    Process.COMMAND: ("DATABASE_URL",),
}


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _region(environ: Mapping[str, str]) -> str | None:
    # boto3 reads AWS_DEFAULT_REGION; AWS_REGION is what every other SDK and the docs say.
    return environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")


Listed = Annotated[tuple[str, ...], BeforeValidator(_split)]
# Ten years at most: more than that PostgreSQL's intervals and our arithmetic need not stand.
Seconds = Annotated[float, Field(gt=0, le=315_360_000, allow_inf_nan=False)]
Days = Annotated[int, Field(ge=1)]
Secret32 = Annotated[SecretStr, Field(min_length=32)]


class Settings(BaseModel):
    """What the processes need to know. Field names are the environment's, in lower case."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    database_url: SecretStr = Field(SecretStr(""), description="a libpq URI, postgres://…")
    database_follower_url: SecretStr | None = Field(None, description="a libpq URI, postgres://…")
    app_env: Literal["production", "development", "test"] = Field(
        "production", description="production, development or test"
    )
    port: int = Field(8000, ge=1, le=65535, description="a TCP port")
    aws_region: str = Field("", pattern=r"^([a-z0-9-]+)?$", description="a region: eu-west-1")
    mail_from: str = Field("", description="the default sender: Name <a@b> or a@b")
    allowed_senders: Listed = Field((), description="addresses and domains, comma-separated")
    ses_configuration_set: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_-]{1,64}$", description="letters, digits, _ and -, at most 64"
    )
    ses_endpoint_url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="an https:// URL (http:// outside production)"
    )
    ses_connect_timeout: Seconds = Field(3, description="seconds, more than 0")
    ses_read_timeout: Seconds = Field(10, description="seconds, more than 0")
    lease_seconds: Seconds = Field(60, description="seconds, more than 0")
    send_concurrency: int = Field(16, ge=1, le=256, description="a whole number from 1 to 256")
    send_rate: Literal["auto"] | Annotated[float, Field(gt=0)] = Field(
        "auto", description="auto, or recipients per second"
    )
    max_attempts: int = Field(8, ge=1, description="a whole number from 1")
    max_age_seconds: Seconds = Field(259200, description="seconds, more than 0")
    max_policy_resends: int = Field(1, ge=0, description="a whole number from 0")
    retry_base_seconds: Seconds = Field(30, description="seconds, more than 0")
    retry_cap_seconds: Seconds = Field(3600, description="seconds, more than 0")
    reconcile_after_seconds: Seconds = Field(900, description="seconds, more than 0")
    sweep_seconds: Seconds = Field(5, description="seconds, more than 0")
    sns_topic_arns: Listed = Field((), description="topic ARNs, comma-separated: arn:aws:sns:…")
    sns_signature_versions: Listed = Field(("2",), description="2, or 1,2")
    sns_endpoint_url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="a URL, for sandbox and tests"
    )
    sns_cert_origins: Listed = Field((), description="origins: http://127.0.0.1:4579")
    sns_auto_confirm: bool = Field(True, description="true or false")
    account_template: str = Field("welcome-v1", description="a template's name: welcome-v1")
    template_dir: Path | None = Field(None, description="a directory of templates")
    address_key: Secret32 | None = Field(None, description="a secret of at least 32 characters")
    console_secret: Secret32 | None = Field(None, description="a secret of at least 32 characters")
    metrics_token: SecretStr | None = Field(None, description="a secret")
    web_concurrency: int = Field(2, ge=1, le=64, description="a whole number from 1 to 64")
    retain_content_days: Days = Field(30, description="whole days, from 1")
    retain_address_days: Days = Field(180, description="whole days, from 1")
    retain_event_days: Days = Field(30, description="whole days, from 1")
    retain_unmatched_days: Days = Field(14, description="whole days, from 1")
    webhook_max_bytes: int = Field(1572864, ge=1024, description="bytes, from 1024")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="DEBUG, INFO, WARNING or ERROR"
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str], process: Process) -> Self:
        """Read the settings this process needs, or raise SettingsError that names every bad key."""
        known = {name.upper(): name for name in cls.model_fields}
        given: dict[str, Any] = {
            field: environ[key] for key, field in known.items() if environ.get(key)
        }
        if region := _region(environ):
            given["aws_region"] = region
        if "log_level" in given:
            given["log_level"] = str(given["log_level"]).upper()
        problems = {
            key: f"is required: {cls.model_fields[known[key]].description}"
            for key in _NEEDED[process]
            if known[key] not in given
        }
        try:
            settings = cls.model_validate(given)
        except ValidationError as invalid:
            for error in invalid.errors(include_input=False, include_url=False):
                field = str(error["loc"][0])
                problems[field.upper()] = f"expected {cls.model_fields[field].description}"
                given.pop(field, None)
            # What is wrong alone is set aside, so that what is wrong together is told as well.
            settings = cls.model_validate(given)
        problems = _together(settings, given) | problems
        if problems:
            raise SettingsError(problems)
        return settings

    @property
    def call_seconds(self) -> float:
        """The longest that one SES call is expected to take.

        Behind a proxy the time-outs count per address and per read, so a call may last longer; then its
        lease leads to doubt, and its result still counts.
        """
        return self.ses_connect_timeout + self.ses_read_timeout

    @property
    def allow_reserved_domains(self) -> bool:
        """Whether .test, .invalid and .local may be written to."""
        return self.app_env != "production"

    @cached_property
    def default_sender(self) -> str:
        """MAIL_FROM as SES takes it."""
        name, address = split_sender(self.mail_from)
        return format_sender(name, normalise(address, allow_reserved=self.allow_reserved_domains))

    @cached_property
    def senders(self) -> frozenset[str]:
        """Addresses and domains, lower-case, that ``from`` may name."""
        if self.allowed_senders:
            return frozenset(entry.lower() for entry in self.allowed_senders)
        _, address = split_sender(self.mail_from)
        return frozenset({address.rpartition("@")[2].lower()})

    @property
    def address_key_bytes(self) -> bytes:
        """The key of the address hash."""
        if self.address_key is None:
            raise SettingsError({"ADDRESS_KEY": "is required: a secret of at least 32 characters"})
        return self.address_key.get_secret_value().encode()


def _together(settings: Settings, given: Mapping[str, Any]) -> dict[str, str]:
    """Name what is wrong between settings that are each fine alone."""
    problems: dict[str, str] = {}
    production = settings.app_env == "production"
    call = settings.call_seconds
    url = settings.database_url.get_secret_value()
    if "database_url" in given and not url.startswith(("postgres://", "postgresql://")):
        problems["DATABASE_URL"] = "expected a libpq URI, postgres://… or postgresql://…"
    if call > 20:
        problems["SES_READ_TIMEOUT"] = (
            f"expected SES_CONNECT_TIMEOUT + SES_READ_TIMEOUT of at most 20 s, not {call:g}"
        )
    if settings.lease_seconds < 1.25 * call + 2:
        problems["LEASE_SECONDS"] = (
            f"expected at least 1.25 x (SES_CONNECT_TIMEOUT + SES_READ_TIMEOUT) + 2 = "
            f"{1.25 * call + 2:g} s, not {settings.lease_seconds:g}"
        )
    quiet = settings.lease_seconds + call
    if settings.reconcile_after_seconds < quiet:
        problems["RECONCILE_AFTER_SECONDS"] = (
            f"expected at least LEASE_SECONDS + SES_CONNECT_TIMEOUT + SES_READ_TIMEOUT = "
            f"{quiet:g} s, not {settings.reconcile_after_seconds:g}"
        )
    if settings.retry_cap_seconds < settings.retry_base_seconds:
        problems["RETRY_CAP_SECONDS"] = "expected at least RETRY_BASE_SECONDS"
    if production and settings.ses_endpoint_url and settings.ses_endpoint_url.startswith("http:"):
        problems["SES_ENDPOINT_URL"] = "expected https:// in production"
    if production and settings.sns_endpoint_url:
        problems["SNS_ENDPOINT_URL"] = "is for sandbox and tests: unset it, or set APP_ENV"
    if production and settings.sns_cert_origins:
        problems["SNS_CERT_ORIGINS"] = "is for sandbox and tests: unset it, or set APP_ENV"
    if not set(settings.sns_signature_versions) <= {"1", "2"}:
        problems["SNS_SIGNATURE_VERSIONS"] = "expected 2, or 1,2"
    if any(not arn.startswith("arn:") or arn.count(":") != 5 for arn in settings.sns_topic_arns):
        problems["SNS_TOPIC_ARNS"] = (
            "expected topic ARNs such as arn:aws:sns:eu-west-1:123456789012:name"
        )
    if any(not _is_origin(origin) for origin in settings.sns_cert_origins):
        problems["SNS_CERT_ORIGINS"] = (
            "expected origins such as http://127.0.0.1:4579, without a path"
        )
    if settings.template_dir is not None and not settings.template_dir.is_dir():
        problems["TEMPLATE_DIR"] = "expected a directory that exists"
    if any(not _is_sender(entry) for entry in settings.allowed_senders):
        problems["ALLOWED_SENDERS"] = "expected addresses and domains: a@example.com,example.com"
    if settings.mail_from:
        try:
            default = settings.default_sender
        except AddressInvalid as invalid:
            problems["MAIL_FROM"] = f"expected Name <a@b> or a@b: {invalid}"
        else:
            address = split_sender(default)[1].lower()
            if not settings.senders & {address, address.rpartition("@")[2]}:
                problems["ALLOWED_SENDERS"] = (
                    "expected to contain the address or domain of MAIL_FROM"
                )
    return problems


def _is_sender(entry: str) -> bool:
    try:
        normalise(entry if "@" in entry else f"anybody@{entry}", allow_reserved=True)
    except AddressInvalid:
        return False
    return True


def _is_origin(text: str) -> bool:
    parts = urlsplit(text)
    return parts.scheme in {"http", "https"} and text == f"{parts.scheme}://{parts.netloc}"
