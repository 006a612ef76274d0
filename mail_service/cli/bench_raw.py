"""What everything is compared with: boto3 in a loop, with no database and no promise.

Run by path. One process with ``BENCH_SLOTS`` threads that share one client, as its maintainers say;
retries are off, as everywhere in the bench. It makes ``BENCH_EMAILS`` calls and waits to be stopped, so
that its CPU can still be read.
"""

import itertools
import json
import os
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

from boto3.session import Session
from botocore.config import Config


def client(slots: int) -> Any:  # noqa: ANN401 - stubs are no part of the product
    """Give the one client of a process, set up as the product's own."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=slots,
        tcp_keepalive=True,
        parameter_validation=False,
        read_timeout=60,
    )
    session = Session(region_name="eu-west-1")
    # The stubs of the services we do not use are not installed: one overload of 400 is known.
    return session.client("sesv2", endpoint_url=os.environ["BENCH_SES_URL"], config=config)  # pyright: ignore[reportUnknownMemberType]


def request(mail: dict[str, str], recipient: str, tag: str) -> dict[str, Any]:
    """Give one call's parameters: what the product asks SES for, too."""
    return {
        "FromEmailAddress": mail["sender"],
        "Destination": {"ToAddresses": [recipient]},
        "Content": {
            "Simple": {
                "Subject": {"Data": mail["subject"], "Charset": "UTF-8"},
                "Body": {
                    "Text": {"Data": mail["text"], "Charset": "UTF-8"},
                    "Html": {"Data": mail["html"], "Charset": "UTF-8"},
                },
                "Headers": [{"Name": mail["header"], "Value": tag}],
            }
        },
        "EmailTags": [{"Name": mail["tag"], "Value": tag}],
        "ConfigurationSetName": mail["configuration_set"],
    }


def main() -> None:
    """Make the calls."""
    slots, emails = int(os.environ["BENCH_SLOTS"]), int(os.environ["BENCH_EMAILS"])
    process = os.environ["BENCH_PROCESS"]
    mail = json.loads(Path(os.environ["BENCH_MAIL"]).read_text())
    ses = client(slots)
    numbers = itertools.count()

    def loop() -> None:
        while (number := next(numbers)) < emails:
            recipient = f"raw-{process}-{number}@example.com"
            ses.send_email(**request(mail, recipient, str(uuid.uuid4())))

    threads = [threading.Thread(target=loop) for _ in range(slots)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    signal.pause()


if __name__ == "__main__":
    main()
