"""What people decide: about doubt, about what failed, about mailboxes and holds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from mail_service.domain.deciding import Decision
from mail_service.domain.suppression import ReleaseRule
from mail_service.workflows import decide, holding, operate

if TYPE_CHECKING:
    from tests.statemachine.world import World


Page = tuple[UUID, UUID]
"""What a page about a doubt showed: the email and its newest attempt."""


class Operator:
    """A person at the console, whose pages may be old. Signs each decision with another name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pages: list[Page] = []

    def open_pages(self) -> None:
        """Look at everything that is in doubt, to decide about it later."""
        for row in self._world.auditor(
            """
            SELECT o.id, (SELECT a.id FROM mail_service.send_attempts a WHERE a.email_id = o.id
                          ORDER BY a.number DESC LIMIT 1) AS attempt
            FROM mail_service.email_outbox o WHERE o.state = 'ambiguous' ORDER BY o.id
            """
        ):
            page = (row["id"], row["attempt"])
            if page not in self._pages:
                self._pages.append(page)

    def resolve(self, pick: int, decision: Decision, *, look: bool = True) -> None:
        """Decide about a doubt, on a page that was just loaded or on one that was left open."""
        self.open_pages()
        if self._pages:
            places = -1 - pick if look else pick
            self.resolve_on(self._pages[places % len(self._pages)], decision)

    def page_of(self, email: UUID) -> Page | None:
        """Load the page of one email in doubt; None when it is not."""
        self.open_pages()
        rows = self._world.auditor(
            "SELECT id FROM mail_service.email_outbox WHERE id = %s AND state = 'ambiguous'", email
        )
        return [page for page in self._pages if page[0] == email][-1] if rows else None

    def resolve_on(self, page: Page, decision: Decision) -> None:
        """Decide on this page, however old it is."""
        by = self._world.name("person")
        self._world.try_to(
            lambda: decide.resolve(
                self._world.rt,
                page[0],
                decision=decision,
                reason="seen",
                attempt_id=page[1],
                by=by,
            )
        )

    def requeue(self, pick: int, *, later: float | None) -> None:
        """Send again what failed or was suppressed, perhaps with a new deadline."""
        email = self._one_of(pick, "failed", "suppressed", "submitted")
        if email is not None:
            self.requeue_this(email, later=later)

    def requeue_this(self, email: UUID, *, later: float | None = None) -> None:
        """Send this one again."""
        not_after = self._world.now() + timedelta(seconds=later) if later else None
        by = self._world.name("person")
        self._world.try_to(
            lambda: decide.requeue(
                self._world.rt, email, reason="mended", not_after=not_after, by=by
            )
        )

    def cancel(self, pick: int) -> None:
        """Cancel what is pending."""
        email = self._one_of(pick, "pending", "sending")
        if email is not None:
            self.cancel_this(email)

    def cancel_this(self, email: UUID) -> None:
        """Cancel this one."""
        by = self._world.name("person")
        self._world.try_to(lambda: decide.cancel(self._world.rt, email, by=by))

    def suppress(self, pick: int) -> None:
        """Stop mail to somebody, rather to one of those about to be written to."""
        claimed = [a for w in self._world.workers for c in w.claims for _, a in c.row.recipients]
        whom = [*claimed, *claimed, *self._world.addresses]
        self.suppress_this(whom[pick % len(whom)])

    def suppress_this(self, address: str) -> None:
        """Stop mail to this mailbox."""
        self._world.try_to(
            lambda: operate.suppress(self._world.rt, address=address, note=None, by="person")
        )

    def release(self, pick: int, *, consent: bool) -> None:
        """Lift a suppression; a complaint needs renewed consent."""
        rows = self._world.auditor(
            "SELECT id FROM mail_service.suppressions WHERE released_at IS NULL ORDER BY id"
        )
        if rows:
            self._release(rows[pick % len(rows)]["id"], consent=consent)

    def release_this(self, address: str) -> None:
        """Lift the suppression of a mailbox, with its owner's consent."""
        for row in self._world.auditor(
            "SELECT id FROM mail_service.suppressions WHERE released_at IS NULL AND address = %s",
            address,
        ):
            self._release(row["id"], consent=True)

    def _release(self, suppression: UUID, *, consent: bool) -> None:
        # Noted first: the answer may be lost while the release stands.
        self._world.auditor("INSERT INTO released VALUES (%s)", suppression)
        self._world.try_to(
            lambda: operate.release(
                self._world.rt,
                suppression,
                rule=ReleaseRule.CONSENT_RENEWED if consent else ReleaseRule.OPERATOR_ERROR,
                reason="asked",
                confirmed=consent,
                by="person",
            )
        )

    def clear_hold(self, pick: int) -> None:
        """Clear a hold by hand."""
        rows = self._world.auditor(
            "SELECT id FROM mail_service.holds WHERE cleared_at IS NULL ORDER BY id"
        )
        if rows:
            chosen = rows[pick % len(rows)]["id"]
            self._world.try_to(
                lambda: holding.clear(self._world.rt, chosen, reason="mended", by="person")
            )

    def _one_of(self, pick: int, *states: str) -> UUID | None:
        rows = self._world.auditor(
            "SELECT id FROM mail_service.email_outbox WHERE state::text = ANY(%s) ORDER BY id",
            list(states),
        )
        return rows[pick % len(rows)]["id"] if rows else None
