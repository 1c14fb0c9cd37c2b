"""The language of a page, as stated or by its text."""

import pytest

from retrieval import languages


@pytest.mark.parametrize(
    ("value", "language"),
    [
        ("de", "german"),
        ("de-AT", "german"),
        ("pt_BR", "portuguese"),
        ("EN", "english"),
        ("German", "german"),
        ("fr, en", "french"),
        ("ja", "english"),
        ("pl", None),  # has no stemmer, as the text will show
        ("python", None),
        ("42", None),
        ("", None),
    ],
)
def test_a_page_may_state_its_language(value: str, language: str | None) -> None:
    assert languages.parse(value) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ask for leave at least two weeks before the first day, in the staff portal.", "english"),
        ("Urlaubsanträge stellen Sie spätestens zwei Wochen vorher im Personalportal.", "german"),
        ("Les employés déposent leurs notes de frais avant le 5 du mois suivant.", "french"),
        ("Las solicitudes de vacaciones se envían al menos dos semanas antes.", "spanish"),
        ("Заявление на отпуск подаётся не позднее чем за две недели до отпуска.", "russian"),
        ("Wnioski urlopowe składa się co najmniej dwa tygodnie przed urlopem.", "simple"),
        ("出張の経費精算は、翌月の五日までに経費システムから申請してください。", "english"),
        ("การขอลาพักร้อนต้องยื่นล่วงหน้าอย่างน้อยสองสัปดาห์", "english"),
        ("- alice\n- bob\n- Zürich\n- Köln\n- München\n", "english"),  # no prose
        ("PAY-17", "english"),
        ("", "english"),
    ],
)
def test_the_text_tells_its_language_where_it_says_enough(text: str, language: str) -> None:
    assert languages.detect(text) == language
