"""Which directories are templates, and how every problem is named at once."""

import pytest

from mail_service.domain.catalogue import Catalogue
from mail_service.errors import InvalidFields, SettingsError
from mail_service.gateways.template_files import BUNDLED, MAX_FILE_BYTES, read_directory

GOOD = {"subject.txt": b"Hi\n", "text.txt": b"Hello {{ name }}\n"}


def load(**files: bytes | None) -> Catalogue:
    """The good template with some files replaced; ``html_html`` stands for ``html.html``."""
    named = {name.replace("_", "."): content for name, content in files.items()}
    merged = {**GOOD, **named}
    return Catalogue({"hi-v1": {name: file for name, file in merged.items() if file is not None}})


def problem(directories) -> str:
    with pytest.raises(SettingsError) as raised:
        Catalogue(directories)
    assert raised.value.problems.keys() == {"TEMPLATE_DIR"}
    return raised.value.problems["TEMPLATE_DIR"]


def problem_of(**files: bytes | None) -> str:
    with pytest.raises(SettingsError) as raised:
        load(**files)
    return raised.value.problems["TEMPLATE_DIR"]


TOML = b"""
class = "security"
on_ambiguous = "resend"
[schema]
required = ["name"]
[schema.properties.name]
"$ref" = "#/$defs/text"
[schema."$defs".text]
type = "string"
[sample]
name = "Ada"
"""


def test_a_template_has_its_files_and_its_options():
    catalogue = load(html_html=b"<p>{{ name }}</p>", template_toml=TOML)
    template = catalogue.get("hi-v1")
    assert catalogue.names() == ("hi-v1",)
    assert template is not None
    assert (template.name, template.subject) == ("hi-v1", "Hi")
    assert (template.class_, template.on_ambiguous) == ("security", "resend")
    assert template.sample == {"name": "Ada"}
    assert template.html == "<p>{{ name }}</p>"


def test_a_template_without_options_is_held_when_in_doubt():
    template = load().get("hi-v1")
    assert template is not None
    assert (template.on_ambiguous, template.class_, template.schema) == (
        "hold",
        "transactional",
        None,
    )


def test_a_name_that_is_not_there_gives_none():
    assert load().get("hi-v2") is None


@pytest.mark.parametrize("name", ["a-v1", "Order_paid-v12", "9lives-v1", "a-b-v2-v3"])
def test_a_good_name_is_taken(name):
    assert Catalogue({name: GOOD}).names() == (name,)


