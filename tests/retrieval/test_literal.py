"""A literal hit beats near misses all the way to the top of what is kept."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from retrieval import literal
from retrieval.db import Database
from retrieval.embedding import Embedder
from retrieval.records import Candidate
from retrieval.retrieve import Retriever
from tests.conftest import Server
from tests.retrieval.pages import ask, build_retriever, ingest, page, searching

# Each page that holds an identifier beside others that say more of what is asked.
PAGES = {
    "err-77.md": "# Messages\n\n`ERR_QUOTA_77` is shown when the disk is full.\n",
    "err-78.md": "# More messages\n\n`ERR_QUOTA_78` is the error of a quota that is used up.\n",
    **{
        f"quota-{n}.md": f"# Quota {n}\n\nWhen the quota of team {n} is used up, an error says"
        f" that the quota is used up; ask for a higher quota, number 7{n}. The error code is"
        f" shown to team {n}.\n"
        for n in range(10)
    },
    "2.3.1.md": "# Release v2.3.1\n\nSums were rounded twice.\n",
    **{
        f"2.3.{n}.md": f"# Release 2.3.{n}\n\nWhat changed in this release: sums, dates and"
        f" labels are fixed; the dates that were fixed are number {n}.\n"
        for n in (0, 2, 3, 4, 5, 10)
    },
    **{
        f"pay-{n}.md": f"# PAY-{n}: refund stuck\n\nRefund stuck at the bank for case {n}."
        " Call the bank and ask for the refund.\n"
        for n in range(16, 24)
    },
    "env.md": "# Settings\n\n| name | default |\n|---|---|\n| `RETRY_MAX_COUNT` | 5 |\n"
    "| `RETRY_MAX_DELAY_MS` | 9 |\n",
    "max-retry.md": "# Sender\n\nThe max retry count of the sender is `MAX_RETRY_COUNT`, default"
    " 9. The retry count is the max count of retries.\n",
    **{
        f"{name}.md": f"# {name}\n\nThe alert {name} fires when a {name} is bad. What to do:"
        f" restart what {name} names.\n"
        for name in ("KubePodCrashLooping", "KubePodNotReady", "KubeNodeNotReady", "KubeJobFailed")
    },
    "hosts.md": "# Hosts\n\n| host | runs |\n|---|---|\n"
    "| pg-waybill-a.prod.example | the primary |\n| pg-waybill-b.prod.example | a standby |\n",
    "more-hosts.md": "# Hosts of waybill\n\nWhat runs on the hosts of waybill: the primary on a"
    " prod host, a standby on the prod host pg-waybill-c.prod.example.\n",
    "channels.md": "# Channels\n\nAsk in #ask-hr about leave, @payroll-oncall about pay. Pay slips:"
    " payroll-help@corp.example.\n",
    "hr.md": "# Ask HR\n\nHow to ask HR: write to HR in its channel. For help with payroll mail"
    " payroll@corp.example.\n",
    "deploy.md": "# Deploy tool\n\n`--dry-run` prints the plan. `-x` stops at the first error.\n",
    "rehearsal.md": "# Dry runs\n\nA dry run is a rehearsal. Before a deploy do a dry run: it"
    " tells you what the deploy would do.\n",
    "brokers.md": "# Brokers\n\nmarmalade-broker is owned by team Citrus.\n",
    "owners.md": "# Who owns a broker\n\nEach broker service is owned by a team. Who owns the"
    " service stands in the catalogue. jam-broker is owned by Platform.\n",
    "files.md": "# Files\n\nEdit /etc/acme/config.yaml, key billing.timeout_ms, default 30.\n",
    "config.md": "# Where is the config\n\nThe config of billing is where config.yml and"
    " config.toml are. The default timeout is in the config.\n",
    "pool.md": "# Pool\n\n```xml\nset <maxConnections>50</maxConnections>\n```\n",
    "firmware.md": "# Firmware\n\nThe controller halts with 0xBADF00D7 when it is too warm.\n",
    "parts.md": "# Parts\n\nSKU 8841-B is the belt of the sorter, SKU 8841-C its spare.\n",
    "RB-07.md": "# RB-07: failover of the primary\n\nMove the service to its standby.\n",
    "readonly.md": "# Messages of the database\n\n| code | see |\n|---|---|\n"
    "| `ERR_READONLY` | RB-07, on moving the service to its standby |\n",
    "annual-leave-policy.md": "# Annual leave policy\n\nLeave is asked for in the portal.\n",
    "welcome.md": "# Welcome\n\nRead annual-leave-policy.md in your first week.\n",
    "leave-faq.md": "# Questions about leave\n\n## How many days can I carry over?\n\n"
    "Five days of annual leave can be carried over to the next year, until the end of March.\n",
    **{
        f"adr/00{n}-x.md": f"# Decision {n}\n\nWhat was decided: we use tool number {n}.\n"
        for n in range(14, 22)
    },
}


@pytest.fixture(scope="module")
def pages(server: Server, template: str, embedder: Embedder) -> Iterator[Retriever]:
    """The search over the pages above; no test writes to them."""
    with searching(server, template, embedder, PAGES) as retriever:
        yield retriever


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("ERR_QUOTA_77", "err-77.md"),
        ("what does ERR_QUOTA_77 mean, is the quota used up?", "err-77.md"),
        ("err quota 77 error: quota used up", "err-77.md"),
        ("error code err_quota_77 is shown to team 7", "err-77.md"),
        ("which dates were fixed in v2.3.1", "2.3.1.md"),
        ("what changed in release 2.3.1", "2.3.1.md"),
        ("what changed in release 2.3.10", "2.3.10.md"),
        ("refund stuck at the bank PAY-17", "pay-17.md"),
        ("pay 17 refund", "pay-17.md"),
        ("pay17", "pay-17.md"),
        ("PAY021", "pay-21.md"),
        ("what is the default of RETRY_MAX_COUNT", "env.md"),
        ("max count of retries: retry_max_count?", "env.md"),
        ("retry max count", "env.md"),
        ("MAX_RETRY_COUNT default", "max-retry.md"),
        ("KubePodCrashLooping fires, what to do", "KubePodCrashLooping.md"),
        ("kube pod crash looping", "KubePodCrashLooping.md"),
        ("kubepodnotready alert", "KubePodNotReady.md"),
        ("what runs on pg-waybill-a.prod.example", "hosts.md"),
        ("which of the hosts of waybill is pg-waybill-b?", "hosts.md"),
        ("how to ask HR in #ask-hr", "channels.md"),
        ("help with payroll by payroll-help@corp.example", "channels.md"),
        ("payroll oncall", "channels.md"),
        ("what does --dry-run do before a deploy", "deploy.md"),
        ("-x", "deploy.md"),
        ("who owns the service marmalade-broker", "brokers.md"),
        ("marmalade broker owner", "brokers.md"),
        ("where is config.yaml", "files.md"),
        ("ACME/CONFIG.YAML", "files.md"),
        ("billing.timeout_ms default timeout", "files.md"),
        ("maxConnections default", "pool.md"),
        ("0xbadf00d7 on the controller", "firmware.md"),
        ("what is 8841b", "parts.md"),
        ("what was decided in ADR 17", "adr/0017-x.md"),
        ("adr-0021 tool", "adr/0021-x.md"),
        ("decision 19", "adr/0019-x.md"),
        ("rb7", "RB-07.md"),
        ("How many days can I carry over under the annual leave policy?", "leave-faq.md"),
    ],
)
def test_the_page_that_holds_the_identifier_is_kept_first(
    pages: Retriever, question: str, path: str
) -> None:
    found = pages.retrieve(ask(question))
    assert found.kept[0].section.path == path
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("KubePodCrashLoping fires", "KubePodCrashLooping.md"),
        ("retry_max_cuont", "env.md"),
        ("pg-waybil-a.prod.example", "hosts.md"),
        ("payroll-hepl@corp.example", "channels.md"),
        ("marmelade-broker", "brokers.md"),
    ],
)
def test_a_long_identifier_with_a_slip_in_it_is_found(
    pages: Retriever, question: str, path: str
) -> None:
    found = pages.retrieve(ask(question))
    ranks = {
        hit.rank: candidate.section.path
        for candidate in found.candidates
        if (hit := candidate.hit("identifier"))
    }
    assert ranks[1] == path
    assert found.unknown == ()


def test_relevance_still_falls_from_first_to_last(pages: Retriever) -> None:
    found = pages.retrieve(ask("err quota 77 error: quota used up"))
    relevance = [candidate.relevance or 0 for candidate in found.candidates]
    assert relevance == sorted(relevance, reverse=True)
    assert 0 < relevance[-1] and relevance[0] < 1


def put_first(connection: Connection, question: str, *candidates: Candidate) -> list[Candidate]:
    found = literal.find(connection, ask(question), candidates)
    return literal.put_first(candidates, found)


def test_the_relevance_of_a_holder_is_that_of_it_or_of_the_best_other(pages: Retriever) -> None:
    with pages.database.transaction() as connection:
        found = pages.retrieve(ask("quota")).candidates
        by_path = {each.section.path: each for each in found}
        holder = Candidate(
            section=by_path["err-77.md"].section, hits=(), rrf_score=0, relevance=0.2
        )
        other = Candidate(
            section=by_path["quota-1.md"].section, hits=(), rrf_score=0, relevance=0.6
        )
        asks_more = "when printers stop on a full disk with ERR_QUOTA_77, who mends them?"
        first, second = put_first(connection, asks_more, other, holder)
        assert (first.section.path, second) == ("err-77.md", other)
        assert first.relevance == pytest.approx(1 - (1 - 0.2) * (1 - 0.6))
        # Where nothing else is asked, the mention alone is worth literal.SURE.
        first, _ = put_first(connection, "ERR_QUOTA_77?", other, holder)
        assert first.relevance == pytest.approx(1 - (1 - 0.2) * (1 - 0.6) * (1 - 0.5))


def test_without_an_exact_identifier_nothing_changes(pages: Retriever) -> None:
    with pages.database.transaction() as connection:
        found = pages.retrieve(ask("quota used up")).candidates
        for question in ("quota used up", "", "what is 9.9.9", "team 7", "the marmalade-broker"):
            assert put_first(connection, question, *found) == list(found)
        assert put_first(connection, "ERR_QUOTA_77") == []


def test_what_many_hold_tells_none_of_them_from_the_rest(
    database: Database, embedder: Embedder
) -> None:
    many = [page(f"{n}.md", f"# Page {n}\n\nSet `RETRY_MAX_COUNT` to {n}.\n") for n in range(11)]
    ingest(database, embedder, *many, page("other.md", "# Other\n\nRetries are counted.\n"))
    retriever = build_retriever(database, embedder)
    candidates = list(retriever.retrieve(ask("retries")).candidates)
    with database.transaction() as connection:
        assert put_first(connection, "RETRY_MAX_COUNT", *candidates) == candidates
        few = [each for each in candidates if each.section.path not in ("0.md", "1.md")]
        assert put_first(connection, "RETRY_MAX_COUNT", *few)[-1].section.path == "other.md"
