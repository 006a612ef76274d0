"""What steps are given."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.statemachine.postman import KINDS
from tests.statemachine.provider import OUTCOMES
from tests.statemachine.stories import STORIES
from tests.statemachine.world import ADDRESSES

OTHER_SENDER = "Other <other@example.com>"

pick = st.integers(0, 9)
worker = st.integers(0, 2)
answers = st.lists(
    st.one_of(
        st.sampled_from(["accepted, no answer", "lost", "deferred"]),
        st.sampled_from([name for name in OUTCOMES if name.startswith("held")]),
        st.sampled_from(OUTCOMES),
    ),
    min_size=2,
    max_size=5,
)
"""What SES answers in one example, beside accepting: few kinds, so that they meet each other."""

nth_answer = st.integers(0, 5)
recipients = st.one_of(
    st.sampled_from([(0,), (2,), (0, 2)]),
    st.lists(st.integers(0, len(ADDRESSES) - 1), min_size=1, max_size=4).map(tuple),
)
request = st.fixed_dictionaries(
    {"to": recipients},
    optional={
        "on_ambiguous": st.sampled_from(["hold", "resend"]),
        "priority": st.sampled_from([0, 5, 9]),
        "soon": st.sampled_from([20.0, 400.0, 5000.0]),
        "sender": st.just(OTHER_SENDER),
    },
)
opening = st.tuples(request, st.integers(0, 4), nth_answer, worker, st.integers(0, len(KINDS) - 1))
"""An email that is written, claimed, called, recorded or told about when the schedule begins."""

story = st.tuples(st.sampled_from(sorted(STORIES)), worker, nth_answer)
"""A story, who tells it, and how its open call is answered."""

seconds = st.one_of(
    st.sampled_from([2.0, 10.0, 31.0]),
    st.sampled_from([0.5, 61.0, 75.0, 901.0]),
    st.sampled_from([31.0, 75.0, 901.0, 4000.0, 90_000.0, 260_000.0, 3_000_000.0]),
)
