"""What each answer of SES means: status, then text, then code (design.md section 6)."""

from dataclasses import replace

import botocore.session
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain import answers
from mail_service.domain.answers import Answer, classify
from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Outcome,
    Pace,
    Refused,
    Unknown,
)

SENDER = "Example, Inc. <hello@mail.example.com>"
TO = ("ada@example.org", "bob@example.net")
FAILED = "Email address is not verified. The following identities failed the check in region X: "
ACCOUNT, SET = HoldScope.ACCOUNT, HoldScope.CONFIGURATION_SET


def said(code: str | None, text: str = "", status: int = 400) -> Outcome:
    return classify(
        Answer(status=status, code=code, text=text, from_ses=True, sender=SENDER, recipients=TO)
    )


def held(scope: HoldScope, error_class: str, code: str) -> Held:
    return Held(scope=scope, error_class=error_class, error_code=code)


# --- every modelled error -------------------------------------------------------------------------

MODELLED = {
    "TooManyRequestsException": Deferred,
    "LimitExceededException": Deferred,
    "AccountSuspendedException": ACCOUNT,
    "SendingPausedException": ACCOUNT,
    "MessageRejected": Refused,
    "MailFromDomainNotVerifiedException": HoldScope.SENDER,
    "NotFoundException": SET,
    "BadRequestException": Refused,
}


def modelled_errors() -> dict[str, int]:
    model = botocore.session.get_session().get_service_model("sesv2")
    shapes = model.operation_model("SendEmail").error_shapes
    return {shape.name: shape.metadata["error"]["httpStatusCode"] for shape in shapes}


def test_every_error_that_the_service_model_gives_send_email_has_its_meaning():
    errors = modelled_errors()
    assert errors.keys() == MODELLED.keys(), "the service model changed: decide what it means"
    for code, status in errors.items():
        outcome = said(code, "x", status)
        meaning = outcome.scope if isinstance(outcome, Held) else type(outcome)
        assert meaning == MODELLED[code], code


# --- limits, pauses, access -----------------------------------------------------------------------

THROTTLED = "throttled"


@pytest.mark.parametrize("status", [400, 429])
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("TooManyRequestsException", "Maximum sending rate exceeded."),
        ("TooManyRequestsException", ""),
        ("Throttling", "Maximum sending rate exceeded."),
        ("ThrottlingException", "Rate exceeded"),
        ("RequestLimitExceeded", "x"),
        ("LimitExceededException", "Maximum sending rate exceeded."),
        ("LimitExceededException", "Too many messages per second"),
        ("SomethingNew", "Maximum sending rate exceeded."),
    ],
)
def test_a_rate_limit_is_tried_again_soon_and_uses_up_no_attempt(code, text, status):
    assert said(code, text, status) == Deferred(
        error_class=THROTTLED, error_code=code, pace=Pace.THROTTLED
    )


def test_a_429_with_an_unknown_code_is_a_rate_limit():
    assert said("SomethingNew", "x", 429).error_class == THROTTLED


@pytest.mark.parametrize(
    "code",
    [
        "TooManyRequestsException",
        "Throttling",
        "ThrottlingException",
        "LimitExceededException",
        "MessageRejected",
        "SomethingNew",
    ],
)
@pytest.mark.parametrize("status", [400, 429])
def test_the_daily_quota_holds_the_account_under_whatever_code(code, status):
    outcome = said(code, "Daily message quota exceeded.", status)
    assert outcome == held(ACCOUNT, "daily_quota", code)


@pytest.mark.parametrize("text", ["Daily sending quota exceeded", "24-hour quota reached"])
def test_other_words_for_the_daily_quota_hold_the_account(text):
    assert said("ThrottlingException", text) == held(ACCOUNT, "daily_quota", "ThrottlingException")


@pytest.mark.parametrize("text", ["", "x", "Too many configuration sets"])
def test_another_limit_is_tried_again_slowly_with_an_alarm(text):
    assert said("LimitExceededException", text) == Deferred(
        error_class="limit_exceeded",
        error_code="LimitExceededException",
        pace=Pace.SLOW,
        alarm=True,
    )


MORE = ". For more information, please check the inbox of the email address of your AWS account."


@pytest.mark.parametrize("code", ["MessageRejected", "SendingPausedException", "SomethingNew"])
@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("Sending paused for this account" + MORE, ACCOUNT),
        ("Sending suspended for this account" + MORE, ACCOUNT),
        ("Email sending for the account is paused.", ACCOUNT),
        ("Sending is paused for configuration set transactional", SET),
        ("Email sending for the configuration set transactional is paused.", SET),
        ("Sending paused for configuration-set transactional", SET),
    ],
)
def test_a_pause_holds_the_account_or_the_configuration_set_that_it_names(code, text, scope):
    name = "sending_paused" if scope is ACCOUNT else "configuration_set_paused"
    assert said(code, text) == held(scope, name, code)