@pytest.mark.parametrize(
    "name",
    [
        "welcome",
        "welcome-v",
        "welcome-v0",
        "welcome-v01",
        "-v1",
        "a-v1 ",
        "ü-v1",
        "a.b-v1",
        "a/b-v1",
    ],
)
def test_a_name_that_is_not_name_dash_v_number_is_refused(name):
    assert "expected a name such as welcome-v1" in problem({name: GOOD})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"subject_txt": None}, "subject.txt is missing"),
        ({"text_txt": None}, "expected text.txt, html.html or both"),
        ({"subject_txt": b"one\ntwo\n"}, "subject.txt: expected exactly one line"),
        ({"subject_txt": b"\n\n"}, "subject.txt: expected exactly one line"),
        ({"subject_txt": b""}, "subject.txt: expected exactly one line"),
        ({"text_txt": b"\xff"}, "text.txt: expected UTF-8"),
        ({"text_txt": b"a\n{{ name"}, "text.txt: line 2: "),
        ({"text_txt": b"{% if x %}"}, "text.txt: line 1: "),
        ({"text_txt": b"{{ x|nosuch }}"}, "text.txt: line 1: No filter named 'nosuch'"),
        ({"text_txt": b"{{ x|random }}"}, "No filter named 'random'"),
        ({"html_html": b"{% include 'a' %}"}, "html.html: include, import and extends"),
        ({"html_html": b"{% extends 'a' %}"}, "html.html: include, import and extends"),
        ({"html_html": b"{% import 'a' as a %}"}, "html.html: include, import and extends"),
        ({"html_html": b"{% from 'a' import b %}"}, "html.html: include, import and extends"),
        ({"html_htm": b""}, "not html.htm"),
        ({"template_toml": b"a = "}, "template.toml: "),
        ({"template_toml": b"\xff"}, "template.toml: "),
        ({"template_toml": b"colour = 1"}, "template.toml: colour is not known"),
        ({"template_toml": b"on_ambiguous = 'retry'"}, 'on_ambiguous to be "hold" or "resend"'),
        ({"template_toml": b"on_ambiguous = []"}, 'on_ambiguous to be "hold" or "resend"'),
        ({"template_toml": b"class = 3"}, "expected class to be a word"),
        ({"template_toml": b"schema = 3"}, "expected [schema] to be a table"),
        ({"template_toml": b"sample = 'x'"}, "expected [sample] to be a table"),
        ({"template_toml": b"[schema]\ntype = 'text'"}, "[schema] 'text' is not valid"),
        ({"template_toml": b"[schema.properties.a]\npattern = '('"}, "[schema] '(' is not a"),
        ({"template_toml": b"[sample]\nother = 1"}, "[sample] does not fit: data.name: is missing"),
        ({"template_toml": b"[sample]\nname = 2026-07-01"}, "data.name: expected JSON"),
        (
            {"template_toml": b"[schema.properties.name]\ntype = 'integer'\n[sample]\nname = 'x'"},
            "[sample] does not fit: data.name",
        ),
        *(
            ({"template_toml": f"[schema]\n{line}".encode()}, "expected a reference to #/$defs/")
            for line in (
                "'$ref' = 'https://example.com/schema.json'",
                "'$ref' = '#/$defs/nothing'",
                "'$ref' = 'file:///etc/passwd'",
                "'$id' = 'https://example.com/'",
                "'$dynamicRef' = '#x'",
            )
        ),
    ],
)
def test_a_template_that_can_t_be_used_is_refused_with_what_was_expected(files, expected):
    assert expected in problem_of(**files)


def test_every_problem_of_every_template_is_reported_at_once():
    told = problem(
        {
            "nameless": {"subject.txt": b"{{", "template.toml": b"x = 1"},
            "good-v1": GOOD,
            "bad-v1": {"text.txt": b"{{"},
        }
    )
    for expected in (
        "nameless: expected a name such as welcome-v1",
        "nameless: subject.txt: line 1",
        "nameless: template.toml: x is not known",
        "nameless: expected text.txt, html.html or both",
        "bad-v1: subject.txt is missing",
        "bad-v1: text.txt: line 1",
    ):
        assert expected in told
    assert "good-v1" not in told


def test_no_template_at_all_is_a_problem():
    assert "at least one directory" in problem({})


def test_the_checksum_changes_with_every_byte_and_every_name():
    def checksum(**files: bytes | None) -> str:
        template = load(**files).get("hi-v1")
        assert template is not None
        return template.checksum

    variants = [
        checksum(),
        checksum(text_txt=b"Hello {{ name }}"),
        checksum(subject_txt=b"Hi"),
        checksum(html_html=b""),
        checksum(template_toml=b""),
        checksum(template_toml=b"# a comment"),
        checksum(text_txt=None, html_html=GOOD["text.txt"]),
    ]
    assert len(set(variants)) == len(variants)
    assert checksum() == variants[0]
    assert all(len(each) == 64 for each in variants)


def test_two_sets_of_files_that_read_the_same_in_a_row_have_two_checksums():
    apart = {"html.html": b"a", "subject.txt": b"Hi", "text.txt": b"b"}
    joined = {"html.html": b"a", "subject.txt": b"Hitext.txtb"}
    catalogue = Catalogue({"a-v1": apart, "b-v1": joined})
    assert catalogue.get("a-v1").checksum != catalogue.get("b-v1").checksum


