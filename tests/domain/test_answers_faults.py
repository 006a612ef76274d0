"""Every exception class that botocore has, and what it proves when no answer came.

The classes are found by looking, so a class that is new in botocore fails here until somebody has
read where it is raised. Until then the code calls it unknown.
"""

import inspect

import pytest
from botocore import exceptions, parsers

from mail_service.domain.answers import Answer, classify
from mail_service.domain.outcomes import Held, HoldScope, Outcome, Refused, Unknown

PARAMETERS = """ParamValidationError ValidationError MissingParametersError UnknownKeyError
    RangeError UnknownParameterError AliasConflictParameterError"""
CREDENTIALS = """NoCredentialsError PartialCredentialsError CredentialRetrievalError
    UnknownCredentialError NoAuthTokenError TokenRetrievalError UnknownTokenProviderError
    MetadataRetrievalError RefreshWithMFAUnsupportedError ProfileNotFound ConfigNotFound
    ConfigParseError InvalidConfigError InfiniteLoopConfigError InvalidIMDSEndpointError
    InvalidIMDSEndpointModeError InvalidSTSRegionalEndpointsConfigError SSOError SSOTokenLoadError
    UnauthorizedSSOTokenError LoginError LoginRefreshRequired LoginInsufficientPermissions
    LoginTokenLoadError LoginAuthorizationCodeError UnknownSignatureVersionError
    UnsupportedSignatureVersionError"""
ENDPOINT = """BaseEndpointResolverError NoRegionError EndpointVariantError UnknownEndpointError
    UnknownFIPSEndpointError EndpointProviderError EndpointResolutionError
    UnknownEndpointResolutionBuiltInName UnknownRegionError InvalidRegionError
    ServiceNotInRegionError InvalidEndpointConfigurationError InvalidProxiesConfigError"""
UNREACHED = "EndpointConnectionError ConnectTimeoutError ProxyConnectionError"
# Raised after the request left, at a time nobody can tell, or for a service that is not SES.
UNKNOWN = """BotoCoreError HTTPClientError ConnectionError SSLError ConnectionClosedError
    ReadTimeoutError ResponseStreamingError IncompleteReadError ClientError EventStreamError
    DataNotFoundError UnknownServiceError ApiVersionNotFoundError UnknownServiceStyle
    PaginationError OperationNotPageableError ChecksumError UnseekableStreamError WaiterError
    InvalidExpressionError WaiterConfigError UnknownClientMethodError UnsupportedTLSVersionWarning
    ImminentRemovalWarning InvalidDNSNameError InvalidS3AddressingStyleError UnsupportedS3ArnError
    UnsupportedS3ControlArnError InvalidHostLabelError UnsupportedOutpostResourceError
    UnsupportedS3ConfigurationError UnsupportedS3AccesspointConfigurationError
    InvalidEndpointDiscoveryConfigurationError UnsupportedS3ControlConfigurationError
    InvalidRetryConfigurationError InvalidMaxRetryAttemptsError InvalidRetryModeError
    InvalidS3UsEast1RegionalEndpointConfigError StubResponseError StubAssertionError
    UnStubbedResponseError MD5UnavailableError MissingDependencyException
    UndefinedModelAttributeError MissingServiceIdError CapacityNotAvailableError
    InvalidDefaultsMode AwsChunkedWrapperError FlexibleChecksumError InvalidChecksumConfigError
    UnsupportedServiceProtocolsError"""

EXPECTED: dict[str, object] = {
    **dict.fromkeys(PARAMETERS.split(), Refused),
    **dict.fromkeys(CREDENTIALS.split(), HoldScope.ACCOUNT),
    **dict.fromkeys(ENDPOINT.split(), HoldScope.ENDPOINT),
    **dict.fromkeys(UNREACHED.split(), HoldScope.ENDPOINT),
    **dict.fromkeys(UNKNOWN.split(), Unknown),
}
FOUND = {
    name: kind
    for name, kind in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(kind, Exception) and kind.__module__ == exceptions.__name__
}


def fault(kind: type[BaseException]) -> tuple[str, ...]:
    return tuple(f"{c.__module__}.{c.__qualname__}" for c in kind.__mro__)


def meaning(outcome: Outcome) -> object:
    return outcome.scope if isinstance(outcome, Held) else type(outcome)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_an_exception_of_botocore_without_an_answer_means_what_the_table_says(name):
    assert name in EXPECTED, (
        f"botocore.exceptions.{name} is new: find out whether it can be raised after the request"
        " left, then put it in the table here and, if it can't, in domain/answers.py"
    )
    outcome = classify(Answer(fault=fault(FOUND[name])))
    assert meaning(outcome) == EXPECTED[name]
    assert outcome.error_code == name
    if isinstance(outcome, Refused):
        assert outcome.alarm


def test_the_table_names_no_exception_that_botocore_has_not():
    assert EXPECTED.keys() <= FOUND.keys()


@pytest.mark.parametrize("name", UNREACHED.split())
def test_a_failure_to_connect_that_was_raised_elsewhere_is_unknown(name):
    answer = Answer(fault=fault(FOUND[name]), failed_connecting=False)
    assert classify(answer) == Unknown(error_class="connection_lost", error_code=name)
    answer = Answer(fault=fault(FOUND[name]), failed_connecting=True)
    assert meaning(classify(answer)) is HoldScope.ENDPOINT


@pytest.mark.parametrize(
    ("text", "failed_connecting", "expected"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", None, HoldScope.ENDPOINT),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", True, HoldScope.ENDPOINT),
        ("hostname 'a.example' doesn't match 'b.example'", True, HoldScope.ENDPOINT),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", None, HoldScope.ENDPOINT),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", True, HoldScope.ENDPOINT),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", False, Unknown),
        ("[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] bad record mac", None, Unknown),
        ("EOF occurred in violation of protocol", True, HoldScope.ENDPOINT),
        ("EOF occurred in violation of protocol", None, Unknown),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", False, Unknown),
        ("", None, Unknown),
    ],
)
def test_a_tls_failure_holds_the_endpoint_only_when_it_is_known_to_be_of_the_handshake(
    text, failed_connecting, expected
):
    answer = Answer(
        fault=fault(exceptions.SSLError), text=text, failed_connecting=failed_connecting
    )
    assert meaning(classify(answer)) == expected


class NoCredentialsError(Exception):
    """Of ours: the same name in another module proves nothing."""


@pytest.mark.parametrize(
    "kind",
    [
        Exception,
        ValueError,
        TimeoutError,
        ConnectionError,
        ConnectionRefusedError,
        NoCredentialsError,
        parsers.ResponseParserError,
    ],
)
def test_an_exception_that_is_not_of_the_table_is_unknown(kind):
    assert classify(Answer(fault=fault(kind))) == Unknown(
        error_class="unexpected_error", error_code=kind.__name__
    )


def test_no_fault_and_no_answer_is_unknown():
    assert classify(Answer()) == Unknown(error_class="unexpected_error")
