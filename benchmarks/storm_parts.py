"""What a storm consists of: redeliveries, new events, rows that somebody holds; each part is judged."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from cryptography.hazmat.primitives.asymmetric import rsa
from psycopg import sql

from benchmarks.storm_web import Blown, LetGo, Tell, Weather, Web
from mail_service.cli import bench_events
from mail_service.cli.bench_cases import Figures
from mail_service.cli.bench_events import BOUNCE, COMPLAINT, DELIVERY, SEND, Publisher
from mail_service.cli.bench_place import Place

_TABLES = """
    SELECT t.table_name,
           CASE WHEN t.table_name = 'email_outbox' THEN 'id' ELSE c.column_name END
    FROM information_schema.tables t
    LEFT JOIN information_schema.columns c
      ON c.table_schema = t.table_schema AND c.table_name = t.table_name
     AND c.column_name = 'email_id'
    WHERE t.table_schema = 'mail_service' AND t.table_type = 'BASE TABLE'
      AND t.table_name <> 'accounts'
    ORDER BY 1
"""

_COUNTS = """
    SELECT (SELECT count(*) FROM mail_service.ses_events),
           (SELECT count(*) FROM mail_service.ses_events WHERE status = 'matched'),
           (SELECT count(*) FROM mail_service.suppressions),
           (SELECT count(*) FROM mail_service.email_recipients WHERE delivered_at IS NOT NULL),
           (SELECT count(*) FROM mail_service.email_transitions WHERE to_state = 'submitted')