def test_windows_line_ends_and_a_byte_order_mark_change_no_subject():
    template = load(subject_txt=b"\xef\xbb\xbfHi {{ name }}\r\n").get("hi-v1")
    assert template is not None
    assert template.render({"name": "Ada"}).subject == "Hi Ada"


# --- from disk ------------------------------------------------------------------------------------


def test_a_directory_is_read_without_hidden_files_and_stray_ones(tmp_path):
    (tmp_path / "README.md").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / "hi-v1").mkdir()
    for name in ("subject.txt", ".DS_Store", "text.txt~"):
        (tmp_path / "hi-v1" / name).write_bytes(b"x")
    assert read_directory(tmp_path) == {"hi-v1": {"subject.txt": b"x"}}


def test_a_directory_that_can_t_be_read_is_a_bad_setting(tmp_path):
    for path in (tmp_path / "nothing", tmp_path / "file"):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(SettingsError) as raised:
            read_directory(path)
        assert raised.value.problems.keys() == {"TEMPLATE_DIR"}


def test_a_huge_file_is_a_bad_setting(tmp_path):
    (tmp_path / "hi-v1").mkdir()
    (tmp_path / "hi-v1" / "text.txt").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SettingsError) as raised:
        read_directory(tmp_path)
    assert "larger than" in raised.value.problems["TEMPLATE_DIR"]


# --- the bundled ones -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundled() -> Catalogue:
    return Catalogue(read_directory(BUNDLED))


def test_the_bundled_templates_are_there(bundled):
    assert bundled.names() == ("password-reset-v1", "welcome-v1")


@pytest.mark.parametrize("data", [{}, {"name": None}, {"name": ""}, {"plan": "free"}])
def test_the_welcome_needs_no_data_and_no_name(bundled, data):
    welcome = bundled.get("welcome-v1")
    welcome.check(data)
    mail = welcome.render(data)
    assert mail.subject == "Welcome: your account is ready"
    assert mail.text.startswith("Hello,\n")
    assert "None" not in mail.text + mail.html


def test_the_welcome_greets_by_name_and_the_name_is_only_text(bundled):
    mail = bundled.get("welcome-v1").render({"name": "Ada <b>&"})
    assert mail.subject == "Welcome, Ada <b>&: your account is ready"
    assert "Hello Ada <b>&," in mail.text
    assert "Hello Ada &lt;b&gt;&amp;, your account" in mail.html


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "data.link"),
        ({"link": "javascript:alert(1)"}, "data.link"),
        ({"link": "https://example.com/ x"}, "data.link"),
        ({"link": "https://example.com/\nx"}, "data.link"),
        ({"link": "https://example.com/", "lang": "en"}, "data.lang"),
        ({"link": "https://example.com/", "valid_minutes": 0}, "data.valid_minutes"),
    ],
)
def test_a_password_reset_needs_a_web_address(bundled, data, field):
    with pytest.raises(InvalidFields) as raised:
        bundled.get("password-reset-v1").check(data)
    assert list(raised.value.fields) == [field]


def test_a_password_reset_tolerates_a_duplicate_and_shows_its_link_in_both_parts(bundled):
    template = bundled.get("password-reset-v1")
    mail = template.render({"link": "https://example.com/?a=1&b=2", "valid_minutes": 1})
    assert template.on_ambiguous == "resend"
    assert "\nhttps://example.com/?a=1&b=2\n" in mail.text
    assert 'href="https://example.com/?a=1&amp;b=2"' in mail.html
    assert "for 1 minute." in mail.text


def test_bundled_mail_is_readable_without_styles_and_in_the_dark(bundled):
    for name in bundled.names():
        template = bundled.get(name)
        html = template.render(template.sample).html
        assert '<html lang="en"' in html
        assert "prefers-color-scheme: dark" in html
        assert 'name="viewport"' in html
        assert "<title>" in html
        assert "http://" not in html
        assert "<img" not in html
        assert '<h1 style="' in html
