"""Notices at the top of a page: which say that it no longer holds, and what holds instead."""

import pytest

from retrieval.sources import notices


@pytest.mark.parametrize(
    ("lines", "successor"),
    [
        ("This page is deprecated.", None),
        ("This page **has been** superseded by [Leave 2026](leave.md).", "Leave 2026"),
        ("> **Warning:** This policy is obsolete. See [Leave 2026](leave.md).", "Leave 2026"),
        ("> [!WARNING]\n> This guide is outdated since May.", None),
        (":::caution\nThis runbook is no longer maintained.\n:::", None),
        ('!!! warning "Old"\n    This page was replaced by Leave 2026 on 3 May.', "Leave 2026"),
        ("Superseded by [here](../leave.md)", "../leave.md"),
        ("Replaced by the Leave policy 2026.", "Leave policy 2026"),
        ("**Deprecated**\n\nReplaced by [Leave](a.md).", "Leave"),
        ("DEPRECATED", None),
        ("⚠️ This document is archived, see [Leave](a.md)", "Leave"),
        ("*This process is deprecated in favour of [Leave](a.md)!*", "Leave"),
        ("Status: superseded by ADR 7", "ADR 7"),
        ("## Status\n\n⌛ Superseded by [ADR 7](7.md)", "ADR 7"),
        ("Archived on 2026-01-01 by Ana", None),
        ("| Superseded by [Leave](a.md) |\n| --- |", "Leave"),
        ("| This page is deprecated |\n| --- |", None),
        ("Retired. The depot is closed.", None),
        ("No longer in use!", None),
        ("**Outdated:** please see the [new rules](a.md).", "new rules"),
        ("Withdrawn, replaced by Leave 2026.", "Leave 2026"),
        ("* Status: superseded by [ADR 7](7.md)", "ADR 7"),
        ("- **Status:** withdrawn", None),
        ("## Status\n\n* Withdrawn", None),
        ("## Status {#adr-7-status}\n\nSuperseded by [ADR 7](7.md)", "ADR 7"),
        ("Deprecated since version 2.0: use [Leave](a.md).", "Leave"),
        ("**Deprecation notice**\n\nReplaced by [Leave](a.md).", "Leave"),
        ("**Owner: Ops team**\n\nDeprecated: see [the new guide](a.md).", "the new guide"),
        ("**Do not use.**\n\nDeprecated.", None),
        ("**Ops, 2021**\n\n**Archived**", None),
        ("**put(*x*)**\n\nThis page is deprecated.", None),
        ("## Status\n\nDeprecated (nothing takes its place)", None),
    ],
)
def test_what_says_that_a_page_no_longer_holds(lines: str, successor: str | None) -> None:
    assert notices.find(f"# Leave\n\n{lines}\n\nYou have 28 days.\n") == (True, successor)


@pytest.mark.parametrize(
    "above",
    [
        *("Deploy\n======", "Deploy\n---", "[Home](/) > Docs", "[Home](/)", "[A](/a) / [B](/b)"),
        "[Home](/) » [Docs](/docs) » Deploy",
    ],
)
def test_neither_a_title_nor_links_are_a_text_above_the_first_heading(above: str) -> None:
    text = f"{above}\n\n## Overview\n\nThis page has been superseded by [B](b.md).\n"
    assert notices.find(text) == (True, "B")


@pytest.mark.parametrize(
    "text",
    [
        "# Leave\n\nYou have 28 days.\n",
        "# API\n\nDeprecated endpoints go each May.\n",
        "# Pumps\n\nReplaced filters go to bin 3.\n",
        "# Pumps\n\nThis pump was replaced by a new one in May.\n",
        "# Wiki\n\nThis page is archived every night.\n",
        "# Wiki\n\nHow to say that this page is deprecated.\n",
        "# Orders\n\n- Replaced: the order was swapped.\n- Withdrawn\n- Archived.\n",
        "# Orders\n\n1. Replaced by the night shift.\n2. Archived\n",
        "# Orders\n\n| State |\n| --- |\n| Replaced |\n| Withdrawn | by the buyer |\n",
        "# Orders\n\nReplaced: the order was swapped.\n",
        "# Badges\n\nRetired (65+) staff keep their badge.\n",
        "# Invoices\n\nArchived on the server, they are kept for ten years.\n",
        "# Packing\n\nThe manual process was replaced by a robot in 2021.\n",
        "# Store\n\nKeeps objects.\n\n**put(*x*)**\n\nDeprecated since version 2.0: Use write().\n",
        "# Store\n\n**store.put(x, y)**\n\nDeprecated since version 2.0: Use write().\n",
        "# Store\n\n**`put()`**\n\nDeprecated: use [write](write.md).\n",
        "[Store](s.md) keeps objects.\n\n## put\n\nDeprecated since version 2.0: Use write().\n",
        "# Store\n\n`put()`\n\nDeprecated: use [write](write.md).\n",
        "# Store\n\nput\n: Deprecated since version 2.0.\n",
        "# Store\n\n| Since | Call |\n| --- | --- |\n| Deprecated since 2.0 | put |\n",
        "Keeps objects.\n\n## put\n\nDeprecated since version 2.0: Use write().\n",
        "# ADR 7\n\nSuperseded by none\n",
        "# ADR 7\n\n## Status\n\nAccepted\n\nArchived (2021) files are kept.\n",
        "# Leave\n\n## Old rule\n\nThis policy was replaced by the new one.\n",
        "# Leave\n\n" + "You have 28 days.\n\n" * 10 + "This page is deprecated.\n",
        "",
    ],
)
def test_what_says_no_such_thing(text: str) -> None:
    assert notices.find(text) == (False, None)
