"""The account that the sandbox plays: its quota, its standing and its configuration sets."""

import threading
import time
from collections import deque
from typing import Any

from mail_service.sandbox.knobs import EVENT_KINDS, KnobBoard, Knobs
from mail_service.sandbox.ses_errors import not_found
from mail_service.sandbox.simulator import QUOTA, THROTTLE, Behaviour, is_simulated

_DAY_SECONDS = 86_400
_TYPE_NAMES = {kind: kind.upper() for kind in EVENT_KINDS} | {"DeliveryDelay": "DELIVERY_DELAY"}


class Account:
    """Counts what was sent and answers what SES would tell about the account."""

    def __init__(self, knobs: KnobBoard, topic_arn: str) -> None:
        self._knobs = knobs
        self._topic_arn = topic_arn
        self._lock = threading.Lock()
        self._sent: deque[tuple[float, int]] = deque()
        self._sent_total = 0
        self._tokens = knobs.now.send_quota.MaxSendRate
        self._filled_at = time.monotonic()

    def spend(self, recipients: list[str]) -> Behaviour | None:
        """Count a call's recipients; the refusal to give instead when a quota is enforced."""
        knobs = self._knobs.now
        counted = sum(1 for address in recipients if not is_simulated(address))
        with self._lock:
            now = time.monotonic()
            if knobs.enforce_quota:
                quota = knobs.send_quota
                filled = self._tokens + (now - self._filled_at) * quota.MaxSendRate
                self._tokens = min(filled, quota.MaxSendRate)
                self._filled_at = now
                # SES lets a call through whole while anything at all is left.
                if self._tokens <= 0:
                    return THROTTLE
                if counted and 0 <= quota.Max24HourSend <= self._sent_lately(now, knobs):
                    return QUOTA
                self._tokens -= len(recipients)
            if counted:
                self._sent_total += counted
                second = now // 1
                if self._sent and self._sent[-1][0] == second:
                    counted += self._sent.pop()[1]
                self._sent.append((second, counted))
        return None

    def _sent_lately(self, now: float, knobs: Knobs) -> float:
        if knobs.send_quota.SentLast24Hours is not None:
            return knobs.send_quota.SentLast24Hours
        while self._sent and self._sent[0][0] < now - _DAY_SECONDS:
            self._sent_total -= self._sent.popleft()[1]
        return self._sent_total

    def get_account(self) -> dict[str, Any]:
        """GetAccount."""
        knobs = self._knobs.now
        with self._lock:
            sent = self._sent_lately(time.monotonic(), knobs)
        return {
            "DedicatedIpAutoWarmupEnabled": False,
            "EnforcementStatus": knobs.enforcement_status,
            "ProductionAccessEnabled": knobs.production_access,
            "SendingEnabled": not knobs.sending_paused,
            "SendQuota": {
                "Max24HourSend": knobs.send_quota.Max24HourSend,
                "MaxSendRate": knobs.send_quota.MaxSendRate,
                "SentLast24Hours": float(sent),
            },
            "SuppressionAttributes": {"SuppressedReasons": ["BOUNCE", "COMPLAINT"]},
        }

    def check_configuration_set(self, name: str) -> None:
        """Raise NotFoundException unless the configuration set exists."""
        known = self._knobs.now.configuration_sets
        if known is not None and name not in known:
            raise not_found(f"Configuration set <{name}> does not exist.")

    def get_configuration_set(self, name: str) -> dict[str, Any]:
        """GetConfigurationSet."""
        self.check_configuration_set(name)
        return {
            "ConfigurationSetName": name,
            "DeliveryOptions": {"TlsPolicy": "OPTIONAL"},
            "ReputationOptions": {"ReputationMetricsEnabled": True},
            "SendingOptions": {"SendingEnabled": True},
            "SuppressionOptions": {"SuppressedReasons": ["BOUNCE", "COMPLAINT"]},
            "Tags": [],
        }

    def event_destinations(self, name: str) -> dict[str, Any]:
        """GetConfigurationSetEventDestinations."""
        self.check_configuration_set(name)
        kinds = self._knobs.now.event_types
        destination = {
            "Name": "sandbox",
            "Enabled": True,
            "MatchingEventTypes": [_TYPE_NAMES[kind] for kind in kinds],
            "SnsDestination": {"TopicArn": self._topic_arn},
        }
        return {"EventDestinations": [destination] if kinds else []}
