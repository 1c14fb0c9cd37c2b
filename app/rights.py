"""Who reads what is about to be shown, as Slack tells it: a place or a person to audiences."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cachetools import TTLCache
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse
from sqlalchemy import text

from app import posting
from app.records import Arrival
from retrieval.db import EVERYONE, Database
from retrieval.errors import ConfigError, FootnoteError

PUBLIC = ("public",)
# Who leaves a group or a channel reads its pages for no longer than this, and Slack is asked about
# one person or place at most once in it: it takes 20 questions about groups a minute, 50 about
# channels and 100 about members and people (its tiers 2 to 4).
FRESH_S = 60
KEPT_S = 300  # for which what Slack said last serves where it says nothing now; both chosen
MOST_KEPT = 20_000  # answers of Slack
PAGE = 999  # members that Slack tells at once, at most
# What Slack says of a channel or group that is not there for us: then nobody is known to be in it.
UNKNOWN = (
    *("channel_not_found", "method_not_supported_for_channel_type"),
    *("no_such_subteam", "plan_upgrade_required"),
)
SCOPES = (
    *("channels:read", "groups:read", "im:read", "mpim:read"),
    *("usergroups:read", "users:read"),
)

Audiences = tuple[str, ...]
Told = TypeVar("Told")

log = logging.getLogger(__name__)


class RightsUnknown(FootnoteError):
    """Slack does not say who would read it, so nothing is shown; asking again later helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Person:
    is_stranger: bool  # of another company
    is_guest: bool
    reads: bool  # neither a bot nor deactivated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    is_external: bool  # people of another company are there, or invited
    is_public: bool
    user_id: str | None  # whose direct messages with us it is


