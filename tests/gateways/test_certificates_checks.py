"""What makes a signing certificate a good one (W5)."""

from datetime import UTC, datetime

import pytest

from mail_service.errors import NotGenuine
from mail_service.gateways.certificates import check_certificate
from tests.attacks.certificates import BAD, CHAIN, DAY, issued_by
from tests.signing import NOW, certificate, rsa_key

NAMES = frozenset({"sns.amazonaws.com", "sns.eu-west-1.amazonaws.com"})


@pytest.mark.parametrize(
    "pem",
    [
        certificate(),
        certificate(authority=False),
        certificate(common_name="sns.eu-west-1.amazonaws.com"),
        certificate(common_name=None, alternative_names=("sns.amazonaws.com",)),
        certificate(common_name="other", alternative_names=("a.example", "sns.amazonaws.com")),
        certificate() + CHAIN,
        b"some words before\n" + certificate(),
        certificate(not_before=NOW),
        certificate(not_after=NOW),
        certificate(rsa_key(3072)),
    ],
    ids=range(10),
)
def test_a_certificate_that_looks_like_sns_s_is_good(pem):
    key = check_certificate(pem, names=NAMES, now=NOW)
    assert key.is_in_date(NOW)
    assert not key.is_in_date(NOW + 301 * DAY)


@pytest.mark.parametrize("pem", BAD.values(), ids=BAD.keys())
def test_w5_a_certificate_that_is_not_sns_s_is_refused(pem):
    with pytest.raises(NotGenuine) as refusal:
        check_certificate(pem, names=NAMES, now=NOW)
    assert refusal.value.cause == "bad_certificate"


@pytest.mark.parametrize("organisation", ["VeriSign, Inc.", "Symantec Corporation"])
def test_a_historic_issuer_counts_only_for_certificates_that_ended_by_2017(organisation):
    then = datetime(2016, 7, 1, tzinfo=UTC)
    old = issued_by(organisation, not_before=then, not_after=then + 365 * DAY)
    assert check_certificate(old, names=NAMES, now=then + DAY)
    late = issued_by(organisation, not_before=then, not_after=then + 3650 * DAY)
    for pem, now in ((late, then + DAY), (old, NOW)):
        with pytest.raises(NotGenuine, match="bad_certificate"):
            check_certificate(pem, names=NAMES, now=now)


def test_a_test_origin_s_certificate_needs_no_name_and_no_issuer_but_all_the_rest():
    for pem in (
        certificate(common_name=None, self_signed=True),
        certificate(common_name="sandbox", self_signed=True, authority=True),
        issued_by("Let's Encrypt"),
    ):
        assert check_certificate(pem, names=None, now=NOW)
    for name in ("EC key", "1024 bits", "not yet valid", "expired", "garbage", "two signers"):
        with pytest.raises(NotGenuine, match="bad_certificate"):
            check_certificate(BAD[name], names=None, now=NOW)
