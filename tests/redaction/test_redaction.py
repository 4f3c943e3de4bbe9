"""Secrets stay in: in texts, and in what child processes see."""

import base64
import json
import urllib.parse

import pytest

from nanoclaw.redaction import Redactor, clean_environment, smells_of_secret

SECRET = 'sk-Canary/4f+x"9é'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        urllib.parse.quote(SECRET, safe=""),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        urllib.parse.quote(urllib.parse.quote(SECRET, safe="")),
        urllib.parse.quote(urllib.parse.quote(urllib.parse.quote(SECRET))),
        json.dumps(json.dumps(SECRET)),
        json.dumps({"a": json.dumps({"b": json.dumps(SECRET)})}),
        *(base64.b64encode(f"{'u' * n}:{SECRET}:{'p' * m}".encode()).decode() for n in range(4) for m in range(4)),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_secret_is_masked_in_every_form(form: str) -> None:
    masked = Redactor([SECRET])(f"before {form} after")
    assert "[secret]" in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert SECRET not in masked


def test_other_text_stays_as_it_is_and_short_secrets_blank_out_nothing() -> None:
    text = "a text without any, with ab and base64 YWJj"
    assert Redactor([SECRET, "ab", "", "  "])(text) is text


def test_the_longer_of_two_secrets_is_masked_whole() -> None:
    assert Redactor(["token-1", "token-1-and-more"])("token-1-and-more") == "[secret]"


def test_children_see_no_secrets() -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LANG": "C.UTF-8",
        "GIT_AUTHOR_NAME": "Me",
        "OPENAI_API_KEY": "x",
        "GITHUB_TOKEN": "x",
        "db_password": "x",
        "AWS_SECRET_ACCESS": "x",
        "GOOGLE_APPLICATION_CREDENTIALS": "x",
        "SSH_AUTH_SOCK": "x",
        "AUTHORIZATION": "x",
        "HARMLESS": f"prefix {SECRET}",
        "DATABASE_URL": "postgres://me:pass@db/x",
        "HTTP_PROXY": "http://proxy:3128",
    }
    kept = ["PATH", "HOME", "LANG", "GIT_AUTHOR_NAME", "HTTP_PROXY"]
    assert list(clean_environment(environ, [SECRET])) == kept


@pytest.mark.parametrize("name", ["DB_PASS", "SMTP_PASS", "PASS", "GITHUB_PAT", "MYSQL_PWD", "PAT_GITLAB"])
def test_short_names_of_passwords_and_access_tokens_are_secret(name: str) -> None:
    assert clean_environment({name: "a value"}) == {}


@pytest.mark.parametrize("name", ["PATH", "PWD", "OLDPWD", "BYPASS", "COMPASS", "PASSED", "PATTERN", "PYTHONPATH"])
def test_names_that_only_look_like_them_are_none(name: str) -> None:
    assert not smells_of_secret(name)
