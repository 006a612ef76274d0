"""``suppressions import``, ``export`` and ``sync``: whole lists in, out, and compared with SES's."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mail_service.runtime import Runtime
from mail_service.sandbox import Sandbox, Signer
from mail_service.workflows import operate
from tests.cli.conftest import Cli
from tests.conftest import ENVIRONMENT, Sql

COMMAND = str(Path(sys.executable).parent / "mail-service")
RELEASE = ("--rule", "operator_error", "--reason", "wrong address")


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.generate()


@pytest.fixture
def ses(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    with Sandbox(signer=signer) as sandbox:
        monkeypatch.setenv("SES_ENDPOINT_URL", sandbox.url)
        yield sandbox


def write(path: Path, *lines: str) -> Path:
    file = path / "list.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_good_lines_are_imported_and_bad_ones_are_told_by_number_and_field(
    cli: Cli, sql: Sql, tmp_path: Path
) -> None:
    file = write(
        tmp_path,
        "address,reason,note,created_at",
        "ada@example.com,bounce,moved,2026-01-02T03:04:05Z",
        "nobody,,,",
        "bob@example.com,,,",
        "eve@example.com,,,2126-01-02T03:04:05Z",
    )
    ran = cli("suppressions", "import", file)
    assert ran.status == 1
    assert ran.out == "2 added, 0 suppressed already, 2 bad\n"
    told = [line for line in ran.err.splitlines() if "expected" in line]
    assert told == [
        "line 3, address: expected one email address such as ada@example.com",
        "line 5, created_at: expected a time that has passed",
    ]
    rows = sql(
        "SELECT address, reason::text, note, ses_state::text, source "
        "FROM mail_service.suppressions ORDER BY address"
    )
    assert [row["address"] for row in rows] == ["ada@example.com", "bob@example.com"]
    assert [row["reason"] for row in rows] == ["bounce", "manual"]
    assert {row["ses_state"] for row in rows} == {"pending_put"}
    assert rows[0]["note"] == "moved"
    assert rows[0]["source"].startswith("import by cli:")


def test_an_import_may_be_repeated_and_a_dry_run_changes_nothing(
    cli: Cli, sql: Sql, tmp_path: Path
) -> None:
    file = write(tmp_path, "address", *(f"m{n}@example.com" for n in range(1200)))
    dry = cli("suppressions", "import", file, "--dry-run", "--json")
    assert (dry.status, dry.json["added"], dry.json["dry_run"]) == (0, 1200, True)
    assert sql.one("SELECT count(*) FROM mail_service.suppressions") == 0
    assert cli("suppressions", "import", file, "--json").json["added"] == 1200
    again = cli("suppressions", "import", file, "--json").json
    assert (again["added"], again["already"], again["bad"]) == (0, 1200, 0)
    assert again["problems"] == []


def test_an_import_never_undoes_a_release_that_came_after_its_lines(
    cli: Cli, sql: Sql, tmp_path: Path
) -> None:
    cli("suppressions", "add", "ada@example.com")
    old = tmp_path / "export.csv"
    assert cli("suppressions", "export", "--file", old).status == 0
    sql.advance(10)
    cli("suppressions", "release", "ada@example.com", *RELEASE)
    ran = cli("suppressions", "import", old)
    assert ran.out == (
        "0 added, 0 suppressed already, 1 left out (released after they were listed)\n"
    )
    assert cli("suppressions", "list", "--active", "--json").json["items"] == []
    # Without a time it is a decision of now.
    assert (
        "1 added" in cli("suppressions", "import", write(tmp_path, "email", "ada@example.com")).out
    )
    (row,) = cli("suppressions", "list", "--active", "--json").json["items"]
    assert row["returns"] == 1


def test_an_import_strengthens_and_never_weakens(cli: Cli, sql: Sql, tmp_path: Path) -> None:
    cli("suppressions", "add", "ada@example.com")
    for reason, stands in (("complaint", "complaint"), ("manual", "complaint")):
        cli(
            "suppressions", "import", write(tmp_path, "address,reason", f"ada@example.com,{reason}")
        )
        assert sql.one("SELECT reason::text FROM mail_service.suppressions") == stands


def test_a_file_without_a_header_is_wrong_usage(cli: Cli, tmp_path: Path) -> None:
    ran = cli("suppressions", "import", write(tmp_path, "ada@example.com"))
    assert ran.status == 2
    assert ran.err.startswith("line 1: expected UTF-8 text with a header")
    for command in (("import", tmp_path / "none.csv"), ("import", tmp_path)):
        ran = cli("suppressions", *command)
        assert ran.status == 2
        assert ran.err.startswith("FILE: can't be read:")
    ran = cli("suppressions", "export", "--file", tmp_path / "none" / "x.csv")
    assert ran.status == 2
    assert ran.err.startswith("--file: can't be written:")


def test_what_is_exported_is_imported_elsewhere_as_it_stood(
    cli: Cli, rt: Runtime, sql: Sql, tmp_path: Path
) -> None:
    operate.suppress(rt, address="=1+1@example.com", note='=HYPERLINK("x")', by="test")
    operate.suppress(rt, address="bob@example.com", note='said, "no"', by="test")
    operate.suppress(rt, address="gone@example.com", note=None, by="test")
    sql("UPDATE mail_service.suppressions SET address = NULL WHERE address = 'gone@example.com'")
    file = tmp_path / "export.csv"
    ran = cli("suppressions", "export", "--file", file)
    assert ran.out == ""
    assert "2 suppressions written" in ran.err
    assert "1 left out: their addresses were erased" in ran.err
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()
    assert text == cli("suppressions", "export").out
    assert "\n'=1+1@example.com,manual,\"'=HYPERLINK" in text
    before = sql(
        "SELECT address, reason, note FROM mail_service.suppressions "
        "WHERE address IS NOT NULL ORDER BY 1"
    )
    sql("TRUNCATE mail_service.suppressions")
    assert cli("suppressions", "import", file).status == 0
    assert before == sql("SELECT address, reason, note FROM mail_service.suppressions ORDER BY 1")
    listed = cli("suppressions", "export", "--json").json
    assert {row["address"] for row in listed} == {"=1+1@example.com", "bob@example.com"}


def test_an_empty_list_is_exported_as_a_header_or_an_empty_list(cli: Cli) -> None:
    assert cli("suppressions", "export").out == "address,reason,note,created_at\n"
    assert cli("suppressions", "export", "--json").json == []


def test_a_list_comes_from_another_program_through_a_pipe(database_url: str, sql: Sql) -> None:
    ran = subprocess.run(
        [COMMAND, "suppressions", "import", "-"],
        input=b"\xef\xbb\xbfaddress;note\r\nada@example.com;caf\xe9\r\nbob@example.com;caf\xc3\xa9\r\n",
        capture_output=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        | ENVIRONMENT
        | {"DATABASE_URL": database_url},
    )
    assert ran.returncode == 1
    assert "line 2, note: expected UTF-8 text" in ran.stderr.decode()
    assert sql("SELECT address, note FROM mail_service.suppressions") == [
        {"address": "bob@example.com", "note": "café"}
    ]


def test_a_sync_makes_both_lists_agree_and_tells_what_it_did(
    cli: Cli, ses: Sandbox, sql: Sql
) -> None:
    ses.list_suppressed("known@example.com", "COMPLAINT")
    cli("suppressions", "add", "ada@example.com")
    ran = cli("suppressions", "sync", "--json")
    assert ran.status == 0
    assert ran.json["problem"] is None
    assert ran.json["sync"]["scope"] == "full"
    assert (ran.json["sync"]["listed"], ran.json["sync"]["added"]) == (1, 1)
    drift = ran.json["drift"]
    assert (drift["ours_only"], drift["ses_only"], drift["to_be_put"]) == (0, 0, 0)
    assert ses.suppressed() == {"ada@example.com": "BOUNCE", "known@example.com": "COMPLAINT"}
    sql.advance(10)
    released = cli("suppressions", "release", "ada@example.com", *RELEASE, "--json").json
    assert released["ses_state"] == "pending_delete"
    words = cli("suppressions", "sync", "--recent")
    assert words.status == 0
    assert "from SES: 0 new to us" in words.out
    assert ses.suppressed() == {"known@example.com": "COMPLAINT"}
    (row,) = cli("suppressions", "list", "--released", "--json").json["items"]
    assert row["ses_state"] == "deleted"
    assert "only here 0, only at SES 0" in cli("stats").out


def test_a_sync_that_can_not_be_done_says_why_and_ends_with_1(cli: Cli, ses: Sandbox) -> None:
    ses.knobs(operations={"ListSuppressedDestinations": "denied"})
    ran = cli("suppressions", "sync")
    assert ran.status == 1
    assert "ses:ListSuppressedDestinations: allow this action in its IAM policy" in ran.err
    ses.knobs(operations={"PutSuppressedDestination": "denied"})
    cli("suppressions", "add", "ada@example.com")
    ran = cli("suppressions", "sync", "--json")
    assert ran.status == 1
    assert "ses:PutSuppressedDestination" in ran.json["problem"]
    assert ran.json["drift"]["to_be_put"] == 1
    # A moment ago SES did not take it, and a person asks again: it is tried now, whatever else fails.
    ses.knobs(operations={"ListSuppressedDestinations": "denied"})
    ran = cli("suppressions", "sync", "--json")
    assert ran.status == 1
    assert "ses:ListSuppressedDestinations" in ran.json["problem"]
    assert ran.json["drift"]["to_be_put"] == 0
    assert ses.suppressed() == {"ada@example.com": "BOUNCE"}


def test_a_terminal_sees_a_bar(ses: Sandbox, database_url: str) -> None:
    import pty

    ses.list_suppressed("known@example.com", "BOUNCE")
    reader, writer = pty.openpty()
    shown: list[bytes] = []

    def collect() -> None:
        while True:
            try:
                chunk = os.read(reader, 65536)
            except OSError:
                return
            if not chunk:
                return
            shown.append(chunk)

    thread = threading.Thread(target=collect)
    thread.start()
    ran = subprocess.run(
        [COMMAND, "suppressions", "sync"],
        stdout=subprocess.PIPE,
        stderr=writer,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        | ENVIRONMENT
        | {"DATABASE_URL": database_url, "SES_ENDPOINT_URL": ses.url, "TERM": "xterm"},
    )
    os.close(writer)
    thread.join(10)
    os.close(reader)
    assert ran.returncode == 0
    assert "1 new to us" in ran.stdout.decode()
    assert "━" in b"".join(shown).decode(errors="replace")
