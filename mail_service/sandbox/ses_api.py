"""SES v2 over HTTP: finds the operation of a request and lets it answer."""

import json
from collections.abc import Callable
from typing import Any

from mail_service.sandbox.account import Account
from mail_service.sandbox.connection import Connection, Request, Response
from mail_service.sandbox.ids import new_uuid
from mail_service.sandbox.knobs import KnobBoard
from mail_service.sandbox.sender import Sender
from mail_service.sandbox.ses_errors import SesError, not_implemented, trouble
from mail_service.sandbox.ses_model import Operation, SesModel, json_payload
from mail_service.sandbox.suppression import (
    SuppressionList,
    delete_suppressed_destination,
    get_suppressed_destination,
    list_suppressed_destinations,
    put_suppressed_destination,
)

Params = dict[str, Any]


class SesApi:
    """Answers SES calls in SES's wire form."""

    def __init__(
        self,
        model: SesModel,
        knobs: KnobBoard,
        account: Account,
        suppression: SuppressionList,
        sender: Sender,
        *,
        validate: bool,
    ) -> None:
        self._model = model
        self._knobs = knobs
        self._sender = sender
        self._validate = validate
        self._operations: dict[str, Callable[[Params], Params]] = {
            "GetAccount": lambda _: account.get_account(),
            "GetConfigurationSet": lambda p: account.get_configuration_set(
                p["ConfigurationSetName"]
            ),
            "GetConfigurationSetEventDestinations": lambda p: account.event_destinations(
                p["ConfigurationSetName"]
            ),
            "PutSuppressedDestination": lambda p: put_suppressed_destination(suppression, p),
            "GetSuppressedDestination": lambda p: get_suppressed_destination(suppression, p),
            "DeleteSuppressedDestination": lambda p: delete_suppressed_destination(suppression, p),
            "ListSuppressedDestinations": lambda p: list_suppressed_destinations(suppression, p),
        }

    def respond(self, request: Request, connection: Connection) -> None:
        """Answer one SES call on its connection."""
        request_id = new_uuid()
        found = self._model.find(request.method, request.path)
        if found is not None and found[0].name == "SendEmail":
            self._sender.send(found[0], request, connection, request_id)
            return
        headers = {"x-amzn-RequestId": request_id}
        try:
            body = json.dumps(self._result(found, request)).encode()
            response = Response(200, body, headers=headers)
        except SesError as error:
            headers["x-amzn-ErrorType"] = error.code
            response = Response(error.status, error.body(), headers=headers)
        connection.write(response)

    def _result(self, found: tuple[Operation, dict[str, str]] | None, request: Request) -> Params:
        if found is None:
            raise SesError(404, "UnknownOperationException", "SES has no such operation.")
        operation, labels = found
        handler = self._operations.get(operation.name)
        if handler is None:
            raise not_implemented(f"the SES operation {operation.name}")
        if kind := self._knobs.now.operations.get(operation.name):
            raise trouble(kind, operation.name)
        payload = json_payload(request.body)
        params = self._model.read(operation, labels, request.query, payload)
        if self._validate:
            self._model.check(operation, params)
        return handler(params)
