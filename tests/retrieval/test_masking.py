"""What is taken out of documents before anything is stored. All secrets are made up by lot."""

import base64
import json
import random
import string
from collections.abc import Mapping
from pathlib import Path
from time import process_time

import pytest
from sqlalchemy import text

from app import citations
from app.generate.quoted import Quoter
from app.records import Turn
from retrieval import masking, passwords
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.masking import MASK
from retrieval.records import Document
from tests.conftest import SAMPLE
from tests.retrieval.pages import ask, build_retriever, ingest, page

_lot = random.Random(6)


def draw(length: int, signs: str = string.ascii_letters + string.digits) -> str:
    return "".join(_lot.choices(signs, k=length))


def encode(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


AWS_ID = "AKIA" + draw(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
PEM = "\n".join(
    [
        "-----BEGIN RSA PRIVATE KEY-----",  # pragma: allowlist secret
        *(draw(64) for _ in range(12)),
        "-----END RSA PRIVATE KEY-----",
    ]
)
SECRETS = {
    "aws id": AWS_ID,
    "github": "ghp_" + draw(36),
    "github fine grained": "github_pat_" + draw(22) + "_" + draw(59),
    "gitlab": "glpat-" + draw(20),
    "slack bot": f"xoxb-{draw(12, '123456789')}-{draw(13, '123456789')}-{draw(24)}",
    "slack hook": "https://hooks.slack.com/services/"
    f"T{draw(8, '0123456789ABCDEF')}/B{draw(8, '0123456789ABCDEF')}/{draw(24)}",
    "stripe": "sk_live_" + draw(24),
    "google": "AIza" + draw(35),
    "openai": "sk-proj-" + draw(74) + "T3BlbkFJ" + draw(74),
    "anthropic": "sk-ant-api03-" + draw(93) + "AA",
    "npm": "npm_" + draw(36),
    "sendgrid": f"SG.{draw(22)}.{draw(43)}",
    "jwt": ".".join([encode({"alg": "HS256", "typ": "JWT"}), encode({"sub": draw(10)}), draw(43)]),
    "private key": PEM,
    "telegram": f"{draw(9, '123456789')}:AA{draw(33)}",
    "apr1": f"$apr1${draw(8)}${draw(22)}",
}
# What is written, and what of it is the secret.
WRITTEN = {
    "password: hunter2": "hunter2",
    "The Wi-Fi password is `Sunny-Harbour-42`.": "Sunny-Harbour-42",
    "DB_PASSWORD=Winter2026!": "Winter2026!",
    "| admin | Password: k3ttle&Drum |": "k3ttle&Drum",
    "Das Passwort lautet: Sommer2026!": "Sommer2026!",
    "**Passphrase:** correct7horse": "correct7horse",
    "postgresql://app:tr0ub4dor-and3@db.halvermeer.example:5432/app": "tr0ub4dor-and3",
    "git clone https://deploy:Xk9LwPz4RtYb@git.halvermeer.example/x.git": "Xk9LwPz4RtYb",
    "Authorization: Basic ZGVwbG95OlhrOUx3UHo0UnRZYg==": "ZGVwbG95OlhrOUx3UHo0UnRZYg==",
    'curl -H "Authorization: Bearer q7Hn2vXk9LwPz4RtYb8M"': "q7Hn2vXk9LwPz4RtYb8M",
    'api_key = "q7Hn2vXk9LwPz4RtYb8Ms1Df"': "q7Hn2vXk9LwPz4RtYb8Ms1Df",
    "aws_secret_access_key = q7Hn2vXk9LwPz4RtYb8Ms1DfGj6Ce3UaVo5NiB0k": (
        "q7Hn2vXk9LwPz4RtYb8Ms1DfGj6Ce3UaVo5NiB0k"
    ),
    "SLACK_SIGNING_SECRET=8f742231b10e8888abcd99a5e3e285a5": "8f742231b10e8888abcd99a5e3e285a5",
    "password: Kettle2#2026": "Kettle2#2026",
    "password: K@ttle$drum2026": "K@ttle$drum2026",
    "Password: 50%Rabatt2026": "50%Rabatt2026",
    "password: Ket(tle)drum99": "Ket(tle)drum99",
    "password: Sample1Winter": "Sample1Winter",
    "password: Your4Kettles99": "Your4Kettles99",
    "DB_PASSWORD=abc123Xyz9": "abc123Xyz9",
    "postgres://app:Win#ter2026@db.halvermeer.example/app": "Win#ter2026",
    "postgres://app:k%40ttle9@db.halvermeer.example/app": "k%40ttle9",
    "Password: correct-kettle-Drum!stick": "correct-kettle-Drum!stick",
    "Passwort: Sommerfrische!": "Sommerfrische!",
    'dbPassword: "K3ttleDrum99"': "K3ttleDrum99",
    '{"SecretAccessKey": "q7Hn2vXk9LwPz4RtYb8Ms1DfGj6Ce3UaVo5NiB0k"}': (
        "q7Hn2vXk9LwPz4RtYb8Ms1DfGj6Ce3UaVo5NiB0k"
    ),
    "| Host | User | Password |\n|---|---|---|\n| db1 | admin | K3ttle&Drum |": "K3ttle&Drum",
    "Host | Passwort\n--- | ---\ndb1 | `K3ttle&Drum`": "K3ttle&Drum",
    "| AWS secret access key | q7Hn2vXk9LwPz4RtYb8M |": "q7Hn2vXk9LwPz4RtYb8M",
    "<password>K3ttleDrum99</password>": "K3ttleDrum99",
    "Credentials: admin, pw: Hallo2026x": "Hallo2026x",
    "Login: admin / K3ttle&Drum": "K3ttle&Drum",
    "Das Passwort für den Drucker lautet Geheim4711.": "Geheim4711",
    "The password for the lab printer is Winter2026!": "Winter2026!",
    "Password:\n\n    K3ttleDrum99\n": "K3ttleDrum99",
    "## Root password\n\n```\nK3ttleDrum99\n```": "K3ttleDrum99",
    "mysql -u root -pK3ttleDrum99 -h db1": "K3ttleDrum99",
    "app login --password K3ttleDrum99": "K3ttleDrum99",
    '{"auths": {"r.example": {"auth": "YWRtaW46SzN0dGxlRHJ1bTk5"}}}': "YWRtaW46SzN0dGxlRHJ1bTk5",
    "https://halvermeer.blob.example/c?sv=2022-11-02&sig=q7Hn2vXk9LwPz4RtYb8Ms1Df%3D": (
        "q7Hn2vXk9LwPz4RtYb8Ms1Df%3D"
    ),
    "| System | Login | Kennwort |\n|---|---|---|\n|  | admin | K3ttleDrum99 |": "K3ttleDrum99",
    "| | Password |\n|---|---|\n| bob | K3ttleDrum99 |": "K3ttleDrum99",
    "| System || Password |\n|---|---|---|\n| db1 || K3ttle\\|Drum99 |": "K3ttle\\|Drum99",
    "| Host | Password (prod) |\n|---|---|\n| db1 | K3ttleDrum99 |": "K3ttleDrum99",
    "| DB_PASSWORD | of the database | K3ttleDrum99 |": "K3ttleDrum99",
    "username     = app\npassword     = K3ttleDrum99\n": "K3ttleDrum99",
    "Password       :     K3ttleDrum99": "K3ttleDrum99",
    'password: "K3ttle Drum 99"': "K3ttle Drum 99",
    "Password: `K3ttle Drum, 99`, as ever": "K3ttle Drum, 99",
    "password: K3ttle9,Drum;stick'99<b and more": "K3ttle9,Drum;stick'99<b",
    "Password: K3ttleDrum99<br>User: bob": "K3ttleDrum99",
    "**Password: K3ttle|Drum99**, (password: K3ttle|Drum99)": "K3ttle|Drum99",
    "[pw: K3ttle|Drum99](https://halvermeer.example)": "K3ttle|Drum99",
    "Server=db1;Password=K3ttle;Drum99;Encrypt=true": "K3ttle;Drum99",
    f"password: {'K3ttle' * 20}": "K3ttle" * 20,
    "postgres://app:k@ttle9@db.halvermeer.example/app": "k@ttle9",
    f"token: {'q7Hn2vXk9LwPz4RtYb8Ms1Df' * 30}": "q7Hn2vXk9LwPz4RtYb8Ms1Df" * 30,
    "PGPASSWORD=K3ttleDrum99 psql": "K3ttleDrum99",
    "PASSWORD_PROD=K3ttleDrum99": "K3ttleDrum99",
    "DB_PASSWORD_STAGING: K3ttleDrum99": "K3ttleDrum99",
    "Passwords: K3ttleDrum99": "K3ttleDrum99",
    "Password (staging): K3ttleDrum99": "K3ttleDrum99",
    "SECRET_KEY_BASE=9f3c1d7e5b2a8064f1e0c3d2b5a49687": "9f3c1d7e5b2a8064f1e0c3d2b5a49687",
    "- name: DB_PASSWORD\n  value: K3ttleDrum99\n": "K3ttleDrum99",
    '<add key="DbPassword" value="K3ttleDrum99"/>': "K3ttleDrum99",
    "CREATE USER app WITH PASSWORD 'K3ttleDrum99';": "K3ttleDrum99",
    'Log in with the password "K3ttleDrum99".': "K3ttleDrum99",
    "### Password\n\n`K3ttleDrum99`\n": "K3ttleDrum99",
    "Password: admin123": "admin123",
    "password: ops2024": "ops2024",
    "The password is 48213377.": "48213377",
    "The password for the printer on floor two is hunter2x": "hunter2x",
    "user: bob, pass: K3ttleDrum99": "K3ttleDrum99",
    "user: bob, pass: k3ttle&drum": "k3ttle&drum",
    "DB_PASS=k3ttle99 and db_pass: k3ttle99": "k3ttle99",
    '{"pass": "k3ttle99"}': "k3ttle99",
    "| DB_PASS | k3ttle99 |": "k3ttle99",
    "| User | Pass |\n|---|---|\n| bob | K3ttleDrum99 |": "K3ttleDrum99",
    "user: bob, pw: k3ttle99": "k3ttle99",
    PEM.removesuffix("\n-----END RSA PRIVATE KEY-----"): (
        PEM.removesuffix("\n-----END RSA PRIVATE KEY-----")
    ),
}
HARMLESS = [
    "Fixed in commit 3f786850e387550fdab836ed7e6dc881de23001b.",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "md5 d41d8cd98f00b204e9800998ecf8427e, trace 550e8400-e29b-41d4-a716-446655440000",
    "AKIAIOSFODNN7EXAMPLE and wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "Your password: must have at least twelve characters.",
    "Reset your password: go to the portal and click Forgot password.",
    "The password is case-sensitive and is reset every 90 days.",
    "| Password | At least 12 characters |",
    "password: <your password>, PASSWORD=changeme, password: ********, api_key: YOUR_API_KEY",
    "password = get_password2(user), DB_PASSWORD=${DB_PASSWORD2}, password: {{ vault.password1 }}",
    "export TOKEN=$GITHUB_TOKEN, Authorization: Bearer <token>, Authorization: Bearer $TOKEN",
    "https://user:password@example.com/ or postgres://localhost:5432/app",
    "Channel C02ABCD9F, user U0123ABCD, order HV-2024-118839-AB, ticket OPS-1234",
    "secret: the sauce is mustard; the token: a JSON Web Token; client_secret: ask-team-infra-2",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 user@host, NL91ABNA0417164300",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "Password: 12characters minimum, the password is 16-character long, passcode is 6-digit code",
    "The password is reset after 90days, password: rotate every 90d",
    "pwd: /home/app2/releases, password_file=/run/secrets/db2, pwd=/srv/app2",
    "password: file:/run/secrets/db1, password: op://prod/db1/password, secret: vault:/kv/db2",
    "password: process.env.DB_PASSWORD2, token = os.environ['TOKEN_2'], password: config.password2",
    "Password is Argon2id hashed, password: PBKDF2-HMAC-SHA256, password: SHA-256",
    "password: !vault2, password: ask_ops_team2, password: infra-oncall-2",
    "password: hr2@halvermeer.example",
    "Password: required!\nPassword: optional\npassword: string",
    "| Password | Required |\n|---|---|\n| At least 12 characters | yes |",
    "| Token | Meaning |\n|---|---|\n| access_token_v2 | for team 2 |",
    "Records that pass: 125000, rows per pass: 1000000. Annual pass: 120000 HUF, PW: 202411.",
    "| Pass: 125000 | Fail: 300 |\nPasswords: 125000, PWD = 202411, Passwörter: 125000",
    "Season pass: 120EUR\nBoarding pass: LH4411\nDay pass: $120/day, mountain pass: 2500m+",
    "| Test | Pass |\n|---|---|\n| Login | 12of14 |\n| **Boarding pass** | LH4411 |",
    "GET /pages?nextToken=5902rmnmjz5fivko9172xs74c",
    "## Root password\n\nIt is in 1Password, vault ops2.",
    "<password>your-password</password> and mysql -u root -p$MYSQL_PASSWORD -p shop",
    "| DB_PASSWORD | since v2.14.1 | 1.0.0-beta2 |\n| Password | 120000 |\n| PASSWORD | 8 |",
    "PASSWORD_MIN_LENGTH=12, the password is 12 long, password: admin, password: support-team",
    'the password "at least 12 characters", the password `correct horse`, Password (of 8): yes',
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: db2, key: password2}\n",
    "See http://app:8080/x and mail bob@halvermeer.example; https://app:8080@/",
    "sk-your-key-here, SLACK_BOT_TOKEN=xoxb-your-token, signingkey = A3F1E9C0B827D54E",
]


def cover(written: str) -> str:
    return masking.mask(page_of(written)).text


def page_of(written: str) -> Document:
    return Document(path="a.md", title="A", url="https://wiki.example/a", text=written)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize(
    "around", ["Use {} now.", "`{}`", "It is {}.", "({})", "**{}**", "| a | {} |", 'x = "{}"\n']
)
def test_a_token_is_masked_wherever_it_stands(secret: str, around: str) -> None:
    assert cover(around.format(secret)) == around.format(MASK)


@pytest.mark.parametrize(("written", "secret"), WRITTEN.items())
def test_a_password_is_masked_where_it_is_written_down(written: str, secret: str) -> None:
    assert cover(written) == written.replace(secret, MASK)
    assert cover(cover(written)) == cover(written)


@pytest.mark.parametrize("written", HARMLESS)
def test_hashes_ids_examples_and_rules_for_passwords_stay(written: str) -> None:
    document = page_of(written)
    assert masking.mask(document) is document


def test_the_sample_has_no_secret() -> None:
    files = sorted(Path(SAMPLE, "docs").rglob("*.md"))
    assert len(files) > 20
    assert [file.name for file in files if masking.find(file.read_text("utf-8"))] == []


@pytest.mark.parametrize("repeated", ["-", "|", "password:", "http://a:b@"])
def test_a_page_of_one_thing_takes_no_time(repeated: str) -> None:
    start = process_time()
    list(passwords.find(repeated * (100_000 // len(repeated))))
    assert process_time() - start < 2


def test_what_overlaps_is_masked_as_one_and_offsets_count_characters() -> None:
    written = f"Ünïcödé 🙂: password: {SECRETS['github']} …"
    assert cover(written) == f"Ünïcödé 🙂: password: {MASK} …"
    (secret,) = masking.find(written)
    assert written[secret.start : secret.end] == SECRETS["github"]


RUNBOOK = f"""\
# Restoring the booking database

Log in as the user restore with the password: Kettle-Drum-77 and start the restore.

## Uploading the dump

The upload to the archive uses the key {AWS_ID} and takes ten minutes.
"""


def test_a_secret_of_a_page_is_stored_nowhere_and_its_owner_can_be_told(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, page("restore.md", RUNBOOK))
    secrets = ("Kettle-Drum-77", "kettle", AWS_ID, AWS_ID.lower())
    with database.unrestricted.transaction() as connection:
        for table in ("documents", "sections", "chunks", "lexical_postings", "identifier_postings"):
            rows = str(connection.execute(text(f"SELECT * FROM {table}")).all())
            assert "restor" in rows.lower() or table == "identifier_postings"
            assert not [secret for secret in secrets if secret in rows], table
        kinds = connection.execute(text("SELECT secret_kinds FROM documents")).scalar_one()
    assert kinds == ["AWS access key", "password"]


def test_what_is_quoted_from_a_masked_page_stands_in_its_section(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, page("restore.md", RUNBOOK))
    retriever = build_retriever(database, embedder)
    query = ask("which password has the user restore?")
    kept = retriever.search(query)
    answer = Quoter(embedder).generate([Turn(speaker="user", text=query.text)], query, kept)
    assert f"password: {MASK}" in answer.text and "Kettle" not in str(answer)
    sections = {each.section.section_id: each.section.text for each in kept}
    for citation in answer.citations:
        assert citations.find(citation.cited_text, sections[citation.section_id])


def test_a_page_is_indexed_again_when_its_secret_goes(
    database: Database, embedder: Embedder
) -> None:
    ingest(database, embedder, page("restore.md", RUNBOOK))
    cleaned = RUNBOOK.replace("the password: Kettle-Drum-77", "your own password")
    assert ingest(database, embedder, page("restore.md", cleaned)).changed == 1
    with database.transaction() as connection:
        kinds = connection.execute(text("SELECT secret_kinds FROM documents")).scalar_one()
    assert kinds == ["AWS access key"]
