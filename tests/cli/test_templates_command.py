"""``mail-service templates``: needs neither database nor settings."""

from pathlib import Path

from tests.cli.conftest import Cli


def _template(root: Path, name: str, **files: str) -> None:
    (root / name).mkdir()
    for stem, text in files.items():
        (root / name / stem.replace("_", ".")).write_text(text)


def test_the_bundled_templates_are_listed_and_fine(bare_cli: Cli) -> None:
    names = [row["name"] for row in bare_cli("templates", "list", "--json").json]
    assert "welcome-v1" in names
    checked = bare_cli("templates", "check")
    assert checked.status == 0
    assert "welcome-v1" in checked.out
    assert "welcome-v1" in bare_cli("templates", "list").out


def test_a_preview_shows_the_mail_of_the_sample_or_of_given_data(bare_cli: Cli) -> None:
    sample = bare_cli("templates", "preview", "welcome-v1", "--sample")
    assert sample.status == 0
    assert sample.out.startswith("Subject: ")
    assert "Ada Lovelace" in sample.out
    given = bare_cli("templates", "preview", "welcome-v1", "--data", '{"name": "Grace"}')
    assert "Grace" in given.out
    assert "Ada" not in given.out


def test_data_is_read_from_a_file_too(bare_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"name": "Grace"}')
    file = f"@{tmp_path / 'data.json'}"
    assert "Grace" in bare_cli("templates", "preview", "welcome-v1", "--data", file).out


def test_the_html_comes_alone(bare_cli: Cli) -> None:
    html = bare_cli("templates", "preview", "welcome-v1", "--html").out
    assert html.lstrip().startswith("<")
    assert "Subject:" not in html


def test_data_that_does_not_fit_is_named(bare_cli: Cli) -> None:
    ran = bare_cli("templates", "preview", "password-reset-v1", "--data", "{}")
    assert ran.status == 2
    assert "data.link: is missing" in ran.err
    assert bare_cli("templates", "preview", "welcome-v1", "--data", "nonsense").status == 2
    assert bare_cli("templates", "preview", "welcome-v1", "--data", "[]").status == 2
    both = ("--data", "{}", "--sample")
    assert bare_cli("templates", "preview", "welcome-v1", *both).status == 2


def test_a_template_that_is_not_there_is_a_problem_that_names_the_others(bare_cli: Cli) -> None:
    ran = bare_cli("templates", "preview", "welcome-v9")
    assert ran.status == 1
    assert "welcome-v1" in ran.err


def test_a_check_names_every_problem(bare_cli: Cli, tmp_path: Path) -> None:
    _template(tmp_path, "good-v1", subject_txt="Hello", text_txt="Hello")
    _template(tmp_path, "open-v1", subject_txt="Hello", text_txt="{% if x %}")
    _template(tmp_path, "mute-v1", subject_txt="Hello; and more")
    ran = bare_cli("templates", "check", tmp_path)
    assert ran.status == 1
    assert len(ran.out.splitlines()) == 2
    assert "open-v1: text.txt: line 1" in ran.out
    assert "mute-v1: expected text.txt, html.html or both" in ran.out
    assert len(bare_cli("templates", "check", tmp_path, "--json").json["problems"]) == 2


def test_template_dir_is_what_is_listed_and_checked(bare_cli: Cli, tmp_path: Path) -> None:
    _template(tmp_path, "good-v1", subject_txt="Hello", text_txt="Hello")
    listed = bare_cli("templates", "list", "--json", TEMPLATE_DIR=str(tmp_path))
    assert [row["name"] for row in listed.json] == ["good-v1"]
    missing = bare_cli("templates", "list", TEMPLATE_DIR=str(tmp_path / "none"))
    assert missing.status == 1
    assert "TEMPLATE_DIR: expected a directory that exists" in missing.err
