"""Fetches a certificate's file: small, whole, in time, from the one address asked for."""

import threading
import time
from queue import Empty, SimpleQueue

import urllib3

from mail_service.errors import Unavailable
from mail_service.gateways.certificates import NotAsked


class CertificateFetcher:
    """Fetches one file over HTTP, within a deadline that covers everything.

    The work is done in a thread of its own that is left behind at the deadline: no socket option
    bounds a name lookup, a TLS handshake or headers that come byte by byte. At most ``at_once``
    such threads exist; more is refused at once.
    """

    def __init__(
        self, *, deadline: float = 3.0, max_bytes: int = 16 * 1024, at_once: int = 4
    ) -> None:
        self._deadline = deadline
        self._max_bytes = max_bytes
        self._free = threading.BoundedSemaphore(at_once)

    def __call__(self, address: str) -> bytes:
        """Give the file's bytes; Unavailable for anything but a whole, small answer of status 200.

        NotAsked where too many are being fetched. Follows no redirect, repeats nothing and uses no
        proxy of the environment.
        """
        if not self._free.acquire(blocking=False):
            raise NotAsked("too many signing certificates are being fetched")
        result: SimpleQueue[bytes | Exception] = SimpleQueue()
        thread = threading.Thread(
            target=self._work, args=(address, result), name="certificate-fetch", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as fault:
            self._free.release()
            raise NotAsked("no thread to fetch a signing certificate") from fault
        try:
            outcome = result.get(timeout=self._deadline)
        except Empty:
            raise Unavailable(f"no signing certificate within {self._deadline:g} s") from None
        if isinstance(outcome, Exception):
            raise Unavailable(f"no signing certificate: {outcome}") from outcome
        return outcome

    def _work(self, address: str, result: "SimpleQueue[bytes | Exception]") -> None:
        try:
            result.put(self._fetch(address, time.monotonic() + self._deadline))
        except Exception as fault:  # whatever the library raises is a fault of transport
            result.put(fault)
        finally:
            self._free.release()

    def _fetch(self, address: str, until: float) -> bytes:
        body = bytearray()
        with urllib3.PoolManager(num_pools=1, maxsize=1) as pool:
            answer = pool.request(
                "GET",
                address,
                retries=False,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(total=self._deadline),
            )
            try:
                if answer.status != 200:
                    raise ValueError(f"status {answer.status}")
                # Not decoded: a small compressed answer could be a large one.
                while chunk := answer.read1(self._max_bytes, decode_content=False):
                    body += chunk
                    if len(body) > self._max_bytes:
                        raise ValueError(f"over {self._max_bytes} bytes")
                    if time.monotonic() > until:
                        raise TimeoutError("too slow")
            finally:
                answer.close()
        return bytes(body)
