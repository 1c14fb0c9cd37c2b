"""What the environment says."""

import pytest

from app.config import load_settings
from retrieval.errors import ConfigError


def test_without_variables_nobody_is_an_admin() -> None:
    settings = load_settings()
    assert (settings.admins, settings.freshness_days) == (frozenset(), 365)


@pytest.mark.parametrize("value", ["U1,W2B", " U1 , W2B,", "W2B,U1,U1"])
def test_admins_are_ids_by_commas(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMINS", value)
    assert load_settings().admins == {"U1", "W2B"}


@pytest.mark.parametrize("value", ["@ann", "U1;U2", "U1 U2", "ann@acme.example", '["U1"]'])
def test_what_is_no_id_is_told(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMINS", value)
    monkeypatch.setenv("FRESHNESS_DAYS", "0")
    with pytest.raises(ConfigError, match=r"ADMINS: .*FRESHNESS_DAYS: ") as raised:
        load_settings()
    assert value not in str(raised.value)


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
    monkeypatch.setenv("CHANNELS", value)
    with pytest.raises(ConfigError, match=r"CHANNELS: ") as raised:
        load_settings()
    assert value not in str(raised.value)


@pytest.mark.parametrize("value", ["C123", '["C123"]', '{"wiki": "#help"}', '{"wiki": "U1"}', "{"])
def test_experts_that_nobody_can_reach_are_told(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPERTS", value)
    with pytest.raises(ConfigError, match=r"EXPERTS: "):
        load_settings()


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
    monkeypatch.setenv("PRICES", value)
    with pytest.raises(ConfigError, match=r"PRICES: "):
        load_settings()
