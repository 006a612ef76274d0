"""A fault on the way to the credentials holds the account: nothing left us, and the mail is not to blame.

Each is made by boto3 itself from the environment, and is the same where a proxy carries the call.
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ParamValidationError,
    ReadTimeoutError,
)

from mail_service.domain.outcomes import Accepted, Held, HoldScope
from mail_service.errors import SettingsError
from mail_service.gateways.credentials import Credentials
from mail_service.gateways.ses import SesMailer, ses_client
from tests.gateways.test_ses_wire import (
    EMAIL,
    IMPATIENT,
    PATIENT,
    answer,
    clean_aws,
    mailer_for,
    wire,
)

ROLE = "arn:aws:iam::123456789012:role/mail"
STS_DENIES = (
    "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized</Message></Error>"
    "</ErrorResponse>"
)


@dataclass(frozen=True)
class Fault:
    """Settings under which no credentials are found, and what boto3 raises for them."""

    code: str
    environ: dict[str, str]


def by_program(said: dict[str, object]) -> dict[str, str]:
    """A profile whose program says this. The words of a profile's line take no quotes."""
    return {"program": json.dumps(said)}


FAULTS = {
    "a token file that is empty": Fault(
        "ParamValidationError", {"AWS_WEB_IDENTITY_TOKEN_FILE": "{empty}", "AWS_ROLE_ARN": ROLE}
    ),
    "a role that is no ARN": Fault(
        "ParamValidationError", {"AWS_WEB_IDENTITY_TOKEN_FILE": "{token}", "AWS_ROLE_ARN": "mail"}
    ),
    "a token file that is not there": Fault(
        "FileNotFoundError", {"AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere", "AWS_ROLE_ARN": ROLE}
    ),
    "a token file that is a directory": Fault(
        "IsADirectoryError", {"AWS_WEB_IDENTITY_TOKEN_FILE": "/", "AWS_ROLE_ARN": ROLE}
    ),
    "an STS that is not there": Fault(
        "EndpointConnectionError",
        {
            "AWS_WEB_IDENTITY_TOKEN_FILE": "{token}",
            "AWS_ROLE_ARN": ROLE,
            "AWS_ENDPOINT_URL_STS": "{closed}",
        },
    ),
    "an STS that says no": Fault(
        "AccessDenied",
        {
            "AWS_WEB_IDENTITY_TOKEN_FILE": "{token}",
            "AWS_ROLE_ARN": ROLE,
            "AWS_ENDPOINT_URL_STS": "{sts}",
        },
    ),
    "a program whose keys have expired": Fault(
        "RuntimeError", by_program({"Expiration": "2020-01-01T00:00:00Z"})
    ),
}


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A server that takes mail, and an environment without credentials."""
    clean_aws(monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with wire() as told:
        yield told


def set_up(fault: Fault, servers: dict[str, str], folder, patch) -> None:
    (folder / "empty").touch()
    (folder / "token").write_text("a-token-of-a-web-identity")
    places = {"{empty}": str(folder / "empty"), "{token}": str(folder / "token"), **servers}
    for name, value in fault.environ.items():
        if name == "program":
            program(value, folder, patch)
        else:
            patch.setenv(name, places.get(value, value))


def program(said: str, folder, patch) -> None:
    if said.startswith("{"):
        keys = {"Version": 1, "AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "secret"}
        said = json.dumps(keys | json.loads(said))
    script = folder / "program.py"
    script.write_text(f"print({said!r})")
    config = folder / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {script}\n")
    patch.setenv("AWS_CONFIG_FILE", str(config))


@pytest.mark.parametrize("proxied", [False, True], ids=["", "by a proxy"])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_on_the_way_to_the_credentials_holds_the_account(
    fault, proxied, told, closed_port, tmp_path, monkeypatch
):
    with wire() as sts:
        sts.do(answer(403, {"Content-Type": "text/xml"}, STS_DENIES))
        servers = {
            "{sts}": f"http://127.0.0.1:{sts.port}",
            "{closed}": f"http://127.0.0.1:{closed_port}",
        }
        set_up(fault, servers, tmp_path, monkeypatch)
        url = f"http://127.0.0.1:{told.port}"
        if proxied:
            monkeypatch.setenv("HTTP_PROXY", url)
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            url = "http://email.example"
        outcome = mailer_for(url).send(EMAIL)
    assert outcome == Held(
        scope=HoldScope.ACCOUNT, error_class="credentials", error_code=fault.code
    )
    assert told.connections == 0


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="https://sts.example"),
        ConnectionClosedError(endpoint_url="https://sts.example"),
        ParamValidationError(report="x"),
        ClientError({"Error": {"Code": "MessageRejected"}}, "SendEmail"),
        OSError(5, "x"),
        RuntimeError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_is_raised_while_credentials_are_fetched_says_nothing_of_the_mail(error):
    class Signer:
        signing_name, region_name = "ses", "eu-west-1"

        def get_auth_instance(self, *_):
            raise error

    class Client:
        def send_email(self, **_):
            Credentials().of(Signer(), until=time.monotonic() + PATIENT)

    outcome = SesMailer(Client(), None).send(EMAIL)
    assert isinstance(outcome, Held)
    assert (outcome.scope, outcome.error_class) == (HoldScope.ACCOUNT, "credentials")


SLOW_AFTER_THE_FIRST_TIME = """
import pathlib, time
from datetime import UTC, datetime, timedelta
runs = pathlib.Path(__file__).with_suffix(".runs")
if runs.exists():
    time.sleep(1)
