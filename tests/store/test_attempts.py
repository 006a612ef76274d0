"""What is written of an attempt keeps what was known before."""

from mail_service.domain.states import AttemptState
from mail_service.runtime import Runtime
from mail_service.store import attempts
from mail_service.store.attempts import Finding
from tests.steps import look, send_all, sign_up


def test_a_message_id_that_is_saved_is_never_overwritten(rt: Runtime) -> None:
    email = sign_up(rt)
    (claim,) = send_all(rt)
    again = Finding(
        attempt_id=claim.row.attempt_id,
        state=AttemptState.ACCEPTED,
        provider_message_id="another",
        decision="submitted",
        resolved_by="worker",
    )
    with rt.db.transaction() as tx:
        attempts.learn(tx, [again])
    assert look(rt, email).attempts[0].provider_message_id == "message-1"
