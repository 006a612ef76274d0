"""What data does to a mail: it fills it, or it is refused by name; it never steers it."""

import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.catalogue import Catalogue
from mail_service.domain.content import MAX_SUBJECT, Rendered, Template
from mail_service.domain.rendering import MAX_DEPTH, MAX_OUTPUT_BYTES
from mail_service.errors import InvalidFields


def template(
    text: str = "x", *, subject: str = "Hi", html: str | None = None, toml: str = ""
) -> Template:
    files = {"subject.txt": subject, "text.txt": text, "html.html": html, "template.toml": toml}
    made = Catalogue({"t-v1": {n: s.encode() for n, s in files.items() if s is not None}}).get(
        "t-v1"
    )
    assert made is not None
    return made


def refused(made: Template, data: dict) -> dict[str, str]:
    """What check says; render must refuse the same, but for what only the schema knows."""
    with pytest.raises(InvalidFields) as raised:
        made.check(data)
    if made.schema is None:
        with pytest.raises(InvalidFields) as again:
            made.render(data)
        assert again.value.fields == raised.value.fields
    return raised.value.fields


# --- filling --------------------------------------------------------------------------------------

MARKUP = "<script>alert('1')</script> & \"q\""


def test_html_is_escaped_and_text_and_subject_are_not():
    made = template("{{ x }}", subject="{{ x }}", html="<p title='{{ x }}'>{{ x }}</p>")
    mail = made.render({"x": MARKUP})
    escaped = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &#34;q&#34;"
    assert mail == Rendered(subject=MARKUP, text=MARKUP, html=f"<p title='{escaped}'>{escaped}</p>")


