"""Settings: every bad one at once, by name, never with a secret."""

import pytest

from mail_service import wiring
from mail_service.errors import SettingsError
from mail_service.settings import Process, Settings
from tests.conftest import ENVIRONMENT

GOOD = ENVIRONMENT | {"DATABASE_URL": "postgres://u:hunter2secret@db.example.com/app"}


@pytest.mark.parametrize("process", list(Process))
def test_the_usual_environment_suits_every_process(process: Process) -> None:
    assert Settings.from_env(GOOD, process).app_env == "test"


@pytest.mark.parametrize(
    ("process", "needed"),
    [
        (Process.RELEASE, {"DATABASE_URL"}),
        (
            Process.WEB,
            {
                "DATABASE_URL",
                "AWS_REGION",
                "MAIL_FROM",
                "SNS_TOPIC_ARNS",
                "ADDRESS_KEY",
                "CONSOLE_SECRET",
            },
        ),
        (
            Process.WORKER,
            {"DATABASE_URL", "AWS_REGION", "MAIL_FROM", "SNS_TOPIC_ARNS", "ADDRESS_KEY"},
        ),
        (Process.CLOCK, {"DATABASE_URL", "ADDRESS_KEY"}),
    ],
)
def test_an_empty_environment_names_everything_a_process_needs(
    process: Process, needed: set[str]
) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_env({}, process)
    assert set(refused.value.problems) == needed


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL"),
        ({"APP_ENV": "staging"}, "APP_ENV"),
        ({"PORT": "http"}, "PORT"),
        ({"MAIL_FROM": "Shop"}, "MAIL_FROM"),
        ({"MAIL_FROM": "Shop\nBcc: eve@example.com <shop@example.com>"}, "MAIL_FROM"),
        ({"ALLOWED_SENDERS": "other.example"}, "ALLOWED_SENDERS"),
        ({"SES_CONFIGURATION_SET": "my set"}, "SES_CONFIGURATION_SET"),
        ({"SES_ENDPOINT_URL": "ftp://x"}, "SES_ENDPOINT_URL"),
        ({"SES_READ_TIMEOUT": "18"}, "SES_READ_TIMEOUT"),
        ({"LEASE_SECONDS": "18"}, "LEASE_SECONDS"),
        ({"SEND_RATE": "-1"}, "SEND_RATE"),
        ({"MAX_ATTEMPTS": "0"}, "MAX_ATTEMPTS"),
        ({"RECONCILE_AFTER_SECONDS": "60"}, "RECONCILE_AFTER_SECONDS"),
        ({"RETRY_CAP_SECONDS": "1"}, "RETRY_CAP_SECONDS"),
        ({"SWEEP_SECONDS": "inf"}, "SWEEP_SECONDS"),
        ({"MAX_AGE_SECONDS": "1e12"}, "MAX_AGE_SECONDS"),
        ({"ALLOWED_SENDERS": "@@"}, "ALLOWED_SENDERS"),
        ({"SNS_TOPIC_ARNS": "my-topic"}, "SNS_TOPIC_ARNS"),
        ({"SNS_SIGNATURE_VERSIONS": "3"}, "SNS_SIGNATURE_VERSIONS"),
        ({"SNS_CERT_ORIGINS": "http://127.0.0.1:4579/x"}, "SNS_CERT_ORIGINS"),
        ({"TEMPLATE_DIR": "/nowhere"}, "TEMPLATE_DIR"),
        ({"ADDRESS_KEY": "short"}, "ADDRESS_KEY"),
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL"),
        (
            {"APP_ENV": "production", "SES_ENDPOINT_URL": "http://127.0.0.1:4579"},
            "SES_ENDPOINT_URL",
        ),
        (
            {"APP_ENV": "production", "SNS_ENDPOINT_URL": "http://127.0.0.1:4579"},
            "SNS_ENDPOINT_URL",
        ),
        (
            {"APP_ENV": "production", "SNS_CERT_ORIGINS": "http://127.0.0.1:4579"},
            "SNS_CERT_ORIGINS",
        ),
    ],
)
def test_a_bad_setting_is_named(changes: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.from_env(GOOD | changes, Process.WEB)
    assert named in refused.value.problems


def test_every_bad_setting_is_named_at_once_and_no_secret_is_shown() -> None:
    bad = GOOD | {
        "ADDRESS_KEY": "too-short-secret",
        "CONSOLE_SECRET": "short-secret",
        "PORT": "x",
        "DATABASE_URL": "x://hunter2secret",
    }
    with pytest.raises(SettingsError) as refused:
        Settings.from_env(bad, Process.WEB)
    assert {"ADDRESS_KEY", "CONSOLE_SECRET", "PORT"} <= set(refused.value.problems)
    assert "secret" not in str(refused.value).replace("a secret of", "")


def test_templates_are_looked_at_with_the_settings_and_told_beside_them() -> None:
    bad = GOOD | {"ACCOUNT_TEMPLATE": "nothing-v1", "PORT": "x"}
    with pytest.raises(SettingsError) as refused:
        wiring.settings_for(bad, Process.WEB)
    assert set(refused.value.problems) == {"ACCOUNT_TEMPLATE", "PORT"}
    assert wiring.settings_for(GOOD, Process.WORKER).account_template == "welcome-v1"


def test_no_secret_is_in_the_repr() -> None:
    shown = repr(Settings.from_env(GOOD, Process.WEB))
    assert "hunter2secret" not in shown
    assert GOOD["ADDRESS_KEY"] not in shown


def test_an_empty_value_counts_as_unset_and_the_level_in_any_case() -> None:
    settings = Settings.from_env(GOOD | {"SES_ENDPOINT_URL": "", "LOG_LEVEL": "debug"}, Process.WEB)
    assert (settings.ses_endpoint_url, settings.log_level) == (None, "DEBUG")


def test_senders_are_the_domain_of_mail_from_unless_named() -> None:
    assert Settings.from_env(GOOD, Process.WEB).senders == {"example.com"}
    named = Settings.from_env(
        GOOD | {"ALLOWED_SENDERS": "shop@example.com, Other.example"}, Process.WEB
    )
    assert named.senders == {"shop@example.com", "other.example"}
