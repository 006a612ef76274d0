"""The figures: as JSON for programs, as Prometheus text for graphs."""

import hmac
from collections.abc import Iterator, Mapping, Sequence

import falcon
from falcon import Request, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import TypeAdapter

from api.routes import Operation, Said, answer_text
from mail_service.runtime import Runtime
from mail_service.store.stats import Counted
from mail_service.workflows import observe
from mail_service.workflows.observe import Figures

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_FIGURES = TypeAdapter(Figures)

SHOW = Operation(
    summary="Read the figures",
    about="Each kind of trouble apart from the others; read from the database, so any process can "
    "answer for all.",
    group="Figures",
    answers={200: Said(meaning="The figures", content=_FIGURES)},
)
METRICS = Operation(
    summary="Read the figures as Prometheus text",
    about="Asks for the Bearer token METRICS_TOKEN where one is set.",
    group="Figures",
    answers={200: Said(meaning="The figures", media_type="text/plain")},
    errors={401: "METRICS_TOKEN is set and was not presented"},
)


class Stats:
    """``/v1/stats`` and ``/metrics``."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def show(self, req: Request, resp: Response) -> None:
        """Give the figures as JSON."""
        figures = observe.figures(self._rt)
        answer_text(resp, 200, _FIGURES.dump_json(figures).decode())

    def metrics(self, req: Request, resp: Response) -> None:
        """Give the figures as Prometheus text."""
        self._check_token(req)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once(observe.figures(self._rt)))
        resp.content_type = _PROMETHEUS
        resp.data = generate_latest(registry)

    def _check_token(self, req: Request) -> None:
        token = self._rt.settings.metrics_token
        if token is None:
            return
        # WSGI hands headers over as latin-1, so this gives back the bytes that came.
        presented = (req.get_header("Authorization") or "").encode("latin-1", "replace")
        wanted = b"Bearer " + token.get_secret_value().encode()
        if not hmac.compare_digest(presented, wanted):
            raise falcon.HTTPUnauthorized(
                description="send a header Authorization: Bearer <METRICS_TOKEN>",
                headers={"WWW-Authenticate": 'Bearer realm="metrics"'},
            )


class _Once(Collector):
    """One reading of the figures, as metrics. What is None has no sample: there is nothing to tell."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Give every metric."""
        figures = self._figures
        queue, events, delays = figures.queue, figures.events, figures.delays_last_hour
        states = {
            "pending": queue.pending,
            "sending": queue.sending,
            "ambiguous": queue.ambiguous,
        }
        yield _labelled("emails", "Emails that are not at an end, by state", "state", states)
        yield _gauge("due", "Pending emails that are due", queue.pending_due)
        yield _gauge("oldest_due_seconds", "Age of the oldest due email", queue.oldest_due_seconds)
        yield _gauge("leases_expired", "Emails whose lease ran out", queue.leases_expired)
        yield _gauge(
            "oldest_ambiguous_seconds",
            "Age of the oldest email in doubt",
            queue.oldest_ambiguous_seconds,
        )
        yield _family("failed_emails", "Failed emails", "reason", figures.failed)
        yield _family("suppressed_emails", "Suppressed emails", "reason", figures.suppressed)
        yield _family("cancelled_emails", "Cancelled emails", "reason", figures.cancelled)
        yield _family("suppressions", "Active suppressions", "reason", figures.suppressions)
        drift = figures.suppression_drift
        yield _labelled(
            "suppression_drift",
            "Suppressions that only one of the two lists has",
            "list",
            {"ours": drift.ours_only, "ses": drift.ses_only},
        )
        yield _gauge("suppressions_to_be_put", "Not yet put on SES's list", drift.to_be_put)
        yield _gauge("suppressions_failing", "Changes that SES did not take yet", drift.failing)
        yield _gauge(
            "suppressions_learned_last_day",
            "Suppressions that only SES's list told us of",
            drift.learned_last_day,
        )
        yield _gauge("suppression_sync_seconds", "Age of the last sync", drift.last_sync_seconds)
        yield _gauge(
            "suppression_full_sync_seconds",
            "Age of the last sync of the whole list",
            drift.last_full_sync_seconds,
        )
        yield _family("holds", "What stops sending now", "scope", figures.holds)
        yield _gauge(
            "retries_last_hour",
            "Calls that were not an email's first",
            figures.retries_last_hour,
        )
        yield _gauge("events_unmatched", "Events that found no attempt", events.unmatched)
        yield _gauge(
            "oldest_unmatched_seconds",
            "Age of the oldest unmatched event",
            events.oldest_unmatched_seconds,
        )
        yield _gauge("unconfirmed", "Accepted calls without any event", events.unconfirmed)
        yield _labelled(
            "unconfirmed_by_age",
            "Accepted calls of the last day without any event",
            "age",
            events.unconfirmed_by_age,
        )
        yield _gauge(
            "events_silent_seconds",
            "For how long accepted mail has waited without an event of any kind since",
            figures.events_silent_seconds,
        )
        judged = figures.reputation
        yield _gauge("bounce_rate", "Recipients that bounced for good", judged.bounce_rate)
        yield _gauge("complaint_rate", "Recipients that complained", judged.complaint_rate)
        yield _family("events_last_hour", "Events that came", "kind", figures.events_last_hour)
        yield _family(
            "event_payloads_dropped_last_day",
            "Payloads over the hourly share of events that found no call",
            "pool",
            figures.event_payloads_dropped_last_day,
        )
        yield _family(
            "subscriptions",
            "Subscriptions that SNS told of",
            "state",
            figures.subscriptions,
        )
        yield _gauge(
            "oldest_unconfirmed_seconds",
            "Age of the oldest accepted call without any event",
            events.oldest_unconfirmed_seconds,
        )
        calls = GaugeMetricFamily(
            "mail_service_calls_last_hour", "Calls to SES, by what is known", labels=["state"]
        )
        mean = GaugeMetricFamily(
            "mail_service_call_mean_seconds", "Mean duration of calls", labels=["state"]
        )
        for call in figures.calls_last_hour:
            calls.add_metric([call.state], call.count)
            if call.mean_seconds is not None:
                mean.add_metric([call.state], call.mean_seconds)
        yield calls
        yield mean
        yield _gauge(
            "commit_to_call_median_seconds", "From commit to claim", delays.commit_to_call_median
        )
        yield _gauge(
            "commit_to_call_longest_seconds", "From commit to claim", delays.commit_to_call_longest
        )
        yield _gauge(
            "event_lag_median_seconds", "From SES's event to our store", delays.event_lag_median
        )
        yield _gauge(
            "event_lag_longest_seconds", "From SES's event to our store", delays.event_lag_longest
        )
        yield _family(
            "webhook_rejections_last_day",
            "Refused webhook requests",
            "cause",
            figures.webhook_rejections_last_day,
        )
        yield _gauge("broker_queue", "Hints that wait in the broker's table", figures.broker_queue)
        yield _gauge("last_sweep_seconds", "Age of the last sweep", figures.last_sweep_seconds)


def _gauge(name: str, what: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(f"mail_service_{name}", what)
    if value is not None:
        family.add_metric([], value)
    return family


def _family(name: str, what: str, label: str, counted: Sequence[Counted]) -> Metric:
    return _labelled(name, what, label, {one.label: one.count for one in counted})


def _labelled(name: str, what: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"mail_service_{name}", what, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family
