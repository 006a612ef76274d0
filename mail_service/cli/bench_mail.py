"""The one mail of a bench: 1 KB of text, 3 KB of HTML, a header and a tag, the same for everybody."""

import json
from pathlib import Path

from mail_service.ports import TAG_HEADER, TAG_NAME

TEXT_BYTES = 1024
HTML_BYTES = 3072
CONFIGURATION_SET = "mail-service"
SENDER = "Demo Shop <shop@example.com>"
SUBJECT = "Welcome to the shop"

_LINE = "You can change your address, your password and what we write to you about at any time.\n"
_TEXT = "Hello Ada,\n\nthank you for opening an account.\n\n"
_HTML = (
    '<!DOCTYPE html><html lang="en"><head><title>Welcome</title></head><body>'
    '<p style="margin:0 0 16px">Hello Ada,</p>'
)
_ROW = f'<p style="margin:0 0 16px;font:16px/24px sans-serif">{_LINE.strip()}</p>'


def text() -> str:
    """Give the text of 1 KB."""
    return (_TEXT + _LINE * 20)[: TEXT_BYTES - 1] + "\n"


def html() -> str:
    """Give the page of 3 KB."""
    end = "</body></html>"
    body = _HTML
    while len(body) + len(_ROW) + len(end) + 7 < HTML_BYTES:
        body += _ROW
    filler = HTML_BYTES - len(body) - len(end) - 7
    return f"{body}<p>{'.' * filler}</p>{end}"


def write_mail(path: Path) -> Path:
    """Write the mail for those who don't render one: the baseline and the peers."""
    path.write_text(
        json.dumps(
            {
                "sender": SENDER,
                "subject": SUBJECT,
                "text": text(),
                "html": html(),
                "header": TAG_HEADER,
                "tag": TAG_NAME,
                "configuration_set": CONFIGURATION_SET,
            }
        )
    )
    path.chmod(0o644)
    return path


def write_template(directory: Path) -> Path:
    """Write it as a template, to be rendered anew for each mail; gives TEMPLATE_DIR."""
    version = directory / "bench-v1"
    version.mkdir(parents=True)
    (version / "subject.txt").write_text(SUBJECT)
    (version / "text.txt").write_text(text().replace("Ada", "{{ name }}", 1))
    (version / "html.html").write_text(html().replace("Ada", "{{ name }}", 1))
    (version / "template.toml").write_text('class = "transactional"\n[sample]\nname = "Ada"\n')
    return directory
