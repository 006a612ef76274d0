"""``mail-service emails``: lists that find, and a history that tells everything in order."""

import uuid

from mail_service.domain.outcomes import Unknown
from mail_service.runtime import Runtime
from tests import steps
from tests.cli.conftest import Cli
from tests.fakes import ScriptedMailer


def test_an_empty_list_is_fine(cli: Cli) -> None:
    ran = cli("emails", "list", "--json")
    assert ran.status == 0
    assert ran.json == {"items": [], "next": None}


def test_the_json_of_an_email_is_what_the_api_gives(cli: Cli, rt: Runtime) -> None:
    from api import presenting

    email = steps.sign_up(rt)
    (claim,) = steps.send_all(rt)
    steps.bring(rt, steps.ses_event("Delivery", tag=str(claim.row.attempt_id)))
    shown = cli("emails", "show", email.email.id, "--json").json
    assert shown == presenting.email(steps.look(rt, email)).model_dump(mode="json")


def test_a_list_is_narrowed_by_every_filter(cli: Cli, rt: Runtime) -> None:
    sent = steps.sign_up(rt, "ada@example.com")
    steps.send_all(rt)
    waiting = steps.sign_up(rt, "grace@example.com")

    def ids(*filters: str) -> list[str]:
        return [item["id"] for item in cli("emails", "list", "--json", *filters).json["items"]]

    assert ids() == [str(waiting.email.id), str(sent.email.id)]
    assert ids("--state", "submitted") == [str(sent.email.id)]
    assert ids("--recipient", "GRACE@example.com") == [str(waiting.email.id)]
    assert ids("--message-id", "message-1") == [str(sent.email.id)]
    assert ids("--template", "none-v1") == []
    assert ids("--since", "2999-01-01") == []
    assert ids("--before", "2999-01-01T00:00:00Z") == ids()


def test_a_long_list_says_how_to_go_on_and_does(cli: Cli, rt: Runtime) -> None:
    for number in range(3):
        steps.sign_up(rt, f"user{number}@example.com")
    first = cli("emails", "list", "--limit", "2", "--json").json
    assert len(first["items"]) == 2
    told = cli("emails", "list", "--limit", "2")
    assert f"--after {first['next']}" in told.err
    assert "--after" not in told.out
    rest = cli("emails", "list", "--limit", "2", "--after", first["next"], "--json").json
    assert len(rest["items"]) == 1
    assert rest["next"] is None


def test_a_history_tells_calls_events_and_facts_in_order_of_time(
    cli: Cli, rt: Runtime, mailer: ScriptedMailer
) -> None:
    email = steps.sign_up(rt)
    mailer.answers(Unknown(error_class="read_timeout"))
    (claim,) = steps.send_all(rt)
    tag = str(claim.row.attempt_id)
    steps.bring(rt, steps.ses_event("Send", tag=tag, at="2999-01-01T10:00:00.000Z"))
    steps.bring(rt, steps.ses_event("Bounce", tag=tag, at="2999-01-01T10:00:05.000Z"))
    shown = cli("emails", "show", email.email.id)
    assert shown.status == 0
    order = [
        "written: welcome-v1",
        f"began, tag {tag}",
        "ended: read_timeout; accepted by event since then",
        "send (heard",
        "bounced (Permanent/General)",
    ]
    places = [shown.out.index(words) for words in order]
    assert places == sorted(places)


def test_an_email_that_is_not_there_is_a_problem(cli: Cli) -> None:
    ran = cli("emails", "show", uuid.UUID(int=99))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "there is no such email\n"


def test_an_id_that_is_none_is_wrong_usage(cli: Cli) -> None:
    assert cli("emails", "show", "nonsense").status == 2


def test_a_time_or_a_cursor_that_can_not_be_read_is_wrong_usage(cli: Cli) -> None:
    late = cli("emails", "list", "--since", "yesterday")
    assert late.status == 2
    assert "since: expected a date" in late.err
    assert cli("emails", "list", "--after", "???").status == 2


def test_lines_are_never_cut_in_a_pipe(cli: Cli, rt: Runtime) -> None:
    address = f"{'long' * 15}@{'sub.' * 20}example.com"
    email = steps.sign_up(rt, address)
    (line,) = [line for line in cli("emails", "list").out.splitlines() if address in line]
    assert str(email.email.id) in line
