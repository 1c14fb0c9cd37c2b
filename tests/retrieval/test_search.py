"""Each leg alone, on a few pages that are made to be confused with each other."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from pgvector import HalfVector
from sqlalchemy import Connection, make_url, text

from retrieval import generations, search
from retrieval.db import Database
from retrieval.embedding import Embedder, Vectors
from retrieval.generations import Generation
from retrieval.records import Hit
from retrieval.tuning import DEFAULT, Tuning
from tests.conftest import Server
from tests.retrieval.pages import ask, build_retriever, find_rows, indexed_pages, ingest, page

PAGES = {
    "retry-max.md": "# Worker\n\nSet `RETRY_MAX_COUNT=5` before the start.\n",
    "max-retry.md": "# Sender\n\nSet `MAX_RETRY_COUNT=9` before the start.\n",
    "config.md": "# Billing\n\nEdit /etc/acme/config.yaml, key billing.timeout_ms, default 30.\n",
    "v2.3.1.md": "# Release v2.3.1\n\nFixed: sums were rounded twice.\n",
    "2.3.2.md": "# Release 2.3.2\n\nFixed: dates were a day late.\n",
    "pay.md": "# Refunds\n\nPAY-17: refund stuck. Ask the bank.\n",
    "codes.md": "# Codes\n\n`E-1042`: the printer is out of paper.\n",
    "laptop.md": "# Hardware\n\nTo swap a laptop, open a ticket.\n",
    "it.md": "# People\n\nIT help desk hours: 8 to 18.\n",
    "pool.md": "# Pool\n\n```xml\nset <maxConnections>50</maxConnections>\n```\n",
    "limit.md": "# Cards\n\nThe limit is $1,500.00, R&D included, effective 2026-03-31.\n",
    "quota.md": "# Messages\n\n`ERR_QUOTA_77` is shown when the disk is full.\n",
    **{
        f"quotas-{n}.md": f"# Quota {n}\n\nWhen the quota of team {n} is used up, an error says"
        f" that the quota is used up; ask for a higher quota, number 7{n}.\n"
        for n in range(10)
    },
}


@pytest.fixture(scope="module")
def corpus(server: Server, template: str, embedder: Embedder) -> Iterator[Database]:
    """The pages above, indexed; no test writes to them."""
    with indexed_pages(server, template, embedder, PAGES) as database:
        yield database


@pytest.fixture
def connection(corpus: Database) -> Iterator[Connection]:
    with corpus.transaction() as connection:
        yield connection


@pytest.fixture
def generation(connection: Connection) -> Generation:
    generation = generations.load(connection, "active")
    assert generation is not None
    return generation


def find_paths(connection: Connection, hits: list[Hit]) -> list[str]:
    sections = search.load_sections(connection, [hit.section_id for hit in hits])
    return [sections[hit.section_id].path for hit in hits]


def find(
    connection: Connection, generation: Generation, question: str, leg: str = "lexical"
) -> list[str]:
    search_leg = {"lexical": search.lexical, "identifier": search.identifier}[leg]
    return find_paths(connection, search_leg(connection, question, generation, DEFAULT))


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("what is RETRY_MAX_COUNT", "retry-max.md"),
        ("what is retry max count", "retry-max.md"),
        ("max_retry_count?", "max-retry.md"),
        ("where is config.yaml", "config.md"),
        ("timeout_ms default", "config.md"),
        ("billing.timeout_ms", "config.md"),
        ("what changed in 2.3.1", "v2.3.1.md"),
        ("what changed in v2.3.2", "2.3.2.md"),
        ("PAY 17", "pay.md"),
        ("pay17", "pay.md"),
        ("PAY-17?", "pay.md"),
        ("error E1042", "codes.md"),
        ("maxConnections default", "pool.md"),
        ("limit of $1500", "limit.md"),
        ("effective date 2026-03-31", "limit.md"),
        ("err quota 77", "quota.md"),
    ],
)
def test_an_identifier_is_found_however_it_is_typed(
    connection: Connection, generation: Generation, question: str, path: str
) -> None:
    first, *_ = find(connection, generation, question, "identifier")
    assert first == path


@pytest.mark.parametrize(
    ("question", "twin"),
    [("what changed in 2.3.1", "2.3.2.md"), ("2.3.2", "v2.3.1.md"), ("E1043", "codes.md")],
)
def test_a_twin_is_not_found(
    connection: Connection, generation: Generation, question: str, twin: str
) -> None:
    assert twin not in find(connection, generation, question, "identifier")


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("what is RETRY_MAX_CUONT", "retry-max.md"),
        ("max_rtry_count?", "max-retry.md"),
        ("maxConnectons default", "pool.md"),
    ],
)
def test_a_long_identifier_with_a_slip_of_the_hand_in_it_is_found(
    connection: Connection, generation: Generation, question: str, path: str
) -> None:
    assert find(connection, generation, question, "identifier") == [path]


def test_a_slip_is_looked_for_only_where_what_was_typed_stands_nowhere(
    database: Database, embedder: Embedder
) -> None:
    ingest(
        database,
        embedder,
        page("typed.md", "# One\n\nSet `RETRY_COUNT`.\n"),
        page("near.md", "# Two\n\nSet `RETRY_COUNTS`.\n"),
    )
    with database.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        assert find(connection, generation, "RETRY_COUNT", "identifier") == ["typed.md"]
        assert find(connection, generation, "RETRY_COUTS", "identifier") == ["near.md"]


def test_what_stands_is_told_from_what_does_not(
    connection: Connection, generation: Generation
) -> None:
    standing = search.load_standing(
        connection,
        generation,
        identifiers=["pay17", "pay18", "errquota77", "disk"],
        words=["laptops", "printer", "walrus", "the"],
    )
    assert standing.identifiers == {"pay17", "errquota77"}
    assert standing.words == {"laptops", "printer", "the"}
    nothing = search.load_standing(connection, generation, identifiers=[], words=[])
    assert (nothing.identifiers, nothing.words) == (frozenset(), frozenset())


def test_the_identifiers_of_each_section_are_those_asked_for(
    connection: Connection, generation: Generation
) -> None:
    (hit,) = search.identifier(connection, "PAY-17", generation, DEFAULT)
    held = search.load_identifiers(connection, [hit.section_id, 0], {"pay-17", "pay17", "e1042"})
    assert held == {hit.section_id: {"pay-17", "pay17"}, 0: set()}


def test_it_as_a_word_does_not_find_the_it_department(
    connection: Connection, generation: Generation
) -> None:
    assert find(connection, generation, "who is on IT", "identifier") == ["it.md"]
    assert find(connection, generation, "who is on it", "identifier") == []


def test_any_word_may_match(connection: Connection, generation: Generation) -> None:
    found = find(connection, generation, "how do I request a laptop replacement form")
    assert found[0] == "laptop.md"


def test_words_are_found_by_their_stem_and_without_accents(
    connection: Connection, generation: Generation
) -> None:
    assert find(connection, generation, "swapping lâptops")[0] == "laptop.md"


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("where is config.yaml", "config.md"),
        ("the timeout_ms of billing", "config.md"),
        ("maxConnections default", "pool.md"),
        ("limit of $1500", "limit.md"),
        ("limit of 1,500.00 dollars", "limit.md"),
        ("effective date 2026-03-31", "limit.md"),
        ("paper & | !( printer:*", "codes.md"),
        ("refund\0stuck", "pay.md"),
        ("laptop " + "QmFzZTY0" * 375, "laptop.md"),
        ("quotas number 7", "quotas-7.md"),  # by its path, since the title is in all of them
    ],
)
def test_words_are_found_whatever_stands_between_them(
    connection: Connection, generation: Generation, question: str, path: str
) -> None:
    assert find(connection, generation, question)[0] == path


def test_a_rare_word_weighs_more_than_a_common_one(
    connection: Connection, generation: Generation
) -> None:
    # Ten pages have "quota" several times each, one has "disk" once.
    assert find(connection, generation, "quota disk")[0] == "quota.md"


@pytest.mark.parametrize(
    "question",
    ["what can I do about this", "", "   ", "???", "foo & | !( bar", "'; --", "%"],
)
def test_no_question_raises(corpus: Database, embedder: Embedder, question: str) -> None:
    with corpus.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        assert find(connection, generation, question) == []
        assert find(connection, generation, question, "identifier") == []
    found = build_retriever(corpus, embedder).retrieve(ask(question))
    assert len(found.candidates) == len(PAGES)  # all found by the dense leg alone
    assert all(0 < (candidate.relevance or 0) < 1 for candidate in found.candidates)


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("what is RETRY_MAX_COUNT", "retry-max.md"),
        ("what changed in 2.3.1", "v2.3.1.md"),
        ("PAY 17", "pay.md"),
        ("who is on IT", "it.md"),
        ("maxConnections default", "pool.md"),
        ("ERR_QUOTA_77", "quota.md"),
    ],
)
def test_the_whole_search_puts_the_literal_first(
    corpus: Database, embedder: Embedder, question: str, path: str
) -> None:
    found = build_retriever(corpus, embedder).retrieve(ask(question))
    assert found.kept[0].section.path == found.candidates[0].section.path == path


def test_a_page_that_shares_one_word_with_a_question_is_found(
    corpus: Database, embedder: Embedder
) -> None:
    question = ask("how do I request a laptop replacement form")
    first, *_ = build_retriever(corpus, embedder).retrieve(question).candidates
    assert first.section.path == "laptop.md"


LANGUAGES = {
    "urlaub.md": "# Urlaub\n\nUrlaubsanträge stellen Sie spätestens zwei Wochen vorher im Portal."
    " Für Vertretung sorgen Sie selbst. Die Bahncard kostet die Firma nichts.\n",
    "frais.md": "# Notes de frais\n\nLes employés déposent leurs notes de frais avant le 5 du mois."
    " J'ai perdu le reçu : un résumé de la dépense suffit.\n",
    "keihi.md": "# 経費\n\n出張の経費精算は、翌月の五日までにシステムから申請してください。"
    "領収書も必要です。\n",
    "ferias.md": "# Férias\n\nAs solicitações de férias são enviadas no portal com duas semanas de"
    " antecedência e aprovadas pelo gestor da equipa.\n",
    "otpusk.md": "# Отпуск\n\nКаждый новый сотрудник подаёт заявление на отпуск за две недели."
    " Отчёт о поездке сдают в бухгалтерию.\n",
    "urlop.md": "# Urlop\n\nWnioski urlopowe składa się w portalu dwa tygodnie przed urlopem.\n",
    "casting.md": "# Foundry\n\nThe machine for die casting stands in hall two.\n",
    "ai.md": "# AI\n\nWhich AI tools may be used for work is decided by the security team.\n",
    "resume.md": "# Hiring\n\nEvery resume is read by two people before the first call.\n",
}


@pytest.fixture(scope="module")
def abroad(server: Server, template: str, embedder: Embedder) -> Iterator[Database]:
    """Pages in several languages, indexed; no test writes to them."""
    with indexed_pages(server, template, embedder, LANGUAGES) as database:
        yield database


def find_abroad(database: Database, question: str) -> list[Hit]:
    with database.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        return search.lexical(connection, question, generation, DEFAULT)


def find_paths_abroad(database: Database, question: str) -> list[str]:
    with database.transaction() as connection:
        return find_paths(connection, find_abroad(database, question))


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("Urlaubsantrag", "urlaub.md"),
        ("urlaubsantrage", "urlaub.md"),
        ("Urlaubsantraege", "urlaub.md"),
        ("URLAUBSANTRÄGEN", "urlaub.md"),
        ("l'employée", "frais.md"),
        ("recu perdu", "frais.md"),
        ("経費精算", "keihi.md"),
        ("領収書", "keihi.md"),
        ("ｼｽﾃﾑ", "keihi.md"),
        ("solicitação", "ferias.md"),
        ("solicitacoes", "ferias.md"),
        ("новые сотрудники", "otpusk.md"),
        ("отчеты", "otpusk.md"),
        ("wnioski", "urlop.md"),
        ("sklada", "urlop.md"),
        ("résumés", "resume.md"),
        ("resumes", "resume.md"),
    ],
)
def test_a_page_is_found_by_the_words_of_its_language(
    abroad: Database, question: str, path: str
) -> None:
    assert find_paths_abroad(abroad, question)[0] == path


def test_the_stop_words_of_a_question_are_those_of_its_language(abroad: Database) -> None:
    assert find_paths_abroad(abroad, "die casting") == ["casting.md"]
    assert find_paths_abroad(abroad, "was kostet die Bahncard") == ["urlaub.md"]
    assert find_paths_abroad(abroad, "what is our AI policy") == ["ai.md"]  # j'ai, in French
    assert find_paths_abroad(abroad, "für die") == []
    assert find_paths_abroad(abroad, "who is it for") == []


def test_a_word_counts_once_however_many_languages_know_it(abroad: Database) -> None:
    (once,) = find_abroad(abroad, "foundry")
    (often,) = find_abroad(abroad, "foundry Foundry FOUNDRY foundries")
    assert once.score == often.score
    # ln(1 + (9 - 1 + 0.5) / (1 + 0.5)): one section of nine, in one language of six, has the word
    frequency, norm = 2 * DEFAULT.heading_weight + 1, find_norm(abroad, once.section_id)
    expected = np.log(1 + 8.5 / 1.5) * frequency * (DEFAULT.k1 + 1) / (frequency + norm)
    assert once.score == pytest.approx(expected, rel=1e-5)


def find_norm(database: Database, section_id: int) -> float:
    with database.transaction() as connection:
        length = connection.execute(
            text("""
                SELECT word_count / mean_word_count FROM sections JOIN generations
                USING (generation_id) WHERE section_id = :section_id
            """),
            {"section_id": section_id},
        ).scalar_one()
    return DEFAULT.k1 * (1 - DEFAULT.b + DEFAULT.b * float(length))


def test_the_rarity_of_a_word_holds_its_stems_in_every_language(abroad: Database) -> None:
    with abroad.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        found = search.load_rarity(connection, ["solicitações", "精算", "die"], generation)
    assert {"solicit", "solicitacoes"} <= found[0][0]
    assert found[1][0] == {"精算"}
    assert all(idf == pytest.approx(np.log(1 + 8.5 / 1.5)) for _, idf in found[:2])


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("Bis wann muss ich den Urlaubsantrag stellen?", "urlaub.md"),
        ("Jusqu'à quand déposer mes notes de frais ?", "frais.md"),
        ("経費精算の申請はいつまでですか", "keihi.md"),
        ("How do I request Urlaub?", "urlaub.md"),  # in English, with a word of the page
        ("When are the notes de frais due?", "frais.md"),
    ],
)
def test_a_question_is_answered_from_a_page_in_its_language(
    abroad: Database, embedder: Embedder, question: str, path: str
) -> None:
    found = build_retriever(abroad, embedder).retrieve(ask(question))
    assert found.kept[0].section.path == path


def test_an_english_question_with_a_japanese_word_finds_its_page_first(
    abroad: Database, embedder: Embedder
) -> None:
    question = ask("What is the deadline for 経費精算?")
    first, *_ = build_retriever(abroad, embedder).retrieve(question).candidates
    assert first.section.path == "keihi.md"


def test_hits_are_ranked_from_one_and_no_deeper_than_asked(
    connection: Connection, generation: Generation, embedder: Embedder
) -> None:
    tuning = replace(DEFAULT, depth=3)
    vector = embedder.embed_query("the quota is used up").embedding.vector
    for hits in (
        search.dense(connection, vector, generation, tuning),
        search.lexical(connection, "quota used up", generation, tuning),
    ):
        assert [hit.rank for hit in hits] == [1, 2, 3]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_section_ranks_by_its_best_chunk(database: Database, embedder: Embedder) -> None:
    long = "".join(f"## Part {n}\n\nThe press runs on oil number {n}.\n\n" for n in range(20))
    ingest(
        database,
        embedder,
        page("long.md", f"# Press\n\n{long}## Cats\n\nThe cat sleeps in the canteen at noon.\n"),
        page("other.md", "# Canteen\n\nThe canteen serves soup.\n"),
    )
    vector = embedder.embed_query("where does the cat sleep?").embedding.vector
    with database.transaction() as connection:
        generation = generations.load(connection, "active")
        assert generation is not None
        hits = search.dense(connection, vector, generation, DEFAULT)
        assert find_paths(connection, hits) == ["long.md", "other.md"]  # once each
        best = connection.execute(
            text("SELECT text FROM chunks WHERE chunk_id = :id"), {"id": hits[0].chunk_id}
        ).scalar_one()
    assert "The cat sleeps" in best


DIMENSION = 384


def insert_chunks(database: Database, count: int, *, seed: int) -> Vectors:
    """A document with so many sections of one chunk each, of random direction; their vectors."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with database.transaction() as connection:
        connection.execute(
            text("""
                WITH generation AS (
                    INSERT INTO generations (tenant_id, state, chunker, embedder, dimension, probe,
                                             projection, token_dimension)
                    VALUES (:tenant_id, 'active', 'c', 'e', 384, '{1}', '', 128)
                    RETURNING generation_id
                ), document AS (
                    INSERT INTO documents (tenant_id, source, path, title, url, text, content_hash)
                    VALUES (:tenant_id, 's', 'p', 't', 'u', 'x', 'h') RETURNING document_id
                )
                INSERT INTO sections (tenant_id, generation_id, document_id, ordinal,
                                      heading_path, text, span_start, span_end, token_count,
                                      content_hash)
                SELECT :tenant_id, generation_id, document_id, ordinal, '{}', 'x',
                       0, 1, 1, 'h'
                FROM generation, document, generate_series(0, :count - 1) AS ordinal
            """),
            {"tenant_id": database.tenant_id, "count": count},
        )
        connection.execute(
            text("""
                INSERT INTO chunks (tenant_id, generation_id, section_id, ordinal,
                                    heading_path, text, embedding, token_vectors)
                SELECT tenant_id, generation_id, section_id, 0, '{}', 'x', vector, ''
                FROM sections JOIN unnest(CAST(:vectors AS halfvec[])) WITH ORDINALITY
                    AS given (vector, number) ON ordinal = number - 1
            """),
            {"vectors": list(map(HalfVector, vectors))},
        )
        generations.refresh_counts(connection, load_active(connection))
    return vectors


