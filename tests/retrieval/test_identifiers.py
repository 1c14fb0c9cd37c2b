"""What names one thing is found however it is typed, and nothing else is."""

import pytest

from retrieval.identifiers import (
    extract,
    extract_from_path,
    extract_from_question,
    extract_slips,
    find_near,
    find_windows,
)


def meet(text: str, question: str) -> bool:
    return bool(extract(text) & extract_from_question(question))


def finds_path(path: str, question: str) -> bool:
    return bool(extract_from_path(path) & extract_from_question(question))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("`RETRY_MAX_COUNT=5`", "what is RETRY_MAX_COUNT"),
        ("`RETRY_MAX_COUNT=5`", "retry_max_count?"),
        ("`RETRY_MAX_COUNT=5`", "what's the retry max count"),
        ("Edit /etc/acme/config.yaml, key billing.timeout_ms", "where is config.yaml"),
        ("Edit /etc/acme/config.yaml, key billing.timeout_ms", "timeout_ms default"),
        ("Edit /etc/acme/config.yaml, key billing.timeout_ms", "billing.timeout_ms"),
        ("Edit /etc/acme/config.yaml.", "/etc/acme/config.yaml"),
        ("Release v2.3.1", "what changed in 2.3.1"),
        ("Release 2.3.1", "what changed in v2.3.1?"),
        ("PAY-17: refund stuck", "PAY 17"),
        ("PAY-17: refund stuck", "pay17"),
        ("PAY-17: refund stuck", "PAY-17?"),
        ("PAY-17: refund stuck", "(PAY-017)"),
        ("`E-1042`", "error E1042"),
        ("ERR_2041", "what does err 2041 mean?"),
        ("IT help desk", "who is on IT"),
        ("<maxConnections>50</maxConnections>", "maxConnections default"),
        ("<maxConnections>50</maxConnections>", "max connections default"),
        ("The limit is $1,500.00", "limit of $1500"),
        ("effective 2026-03-31", "effective date 2026-03-31"),
        ("KubePodCrashLooping", "kubepodcrashlooping fired"),
        ("KubePodCrashLooping", "kube pod crash looping, what now"),
        ("the alert kube-pod-crash-looping", "KubePodCrashLooping"),
        ("run with --dry-run first", "what does --dry-run do"),
        ("run with --dry-run first", "dry run"),
        ("kube-apiserver is down", "kube-apiserver"),
        ("on pg-waybill-a.prod.example", "pg-waybill-a"),
        ("write to payroll-help@corp.example", "payroll-help@corp.example"),
        ("see https://wiki.example/runbooks/rb-07", "rb-07"),
        ("SHA-256", "sha256"),
        ("getUserById()", "get user by id"),
        ("arn:aws:s3:::acme-backups", "acme-backups"),
        ("As RFC 842 says", "rfc-842"),
        ("ERR_2041", "ERR\u200b_2041"),  # copied from a page, with a place to break it
        ("PAY-17", "PAY\u201117"),
        ("PAY-17", "ＰＡＹ－１７"),
        ("the R&amp;D budget", "R&D"),
        ("AT&T", "at&t line"),
        ("`-x` stops at the first error", "what does -x do"),
        ("`--verbose` says more", "--verbose"),
        ("ask in #general", "#general?"),
        ("@jdoe decides", "ping @jdoe"),
        ("say `!ic page`", "what does !ic do"),
        ("`/pd` starts an incident", "/pd"),
        ("put it into .env", "where is .env"),
        ("written in C++", "c++ style"),
        ("waybill-2.3.1.tar.gz", "what is in 2.3.1"),
        ("10.20.30.40/16", "10.20.30.40"),
        ("PO-2024-0099", "PO20240099"),
        ("tenant 7f1c2d3e-4b5a-6978-8899-aabbccddeeff", "7f1c2d3e4b5a69788899aabbccddeeff"),
        ("00:1a:2b:3c:4d:5e", "001a2b3c4d5e"),
        ("`E-1046`", "error 1046"),
        ("As RFC 842 says", "842?"),
        ("ISO-27001", "do we have 27001"),
        (
            "MachineConfigControllerPausedPoolKubeletCA",
            "machine config controller paused pool kubelet ca",
        ),
    ],
)
def test_an_identifier_is_met_however_it_is_typed(text: str, question: str) -> None:
    assert meet(text, question)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("`MAX_RETRY_COUNT=9`", "what is RETRY_MAX_COUNT"),
        ("Release 2.3.2", "what changed in 2.3.1"),
        ("Release 2.31", "what changed in 2.3.1"),
        ("Release 23.1", "what changed in 2.3.1"),
        ("Release 1.2.3.1", "what changed in 2.3.1"),
        ("Release v1.8", "v1.9"),
        ("PAY-17", "PAY-170"),
        ("PAY-17", "PAY-1"),
        ("PAY-17", "DAY-17"),
        ("E-1042", "E-1043"),
        ("IT help desk", "who is on it"),
        ("The US office", "tell us about the office"),
        ("effective 2026-03-31", "effective 2026-03-13"),
        ("limit 1,500", "limit 15,00"),
        ("run with -x", "run with -y"),
        ("the options are general", "#general"),
        ("10.20.30.40", "20.30.40"),
        ("ERR_1046", "E-1046"),
        ("pages 1-23", "pages 12-3"),
        ("see whatis.example/what-is", "what is it"),
    ],
)
def test_twins_do_not_meet(text: str, question: str) -> None:
    assert not meet(text, question)


