"""Our signature is the one that botocore's signer gives, and the one that AWS published."""

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.outcomes import Accepted
from mail_service.gateways import endpoint
from mail_service.gateways.signature import signed
from tests.gateways.test_ses_wire import EMAIL, clean_aws, mailer_for, wire

text = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=30)
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


def test_it_is_the_signature_of_aws_s_own_test_suite():
    # "post-vanilla" of https://docs.aws.amazon.com/general/latest/gr/signature-v4-test-suite.html
    headers = signed(
        {},
        host="example.amazonaws.com",
        path="/",
        body=b"",
        at="20150830T123600Z",
        credentials=ReadOnlyCredentials(
            "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None
        ),
        region="us-east-1",
        service="service",
    )
    assert headers["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        "SignedHeaders=host;x-amz-date, "
        "Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    )


@given(
    credentials=st.builds(ReadOnlyCredentials, words, text.filter(bool), st.none() | words),
    region=st.sampled_from(["eu-west-1", "us-east-1", "cn-north-1"]),
    headers=st.fixed_dictionaries(
        {"Content-Type": st.just("application/json")},
        optional={"User-Agent": words, "X-Amz-Example": text, "X-Other": words},
    ),
    body=st.binary(max_size=200),
    host=st.sampled_from(["email.eu-west-1.amazonaws.com", "localhost:8800", "[::1]:8800"]),
)
def test_it_is_the_signature_of_botocore(credentials, region, headers, body, host):
    path = "/v2/email/outbound-emails"
    request = AWSRequest("POST", f"http://{host}{path}", headers, body)
    SigV4Auth(credentials, "ses", region).add_auth(request)
    ours = signed(
        headers,
        host=host,
        path=path,
        body=body,
        at=request.headers["X-Amz-Date"],
        credentials=credentials,
        region=region,
        service="ses",
    )
    assert ours.pop("Host") == host
    assert ours == dict(request.headers.items())


@pytest.mark.parametrize("base", ["", "/", "/base", "/a%20b//c/../d/~", "/a;b+c:d=e@f&g,h"])
@pytest.mark.parametrize("token", [None, "a  token=="])
def test_what_arrives_is_signed_as_botocore_would_have(base, token, monkeypatch):
    clean_aws(monkeypatch, **{"AWS_SESSION_TOKEN": token} if token else {})
    with wire() as told:
        url = f"http://127.0.0.1:{told.port}{base}"
        assert isinstance(mailer_for(url).send(EMAIL), Accepted)
        (request,) = told.requests
    target = request.line.split()[1]
    credentials = ReadOnlyCredentials("AKIAEXAMPLE", "secret", token)
    signer = SigV4Auth(credentials, "ses", "eu-west-1")
    authorization = request.headers.pop("authorization")
    covered = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"host", "content-type", "x-amz-date"} <= set(covered)
    same = AWSRequest(
        "POST",
        f"http://{request.headers['host']}{target}",
        {name: request.headers[name] for name in covered},
        request.body,
    )
    same.context["timestamp"] = request.headers["x-amz-date"]
    signature = signer.signature(signer.string_to_sign(same, signer.canonical_request(same)), same)
    assert authorization.endswith(f"Signature={signature}")
    assert f"Credential={signer.scope(same)}," in authorization


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://email.example/a", "email.example"),
        ("https://email.example:443", "email.example"),
        ("http://email.example:443", "email.example:443"),
        ("http://[::1]:80/", "[::1]"),
        ("http://user:word@[::1]:8800/", "[::1]:8800"),
        ("HTTP://Email.Example:8800", "email.example:8800"),
    ],
)
def test_the_host_is_named_with_its_port_where_that_is_not_the_usual_one(url, host):
    assert endpoint.is_usable(url)
    assert endpoint.read(url).host == host