def load_active(connection: Connection) -> Generation:
    generation = generations.load(connection, "active")
    assert generation is not None
    return generation


def dense(database: Database, vector: Vectors, tuning: Tuning) -> list[int]:
    """The ordinals of the sections found, best first."""
    with database.transaction() as connection:
        hits = search.dense(connection, vector, load_active(connection), tuning)
        ordinals = {
            section.section_id: section.ordinal
            for section in connection.execute(text("SELECT section_id, ordinal FROM sections"))
        }
        return [ordinals[hit.section_id] for hit in hits]


def test_a_small_tenant_next_to_a_big_one_finds_all_of_its_own(
    server: Server, database: Database, database_url: str
) -> None:
    name = make_url(database_url).database
    assert name
    # As of 60,000 chunks, of which pgvector looks at 20,000 by itself.
    for setting in ("hnsw.max_scan_tuples = 100", "enable_sort = off", "enable_seqscan = off"):
        server.execute(f"ALTER DATABASE {name} SET {setting}")
    index = f"chunks_embedding_{DIMENSION}"
    (definition,) = find_rows(database, f"SELECT pg_get_indexdef('{index}'::regclass)")[0]
    server.execute(f"DROP INDEX {index}", database=name)  # built at once, it takes a third
    insert_chunks(database, 5_000, seed=1)
    small = Database(database_url, tenant_id="small")
    vectors = insert_chunks(small, 12, seed=2)
    server.execute(definition, database=name)
    exactly = replace(DEFAULT, depth=10)
    through_hnsw = replace(exactly, exact_below=0)
    for query in vectors[:3] + 0.1 * vectors[3:6]:
        query /= np.linalg.norm(query)
        brute_force = np.argsort(-(vectors @ query))[:10].tolist()
        with small.transaction():  # the connection of the pool that the others would take
            assert dense(small, query, through_hnsw) == brute_force
        for tuning in (exactly, through_hnsw):
            assert dense(small, query, tuning) == brute_force
    small.close()


