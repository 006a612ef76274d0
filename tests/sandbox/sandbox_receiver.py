"""What the sandbox's tests need besides boto3: an HTTP endpoint, patience, and a verifier."""

import base64
import json
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa


def wait_for(condition: Callable[[], Any], seconds: float = 5) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError("the condition did not become true in time")


def call(url: str, body: Any = None) -> tuple[int, dict[str, str], bytes]:
    """One HTTP request; status, headers and body whatever the status is."""
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def call_json(url: str, body: Any = None) -> Any:
    status, _, text = call(url, body)
    assert status == 200, text
    return json.loads(text)


def verify(envelope: dict[str, str]) -> x509.Certificate:
    """Check a signature by AWS's description: InvalidSignature or KeyError if it is not good."""
    if envelope["Type"] == "Notification":
        order = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    else:
        order = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    text = ""
    for name in order:
        if name != "Subject" or name in envelope:
            text += name + "\n" + envelope[name] + "\n"
    certificate = x509.load_pem_x509_certificate(call(envelope["SigningCertURL"])[2])
    key = certificate.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    digest = {"1": hashes.SHA1(), "2": hashes.SHA256()}[envelope["SignatureVersion"]]
    key.verify(base64.b64decode(envelope["Signature"]), text.encode(), padding.PKCS1v15(), digest)
    return certificate


def simple_mail(*recipients: str) -> dict[str, Any]:
    return {
        "FromEmailAddress": "App <hello@example.com>",
        "Destination": {"ToAddresses": list(recipients)},
        "Content": {
            "Simple": {
                "Subject": {"Data": "Hello"},
                "Body": {"Text": {"Data": "Hi"}},
                "Headers": [{"Name": "X-Request-Tag", "Value": "t-1"}],
            }
        },
        "EmailTags": [{"Name": "request_tag", "Value": "t-1"}],
        "ConfigurationSetName": "transactional",
    }


class Receiver:
    """An HTTP endpoint that records what is posted and answers `statuses`, the last one forever.

    A status of None hangs up without an answer.
    """

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int | None] = [200]
        self.gate = threading.Event()
        self.gate.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.posts.append((headers, body))
                receiver.gate.wait(10)
                some = receiver.statuses
                status = some.pop(0) if len(some) > 1 else some[0]
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?from=sns"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def envelopes(self, kind: str = "Notification") -> list[dict[str, str]]:
        found = [json.loads(body) for _, body in list(self.posts)]
        return [envelope for envelope in found if envelope["Type"] == kind]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(envelope["Message"]) for envelope in self.envelopes()]

    def kinds(self) -> list[str]:
        return [one.get("eventType") or one["notificationType"] for one in self.events()]

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