def test_prose_has_no_identifiers() -> None:
    assert extract("Please ask the help desk; they are open from Monday on.") == frozenset()
    assert extract("") == extract_from_question("") == frozenset()


def test_a_page_number_or_a_small_count_is_no_identifier() -> None:
    assert extract("There are 12 of 5.") == frozenset()


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("adr/0047-use-karpenter.md", "ADR 47"),
        ("adr/0047-use-karpenter.md", "adr-0047"),
        ("docs/decisions/0019-kafka-for-tracking-events.md", "what did ADR 19 decide"),
        ("docs/decisions/0019-kafka-for-tracking-events.md", "decision 19"),
        ("docs/decisions/0019-kafka-for-tracking-events.md", "decision record 19"),
        ("rfcs/012-plans.md", "RFC 12"),
        ("runbooks/LabelPrintQueueStalled.md", "label print queue stalled"),
        ("runbooks/LabelPrintQueueStalled.md", "LabelPrintQueueStalled fires"),
        ("runbooks/rb-07-waybill-postgres-failover.md", "rb-07-waybill-postgres-failover.md"),
    ],
)
def test_a_path_names_its_page(path: str, question: str) -> None:
    assert finds_path(path, question)


def test_a_number_names_only_records() -> None:
    assert not finds_path("adr/0047-use-karpenter.md", "ADR 48")
    assert not finds_path("meetings/0047-weekly.md", "ADR 47")
    assert not finds_path("rfcs/012-plans.md", "ADR 12")


def test_long_runs_are_data_not_names() -> None:
    assert extract("a1" * 101) == frozenset()
    assert max(map(len, extract_from_question("a1" * 500)), default=0) <= 200


def test_a_long_page_takes_linear_time() -> None:
    text = "a.b/c_d-e " * 20_000 + "." * 100_000 + "_" * 100_000 + "@" * 100_000
    assert "c_d-e" in {form for form in extract(text)}


@pytest.mark.parametrize(
    ("right", "slip"),
    [("payment", "paymnt"), ("payment", "payyment"), ("payment", "paynent"), ("pay", "apy")],
)
def test_one_slip_of_the_hand_is_near(right: str, slip: str) -> None:
    assert right in find_near(slip)


@pytest.mark.parametrize("other", ["e1043", "e104", "e10422", "e2104", "1042"])
def test_no_slip_makes_another_number(other: str) -> None:
    assert "e1042" not in find_near(other) or other == "1042"


def test_slips_are_looked_for_in_long_identifiers_alone() -> None:
    assert "kubepodcrashlooping" in extract_slips("KubePodCrashLoping fires")["kubepodcrashloping"]
    assert list(extract_slips("who is on call, ERR_1 or the department")) == []
    assert list(extract_slips("a_" * 61)) == []


def test_neighbouring_words_come_the_longest_first_as_typed() -> None:
    assert list(find_windows("the Label print, queue", least=3)) == [
        ("the Label print, queue", "thelabelprintqueue"),
        ("the Label print", "thelabelprint"),
        ("Label print, queue", "labelprintqueue"),
    ]
    assert list(find_windows("what is it", least=2)) == []


def test_of_what_is_pasted_so_much_is_looked_up() -> None:
    log = " ".join(f"worker_{number}_of_the_pool[{number:05}]" for number in range(5_000))
    assert len(extract_slips(log)) == 20
    assert len(extract_from_question(log)) < 5_000
