"""django-post_office: its own command over its own table, with a backend that makes the same call.

Stated: as many processes and threads as the others, one batch for the whole backlog (each batch starts
new processes, and with them a new client), its log off. It has no claim, no attempt and no token: a
kill in the middle of a batch sends all of it again. So this is less than the job of the others.
"""

import os
import sys
import uuid
from urllib.parse import unquote

import django
from django.conf import settings
from django.core.mail.backends.base import BaseEmailBackend
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers import job


class Backend(BaseEmailBackend):
    """What django-ses does, on the same client as everybody."""

    def send_messages(self, messages) -> int:
        for message in messages:
            html = message.alternatives[0][0]
            job.call(message.to[0], message.subject, message.body, html, str(uuid.uuid4()))
        return len(messages)


def configure() -> None:
    given = conninfo_to_dict(job.URL)
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "post_office"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": given["dbname"],
                "USER": given["user"],
                "HOST": unquote(str(given["host"])),
                "PORT": given.get("port", "5432"),
            }
        },
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        POST_OFFICE={
            "BACKENDS": {"default": "benchmarks.peers.post_office_peer.Backend"},
            "BATCH_SIZE": 1_000_000,
            "THREADS_PER_PROCESS": job.SLOTS,
            "LOG_LEVEL": 0,
            "BATCH_DELIVERY_TIMEOUT": 600,
        },
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        USE_TZ=True,
        SECRET_KEY=uuid.uuid4().hex,
    )
    django.setup()


def prepare(count: int) -> None:
    from django.core.management import call_command
    from post_office import mail
    from post_office.models import Email

    call_command("migrate", verbosity=0)
    Email.objects.all().delete()
    for at in range(1, count + 1, 500):
        mail.send_many(
            [
                {
                    "sender": job.MAIL["sender"],
                    "recipients": [f"bench-{n}@example.com"],
                    "subject": job.MAIL["subject"],
                    "message": job.MAIL["text"],
                    "html_message": job.MAIL["html"],
                }
                for n in range(at, min(at + 500, count + 1))
            ]
        )


def work() -> None:
    from django.core.management import call_command

    processes = int(os.environ["BENCH_PROCESSES"])
    lock = f"{os.environ['TMPDIR']}/post-office-{os.getpid()}"
    call_command("send_queued_mail", processes=processes, lockfile=lock)


if __name__ == "__main__":
    configure()
    work() if sys.argv[1] == "work" else prepare(int(sys.argv[1]))
