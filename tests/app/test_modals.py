"""The form after a 👎: within Slack's limits, and back again."""

from typing import Any, get_args
from uuid import UUID

import pytest

from app import modals
from app.feedback import Complaint, Page, Reason
from tests.stand_ins import slack_limits

TRACE_ID = UUID("00000000-0000-0000-0000-000000000001")


def elements(view: modals.View) -> dict[str, Any]:
    return {block["block_id"]: block["element"] for block in view["blocks"]}


def submitted(view: modals.View, **values: Any) -> modals.View:
    """The form as it comes back, with these values of its elements."""
    state = {name: {name: values.get(name, {})} for name in elements(view)}
    return {**view, "state": {"values": state}}


def test_everything_in_the_form_is_optional() -> None:
    view = modals.build_complaint_view(TRACE_ID, Complaint(), None)
    assert slack_limits.view_problems(view) == []
    assert [block["optional"] for block in view["blocks"]] == [True, True, True]
    assert modals.parse_complaint(submitted(view)) == (TRACE_ID, Complaint())


def test_every_reason_can_be_chosen_and_comes_back() -> None:
    view = modals.build_complaint_view(TRACE_ID, Complaint(), None)
    options = elements(view)["reason"]["options"]
    assert {option["value"] for option in options} == set(get_args(Reason))
    for option in options:
        sent = submitted(view, reason={"selected_option": option})
        assert modals.parse_complaint(sent)[1].reason == option["value"]
    forged = submitted(view, reason={"selected_option": {"value": "boring"}})
    with pytest.raises(ValueError):
        modals.parse_complaint(forged)


def test_the_form_is_filled_in_as_it_was_left() -> None:
    page = Page(document_id=7, title="T" * 400, path="p/" * 200)
    said = Complaint(reason="not_asked", document_id=7, note="n" * modals.NOTE_LENGTH)
    view = modals.build_complaint_view(TRACE_ID, said, page)
    assert slack_limits.view_problems(view) == []
    inputs = elements(view)
    sent = submitted(
        view,
        reason={"selected_option": inputs["reason"]["initial_option"]},
        page={"selected_option": inputs["page"]["initial_option"]},
        note={"value": inputs["note"]["initial_value"]},
    )
    assert modals.parse_complaint(sent) == (TRACE_ID, said)


@pytest.mark.parametrize("title", ["", " \n ", "\u202e", "x" * 75, "x" * 76, "<!here> :no_entry:"])
@pytest.mark.parametrize("path", ["a.md", "long/" * 30 + "end.md", "p" * 75, "\u200b"])
def test_slack_takes_any_title_and_reads_nothing_into_it(title: str, path: str) -> None:
    pages = [Page(document_id=number, title=title, path=path) for number in range(100)]
    options = modals.build_page_options(pages)
    assert slack_limits.option_problems(options) == []
    for option in options:
        for shown in (option["text"], option["description"]):
            assert (shown["type"], shown["emoji"]) == ("plain_text", False)


def test_pages_of_one_title_are_told_apart_by_the_end_of_their_paths() -> None:
    pages = [
        Page(document_id=1, title="Times", path="x" * 100 + "/nl/times.md"),
        Page(document_id=2, title="Times", path="x" * 100 + "/de/times.md"),
    ]
    ends = [each["description"]["text"][-12:] for each in modals.build_page_options(pages)]
    assert ends == ["/nl/times.md", "/de/times.md"]


def test_what_postgres_cannot_store_is_left_out_of_a_note() -> None:
    view = modals.build_complaint_view(TRACE_ID, Complaint(), None)
    for typed, note in ((" a\0b ", "ab"), (" \n", None), (None, None), ("n" * 3_000, "n" * 2_000)):
        assert modals.parse_complaint(submitted(view, note={"value": typed}))[1].note == note
