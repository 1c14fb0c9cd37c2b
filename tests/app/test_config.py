"""What the environment says."""

import pytest

from app.config import load_settings
from retrieval.errors import ConfigError


def refuse(monkeypatch: pytest.MonkeyPatch, match: str, **variables: str) -> str:
    """What is said of an environment in which these variables are wrong."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=match) as raised:
        load_settings()
    return str(raised.value)


def test_without_variables_nobody_is_an_admin() -> None:
    settings = load_settings()
    assert (settings.admins, settings.freshness_days) == (frozenset(), 365)


@pytest.mark.parametrize("value", ["U1,W2B", " U1 , W2B,", "W2B,U1,U1"])
def test_admins_are_ids_by_commas(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMINS", value)
    assert load_settings().admins == {"U1", "W2B"}


@pytest.mark.parametrize("value", ["@ann", "U1;U2", "U1 U2", "ann@acme.example", '["U1"]'])
def test_what_is_no_id_is_told(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match = r"ADMINS: .*FRESHNESS_DAYS: "
    assert value not in refuse(monkeypatch, match, ADMINS=value, FRESHNESS_DAYS="0")


def test_experts_are_ids_by_source(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().experts == {}
    monkeypatch.setenv("EXPERTS", '{"wiki": "C123", "*": "S999"}')
    assert load_settings().experts == {"wiki": "C123", "*": "S999"}


def test_channels_allow_what_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().channels == {}
    monkeypatch.setenv("CHANNELS", '{"C123": "questions", "*": "follow-ups"}')
    assert load_settings().channels == {"C123": "questions", "*": "follow-ups"}


@pytest.mark.parametrize(
    "value", ["C123", '["C123"]', '{"#help": "questions"}', '{"C1": "all"}', '{"D1": "mentions"}']
)
def test_channels_that_allow_what_is_not_known_are_told(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert value not in refuse(monkeypatch, r"CHANNELS: ", CHANNELS=value)


SECRETS = ("ANTHROPIC_API_KEY", "SLACK_APP_TOKEN", "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET")


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_may_come_from_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, " xapp-SECRET\r\n")
    assert getattr(load_settings(), name.lower()).get_secret_value() == "xapp-SECRET"


@pytest.mark.parametrize("value", [" ", "\n", "xapp-SEC\nRET", "xapp-SECRET…", "xäpp-SECRET"])
@pytest.mark.parametrize("name", SECRETS)
def test_what_can_be_no_secret_is_told_by_its_name_alone(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refuse(monkeypatch, rf"wrong: {name}: ", **{name: value}).replace(name, "")
    assert "SEC" not in told and "pp-" not in told


@pytest.mark.parametrize(
    "value",
    [
        *("foo", "slack.com/api", "ftp://slack.com", "https://", "https://:80/", "http://a b/"),
        *("http://a:b/", "http://a:99999/", "http://[::1/", "http://a…/", " "),
    ],
)
@pytest.mark.parametrize("name", ["ANTHROPIC_BASE_URL", "SLACK_API_URL"])
def test_what_is_no_address_is_told(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match = rf"{name}: .*no URL such as https://example\.com/\."
    refuse(monkeypatch, match, **{name: value})


@pytest.mark.parametrize(
    "url", ["https://slack.com/api/", "http://127.0.0.1:8123/api/", "http://[::1]", "HTTPS://a.b"]
)
def test_an_address_stays_as_it_is_written(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_API_URL", f"{url}\n")
    assert load_settings().slack_api_url == url


@pytest.mark.parametrize(
    "name",
    ["ANSWER_MODEL", "EMBEDDING_MODEL", "HOST", "RERANK_MODEL", "REWRITE_MODEL", "TENANT_ID"],
)
def test_a_blank_is_no_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, f"{name}: ", **{name: " "})


@pytest.mark.parametrize("value", ["daily", "99 * * * *", "0 3 * * * *", "0 0 */32 * 1#5", "* *"])
def test_a_schedule_is_five_fields_that_come_some_day(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, r"EVAL_SCHEDULE: .*five fields of cron", EVAL_SCHEDULE=value)


def test_pages_are_fresh_for_a_century_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESHNESS_DAYS", "36500")
    assert load_settings().freshness_days == 36_500
    refuse(monkeypatch, "FRESHNESS_DAYS: ", FRESHNESS_DAYS="36501")


@pytest.mark.parametrize("value", ["C123", '["C123"]', '{"wiki": "#help"}', '{"wiki": "U1"}', "{"])
def test_experts_that_nobody_can_reach_are_told(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, r"EXPERTS: ", EXPERTS=value)


def test_prices_are_of_input_and_output_by_model(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().prices == {}
    monkeypatch.setenv("PRICES", '{"claude-sonnet-5-5": [3, 15], "claude-haiku-5-5": [0.8, 4]}')
    assert load_settings().prices == {
        "claude-sonnet-5-5": (3, 15),
        "claude-haiku-5-5": (0.8, 4),
    }


@pytest.mark.parametrize(
    "value", ["3", "[3, 15]", '{"a": 3}', '{"a": [3]}', '{"a": [3, -1]}', '{"a": [3, NaN]}', "{"]
)
def test_prices_that_are_none_are_told(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, r"PRICES: ", PRICES=value)
