"""The API's description of itself."""

import base64
import hashlib
import re

from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.api.conftest import Api


def test_the_document_is_valid_openapi_3_1(standing: Api):
    document = standing.get("/openapi.json", key=None).json
    assert document["openapi"].startswith("3.1")
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_every_operation_has_its_own_name_and_tells_its_errors(standing: Api):
    operations = [o for path in standing.document["paths"].values() for o in path.values()]
    assert len({o["operationId"] for o in operations}) == len(operations)
    for operation in operations:
        assert operation["summary"]
        assert {"503", "default"} <= set(operation["responses"])
        if operation["security"]:
            assert {"401", "403"} <= set(operation["responses"])
        if "requestBody" in operation:
            assert {"400", "413", "422"} <= set(operation["responses"])


def test_a_body_that_the_document_does_not_allow_is_one_that_is_refused(standing: Api):
    schemas = standing.document["components"]["schemas"]
    for name in ("NewAccount", "NewEmail", "NewEmails", "NewSuppression", "Release"):
        assert schemas[name]["additionalProperties"] is False


def test_the_page_needs_nothing_from_elsewhere_and_says_so_to_the_browser(standing: Api):
    answer = standing.get("/docs", key=None)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert not re.search(r"<script|<link|<img|@import|url\(|(?:src|href)=.https?:", answer.text)
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "frame-ancestors 'none'" in policy


def test_the_page_names_every_route_field_and_error(standing: Api):
    page = standing.get("/docs", key=None).text
    for path, methods in standing.document["paths"].items():
        assert path in page
        for operation in methods.values():
            assert f'id="{operation["operationId"]}"' in page
    for name, schema in standing.document["components"]["schemas"].items():
        assert f'id="schema-{name}"' in page
        assert all(f"<code>{field}</code>" in page for field in schema.get("properties", {}))
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_the_type_of_every_error_leads_to_the_page(standing: Api):
    page = standing.get("/docs", key=None).text
    for answer in (standing.get("/nothing"), standing.get("/v1/emails", key=None)):
        assert f'id="{answer.json["type"].removeprefix("/docs#")}"' in page