"""

_DOUBT = (
    """UPDATE mail_service.email_outbox
       SET state = 'ambiguous', reason = 'read_timeout', finished_at = NULL WHERE id = ANY(%s)""",
    """UPDATE mail_service.send_attempts
       SET state = 'unknown', provider_message_id = NULL WHERE email_id = ANY(%s)""",
)
"""What a call leaves whose answer was lost."""

Rows = Mapping[str, tuple[int, str]]


def rows(place: Place) -> Rows:
    """Give count and digest of every table as far as it is about the emails of the storm.

    The digest covers the version of each row: one that was written again with the same values differs.
    """
    found: dict[str, tuple[int, str]] = {}
    with place.database.connect() as connection:
        for table, key in connection.execute(_TABLES).fetchall():
            chosen = (
                sql.SQL("{} IN (SELECT email_id FROM mail_service.send_attempts)").format(
                    sql.Identifier(key)
                )
                if key
                else sql.SQL("true")
            )
            count, digest = connection.execute(
                sql.SQL(
                    "SELECT count(*), md5(COALESCE(string_agg(line, E'\\n' ORDER BY line), '')) "
                    "FROM (SELECT t.xmin::text || ' ' || t::text AS line FROM {} t WHERE {}) lines"
                ).format(sql.Identifier("mail_service", table), chosen)
            ).fetchone() or (0, "")
            found[str(table)] = (int(count), str(digest))
    return found


def kinds(number: int) -> list[str]:
    """Give what SES tells about an email: it arrives; some bounce afterwards, a few are complained about."""
    late = [BOUNCE] if number % 20 == 19 else [COMPLAINT] if number % 50 == 0 else []
    return [DELIVERY, SEND, *late]


class Storm:
    """Events about emails that were submitted, brought to one web process in several ways."""

    def __init__(self, place: Place, weather: Weather) -> None:
        self._place = place
        self._weather = weather
        self._proved = 0
        self.calls = bench_events.submitted(place, weather.emails)
        self._publisher = Publisher(place)
        self._events = [
            [self._publisher.event(call, kind) for kind in kinds(number)]
            for number, call in enumerate(self.calls)
        ]

    @property
    def public_key(self) -> rsa.RSAPublicKey:
        """The key that the events are signed with."""
        return self._publisher.public_key

    @property
    def bodies(self) -> list[str]:
        """Every event, once."""
        return [body for events in self._events for body in events]

    def bare(self, web: Web, tell: Tell) -> Figures:
        """Bring a delivery of each email, the one kind that the bare route knows."""
        return self._first(web, self._deliveries(), tell).figures()

    def new(self, web: Web, tell: Tell) -> Figures:
        """Bring a delivery of each email for the first time."""
        deliveries = self._deliveries()
        found = self._first(web, deliveries, tell)
        return {**found.figures(), **self._stored(len(deliveries), set())}

    def more(self, web: Web, tell: Tell) -> Figures:
        """Bring what else there is to tell; some of it stops a mailbox."""
        bodies = [body for events in self._events for body in events[1:]]
        stopped = {c.address for n, c in enumerate(self.calls) if {BOUNCE, COMPLAINT} & {*kinds(n)}}
        found = self._first(web, bodies, tell)
        return {**found.figures(), **self._stored(len(self.bodies), stopped)}

    def again(self, web: Web, tell: Tell) -> Figures:
        """Bring all of them again and again; not a row may be written."""
        return self._again(web, self.bodies, self._weather.redeliveries, tell)

    def again_while_locked(self, web: Web, tell: Tell) -> Figures:
        """Bring those of some emails again while somebody holds the emails' rows."""
        bodies = [body for events in self._events[: self._weather.locked] for body in events]
        with self._holding():
            return self._again(
                web, bodies, max(len(bodies), self._weather.redeliveries // 20), tell
            )

    def new_while_locked(self, web: Web, tell: Tell) -> Figures:
        """Bring complaints about some emails while somebody holds their rows, among other new events."""
        locked, free = self.calls[: self._weather.locked], self.calls[self._weather.locked :]
        stored, suppressed = self._events_stored(), self._suppressed()
        bodies = [self._publisher.event(call, COMPLAINT) for call in locked]
        bodies += [self._publisher.event(call, SEND) for call in free]
        with self._holding() as let_go:
            found = self._first(web, bodies, tell, let_go)
        stopped = suppressed | {call.address for call in locked}
        return {**found.figures(), **self._stored(stored + len(bodies), stopped)}

    def proofs_while_locked(self, web: Web, tell: Tell) -> Figures:
        """Bring what would end the doubt about some emails while somebody holds their rows."""
        stored, suppressed = self._events_stored(), self._suppressed()
        locked = self.calls[: self._weather.locked]
        with self._place.database.connect() as connection:
            for statement in _DOUBT:
                connection.execute(statement, ([call.email_id for call in locked],))
        bodies = [self._publisher.event(call, SEND) for call in self.calls]
        with self._holding() as let_go:
            found = self._first(web, bodies, tell, let_go)
        self._proved += len(locked)
        return {**found.figures(), **self._stored(stored + len(bodies), suppressed)}

    def _deliveries(self) -> list[str]:
        return [events[0] for events in self._events]

    def _first(
        self, web: Web, bodies: Sequence[str], tell: Tell, let_go: LetGo | None = None
    ) -> Blown:
        """Bring each once; what is refused comes again, as SNS has it, when the rows are free."""
        found = web.storm(bodies, len(bodies), tell, let_go)
        if let_go is not None:
            let_go()
        if refused := [bodies[number] for number in found.refused]:
            web.storm(refused, len(refused), tell)
        return found

    def _again(self, web: Web, bodies: Sequence[str], count: int, tell: Tell) -> Figures:
        before = rows(self._place)
        found = web.storm(bodies, count, tell)
        after = rows(self._place)
        return found.figures() | {
            "rows stored": after["ses_events"][0] - before["ses_events"][0],
            "duplicates": sum(before[table] != what for table, what in after.items()),
            "missing": len(found.refused),
        }

    @contextmanager
    def _holding(self) -> Generator[LetGo]:
        """Hold the rows of some emails; gives what lets go of them."""
        with self._place.database.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(
                "SELECT FROM mail_service.email_outbox WHERE id = ANY(%s) FOR UPDATE",
                ([call.email_id for call in self.calls[: self._weather.locked]],),
            )
            yield connection.rollback

    def _events_stored(self) -> int:
        return rows(self._place)["ses_events"][0]

    def _suppressed(self) -> set[str]:
        with self._place.database.connect() as connection:
            found = connection.execute("SELECT address FROM mail_service.suppressions").fetchall()
        return {str(address) for (address,) in found}

    def _stored(self, events: int, stopped: set[str]) -> Figures:
        """Say how far the tables are from what so many events about these emails do."""
        with self._place.database.connect() as connection:
            counts = connection.execute(_COUNTS).fetchone() or ()
        stored, matched, stops, delivered, moves = map(int, counts)
        emails = len(self.calls)
        wanted = [(matched, events), (delivered, emails), (moves, emails + self._proved)]
        wanted += [(stored, events), (stops, len(stopped))]
        return {
            "rows stored": stored,
            "duplicates": sum(max(0, have - want) for have, want in wanted),
            "missing": sum(max(0, want - have) for have, want in wanted)
            + len(stopped - self._suppressed()),
        }
