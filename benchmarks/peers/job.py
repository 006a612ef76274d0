"""The job that every peer does for one email, with the guarantees that can be had around a queue.

Claim with a fresh token and an attempt row, committed; one call outside any transaction; finish only
where the token is still ours. One client and one pool per process, made when first used.
"""

import json
import os
import threading
import uuid
from pathlib import Path

import psycopg
from boto3.session import Session
from botocore.config import Config
from psycopg_pool import ConnectionPool

SLOTS = int(os.environ.get("BENCH_SLOTS", "16"))
URL = os.environ.get("BENCH_DATABASE_URL", "")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS bench_emails (
    id bigint PRIMARY KEY, recipient text NOT NULL, subject text NOT NULL, body_text text NOT NULL,
    body_html text NOT NULL, state text NOT NULL DEFAULT 'pending', token uuid, lease_until timestamptz,
    provider_message_id text, created_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz
);
CREATE TABLE IF NOT EXISTS bench_attempts (
    id uuid PRIMARY KEY, email_id bigint NOT NULL REFERENCES bench_emails,
    state text NOT NULL DEFAULT 'started', provider_message_id text,
    started_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz
);
CREATE INDEX IF NOT EXISTS bench_emails_leased ON bench_emails (lease_until) WHERE state = 'sending';
TRUNCATE bench_emails, bench_attempts;
"""
_FILL = """
INSERT INTO bench_emails (id, recipient, subject, body_text, body_html)
SELECT g, 'bench-' || g || '@example.com', %s, %s, %s FROM generate_series(1, %s) g
"""
_CLAIM = """
WITH claimed AS (
    UPDATE bench_emails SET state = 'sending', token = %(token)s, lease_until = now() + interval '60 s'
    WHERE id = %(id)s AND state = 'pending'
    RETURNING id, recipient, subject, body_text, body_html
), attempt AS (
    INSERT INTO bench_attempts (id, email_id) SELECT %(token)s, id FROM claimed
)
SELECT recipient, subject, body_text, body_html FROM claimed
"""
_FINISH = """
WITH finished AS (
    UPDATE bench_emails SET state = 'done', token = NULL, lease_until = NULL, finished_at = now(),
        provider_message_id = %(message_id)s
    WHERE id = %(id)s AND token = %(token)s RETURNING id
)
UPDATE bench_attempts SET state = 'accepted', finished_at = now(), provider_message_id = %(message_id)s
WHERE id = %(token)s
"""

_lock = threading.Lock()
_client = None
_pool: "ConnectionPool | None" = None


def mail() -> dict:
    """Give the mail that everybody's is."""
    return json.loads(Path(os.environ["BENCH_MAIL"]).read_text())


MAIL = mail() if "BENCH_MAIL" in os.environ else {}


def fill(count: int) -> None:
    """Have an empty table filled with emails."""
    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute(_SCHEMA)
        connection.execute(_FILL, (MAIL["subject"], MAIL["text"], MAIL["html"], count))


def client():
    """Give this process's one client: retries off, as the product's own is set up."""
    global _client
    if _client is None:
        with _lock:
            if _client is None:
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": 1},
                    max_pool_connections=SLOTS,
                    tcp_keepalive=True,
                    parameter_validation=False,
                    read_timeout=60,
                )
                session = Session(region_name="eu-west-1")
                _client = session.client(
                    "sesv2", endpoint_url=os.environ["BENCH_SES_URL"], config=config
                )
    return _client


def pool() -> ConnectionPool:
    """Give this process's pool: a connection for each slot, so that none waits for one."""
    global _pool
    if _pool is None:
        with _lock:
            if _pool is None:
                _pool = ConnectionPool(
                    URL, min_size=1, max_size=SLOTS, open=True, kwargs={"autocommit": True}
                )
    return _pool


def call(recipient: str, subject: str, text: str, html: str, tag: str) -> str:
    """Make the one call; gives the MessageId."""
    answer = client().send_email(
        FromEmailAddress=MAIL["sender"],
        Destination={"ToAddresses": [recipient]},
        Content={
            "Simple": {
                "Subject": {"Data": subject, "Charset": "UTF-8"},
                "Body": {
                    "Text": {"Data": text, "Charset": "UTF-8"},
                    "Html": {"Data": html, "Charset": "UTF-8"},
                },
                "Headers": [{"Name": MAIL["header"], "Value": tag}],
            }
        },
        EmailTags=[{"Name": MAIL["tag"], "Value": tag}],
        ConfigurationSetName=MAIL["configuration_set"],
    )
    return answer["MessageId"]


def deliver(email_id: int) -> None:
    """Do the whole job for one email; nothing where somebody else has it."""
    token = uuid.uuid4()
    with pool().connection() as connection:
        claimed = connection.execute(_CLAIM, {"id": email_id, "token": token}).fetchone()
    if claimed is None:
        return
    message_id = call(*claimed, str(token))
    with pool().connection() as connection:
        connection.execute(_FINISH, {"id": email_id, "token": token, "message_id": message_id})
