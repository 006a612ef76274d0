"""A transactional email service that knows what became of each mail.

To trace one email, read seven files in this order:

1. ``api/accounts.py``                         the request, and the nudge after the commit
2. ``mail_service/workflows/registration.py``  one transaction: account, outbox row, recipients
3. ``mail_service/workflows/dispatch.py``      take, send
4. ``mail_service/workflows/record.py``        what came of it is written
5. ``mail_service/domain/sending.py``          what each answer means for the email
6. ``mail_service/store/outbox.py``            statements that can move an email
7. ``mail_service/workflows/ingest.py``        the event finds its attempt and its recipient

Dependencies point one way, and import-linter holds them to it::

    api | actors | cli -> wiring -> workflows -> runtime -> store | gateways
        -> ports | settings -> domain -> errors
"""
