"""Synonyms: their table, their file, and what they make of a question."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from app import synonyms
from app.synonyms import MAX_VARIANTS, Synonym, build, build_table, expand, parse
from retrieval.db import Database
from retrieval.errors import ConfigError
from retrieval.records import Query
from tests.app.test_cli import fail, footnote, succeed


def both(phrase: str, meaning: str) -> Synonym:
    return build(phrase, meaning, two_way=True)


def one_way(phrase: str, meaning: str) -> Synonym:
    return build(phrase, meaning, two_way=False)


VAULT = both("vault", "Secrets Manager")
MP = one_way("MP", "Modernisation Platform")


def find_variants(question: str, *known: Synonym) -> tuple[str, ...]:
    return expand(Query(text=question, question=question), build_table(known)).variants


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("vault, Secrets Manager", [VAULT]),
        ("MP => Modernisation Platform", [MP]),
        ("a, b, c", [both("a", "b"), both("a", "c"), both("b", "c")]),
        ("a, b => c, d", [one_way(x, y) for x in "ab" for y in "cd"]),
        ("a => a, b", [one_way("a", "b")]),  # how Solr is told to keep the a
        (r"ci\,cd, x\=>y", [both("ci,cd", "x=>y")]),
        (r"\#ask-us, help desk", [both("#ask-us", "help desk")]),
        (r"C:\\, drive", [both("C:\\", "drive")]),
        (r"\a => a, b", [one_way("a", "b")]),
        ("  # a, b", []),
        ("", []),
    ],
)
def test_a_line_of_solrs_format_is_read(line: str, found: Sequence[Synonym]) -> None:
    assert list(parse(line)) == found


@pytest.mark.parametrize("synonym", [VAULT, MP, both("ci,cd", "a\\b"), both("#x", "y=>z")])
def test_what_is_listed_is_read_again(synonym: Synonym) -> None:
    assert list(parse(synonym.line)) == [synonym]


def test_whatever_can_be_stored_is_read_again_as_listed() -> None:
    generator = random.Random(0)
    read = 0
    for _ in range(5_000):
        phrase, meaning = (
            "".join(generator.choices("\\\\,,=>># ab", k=generator.randint(1, 8))) for _ in range(2)
        )
        try:
            synonym = build(phrase, meaning, two_way=generator.random() < 0.5)
        except ConfigError:  # no word in it, or the same twice
            continue
        assert list(parse(synonym.line)) == [synonym]
        read += 1
    assert read > 1_000


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("vault", "write `a, b`"),
        ("a => b => c", "write `a, b`"),
        ("a, ", "a word on each side"),
        ("=> b", "a word on each side"),
        ("a, A", "no synonym of itself"),
        ("one two three four five six seven, b", "at most 6 words"),
        ("x" * 101 + ", b", "100 characters"),
        ("a\u200bb, c", "can be seen"),
    ],
)
def test_what_is_no_synonym_is_refused(line: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        list(parse(line))


def test_a_phrase_is_whole_words_in_any_case() -> None:
    assert find_variants("Who opens the VAULT?", VAULT) == ("Who opens the Secrets Manager?",)
    assert find_variants("the (vault)", VAULT) == ("the (Secrets Manager)",)
    assert find_variants("secrets  manager keys", VAULT) == ("vault keys",)
    assert find_variants("C++, what", both("c++", "cpp")) == ("cpp, what",)
    for other in ("vaulted", "vault-agent", "VAULT_ADDR", "/vault/x", "vault.example.com"):
        assert find_variants(f"what is {other}", VAULT) == ()


def test_the_longest_phrase_wins() -> None:
    known = (both("on call", "pager duty"), both("on call pay", "standby allowance"))
    assert find_variants("how much on call pay", *known) == ("how much standby allowance",)


def test_one_way_is_not_the_other_way() -> None:
    assert find_variants("rules of mp", MP) == ("rules of Modernisation Platform",)
    assert find_variants("rules of modernisation platform", MP) == ()


def test_what_a_synonym_brings_is_not_looked_up_again() -> None:
    assert find_variants("an a", one_way("a", "b"), one_way("b", "c")) == ("an b",)


def test_a_meaning_that_is_asked_for_already_brings_nothing() -> None:
    assert find_variants("is vault the secrets manager", VAULT) == ()


def test_variants_are_few_and_the_first_meaning_of_each_phrase_comes_first() -> None:
    known = [one_way("a", f"a{number}") for number in range(9)] + [one_way("z", "z0")]
    variants = find_variants("a z", *known)
    assert variants == ("a0 z", "a z0", "a1 z")
    assert len(variants) == MAX_VARIANTS


def test_variants_are_reranked_against_beside_the_question() -> None:
    query = expand(Query(text="a vault", question="a vault"), build_table([VAULT]))
    assert query.text == "a vault"
    assert query.readings == ("a vault", "a Secrets Manager")


def test_every_reading_of_a_follow_up_is_worded() -> None:
    query = Query(
        text="who? a vault",
        question="a vault",
        variants=("a vault",),
        readings=("who? a vault", "a vault"),
    )
    worded = ("who? a Secrets Manager", "a Secrets Manager")
    expanded = expand(query, build_table([VAULT]))
    assert expanded.variants == ("a vault", *worded)
    assert expanded.readings == ("who? a vault", "a vault", *worded)


def test_a_question_without_synonyms_stays_as_it_is() -> None:
    query = Query(text="who", question="who")
    assert expand(query, build_table([VAULT])) is query


def test_synonyms_are_stored_once_and_in_order(database: Database) -> None:
    assert synonyms.add(database, [VAULT, MP, VAULT]) == 2
    assert synonyms.add(database, [both("VAULT", "secrets manager"), both("a", "b")]) == 1
    assert synonyms.load(database) == [VAULT, MP, both("a", "b")]


def test_the_other_way_makes_one_way_two(database: Database) -> None:
    synonyms.add(database, [MP])
    assert synonyms.add(database, [both("mp", "modernisation platform")]) == 1
    assert synonyms.load(database) == [both("MP", "Modernisation Platform")]


def test_removing_takes_both_ways_and_no_more(database: Database) -> None:
    other = both("vault", "safe")
    synonyms.add(database, [VAULT, other, MP, one_way("strongroom", "vault")])
    assert synonyms.remove(database, "Vault", "SAFE") == [other]
    assert synonyms.remove(database, "Vault", "SAFE") == []
    assert synonyms.remove(database, "secrets manager") == [both("vault", "Secrets Manager")]
    assert synonyms.load(database) == [MP, one_way("strongroom", "vault")]


def test_synonyms_are_those_of_a_tenant(database: Database, database_url: str) -> None:
    synonyms.add(database, [VAULT])
    other = Database(database_url, tenant_id="other")
    assert synonyms.load(other) == []
    assert synonyms.remove(other, "vault") == []
    assert synonyms.add(other, [VAULT]) == 1
    other.close()
    assert synonyms.load(database) == [VAULT]


def test_the_commands_add_list_and_remove(database_url: str, tmp_path: Path) -> None:
    assert succeed(database_url, "synonyms", "list") == ""
    assert succeed(database_url, "synonyms", "add", "vault", "Secrets Manager") == (
        "1 added, 0 there before\n"
    )
    file = tmp_path / "synonyms.txt"
    file.write_text("# ours\n\nVault, secrets manager\nMP => Modernisation Platform\n")
    added = succeed(database_url, "synonyms", "add", "--file", str(file))
    assert added == "1 added, 1 there before\n"
    listed = succeed(database_url, "synonyms", "list")
    assert listed == "vault, Secrets Manager\nMP => Modernisation Platform\n"
    (first, _) = succeed(database_url, "synonyms", "list", "--json").splitlines()
    assert json.loads(first) == {"phrase": "vault", "meaning": "Secrets Manager", "two_way": True}
    removed = succeed(database_url, "synonyms", "remove", "mp")
    assert removed == "removed MP => Modernisation Platform\n"
    assert succeed(database_url, "synonyms", "remove", "mp") == "nothing to remove\n"
    assert succeed(database_url, "synonyms", "add", "a", "b", "--one-way")
    assert succeed(database_url, "synonyms", "list").endswith("\na => b\n")


def test_the_commands_tell_what_is_wrong(database_url: str, tmp_path: Path) -> None:
    file = tmp_path / "synonyms.txt"
    file.write_text("a, b\nvault\n")
    line = fail(database_url, "synonyms", "add", "--file", str(file))
    assert f"{file} line 2: write `a, b`" in line
    assert succeed(database_url, "synonyms", "list") == ""  # all of a file or nothing
    assert "cannot be read" in fail(database_url, "synonyms", "add", "--file", str(tmp_path))
    assert "no synonym of itself" in fail(database_url, "synonyms", "add", "a", " A ")
    for arguments in (["add"], ["add", "a"], ["add", "a", "b", "--file", "x"], ["remove"]):
        assert footnote(database_url, "synonyms", *arguments).exit_code == 2
