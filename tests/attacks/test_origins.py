"""W3, W4: the right address, and behind it a server that means no good.

The certificate is fetched by the real fetcher from a real server, listed as a test origin.
"""

import gzip

import pytest

from mail_service.gateways.certificate_files import CertificateFetcher
from tests.attacks.attack import GOOD_PEM, harmful
from tests.attacks.stage import Seen, Stage
from tests.origin import OK, PATH, SLOW, WRONG, Origin, Start, moved, whole
from tests.signing import FOREIGN_TOPIC, Shelf, body_of, make_reader, notification, sign


def post(stage: Stage, server: Origin, deadline: float = 10) -> Seen:
    """Post a message that is good, if only its certificate were to be had from that server."""
    fetch = CertificateFetcher(deadline=deadline)
    stage.read = make_reader(fetch, origins=(server.root,))
    return stage.post(body_of(sign(harmful(), url=server.url)))


def is_a_fault_of_ours(seen: Seen, server: Origin) -> bool:
    """Not believed, to be sent again, and nobody else was asked."""
    asked = f"socket.connect (('127.0.0.1', {server.port}),)"
    return (
        seen.status == 503
        and seen.changed == frozenset()
        and seen.counted == {"no_certificate": 1}
        and [heard for heard in seen.network if heard.startswith("socket.connect")] == [asked]
        and len(server.requests) <= 1
    )


def test_a_good_certificate_from_there_is_taken(stage: Stage, serve: Start):
    server = serve(whole(GOOD_PEM))
    assert post(stage, server).status == 200
    assert server.requests[0].startswith(f"GET {PATH} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_w3_a_redirect_to_a_good_certificate_is_not_followed(
    standing: Stage, serve: Start, status: int
):
    target = serve(whole(GOOD_PEM))
    server = serve(moved(status, target.url))
    assert is_a_fault_of_ours(post(standing, server), server)
    assert target.requests == []


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "//evil.example/", PATH],
)
def test_w3_a_redirect_to_anywhere_is_not_followed(standing: Stage, serve: Start, target: str):
    server = serve(moved(302, target))
    assert is_a_fault_of_ours(post(standing, server), server)


def test_w3_a_proxy_of_the_environment_is_not_asked(
    standing: Stage, serve: Start, monkeypatch: pytest.MonkeyPatch
):
    proxy, server = serve(whole(GOOD_PEM)), serve(WRONG["not found"])
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.root)
        monkeypatch.setenv(name.upper(), proxy.root)
    assert is_a_fault_of_ours(post(standing, server), server)
    assert proxy.requests == []


@pytest.mark.parametrize("answer", [*WRONG.values()], ids=[*WRONG])
def test_w4_what_is_no_whole_small_file_is_a_fault_of_ours(
    standing: Stage, serve: Start, answer: bytes
):
    server = serve(answer)
    assert is_a_fault_of_ours(post(standing, server), server)


@pytest.mark.parametrize("name", SLOW)
def test_w4_a_server_that_never_ends_is_a_fault_of_ours(standing: Stage, serve: Start, name: str):
    server = serve(SLOW[name])
    assert is_a_fault_of_ours(post(standing, server, deadline=1), server)


def test_w4_a_small_answer_that_unpacks_to_a_large_one_is_not_unpacked(
    standing: Stage, serve: Start
):
    packed = gzip.compress(GOOD_PEM + b" " * 1_000_000)
    server = serve(whole(packed, OK, b"Content-Encoding: gzip\r\n"))
    seen = post(standing, server)
    assert (seen.status, seen.counted) == (403, {"bad_certificate": 1})
    assert seen.changed == frozenset()


def test_w4_w19_addresses_without_end_are_asked_once_each_and_shut_nobody_out(stage: Stage):
    good = sign(harmful())
    shelf = Shelf({str(good["SigningCertURL"]): GOOD_PEM})
    stage.read = make_reader(shelf)
    before = stage.post(body_of(sign(notification("{}", MessageId="before"))))
    assert before.status == 200
    for number in range(200):
        url = str(good["SigningCertURL"])[:-36] + f"{number:032x}.pem"
        for _ in range(2):
            seen = stage.post(body_of(good | {"SigningCertURL": url}))
            assert (seen.status, seen.changed) == (503, frozenset())
            assert seen.counted == {"no_certificate": 1}
        assert shelf.asked.count(url) == 1
    assert stage.post(body_of(good)).status == 200
    assert len(shelf.asked) == 201, "the good key was kept all the while"


def test_w19_a_flood_of_another_topic_costs_a_counter_and_no_row(stage: Stage):
    shelf = Shelf()
    stage.read = make_reader(shelf)
    for number in range(50):
        made = sign(notification("{}", MessageId=f"flood-{number}", TopicArn=FOREIGN_TOPIC))
        for body in (body_of(made), b"junk %d" % number):
            seen = stage.post(body)
            assert seen.changed == frozenset()
    assert shelf.asked == []
    counted = stage.rows(
        "SELECT cause, sum(count)::int FROM mail_service.webhook_rejections"
        " GROUP BY cause ORDER BY cause"
    )
    assert counted == [("foreign_topic", 50), ("not_json", 50)]
    assert stage.rows("SELECT count(*) FROM mail_service.webhook_rejections")[0][0] <= 4