class Tags(HTMLParser):
    """The elements that a reader of the mail would see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)


def test_markup_in_data_makes_no_element_after_styles_are_inlined():
    made = template(html="<style>p{color:red}</style><p>{{ x }}</p><a href='{{ x }}'>y</a>")
    html = made.render({"x": MARKUP + "<style>*{display:none}</style>'><img>"}).html
    assert Tags(html).seen == ["html", "head", "style", "body", "p", "a"]
    assert '<p style="color: red;">&lt;script' in html


def test_styles_are_inlined_and_kept_for_media_queries_and_nothing_is_fetched():
    html = template(
        html='<head><link rel="stylesheet" href="http://127.0.0.1:1/x.css">'
        "<style>p{color:red} @media (prefers-color-scheme: dark){p{color:#fff}}</style></head>"
        "<p>x</p>"
    ).render({})
    assert '<p style="color: red;">' in html.html
    assert "prefers-color-scheme: dark" in html.html


def test_html_without_styles_is_left_as_it_is():
    assert template(html="<p>{{ x }}").render({"x": 1}).html == "<p>1"


def test_parts_that_a_template_has_not_are_none():
    assert template("a").render({}).html is None


def test_data_is_never_template_source():
    assert template("{{ x }}").render({"x": "{{ 7 * 7 }}{% raw %}"}).text == "{{ 7 * 7 }}{% raw %}"


def test_a_field_that_is_called_like_a_method_is_the_field():
    made = template("{{ o.items }} {{ o.get }} {{ o['keys'] }} {{ items }}")
    data = {"o": {"items": 1, "get": 2, "keys": 3}, "items": 4}
    assert made.render(data).text == "1 2 3 4"


def test_a_field_that_is_called_like_a_function_of_jinja_is_the_field_in_that_mail_alone():
    made = template("{{ range if range is string else range(3)|join }}")
    assert [made.render(data).text for data in ({}, {"range": "x"}, {})] == ["012", "x", "012"]


def test_an_optional_value_may_be_tested_and_given_a_default():
    made = template(
        "{{ a|default('x') }}{% if b is defined %}{{ b }}{% endif %}{{ c.d|default(1) }}"
    )
    assert made.render({"c": {}}).text == "x1"


def test_the_same_data_gives_the_same_bytes_in_another_process():
    program = (
        "import hashlib;from mail_service.domain.catalogue import Catalogue;"
        "from mail_service.gateways.template_files import BUNDLED, read_directory;"
        "t=Catalogue(read_directory(BUNDLED)).get('password-reset-v1');"
        "print(hashlib.sha256(repr(t.render(t.sample).html).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": s},
        ).stdout
        for s in ("1", "2")
    }
    assert len(seen) == 1


def test_rendering_leaves_the_data_alone():
    data = {"x": [1, {"y": 2}]}
    template("{{ x[1].y }}").check(data)
    assert data == {"x": [1, {"y": 2}]}


# --- refusing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data", "field"),
    [
        ("{{ name }}", {}, "data.name"),
        ("{{ name|upper }}", {}, "data.name"),
        ("{% if name %}x{% endif %}", {}, "data.name"),
        ("{% for x in rows %}{% endfor %}", {}, "data.rows"),
        ("{{ order.id }}", {}, "data.order"),
        ("{{ order.id }}", {"order": {}}, "data.order.id"),
        ("{{ order.lines[0].sku }}", {"order": {"lines": [{}]}}, "data.order.lines.0.sku"),
        ("{{ order.lines[1] }}", {"order": {"lines": [1]}}, "data.order.lines.1"),
        (
            "{% for l in lines %}{{ l.sku }}{% endfor %}",
            {"lines": [{"sku": 1}, {}]},
            "data.lines.1.sku",
        ),
        ("{{ order.items }}", {"order": {}}, "data.order.items"),
        ("{{ order.items() }}", {"order": {}}, "data.order.items"),
        ("{{ name.first }}", {"name": "Ada"}, "data.name.first"),
    ],
)
def test_a_missing_value_is_named(text, data, field):
    assert refused(template(text), data) == {field: "is missing"}


def test_a_value_that_one_branch_alone_needs_is_missed_when_that_branch_runs():
    made = template("{% if paid %}{{ amount }}{% endif %}")
    made.check({"paid": False})
    assert refused(made, {"paid": True}) == {"data.amount": "is missing"}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("{{ x }}", {"x": None}),
        ("{{ x.upper }}", {"x": "a"}),
        ("{{ x['keys'] }}", {"x": {}}),
        ("{{ x + 1 }}", {"x": "a"}),
        ("{{ 1 / x }}", {"x": 0}),
        ("{{ x.__class__ }}", {"x": 1}),
        ("{{ x|attr('__class__') }}", {"x": 1}),
        ("{{ ''.__class__.__mro__ }}", {}),
        ("{{ x.append(1) }}", {"x": []}),
        ("{{ lipsum() }}", {}),
        ("{{ range }}", {}),
        ("{% for i in range(x) %}{% endfor %}", {"x": 10**9}),
        ("{{ '-' * x }}", {"x": 10**12}),
        ("{{ x * '-' }}", {"x": 10**12}),
        ("{{ [1] * x }}", {"x": 10**12}),
        ("{{ 9 ** x }}", {"x": 10**9}),
        ("{% for i in range(x) %}0123456789{% endfor %}", {"x": 60_000}),
        ("{{ '{0.__class__}'.format(x) }}", {"x": 1}),
    ],
)
def test_data_that_a_template_can_t_be_rendered_with_is_refused(text, data):
    fields = refused(template(text), data)
    assert len(fields) == 1
    assert next(iter(fields)).startswith("data")


@pytest.mark.parametrize("part", ["text", "html"])
def test_output_is_capped_in_bytes_as_it_grows(part):
    parts = {"text": "{{ x }}", "html": None} if part == "text" else {"text": "", "html": "{{ x }}"}
    made = template(**parts)
    made.check({"x": "ü" * (MAX_OUTPUT_BYTES // 2)})
    assert "at most" in refused(made, {"x": "ü" * (MAX_OUTPUT_BYTES // 2) + "x"})["data"]


@pytest.mark.parametrize(
    ("value", "path", "expected"),
    [
        ("a\x00b", "data.x", "expected text without NUL or lone surrogates"),
        ("\ud800", "data.x", "expected text without NUL or lone surrogates"),
        (["ok", {"y": "\udfff"}], "data.x.1.y", "expected text without NUL or lone surrogates"),
        ({"a\x00": 1}, "data.x", "expected names that are text without NUL or lone surrogates"),
        ({1: 1}, "data.x", "expected names that are text without NUL or lone surrogates"),
        (float("nan"), "data.x", "expected a finite number"),
        (float("-inf"), "data.x", "expected a finite number"),
        ((1, 2), "data.x", "expected JSON"),
        (b"x", "data.x", "expected JSON"),
        (object(), "data.x", "expected JSON"),
    ],
)
def test_data_that_is_not_json_is_refused_even_where_the_template_does_not_use_it(
    value, path, expected
):
    assert refused(template(), {"x": value}) == {path: expected}


def test_data_that_is_nested_without_end_is_refused():
    data: dict = {}
    inner = data
    for _ in range(MAX_DEPTH + 5):
        inner["x"] = {}
        inner = inner["x"]
    assert list(refused(template(), data).values()) == [f"expected at most {MAX_DEPTH} levels"]


def test_all_misfits_of_a_schema_are_named_at_once_and_without_the_data():
    made = template(
        toml="""
        [schema]
        required = ["link", "order"]
        additionalProperties = false
        [schema.properties.link]
        pattern = "^https://"
        [schema.properties.order]
        required = ["id"]
        [schema.properties.order.properties.lines.items]
        type = "integer"
        [schema.properties.age]
        minimum = 3
        """
    )
    fields = refused(
        made, {"link": "ftp://ada@example.org", "order": {"lines": [1, "two"]}, "b": 1, "age": 2}
    )
    assert fields == {
        "data.link": 'expected pattern "^https://"',
        "data.order.id": "is missing",
        "data.order.lines.1": 'expected type "integer"',
        "data.b": "is not known",
        "data.age": "expected minimum 3",
    }
    assert refused(made, {}) == {"data.link": "is missing", "data.order": "is missing"}


@pytest.mark.parametrize("text", ["{{ x + 1 }}", "{{ x.y }}"])
def test_a_refusal_does_not_repeat_the_data_nor_chain_what_does(text):
    with pytest.raises(InvalidFields) as raised:
        template(text).check({"x": "ada@example.org"})
    assert "ada" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


# --- the subject ----------------------------------------------------------------------------------

BREAKS = [
    "\n",
    "\r",
    "\r\n",
    "\r\nBcc: eve@example.com",
    "\x0b",
    "\x0c",
    "\x1b",
    "\x1c",
    "\x1f",
    "\x7f",
    "\x80",
    "\x85",
    "\u2028",
    "\u2029",
    "\t",
    "=?utf-8?q?=0D=0ABcc:?=",
    "=?UTF-8?B?DQo=?=",
]


@pytest.mark.parametrize("sign", BREAKS)
@pytest.mark.parametrize("around", ["{}", "a{}b", "a{}", "{}b"])
def test_a_subject_with_a_line_end_or_control_from_the_data_is_refused_and_not_repaired(
    sign, around
):
    made = template(subject="Hi {{ name }}")
    assert refused(made, {"name": around.format(sign), "other": "x"}) == {
        "data.name": "expected one line without controls"
    }


def test_the_text_may_have_what_the_subject_may_not():
    made = template("{{ x }}", subject="Hi")
    assert made.render({"x": "a\nb\u2028c"}).text == "a\nb\u2028c"


def test_the_field_that_broke_a_subject_is_named_only_when_it_is_clear():
    made = template("{{ note }}", subject="{{ a }}{{ b }}{{ c|upper }}")
    fine = {"a": "a", "b": "b", "c": "c", "note": "two\nlines"}
    made.check(fine)
    assert list(refused(made, {**fine, "a": "x\ny"})) == ["data.a"]
    assert list(refused(made, {**fine, "a": "x\ny", "b": "v\nw"})) == ["data"]
    assert list(refused(made, {**fine, "c": "x\ny"})) == ["data"]


@pytest.mark.parametrize("name", ["", " ", "x" * (MAX_SUBJECT + 1)])
def test_a_subject_that_is_empty_or_too_long_is_refused(name):
    assert "expected a subject of 1 to" in refused(template(subject="{{ x }}"), {"x": name})["data"]


@pytest.mark.parametrize("name", ["Zoë", "مرحبا \u200f", "日本語", "👩\u200d🚀", "a" * MAX_SUBJECT])
def test_a_subject_in_any_language_is_kept(name):
    assert template(subject="{{ x }}").render({"x": name}).subject == name


# --- for all data ---------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
ANY = template(
    "{{ name }}{% for row in rows %}{{ row.x }}{% endfor %}",
    subject="{{ name }}",
    html="<style>p{color:red}</style><p>{{ name }}</p>",
)


@given(st.dictionaries(st.sampled_from(["name", "rows", "x"]), JSON))
def test_any_data_gives_a_mail_or_a_refusal_by_field(data):
    try:
        ANY.check(data)
    except InvalidFields as refusal:
        fields = refusal.fields
    else:
        fields = {}
        subject = ANY.render(data).subject
        assert subject.splitlines() == [subject]
    assert all(path.split(".")[0] == "data" for path in fields)