@pytest.mark.parametrize(
    ("code", "scope"),
    [
        ("SendingPausedException", ACCOUNT),
        ("AccountSendingPausedException", ACCOUNT),
        ("TenantSendingPausedException", ACCOUNT),
        ("ConfigurationSetSendingPausedException", SET),
    ],
)
def test_a_code_that_ends_in_sending_paused_needs_no_text(code, scope):
    assert said(code, "x").scope is scope


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException"])
@pytest.mark.parametrize("text", ["", "not authorized on resource identity/example.com", "x"])
def test_a_denied_access_holds_the_sender_whether_or_not_it_names_anyone(code, text):
    assert said(code, text, 403) == held(HoldScope.SENDER, "access_denied", code)


@pytest.mark.parametrize(
    ("code", "text", "error_class"),
    [
        ("ExpiredToken", "", "credentials"),
        ("ExpiredTokenException", "", "credentials"),
        ("UnrecognizedClientException", "", "credentials"),
        ("InvalidClientTokenId", "", "credentials"),
        ("SignatureDoesNotMatch", "", "credentials"),
        ("MissingAuthenticationToken", "", "credentials"),
        ("IncompleteSignature", "", "credentials"),
        ("InvalidSignatureException", "does not match", "credentials"),
        ("InvalidSignatureException", "Signature expired: 2026 is now earlier", "clock_skew"),
        ("InvalidSignatureException", "Signature not yet current: 2026", "clock_skew"),
        ("RequestExpired", "", "clock_skew"),
        ("RequestTimeTooSkewed", "", "clock_skew"),
    ],
)
@pytest.mark.parametrize("status", [400, 403])
def test_credentials_and_clocks_hold_the_account(code, text, error_class, status):
    assert said(code, text, status) == held(ACCOUNT, error_class, code)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("NotFoundException", "Configuration set <x> does not exist."),
        ("NotFoundException", ""),
        ("ConfigurationSetDoesNotExist", "x"),
        ("BadRequestException", "Configuration set <x> does not exist."),
        ("BadRequestException", "The configuration set x doesn't exist"),
    ],
)
def test_a_missing_configuration_set_is_held_and_not_the_mail(code, text):
    assert said(code, text) == held(SET, "configuration_set_missing", code)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 418, 451, 499])
def test_a_refusal_of_ses_that_we_do_not_know_is_tried_again_slowly_with_an_alarm(status):
    assert said("SomethingNew", "new", status) == Deferred(
        error_class="unknown_refusal", error_code="SomethingNew", pace=Pace.SLOW, alarm=True
    )


# --- what a caller can write does not steer us ----------------------------------------------------


@pytest.mark.parametrize(
    "quoted",
    [
        "Sending paused for this account",
        "Daily message quota exceeded",
        "Maximum sending rate exceeded",
        "Configuration set x does not exist",
        "Email address is not verified",
    ],
)
@pytest.mark.parametrize("around", ["Illegal address: {}", "Bad header '{}'", "x\n{}"])
def test_words_of_ses_that_a_mail_brought_hold_nothing(quoted, around):
    outcome = said("BadRequestException", around.format(quoted))
    assert outcome == Refused(error_class="bad_request", error_code="BadRequestException")


# --- not verified ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "listed",
    [
        "hello@mail.example.com",
        "Hello@Mail.Example.COM",
        "hello@mail.example.com.",
        "Example, Inc. <hello@mail.example.com>, hello@mail.example.com",
        "mail.example.com",
        "example.com",
        "ada@example.org, hello@mail.example.com",
        "hello@mail.example.com, ada@example.org, bob@example.net",
        "ada@example.org...",
        "ada@example.org, bob@example.net…",
        "ada@example.org, bob@exa...",
        "ada@example.org, ... Request Id",
        "ada@example.org, bob@exa",
        "ada@example.org, somebody@else.example",
        "",
    ],
)
@pytest.mark.parametrize("code", ["MessageRejected", "MailFromDomainNotVerifiedException"])
def test_a_sender_that_is_named_or_may_be_is_held(listed, code):
    outcome = said(code, FAILED + listed)
    assert outcome == held(HoldScope.SENDER, "sender_not_verified", code)


