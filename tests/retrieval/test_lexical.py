"""Words as the lexical leg has them."""

import pytest

from retrieval.lexical import MAX_LENGTH, build_words, find_words, fold


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World!", "hello world"),
        ("if a<b the <timeout> is used", "if a b the timeout is used"),
        ("<maxConnections>50</maxConnections>", "maxconnections 50 maxconnections"),
        ("R&D, $1,500.00", "r d 1500 00"),
        ("1,500, then 12,345,678 and 1,2", "1500 then 12345678 and 1 2"),
        ("RETRY_MAX_COUNT and PAY-17", "retry max count and pay 17"),
        ("/etc/acme/config.yaml", "etc acme config yaml"),
        ("billing.timeout_ms", "billing timeout ms"),
        ("2026-03-31", "2026 03 31"),
        ("v2.3.1, V2.3.1 and 2.3.1", "2 3 1 2 3 1 and 2 3 1"),
        ("v8 engine, vitamin", "v8 engine vitamin"),
        ("foo & | !( bar", "foo bar"),
        ("foo:* <-> 'bar' \\", "foo bar"),
        ("a\0b", "a b"),
        ("don't, l’employé", "don t l employe"),
        ("?!… —", ""),
        ("", ""),
    ],
)
def test_words_are_lower_case_and_apart(text: str, words: str) -> None:
    assert build_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Résumé, naïve, Ångström", "resume naive angstrom"),
        ("Straße, Ærø, Łódź, cœur", "strasse aero lodz coeur"),
        ("ﬁle, ＡＢＣ, m²", "file abc m2"),
        ("re\u0301sume\u0301", "resume"),  # the accent as a character of its own
        ("Urlaubs\u00adantrag", "urlaubsantrag"),  # a soft hyphen
        ("İstanbul ışık", "istanbul isik"),
        ("ещё", "еще"),
        ("новый", "новый"),  # й is a letter, and what its stemmer knows
        ("مَرْحَبًا", "مرحبا"),
        ("छुट्टी का आवेदन", "छुट्टी का आवेदन"),  # vowel signs belong to the word
    ],
)
def test_accents_fall_away_and_letters_stay(text: str, words: str) -> None:
    assert build_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("経費精算", "経費 費精 精算"),
        ("VPN接続の設定。", "vpn 接続 続の の設 設定"),
        ("税、水", "税 水"),
        ("ｶﾞｽ", "ガス"),
        ("การลา", "กา าร รล ลา"),
        ("휴가를 신청", "휴가 가를 신청"),
    ],
)
def test_where_words_are_not_kept_apart_there_are_bigrams(text: str, words: str) -> None:
    assert build_words(text) == words


@pytest.mark.parametrize(
    "data",
    [
        "QmFzZTY0" * 375,  # of 3,000 characters
        "Qm9n+dXM/" * 333 + "==",
        "x" * (MAX_LENGTH + 1),
        "ä" * (MAX_LENGTH + 1),
    ],
)
def test_data_is_no_word(data: str) -> None:
    assert build_words(f"The key {data} is old") == "the key is old"


def test_the_longest_words_are_kept() -> None:
    assert build_words("x" * MAX_LENGTH) == "x" * MAX_LENGTH
    assert build_words("ä" * MAX_LENGTH) == "a" * MAX_LENGTH
    assert len(build_words("経" * 3_000).split()) == 2_999
    assert build_words("|" + "-" * 300 + "|") == ""


def test_a_word_says_where_it_stood() -> None:
    text = "Die Größe von v2.3: MAX_SIZE, 申請書, ﬁle!"
    found = [(word.text, text[slice(*word.span)]) for word in find_words(text)]
    assert found == [
        ("die", "Die"),
        ("grösse", "Größe"),
        ("von", "von"),
        ("2", "2"),
        ("3", "3"),
        ("max", "MAX"),
        ("size", "SIZE"),
        ("申請", "申請"),
        ("請書", "請書"),
        ("file", "ﬁle"),
    ]


def test_folding_keeps_what_has_no_accent() -> None:
    assert [fold(word) for word in ("resume", "", "経費", "2")] == ["resume", "", "経費", "2"]