class Rights:
    """What the people and places of a workspace may read; safe to use from several threads.

    Whatever is asked raises RightsUnknown where Slack does not answer, and has not KEPT_S ago.
    """

    def __init__(
        self,
        client: WebClient,
        database: Database,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = posting.hasten(client)
        self._database = database
        self._now = now
        self._lock = threading.Lock()
        self._ours: frozenset[str] = frozenset()  # asked for once; empty: not yet
        # By method and id: when Slack was asked, and what it said.
        self._told: TTLCache[tuple[str, str], tuple[float, Any]] = TTLCache(
            MOST_KEPT, ttl=KEPT_S, timer=now
        )

    def find_for_question(self, arrival: Arrival) -> Audiences:
        """Of an answer: what all may read who are where it is asked, and the asker, too."""
        channel_id, user_id = str(arrival.channel_id), arrival.user_id
        if channel_id.startswith("D"):
            return self.find_for_person(user_id) if user_id else PUBLIC
        return self.find_for_both(channel_id, user_id)

    def find_for_both(self, channel_id: str, user_id: str | None) -> Audiences:
        """What all in a channel may read and a person who writes there, too; a workflow is none."""
        in_place = self.find_for_channel(channel_id)
        if user_id is None or in_place == PUBLIC:
            return in_place
        person = self._find_person(user_id)
        if person.is_stranger:
            return PUBLIC
        return tuple(name for name in in_place if name != "everyone" or not person.is_guest)

    def find_for_person(self, user_id: str) -> Audiences:
        """Of what is shown to one person alone."""
        person = self._find_person(user_id)
        if person.is_stranger:
            return PUBLIC
        basis = PUBLIC if person.is_guest else EVERYONE
        return (*basis, *(name for name in self._load_names() if self.has(name, user_id)))

    def find_for_channel(self, channel_id: str) -> Audiences:
        """Of what all in a channel read; in our direct messages with a person, that person."""
        place = self._find_place(channel_id)
        if place.is_external:
            return PUBLIC
        if place.user_id is not None:
            return self.find_for_person(place.user_id)
        if place.is_public:
            return EVERYONE
        names = [name for name in self._load_names() if not name.startswith("channel:")]
        return (
            *EVERYONE,
            f"channel:{channel_id}",
            *(name for name in names if self._holds_for_all(name, channel_id)),
        )

    def _load_names(self) -> Sequence[str]:
        """The names of channels, groups and people for which there are pages."""
        with self._database.transaction() as connection:
            return (
                connection.execute(
                    text("""
                        SELECT DISTINCT name FROM audiences, unnest(audience) AS name
                        WHERE position(':' IN name) > 0 ORDER BY name
                    """)
                )
                .scalars()
                .all()
            )

    def has(self, name: str, user_id: str) -> bool:
        """Whether a name is one of a person's."""
        return user_id in self._find_bearers(name)

    def _holds_for_all(self, name: str, channel_id: str) -> bool:
        """Whether a name is one of everybody's in a channel; of apps there it needs not be."""
        members = self._find_members(channel_id)
        if not members:
            raise RightsUnknown("Slack does not say who is in a channel.")
        bearers = self._find_bearers(name)
        others = sorted(members - bearers)
        return bool(members & bearers) and not any(self._find_person(each).reads for each in others)

    def _find_bearers(self, name: str) -> frozenset[str]:
        kind, _, name_id = name.partition(":")
        if kind == "user":
            return frozenset({name_id})
        find = self._find_group if kind == "group" else self._find_members
        try:
            return find(name_id)
        except RightsUnknown as error:
            cause = error.__cause__
            if isinstance(cause, SlackApiError) and cause.response.get("error") in UNKNOWN:
                log.warning("Nobody reads as %s: %s", name, cause.response["error"])
                return frozenset()
            raise

    def _find_group(self, group_id: str) -> frozenset[str]:
        def ask() -> frozenset[str]:
            told = self._client.usergroups_users_list(usergroup=group_id)
            return frozenset(_take(told, "users"))

        return self._ask("usergroups.users.list", group_id, ask)

    def _find_members(self, channel_id: str) -> frozenset[str]:
        def ask() -> frozenset[str]:
            return frozenset(self._list_members(channel_id))

        return self._ask("conversations.members", channel_id, ask)

    def _list_members(self, channel_id: str) -> Iterator[str]:
        cursor: str | None = ""
        while cursor is not None:
            told = self._client.conversations_members(
                channel=channel_id, limit=PAGE, **({"cursor": cursor} if cursor else {})
            )
            yield from _take(told, "members")
            cursor = (told.get("response_metadata") or {}).get("next_cursor") or None

    def _find_place(self, channel_id: str) -> _Place:
        def ask() -> _Place:
            told = self._client.conversations_info(channel=channel_id)
            return _read_place(_take(told, "channel"))

        return self._ask("conversations.info", channel_id, ask)

    def _find_person(self, user_id: str) -> _Person:
        def ask() -> _Person:
            told = self._client.users_info(user=user_id)
            return _read_person(_take(told, "user"), self._find_ours())

        return self._ask("users.info", user_id, ask)

    def _find_ours(self) -> frozenset[str]:
        """The workspace in which we are installed, and its organisation."""

        if not self._ours:
            told = self._client.auth_test()
            self._ours = frozenset(filter(None, (told.get("team_id"), told.get("enterprise_id"))))
        return self._ours

    def _ask(self, method: str, about: str, ask: Callable[[], Told]) -> Told:
        """What Slack says or, within FRESH_S, has said; else, where it fails, what it said last."""
        with self._lock:
            known: tuple[float, Told] | None = self._told.get((method, about))
        if known is not None and self._now() - known[0] < FRESH_S:
            return known[1]
        try:
            told = ask()
        except (SlackClientError, KeyError, *posting.CONNECTION_FAULTS) as error:
            reason = error.response.get("error") if isinstance(error, SlackApiError) else None
            log.warning("%s of %s: %s", method, about, reason or type(error).__name__)
            if known is not None and reason not in UNKNOWN:
                return known[1]
            raise RightsUnknown(f"Slack does not answer {method}.") from error
        with self._lock:
            self._told[method, about] = self._now(), told
        return told


def check_scopes(client: WebClient) -> None:
    """Raise ConfigError naming the scopes that the token lacks, as far as Slack tells its scopes.

    What Slack or the connection refuses raises as slack_sdk does.
    """
    headers = {name.lower(): value for name, value in client.auth_test().headers.items()}
    if "x-oauth-scopes" not in headers:
        return
    granted = {scope.strip() for scope in headers["x-oauth-scopes"].split(",")}
    if missing := [scope for scope in SCOPES if scope not in granted]:
        raise ConfigError(
            f"The Slack app lacks {_count(missing)}, without which nobody can tell who reads an "
            "answer. Add what manifest.yml has under OAuth & Permissions, and install it again."
        )


def _count(scopes: Collection[str]) -> str:
    return f"the scope{'' if len(scopes) == 1 else 's'} {', '.join(scopes)}"


def _take(told: SlackResponse, name: str) -> Any:
    """What is under a name of an answer; raises KeyError where that is missing."""
    if told.get(name) is None:
        raise KeyError(name)
    return told[name]


def _read_place(channel: Mapping[str, Any]) -> _Place:
    is_foreign = channel.get("is_shared") and not channel.get("is_org_shared")
    invited = channel.get("is_pending_ext_shared") or channel.get("pending_shared")
    is_private = any(channel.get(name) for name in ("is_group", "is_mpim", "is_im"))
    return _Place(
        is_external=bool(channel.get("is_ext_shared") or is_foreign or invited),
        # Where Slack does not say that it is not private, it is.
        is_public=channel.get("is_private") is False and not is_private,
        user_id=channel.get("user") if channel.get("is_im") else None,
    )


def _read_person(user: Mapping[str, Any], ours: frozenset[str]) -> _Person:
    theirs = {user.get("team_id"), (user.get("enterprise_user") or {}).get("enterprise_id")}
    return _Person(
        is_stranger=bool(user.get("is_stranger")) or not theirs & ours,
        is_guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
        reads=not (user.get("is_bot") or user.get("deleted")),
    )
