"""A local SES v2 and SNS, good enough that boto3 cannot tell."""

from mail_service.sandbox.knobs import Knobs
from mail_service.sandbox.sandbox import DEFAULT_TOPIC_ARN, Sandbox
from mail_service.sandbox.signing import Signer
from mail_service.sandbox.simulator import BEHAVIOURS, SIMULATOR_DOMAIN, Behaviour

__all__ = [
    "BEHAVIOURS",
    "DEFAULT_TOPIC_ARN",
    "SIMULATOR_DOMAIN",
    "Behaviour",
    "Knobs",
    "Sandbox",
    "Signer",
]
