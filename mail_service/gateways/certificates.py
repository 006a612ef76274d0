"""Signing certificates: checked, and kept for as long as they are good.

Which address may be asked is not decided here but in :mod:`mail_service.gateways.sns`.

What makes a certificate of AWS, in the order of the checks: the file's first certificate is the
signer's and every further one an authority's; RSA of 2048 to 8192 bits; in date; subject or
alternative name is SNS's; not self-signed, and issued by an organisation in ``ISSUERS``. The file
holds no chain, so the issuer's name is a claim; what carries the trust is TLS to the one host that
the topic's region allows. Certificates of test origins need neither name nor issuer.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from mail_service.errors import NotGenuine, Unavailable
from mail_service.ports import FetchCertificate

ISSUERS = frozenset({"Amazon"})
HISTORIC_ISSUERS = frozenset({"VeriSign, Inc.", "Symantec Corporation"})
"""Issued SNS's certificates until 2017. All have expired, so today the date check refuses them;
they are known so that old messages can be read under an old clock."""
_HISTORIC_UNTIL = datetime(2018, 1, 1, tzinfo=UTC)

_T = TypeVar("_T")

_CACHED = 16
_STALE_AFTER = 3600.0
_FAILURE_KEPT = 15.0


class NotAsked(Unavailable):
    """No fetch was begun, so nothing is known of the address: it may be asked for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key that passed the checks, with the dates between which it may be used."""

    public_key: rsa.RSAPublicKey
    not_before: datetime
    not_after: datetime
    fetched_at: float = 0.0

    def is_in_date(self, now: datetime) -> bool:
        return self.not_before <= now <= self.not_after


def check_certificate(
    pem: bytes, *, names: frozenset[str] | None, now: datetime, fetched_at: float = 0.0
) -> SigningKey:
    """Give the key of a good certificate, or raise NotGenuine.

    ``names`` are those of which the certificate must bear one; None for a test origin.
    """
    try:
        leaf, *others = x509.load_pem_x509_certificates(pem)
        public_key = leaf.public_key()
        subjects = _common_names(leaf.subject) | _dns_names(leaf)
        issuers = _organisations(leaf.issuer)
        authorities = all(_is_authority(other) for other in others)
        signs_others = _is_authority(leaf)
    except Exception:  # the library raises many kinds, some of them only when a part is first read
        raise _bad("not a certificate that can be read") from None
    key = SigningKey(
        public_key=_checked(public_key),
        not_before=leaf.not_valid_before_utc,
        not_after=leaf.not_valid_after_utc,
        fetched_at=fetched_at,
    )
    if not authorities:
        raise _bad("more than one signer's certificate in one file")
    if not key.is_in_date(now):
        raise _bad("not in date")
    if names is None:
        return key
    if subjects.isdisjoint(names):
        raise _bad("not made out to SNS")
    if signs_others or leaf.subject == leaf.issuer:
        raise _bad("self-signed, or an authority's")
    historic = key.not_after < _HISTORIC_UNTIL
    if not issuers or not issuers <= (ISSUERS | HISTORIC_ISSUERS if historic else ISSUERS):
        raise _bad("not issued by Amazon")
    return key


def _checked(public_key: object) -> rsa.RSAPublicKey:
    if not isinstance(public_key, rsa.RSAPublicKey) or not 2048 <= public_key.key_size <= 8192:
        raise _bad("not an RSA key of 2048 to 8192 bits")
    return public_key


def _bad(detail: str) -> NotGenuine:
    return NotGenuine("bad_certificate", detail)


def _common_names(name: x509.Name) -> set[str]:
    return {str(part.value) for part in name.get_attributes_for_oid(NameOID.COMMON_NAME)}


def _organisations(name: x509.Name) -> set[str]:
    return {str(part.value) for part in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}


def _dns_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return set(found.value.get_values_for_type(x509.DNSName))


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why there is no certificate, and until when we believe so without asking again."""

    fault: Unavailable | NotGenuine
    until: float

    def error(self) -> Unavailable | NotGenuine:
        """Give an exception of the asker's own: a shared one would collect all their tracebacks."""
        if isinstance(self.fault, Unavailable):
            return Unavailable(str(self.fault))
        return NotGenuine(self.fault.cause, "found bad a moment ago")


class CertificateCache:
    """Keeps the keys of good certificates, fetching each address once however many ask.

    Bounded, and only what passed the checks is kept. A failure is remembered for 15 s, apart, so
    that it stops floods and never pushes a good key out; a fetch that was never begun is no failure
    of its address, else a flood of made-up addresses would shut the good one out.
    """

    def __init__(
        self, fetch: FetchCertificate, *, elapsed: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._good: OrderedDict[str, SigningKey] = OrderedDict()
        self._failed: OrderedDict[str, _Failure] = OrderedDict()
        self._flights: dict[str, Future[SigningKey | _Failure]] = {}

    def key_for(self, address: str, *, names: frozenset[str] | None, now: datetime) -> SigningKey:
        """Give the key behind a good address. Raises NotGenuine or Unavailable."""
        return self._get(address, names, now, unlike=None)

    def newer_key(
        self, address: str, *, names: frozenset[str] | None, now: datetime, than: SigningKey
    ) -> SigningKey | None:
        """Give a later copy of a key that a signature did not fit; None if it is under 1 h old."""
        if self._elapsed() - than.fetched_at <= _STALE_AFTER:
            return None
        return self._get(address, names, now, unlike=than)

    def _get(
        self, address: str, names: frozenset[str] | None, now: datetime, unlike: SigningKey | None
    ) -> SigningKey:
        with self._lock:
            good = self._good.get(address)
            if good is not None and good is not unlike and good.is_in_date(now):
                self._good.move_to_end(address)
                return good
            failure = self._failed.get(address)
            if failure is not None and failure.until > self._elapsed():
                raise failure.error()
            flight = self._flights.get(address)
            first = flight is None
            if flight is None:
                flight = self._flights[address] = Future()
        if first:
            self._fly(flight, address, names, now)
        outcome = flight.result()
        if isinstance(outcome, _Failure):
            raise outcome.error()
        return outcome

    def _fly(
        self,
        flight: "Future[SigningKey | _Failure]",
        address: str,
        names: frozenset[str] | None,
        now: datetime,
    ) -> None:
        # Stands if something that nobody foresaw leaves through here: those who wait must go on.
        outcome: SigningKey | _Failure = _Failure(Unavailable("the fetch was cut short"), until=0.0)
        try:
            pem = self._fetch(address)
            outcome = check_certificate(pem, names=names, now=now, fetched_at=self._elapsed())
        except (Unavailable, NotGenuine) as fault:
            outcome = _Failure(fault, until=self._elapsed() + _FAILURE_KEPT)
        finally:
            with self._lock:
                del self._flights[address]
                if isinstance(outcome, SigningKey):
                    _keep(self._good, address, outcome)
                    self._failed.pop(address, None)
                elif not isinstance(outcome.fault, NotAsked):
                    _keep(self._failed, address, outcome)
            flight.set_result(outcome)


def _keep(kept: "OrderedDict[str, _T]", address: str, value: _T) -> None:
    kept[address] = value
    kept.move_to_end(address)
    while len(kept) > _CACHED:
        kept.popitem(last=False)
