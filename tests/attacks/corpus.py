"""Every attack, and the rows of the table that are about more than one request."""

from tests.attacks import addresses, certificates, envelopes, signatures, topics

ROWS = tuple(f"W{number}" for number in range(1, 22))
ATTACKS = [
    attack
    for module in (addresses, certificates, envelopes, signatures, topics)
    for attack in module.attacks()
]