@pytest.mark.parametrize(
    "text", ["Email address is not verified.", "Email address not verified ada@example.org"]
)
def test_a_text_without_a_list_holds_the_sender(text):
    outcome = said("MessageRejected", text)
    assert outcome == held(HoldScope.SENDER, "sender_not_verified", "MessageRejected")


@pytest.mark.parametrize(
    "listed",
    [
        "ada@example.org",
        "ADA@Example.Org",
        "ada@example.org, bob@example.net",
        "bob@example.net,ada@example.org",
        " <ada@example.org>; bob@example.net. ",
    ],
)
def test_recipients_alone_of_a_whole_list_are_the_mail_s_own_fault(listed):
    assert said("MessageRejected", FAILED + listed) == Refused(
        error_class="recipient_not_verified", error_code="MessageRejected"
    )


def test_a_mail_to_its_own_sender_holds_the_sender():
    answer = Answer(
        status=400,
        code="MessageRejected",
        text=FAILED + "me@example.com",
        from_ses=True,
        sender="Me <me@example.com>",
        recipients=("ME@example.com", "ada@example.org"),
    )
    assert classify(answer).error_class == "sender_not_verified"


def test_an_address_in_unicode_is_known_as_the_punycode_we_sent():
    answer = Answer(
        status=400,
        code="MessageRejected",
        text=FAILED + "ada@bücher.example",
        from_ses=True,
        sender="hello@example.com",
        recipients=("ada@xn--bcher-kva.example",),
    )
    assert classify(answer).error_class == "recipient_not_verified"


# --- for all answers ------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        "",
        FAILED,
        FAILED + "ada@example.org",
        "Daily message quota exceeded.",
        "Maximum sending rate exceeded.",
        "Sending paused for this account.",
        "Configuration set x does not exist",
        "[SSL: WRONG_VERSION_NUMBER] wrong version number",
    ]
)
CODES = st.sampled_from([*MODELLED, "Throttling", "ExpiredToken", "AccessDenied", "X", "", "500"])
FAULTS = st.sampled_from(
    [f"botocore.exceptions.{name}" for names in answers._FAULTS.values() for name in names.split()]
    + ["builtins.ValueError", "builtins.ConnectionError", "botocore.exceptions.ClientError"]
)
ANSWERS = st.builds(
    Answer,
    fault=st.lists(FAULTS, max_size=3).map(tuple),
    failed_connecting=st.none() | st.booleans(),
    operation=st.just("SendEmail") | st.sampled_from(["SendEmail", "AssumeRole"]),
    status=st.none() | st.integers(-1, 700) | st.sampled_from([200, 400, 403, 408, 413, 429, 500]),
    code=st.none() | CODES | st.text(max_size=100),
    text=WORDS | st.text(max_size=200),
    from_ses=st.booleans(),
    message_id=st.none() | st.just("0102-000000") | st.text(max_size=20),
    sender=st.sampled_from([SENDER, "", "x"]),
    recipients=st.lists(st.sampled_from([*TO, "", "\x00"]), max_size=3).map(tuple),
)


@given(ANSWERS)
def test_every_answer_has_one_outcome_of_a_documented_class(answer):
    outcome = classify(answer)
    assert outcome == classify(answer)
    if not isinstance(outcome, Accepted):
        documented = {name for group in answers.ErrorClass.__args__ for name in group.__args__}
        assert outcome.error_class in documented
        assert "@" not in (outcome.error_code or "")
        assert len(outcome.error_code or "") <= 80


@given(ANSWERS, st.sampled_from([408, *range(500, 600), 100, 199, 600]))
def test_a_server_s_fault_is_unknown_whatever_it_says(answer, status):
    outcome = classify(replace(answer, status=status, operation="SendEmail"))
    assert isinstance(outcome, Unknown)


@given(ANSWERS)
def test_only_a_200_that_names_the_mail_is_an_acceptance(answer):
    outcome = classify(answer)
    if isinstance(outcome, Accepted):
        assert answer.status == 200
        assert outcome.provider_message_id == answer.message_id
        assert outcome.provider_message_id.isascii()


@given(ANSWERS)
def test_a_call_is_refused_only_for_a_3xx_a_4xx_or_a_fault_before_the_first_byte(answer):
    outcome = classify(answer)
    if answer.operation == "SendEmail" and isinstance(outcome, Refused | Deferred | Held):
        if answer.status is None:
            assert any(name in answers._FAULT_OF for name in answer.fault)
            assert outcome.error_class in {
                "parameters",
                "credentials",
                "endpoint_unusable",
                "endpoint_unreachable",
                "tls",
            }
        else:
            assert 300 <= answer.status < 500
            assert answer.status != 408