def test_p67_who_may_read_little_of_much_finds_all_of_it(
    server: Server, database: Database, database_url: str
) -> None:
    # As of more than 20,000 chunks, of which pgvector looks at so many by itself, and which are too
    # many for PostgreSQL to sort.
    for setting in ("hnsw.max_scan_tuples = 100", "enable_sort = off", "enable_seqscan = off"):
        server.execute(f"ALTER DATABASE {make_url(database_url).database} SET {setting}")
    vectors = insert_chunks(database, 1_500, seed=1)
    query, theirs = vectors[0], set(np.argsort(vectors @ vectors[0])[100:112].tolist())  # far off
    with database.unrestricted.transaction() as connection:
        for table in ("sections", "chunks"):
            connection.execute(
                text(f"""
                    UPDATE {table} SET audience_id = 1 WHERE section_id IN (
                        SELECT section_id FROM sections WHERE ordinal = ANY(:ordinals))
                """),
                {"ordinals": list(theirs)},
            )
        generations.refresh_counts(connection, load_active(connection))
    strangers = database.reading_as(["public"])
    exactly = replace(DEFAULT, exact_below=1_000, depth=12, ef_search=12)
    assert set(dense(strangers, query, exactly)) == theirs
    through_hnsw = dense(strangers, query, replace(exactly, exact_below=0))
    assert len(theirs.intersection(through_hnsw)) >= 6  # it may not reach each one


