"""The application: every route on one screen, each with the scope that its key needs."""

from collections.abc import Callable, Sequence

import falcon
from falcon import Request, Response

from api import (
    accounts,
    decisions,
    emails,
    errors,
    events,
    health,
    holds,
    ses_webhook,
    stats,
    suppressions,
)
from api.authentication import Authentication
from api.documentation import Documentation
from api.routes import Route, resources
from mail_service.runtime import Runtime


def routes(rt: Runtime, nudge: Callable[[], None]) -> Sequence[Route]:
    """Give every route of the API."""
    account = accounts.Accounts(rt, nudge)
    email = emails.Emails(rt, nudge)
    decision = decisions.Decisions(rt, nudge)
    hold = holds.Holds(rt, nudge)
    suppression = suppressions.Suppressions(rt)
    event = events.Events(rt)
    figures = stats.Stats(rt)
    state = health.Health(rt)
    webhook = ses_webhook.SesWebhook(rt)
    return (
        Route("POST", "/v1/accounts", "send", account.open, accounts.OPEN),
        Route("GET", "/v1/accounts/{account_id}", "read", account.show, accounts.SHOW),
        Route("DELETE", "/v1/accounts/{account_id}", "operate", account.erase, accounts.ERASE),
        Route("POST", "/v1/emails", "send", email.submit, emails.SUBMIT),
        Route("POST", "/v1/emails/batch", "send", email.submit_batch, emails.BATCH),
        Route("GET", "/v1/emails", "read", email.page, emails.PAGE),
        Route("GET", "/v1/emails/{email_id}", "read", email.show, emails.SHOW),
        Route("POST", "/v1/emails/{email_id}/cancel", "send", decision.cancel, decisions.CANCEL),
        Route(
            "POST", "/v1/emails/{email_id}/resolve", "operate", decision.resolve, decisions.RESOLVE
        ),
        Route(
            "POST", "/v1/emails/{email_id}/requeue", "operate", decision.requeue, decisions.REQUEUE
        ),
        Route("GET", "/v1/holds", "read", hold.page, holds.LIST),
        Route("POST", "/v1/holds/{hold_id}/clear", "operate", hold.clear, holds.CLEAR),
        Route("GET", "/v1/suppressions", "read", suppression.page, suppressions.PAGE),
        Route("POST", "/v1/suppressions", "operate", suppression.add, suppressions.ADD),
        Route(
            "POST",
            "/v1/suppressions/{suppression_id}/release",
            "operate",
            suppression.release,
            suppressions.RELEASE,
        ),
        Route("GET", "/v1/events", "read", event.page, events.PAGE),
        Route("GET", "/v1/stats", "read", figures.show, stats.SHOW),
        # Open: guarded by a token of their own, by a signature, or by nothing.
        Route("GET", "/metrics", None, figures.metrics, stats.METRICS),
        Route("POST", "/webhooks/ses/sns", None, webhook.take, ses_webhook.TAKE),
        Route("GET", "/healthz", None, state.alive, health.ALIVE),
        Route("GET", "/readyz", None, state.ready, health.READY),
    )


def create_app(rt: Runtime, nudge: Callable[[], None]) -> falcon.App[Request, Response]:
    """Give the WSGI application. ``nudge`` is called after each commit that makes mail due."""
    table = routes(rt, nudge)
    app = falcon.App(middleware=[_Headers(), Authentication(rt, table)])
    app.add_error_handler(Exception, errors.handle)
    app.add_error_handler(falcon.HTTPError, errors.handle)
    for path, resource in resources(table).items():
        app.add_route(path, resource)
    documentation = Documentation(table)
    app.add_route("/openapi.json", documentation, suffix="json")
    app.add_route("/docs", documentation, suffix="page")
    return app


class _Headers:
    """Middleware: no answer is stored on its way, taken for another type, or told to other sites."""

    def process_response(
        self, req: Request, resp: Response, resource: object, req_succeeded: bool
    ) -> None:
        """Add what every answer bears."""
        resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Content-Type-Options", "nosniff")
        resp.set_header("Referrer-Policy", "no-referrer")