with runs.open("a") as log:
    log.write("run ")
soon = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()  # so soon that it is asked again
said = {"Version": 1, "AccessKeyId": "AKIAEXAMPLE", "SecretAccessKey": "secret", "Expiration": soon}
print(__import__("json").dumps(said))
"""


@pytest.mark.parametrize("proxied", [False, True], ids=["", "by a proxy"])
def test_credentials_that_come_too_late_for_the_lease_do_not_send_the_mail(
    proxied, told, tmp_path, monkeypatch
):
    """boto3 gives STS a minute. By then the mail may be another's."""
    program("", tmp_path, monkeypatch)
    (tmp_path / "program.py").write_text(SLOW_AFTER_THE_FIRST_TIME)
    url = f"http://127.0.0.1:{told.port}"
    if proxied:
        monkeypatch.setenv("HTTP_PROXY", url)
        url = "http://email.example"
    mailer = SesMailer(ses_client("eu-west-1", url, IMPATIENT, PATIENT, 1), None)
    late = Held(scope=HoldScope.ACCOUNT, error_class="credentials", error_code="TimeoutError")
    assert mailer.send(EMAIL) == late
    assert told.connections == 0
    if proxied:
        assert mailer.send(EMAIL) == late
    else:  # or a renewal that is always slow would let none go
        assert [type(mailer.send(EMAIL)) for _ in range(2)] == [Accepted, Accepted]


def test_threads_that_want_credentials_at_once_ask_once(told, tmp_path, monkeypatch):
    program("", tmp_path, monkeypatch)
    (tmp_path / "program.py").write_text(SLOW_AFTER_THE_FIRST_TIME)
    url = f"http://127.0.0.1:{told.port}"
    mailer = SesMailer(ses_client("eu-west-1", url, IMPATIENT, PATIENT, 4), None)
    with ThreadPoolExecutor(4) as threads:
        outcomes = set(threads.map(mailer.send, [EMAIL] * 4))
    assert outcomes == {
        Held(scope=HoldScope.ACCOUNT, error_class="credentials", error_code="TimeoutError")
    }
    assert (tmp_path / "program.runs").read_text().split() == ["run"] * 2  # the first as it began


def test_credentials_of_a_program_sign_the_mail(told, tmp_path, monkeypatch):
    program("{}", tmp_path, monkeypatch)
    assert isinstance(mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL), Accepted)
    assert "Credential=AKIAEXAMPLE/" in told.requests[0].headers["authorization"]


@pytest.mark.parametrize("said", ["", "no JSON", '{"Expiration": "soon"}', '{"Version": 2}', None])
def test_a_program_of_no_use_is_named_when_the_client_is_built(said, told, tmp_path, monkeypatch):
    program(said or "", tmp_path, monkeypatch)
    if said is None:
        (tmp_path / "config").write_text("[default]\ncredential_process = /nowhere/program\n")
    with pytest.raises(SettingsError, match=r"AWS_\*"):
        mailer_for(f"http://127.0.0.1:{told.port}")