def test_hnsw_settings_end_with_the_transaction(database: Database) -> None:
    insert_chunks(database, 20, seed=1)
    vector = np.eye(1, DIMENSION, dtype=np.float32)[0]
    names = ("iterative_scan", "ef_search", "max_scan_tuples", "scan_mem_multiplier")
    settings = ", ".join(f"current_setting('hnsw.{name}')" for name in names)
    with database.transaction() as connection:
        before = connection.execute(text(f"SELECT {settings}")).one()
    assert len(dense(database, vector, replace(DEFAULT, exact_below=0))) == 20
    with database.transaction() as connection:
        assert connection.execute(text(f"SELECT {settings}")).one() == before


def explain(connection: Connection, statement: str) -> str:
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
        connection.execute(text(f"SET LOCAL {setting} = off"))
    rows = connection.execute(text(f"EXPLAIN (COSTS off) {statement}")).scalars()
    return "\n".join(rows)


def test_the_dense_leg_can_use_its_index_under_row_level_security(database: Database) -> None:
    insert_chunks(database, 200, seed=1)
    vector = "[" + ",".join(["0.05"] * DIMENSION) + "]"
    with database.transaction() as connection:
        assert connection.execute(text("SELECT current_user")).scalar() == "footnote_app"
        plan = explain(
            connection,
            f"""SELECT chunk_id FROM chunks
                WHERE tenant_id = current_setting('footnote.tenant_id')
                AND vector_dims(embedding) = {DIMENSION}
                ORDER BY embedding::halfvec({DIMENSION})
                         <=> CAST('{vector}' AS halfvec({DIMENSION})) LIMIT 10""",
        )
    assert f"chunks_embedding_{DIMENSION}" in plan


