"""W15: a signature that is not exactly that of these fields."""

import base64

from tests.attacks.attack import HARM, Attacks, attack, harmful, signed_harm
from tests.signing import confirmation, notification, rsa_key, sign, signature_of, string_to_sign

TEXT = string_to_sign(harmful())
GOOD = str(signed_harm()["Signature"])


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


SIGNATURES = {
    "no base64": "%%%%",
    "not ASCII": "é" * 344,
    "space inside": f"{GOOD[:10]} {GOOD[10:]}",
    "space before": f" {GOOD}",
    "space behind": f"{GOOD} ",
    "plus turned into space": GOOD.replace("+", " ") if "+" in GOOD else f"{GOOD}  ",
    "padding gone": GOOD.rstrip("="),
    "more padding": f"{GOOD}=",
    "URL alphabet": f"{GOOD[:-3]}-_=",
    "loose last bits": GOOD[:-3] + chr(ord(GOOD[-3]) + 1) + "==",
    "hexadecimal": base64.b64decode(GOOD).hex(),
    "one byte short": _b64(base64.b64decode(GOOD)[:-1]),
    "one byte long": _b64(base64.b64decode(GOOD) + b"\0"),
    "a zero before": _b64(b"\0" + base64.b64decode(GOOD)),
    "backwards": _b64(base64.b64decode(GOOD)[::-1]),
    "zeroes": _b64(b"\x00" * 256),
    "ones": _b64(b"\xff" * 256),
    "number one": _b64(b"\x00" * 255 + b"\x01"),
    "twice": GOOD + GOOD,
    "huge": "A" * 1_000_000,
    "of another key": signature_of(TEXT, key=rsa_key(number=1)),
    "of another message": signature_of(string_to_sign(notification("{}"))),
    "without the last line feed": signature_of(TEXT[:-1]),
    "of nothing": signature_of(""),
    "of the message alone": signature_of(HARM),
    "with CRLF": signature_of(TEXT.replace("\n", "\r\n")),
    "by SHA-1": signature_of(TEXT, "1"),
}


def attacks() -> Attacks:
    """Give each signature, and each field changed by one bit under a good one."""
    for name, signature in SIGNATURES.items():
        yield attack("W15", name, signed_harm() | {"Signature": signature}, "bad_signature")
    for version in ("1", "2"):
        for signed in (sign(harmful(Subject="hello"), version), sign(confirmation(), version)):
            for name in ("Message", "MessageId", "Timestamp", "Subject", "SubscribeURL", "Token"):
                if name not in signed:
                    continue
                text = str(signed[name])
                changed = signed | {name: text[:-2] + chr(ord(text[-2]) ^ 1) + text[-1]}
                what = f"version {version}, {signed['Type']}: one bit of {name}"
                yield attack("W15", what, changed, "bad_signature", versions=("1", "2"))
    with_, without = signed_harm(Subject="a"), signed_harm()
    for name, forged in {
        "Subject swapped": with_ | {"Subject": "b"},
        "Subject emptied": with_ | {"Subject": ""},
        "Subject nulled": with_ | {"Subject": None},
        "Subject added": without | {"Subject": "a"},
        "empty Subject added": without | {"Subject": ""},
        "Message with a line feed more": without | {"Message": f"{HARM}\n"},
        "Message in another form": without | {"Message": HARM.replace("@", "\\u0040")},
    }.items():
        yield attack("W15", name, forged, "bad_signature")
