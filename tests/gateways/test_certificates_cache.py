"""Keeping good keys, forgetting failures soon, and asking once (W4, W6)."""

import threading
from datetime import timedelta

import pytest

from mail_service.errors import NotGenuine, Unavailable
from mail_service.gateways.certificates import CertificateCache, NotAsked, SigningKey
from tests.signing import NOW, Shelf, certificate, rsa_key

NAMES = frozenset({"sns.amazonaws.com"})
GOOD = certificate()
OTHER = certificate(rsa_key(number=1))


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make(pems):
    shelf, clock = Shelf(pems), Clock()
    return CertificateCache(shelf, elapsed=clock), shelf, clock


def get(cache: CertificateCache, address: str = "a", now=NOW) -> SigningKey:
    return cache.key_for(address, names=NAMES, now=now)


def test_a_good_key_is_fetched_once():
    cache, shelf, clock = make({"a": GOOD})
    first = get(cache)
    clock.seconds = 1e6
    assert get(cache) is first
    assert shelf.asked == ["a"]


@pytest.mark.parametrize(
    ("stands", "error"), [(Unavailable("away"), Unavailable), (b"bad", NotGenuine)]
)
def test_a_failure_is_remembered_for_seconds_and_never_for_long(stands, error):
    cache, shelf, clock = make({"a": stands})
    with pytest.raises(error) as first:
        get(cache)
    clock.seconds = 14.9
    shelf.pems = {"a": GOOD}
    with pytest.raises(error) as second:
        get(cache)
    assert first.value is not second.value
    assert shelf.asked == ["a"]
    clock.seconds = 15.0
    assert get(cache)
    assert shelf.asked == ["a", "a"]


def test_w6_a_bad_certificate_is_never_kept_under_a_good_name():
    cache, shelf, clock = make({"a": certificate(common_name="evil.example")})
    for _ in range(3):
        with pytest.raises(NotGenuine):
            get(cache)
        clock.seconds += 20
    shelf.pems = {"a": GOOD}
    assert get(cache)


def test_w4_ten_thousand_addresses_keep_sixteen_keys_and_failures_push_none_out():
    pems = {f"good {n}": GOOD for n in range(100)}
    cache, shelf, _ = make(pems)
    kept = get(cache, "good 0")
    for n in range(10_000):
        with pytest.raises(Unavailable):
            get(cache, f"bad {n}")
    assert get(cache, "good 0") is kept
    assert len(cache._good) == 1
    assert len(cache._failed) == 16
    for n in range(1, 100):
        get(cache, f"good {n}")
        get(cache, "good 0")
    assert len(cache._good) == 16
    assert shelf.asked.count("good 0") == 1, "what is used stays"


def test_w4_many_readers_of_one_address_cause_one_fetch_and_all_get_its_result():
    release, asked = threading.Event(), []
    waiting = threading.Semaphore(0)

    def fetch(address: str) -> bytes:
        asked.append(address)
        waiting.release()
        assert release.wait(10)
        return GOOD

    cache = CertificateCache(fetch)
    keys: list[SigningKey] = []
    threads = [threading.Thread(target=lambda: keys.append(get(cache))) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert waiting.acquire(timeout=5)
    release.set()
    for thread in threads:
        thread.join()
    assert asked == ["a"]
    assert len(keys) == 20
    assert len(set(map(id, keys))) == 1


def test_those_who_wait_go_on_when_the_fetch_ends_in_something_unforeseen():
    release, waiting = threading.Event(), threading.Semaphore(0)

    def fetch(address: str) -> bytes:
        waiting.release()
        assert release.wait(10)
        raise KeyboardInterrupt

    cache = CertificateCache(fetch)
    caught: list[BaseException] = []

    def read() -> None:
        try:
            get(cache)
        except BaseException as fault:
            caught.append(fault)

    first = threading.Thread(target=read)
    first.start()
    assert waiting.acquire(timeout=5)
    flight = cache._flights["a"]
    release.set()
    first.join()
    assert isinstance(caught[0], KeyboardInterrupt)
    assert isinstance(flight.result(timeout=1).error(), Unavailable)
    assert cache._flights == {}


def test_a_key_that_is_out_of_date_is_asked_for_again_and_refused():
    cache, shelf, _ = make({"a": GOOD})
    get(cache)
    with pytest.raises(NotGenuine):
        get(cache, now=NOW + timedelta(days=400))
    assert shelf.asked == ["a", "a"]


def test_a_newer_key_is_looked_for_only_when_the_kept_one_is_over_an_hour_old():
    cache, shelf, clock = make({"a": GOOD})
    old = get(cache)
    shelf.pems = {"a": OTHER}
    clock.seconds = 3600.0
    assert cache.newer_key("a", names=NAMES, now=NOW, than=old) is None
    clock.seconds = 3600.5
    new = cache.newer_key("a", names=NAMES, now=NOW, than=old)
    assert new is not None
    assert new.public_key == rsa_key(number=1).public_key()
    assert cache.newer_key("a", names=NAMES, now=NOW, than=new) is None
    assert cache.newer_key("a", names=NAMES, now=NOW, than=old) is new
    assert shelf.asked == ["a", "a"]


@pytest.mark.parametrize(
    ("stands", "error"), [(Unavailable("away"), Unavailable), (b"bad", NotGenuine)]
)
def test_w6_a_failed_second_look_leaves_the_good_key_in_its_place(stands, error):
    cache, shelf, clock = make({"a": GOOD})
    old = get(cache)
    shelf.pems = {"a": stands}
    clock.seconds = 4000.0
    for _ in range(3):
        with pytest.raises(error):
            cache.newer_key("a", names=NAMES, now=NOW, than=old)
    assert get(cache) is old
    assert shelf.asked == ["a", "a"]


def test_w4_a_fetch_that_was_never_begun_says_nothing_about_the_address():
    cache, shelf, _ = make({"a": NotAsked("too many are being fetched")})
    with pytest.raises(Unavailable, match="too many"):
        get(cache)
    shelf.pems = {"a": GOOD}
    assert get(cache), "at once: a flood must not shut the good address out for seconds"
    assert cache._failed == {}