@pytest.mark.parametrize(
    ("table", "column", "index"),
    [
        ("lexical_postings", "term", "lexical_postings_term"),
        ("identifier_postings", "identifier", "identifier_postings_identifier"),
    ],
)
def test_the_postings_are_found_by_their_index_under_row_level_security(
    connection: Connection, generation: Generation, table: str, column: str, index: str
) -> None:
    plan = explain(
        connection,
        f"""SELECT section_id FROM {table} WHERE {column} = ANY('{{a,b}}')
            AND generation_id = {generation.generation_id}
            AND tenant_id = current_setting('footnote.tenant_id')""",
    )
    assert index in plan
    assert f"({column} = ANY" in plan.split("Index Cond:")[1].splitlines()[0]


def test_the_rarity_of_words_keeps_their_order(
    connection: Connection, generation: Generation
) -> None:
    found = search.load_rarity(connection, ["the", "quota", "laptops", "unheard"], generation)
    assert [set(stems) for stems, _ in found] == [set(), {"quota"}, {"laptop"}, {"unheard"}]
    count = len(PAGES)
    # ln(1 + (sections - found + 0.5) / (found + 0.5)); quota stands in the ten and in ERR_QUOTA_77
    expected = [0, *(np.log(1 + (count - n + 0.5) / (n + 0.5)) for n in (11, 1, 0))]
    assert [idf for _, idf in found] == pytest.approx(expected)


def test_sections_of_no_ids_are_none(connection: Connection) -> None:
    assert search.load_sections(connection, []) == {}
