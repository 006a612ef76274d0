"""W1, W2: where the certificate is said to be. A refused address is never asked for."""

import json

from tests.attacks.attack import Attacks, attack, harmful
from tests.signing import CERTIFICATE_FILE, CERTIFICATE_URL, body_of, sign

HOST = "sns.eu-west-1.amazonaws.com"

OTHERS = {
    "plain http": f"http://{HOST}/{CERTIFICATE_FILE}",
    "upper-case scheme": f"HTTPS://{HOST}/{CERTIFICATE_FILE}",
    "upper-case host": f"https://{HOST.upper()}/{CERTIFICATE_FILE}",
    "other region": f"https://sns.us-east-1.amazonaws.com/{CERTIFICATE_FILE}",
    "made-up region": f"https://sns.eu-west-9.amazonaws.com/{CERTIFICATE_FILE}",
    "no region": f"https://sns.amazonaws.com/{CERTIFICATE_FILE}",
    "suffix of China": f"https://{HOST}.cn/{CERTIFICATE_FILE}",
    "suffix of Europe": f"https://sns.eu-west-1.amazonaws.eu/{CERTIFICATE_FILE}",
    "dual stack": f"https://sns.eu-west-1.api.aws/{CERTIFICATE_FILE}",
    "look-alike suffix": f"https://{HOST}.evil.example/{CERTIFICATE_FILE}",
    "look-alike suffix without dot": f"https://{HOST}evil.example/{CERTIFICATE_FILE}",
    "look-alike prefix": f"https://evil-{HOST}/{CERTIFICATE_FILE}",
    "dots that are any character": f"https://snsXeu-west-1XamazonawsXcom/{CERTIFICATE_FILE}",
    "subdomain": f"https://x.{HOST}/{CERTIFICATE_FILE}",
    "trailing dot": f"https://{HOST}./{CERTIFICATE_FILE}",
    "user-info": f"https://{HOST}@evil.example/{CERTIFICATE_FILE}",
    "user-info of the real host": f"https://x@{HOST}/{CERTIFICATE_FILE}",
    "user-info with password": f"https://{HOST}:x@evil.example/{CERTIFICATE_FILE}",
    "backslash user-info": f"https://evil.example\\@{HOST}/{CERTIFICATE_FILE}",
    "backslashes": f"https:\\\\{HOST}\\{CERTIFICATE_FILE}",
    "port": f"https://{HOST}:443/{CERTIFICATE_FILE}",
    "empty port": f"https://{HOST}:/{CERTIFICATE_FILE}",
    "other port": f"https://{HOST}:8080/{CERTIFICATE_FILE}",
    "query": f"https://{HOST}/{CERTIFICATE_FILE}?x=.pem",
    "query in place of a file": f"https://{HOST}/?x=/{CERTIFICATE_FILE}",
    "bare query": f"https://{HOST}/{CERTIFICATE_FILE}?",
    "fragment": f"https://{HOST}/{CERTIFICATE_FILE}#",
    "parameter": f"https://{HOST}/x;/{CERTIFICATE_FILE}",
    "host in the query": f"https://evil.example/?https://{HOST}/{CERTIFICATE_FILE}",
    "host in the fragment": f"https://evil.example/#https://{HOST}/{CERTIFICATE_FILE}",
    "host in the path": f"https://evil.example/https://{HOST}/{CERTIFICATE_FILE}",
    "path climb before": f"https://{HOST}/x/../{CERTIFICATE_FILE}",
    "path climb after": f"https://{HOST}/{CERTIFICATE_FILE}/../x",
    "dot in the path": f"https://{HOST}/./{CERTIFICATE_FILE}",
    "percent-encoded dots": f"https://{HOST}/%2e%2e/{CERTIFICATE_FILE}",
    "percent-encoded name": f"https://{HOST}/%53{CERTIFICATE_FILE[1:]}",
    "percent-encoded slash": f"https://{HOST}%2f{CERTIFICATE_FILE}",
    "percent-encoded NUL": f"https://{HOST}/%00/{CERTIFICATE_FILE}",
    "double slash": f"https://{HOST}//{CERTIFICATE_FILE}",
    "folder": f"https://{HOST}/a/{CERTIFICATE_FILE}",
    "one slash": f"https:/{HOST}/{CERTIFICATE_FILE}",
    "three slashes": f"https:///{HOST}/{CERTIFICATE_FILE}",
    "other file": f"https://{HOST}/other.pem",
    "name before": f"https://{HOST}/x{CERTIFICATE_FILE}",
    "short number": f"https://{HOST}/SimpleNotificationService-0123456789abcdef.pem",
    "long number": f"https://{HOST}/{CERTIFICATE_FILE.replace('.pem', '0.pem')}",
    "upper-case number": f"https://{HOST}/{CERTIFICATE_FILE.replace('abcdef', 'ABCDEF')}",
    "no hexadecimal number": f"https://{HOST}/{CERTIFICATE_FILE.replace('abcdef', 'abcdeg')}",
    "other ending": f"https://{HOST}/{CERTIFICATE_FILE[:-4]}.PEM",
    "no ending": f"https://{HOST}/{CERTIFICATE_FILE[:-4]}",
    "two endings": f"https://{HOST}/{CERTIFICATE_FILE}.pem",
    "Arabic digits": f"https://{HOST}/" + CERTIFICATE_FILE.replace("0", "\u0660"),
    "full-width host": f"https://\uff53ns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "ideographic full stop": f"https://sns\u3002eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "long s": f"https://\u017fns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "Cyrillic a": f"https://sns.eu-west-1.\u0430mazonaws.com/{CERTIFICATE_FILE}",
    "soft hyphen": f"https://sns.eu-west-1.amazon\u00adaws.com/{CERTIFICATE_FILE}",
    "punycode": f"https://xn--ns-eya.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "leading space": f" {CERTIFICATE_URL}",
    "trailing space": f"{CERTIFICATE_URL} ",
    "no-break space": f"{CERTIFICATE_URL}\u00a0",
    "zero-width space": f"{CERTIFICATE_URL}\u200b",
    "space in the host": f"https://sns.eu-west-1.amazonaws.com /{CERTIFICATE_FILE}",
    "two addresses": f"{CERTIFICATE_URL} https://evil.example/",
    "file": "file:///etc/passwd",
    "file that looks right": f"file://{HOST}/{CERTIFICATE_FILE}",
    "data": "data:application/x-pem-file;base64,AAAA",
    "ftp": f"ftp://{HOST}/{CERTIFICATE_FILE}",
    "gopher": f"gopher://127.0.0.1:11211/{CERTIFICATE_FILE}",
    "no scheme": f"//{HOST}/{CERTIFICATE_FILE}",
    "relative": f"/{CERTIFICATE_FILE}",
    "IPv4": f"https://169.254.169.254/{CERTIFICATE_FILE}",
    "IPv4 as one number": f"https://2852039166/{CERTIFICATE_FILE}",
    "IPv4 in octal": f"https://0251.0376.0251.0376/{CERTIFICATE_FILE}",
    "IPv6": f"https://[::1]/{CERTIFICATE_FILE}",
    "IPv6 of an IPv4": f"https://[::ffff:169.254.169.254]/{CERTIFICATE_FILE}",
    "loopback": f"http://127.0.0.1/{CERTIFICATE_FILE}",
    "localhost": f"https://localhost/{CERTIFICATE_FILE}",
    "not an address": "h ttp://not a url",
    "very long": f"https://{HOST}/{'x' * 100_000}/{CERTIFICATE_FILE}",
}
WITH_CONTROLS = {
    "trailing newline": f"{CERTIFICATE_URL}\n",
    "trailing carriage return": f"{CERTIFICATE_URL}\r",
    "trailing tab": f"{CERTIFICATE_URL}\t",
    "NUL": f"{CERTIFICATE_URL}\x00",
    "newline in the host": f"https://{HOST}\n/{CERTIFICATE_FILE}",
    "tab in the scheme": f"ht\ttps://{HOST}/{CERTIFICATE_FILE}",
    "line separator": f"{CERTIFICATE_URL}\u2028",
    "a second request": f"{CERTIFICATE_URL} HTTP/1.1\r\nHost: evil.example\r\n",
}
BUCKETS = {
    "bucket named sns, dash host": f"https://sns.s3-eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "bucket named sns, dot host": f"https://sns.s3.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "bucket named sns, no region": f"https://sns.s3.amazonaws.com/{CERTIFICATE_FILE}",
    "bucket in the path": f"https://s3.amazonaws.com/sns/{CERTIFICATE_FILE}",
    "bucket with the host's name": f"https://{HOST}.s3.amazonaws.com/{CERTIFICATE_FILE}",
    "bucket website": f"https://sns.s3-website-eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
    "balancer": f"https://sns-1.eu-west-1.elb.amazonaws.com/{CERTIFICATE_FILE}",
    "machine": f"https://ec2-1-2-3-4.eu-west-1.compute.amazonaws.com/{CERTIFICATE_FILE}",
    "function": f"https://sns.lambda-url.eu-west-1.on.aws/{CERTIFICATE_FILE}",
    "gateway": f"https://sns.execute-api.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
}


def attacks() -> Attacks:
    """Give each address in a message that is right in all else."""
    for row, addresses, cause in (
        ("W1", OTHERS, "certificate_address"),
        ("W1", WITH_CONTROLS, "control_character"),
        ("W2", BUCKETS, "certificate_address"),
    ):
        for name, address in addresses.items():
            yield attack(row, name, sign(harmful(), url=address), cause)
    half = json.dumps(sign(harmful()) | {"SigningCertURL": f"{CERTIFICATE_URL}\ud800"})
    yield attack("W1", "half a character", half.encode(), "bad_field")
    both = sign(harmful()) | {"SigningCertUrl": CERTIFICATE_URL, "SigningCertURL": "file:///x"}
    yield attack("W1", "a good one beside a bad one", body_of(both), "bad_field")
    confirm = sign(harmful(Type="SubscriptionConfirmation", Token="t", SubscribeURL="https://x/"))
    confirm |= {"SigningCertURL": f"https://evil.example/{CERTIFICATE_FILE}"}
    yield attack("W1", "in a confirmation", confirm, "certificate_address")
