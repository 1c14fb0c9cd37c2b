"""Who reads what is about to be shown, as Slack tells it: a place or a person to audiences."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from cachetools import TTLCache
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse
from sqlalchemy import text

from app import mrkdwn, posting
from app.records import Arrival
from retrieval.db import EVERYONE, Database
from retrieval.errors import ConfigError, FootnoteError

PUBLIC = ("public",)
# Who leaves a group or a channel reads its pages for no longer than this, and Slack is asked about
# one person or place, and about all groups of a workspace, at most once in it: it takes 20
# questions about groups a minute, 50 about channels and 100 about members and people (its tiers
# 2 to 4). So a question costs few of them, however many names there are.
FRESH_S = 60
KEPT_S = 300  # for which what Slack said last serves where it says nothing now; both chosen
MOST_KEPT = 20_000  # answers of Slack
NAME_LENGTH = 80  # as long as Slack lets them be
PAGE = 999  # members or channels that Slack tells at once, at most
# What Slack says of a channel that is not there for us, whatever it has said before.
UNKNOWN = ("channel_not_found", "method_not_supported_for_channel_type")
# Where an organisation has installed us, but does not let us into one of its workspaces.
SHUT_OUT = ("team_access_not_granted", "invalid_team")
NO_GROUPS = {error: dict[str, "_Group"]() for error in ("plan_upgrade_required", *SHUT_OUT)}
NO_CHANNELS = {error: frozenset[str]() for error in ("user_not_found", *SHUT_OUT)}
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
class _Us:
    """Where we are installed."""

    ids: frozenset[str]  # of the workspace and its organisation
    team_id: str | None  # None: in a whole organisation, of which Slack wants to know the workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class _Person:
    is_stranger: bool  # of another company
    is_guest: bool
    reads: bool  # neither a bot nor deactivated
    team_ids: frozenset[str]  # the workspaces in which they are
    email: str | None = None  # in lower case; only with users:read.email
    name: str | None = None  # as people call them


# Whom Slack does not let us see: they read, and nobody knows as whom.
_SOMEBODY = _Person(is_stranger=True, is_guest=False, reads=True, team_ids=frozenset())
UNSEEN = {"user_not_found": _SOMEBODY, "user_not_visible": _SOMEBODY}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    handle: str | None
    user_ids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    is_external: bool  # people of another company are there, or invited
    is_public: bool
    user_id: str | None  # whose direct messages with us it is
    team_ids: frozenset[str]  # the workspaces in which it is


class Rights:
    """What the people and places of a workspace may read; safe to use from several threads.

    Whatever is asked raises RightsUnknown where Slack does not say of what kind a place or a person
    is, and has not KEPT_S ago. Where it does not say what else they may read, they read less.
    """

    def __init__(
        self,
        client: WebClient,
        database: Database,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """The client's token may change."""
        self._client = client
        self._database = database
        self._now = now
        self._lock = threading.Lock()
        # By method and id: when Slack was asked, and what it said.
        self._told: TTLCache[tuple[str, str], tuple[float, Any]] = TTLCache(
            MOST_KEPT, ttl=KEPT_S, timer=now
        )
        # Held while Slack is asked, so that several workers ask once; gone when none waits.
        self._asking: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()

    def find_for_question(self, arrival: Arrival) -> Audiences:
        """Of an answer: what the place reads where it is asked, and the asker may, too."""
        channel_id, user_id = str(arrival.channel_id), arrival.user_id
        if arrival.is_external:  # whatever was so when Slack was asked last
            return PUBLIC
        if channel_id.startswith("D"):
            return self.find_for_person(user_id) if user_id else PUBLIC
        return self.find_for_both(channel_id, user_id)

    def is_shared(self, arrival: Arrival) -> bool:
        """Whether people of another company read along where a question is asked."""
        return arrival.is_external or self._find_place(str(arrival.channel_id)).is_external

    def find_for_both(self, channel_id: str, user_id: str | None) -> Audiences:
        """What a channel reads and a person who writes there may, too; a workflow is none."""
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
        names = self._load_names()
        held = self._find_held({_kind(name) for name in names}, user_id)
        return (*basis, *(name for name in names if name in held))

    def open_for_person(self, user_id: str) -> Database:
        """The database, of which is read what may be shown to one person alone."""
        return self._database.reading_as(self.find_for_person(user_id))

    def open_for_channel(self, channel_id: str) -> Database:
        """The same of what may be shown in a channel."""
        return self._database.reading_as(self.find_for_channel(channel_id))

    def find_for_channel(self, channel_id: str) -> Audiences:
        """Of what is shown in a channel; in our direct messages with a person, that person.

        Where strangers are, what is public; else what colleagues read, though guests may read
        along; in a private channel also what is for it, or by name for everybody there.
        """
        place = self._find_place(channel_id)
        if place.is_external:
            return PUBLIC
        if place.user_id is not None:
            return self.find_for_person(place.user_id)
        if place.is_public:
            return EVERYONE
        names = [name for name in self._load_names() if _kind(name) != "channel"]
        return (*EVERYONE, f"channel:{channel_id}", *self._find_shared(names, channel_id, place))

    def find_for_place(self, place_id: str) -> Audiences:
        """Of what is told in a channel, or to a person, by whichever id."""
        is_person = place_id.startswith(("U", "W"))
        return self.find_for_person(place_id) if is_person else self.find_for_channel(place_id)

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
        return name in self._find_names(_kind(name), user_id)

    def find_email(self, user_id: str) -> str | None:
        """A colleague's e-mail address in lower case, where Slack may tell it."""
        person = self._find_person(user_id)
        return None if person.is_stranger else person.email

    def find_name(self, name: str) -> str | None:
        """What people call a person or a user group; None where Slack does not say."""
        kind, _, owner_id = name.partition(":")
        try:
            if kind == "user":
                return self._find_person(owner_id).name
            group = self._find_groups(()).get(owner_id)
        except RightsUnknown:
            return None
        return group.handle if group else None

    def _find_held(self, kinds: Iterable[str], user_id: str) -> frozenset[str]:
        """The names that a person has of these kinds, but for those that Slack does not tell."""
        held: frozenset[str] = frozenset()
        for kind in kinds:
            try:
                held |= self._find_names(kind, user_id)
            except RightsUnknown as error:
                log.warning("%s reads as no %s: %s", user_id, kind, error)
        return held

    def _find_names(self, kind: str, user_id: str) -> frozenset[str]:
        """All the names of a kind that a person has."""
        if kind == "user":
            return frozenset({f"user:{user_id}"})
        team_ids = self._find_person(user_id).team_ids
        if kind == "channel":
            channels = self._find_channels(user_id, team_ids)
            return frozenset(f"channel:{channel_id}" for channel_id in channels)
        groups = self._find_groups(team_ids).items()
        return frozenset(
            f"group:{group_id}" for group_id, each in groups if user_id in each.user_ids
        )

    def _find_shared(self, names: Sequence[str], channel_id: str, place: _Place) -> list[str]:
        """Those names of groups and people that everybody in a channel has; of apps there they need
        not be. None where Slack does not tell."""
        if not names:
            return []
        try:
            members = self._find_members(channel_id)
            bearers = {f"user:{user_id}": frozenset({user_id}) for user_id in members}
            if any(_kind(name) == "group" for name in names):
                groups = self._find_groups(place.team_ids).items()
                bearers |= {f"group:{group_id}": each.user_ids for group_id, each in groups}
            return [name for name in names if self._are_all(members, bearers.get(name))]
        except RightsUnknown as error:
            log.warning("%s reads as no group and no person: %s", channel_id, error)
            return []

    def _are_all(self, members: frozenset[str], bearers: frozenset[str] | None) -> bool:
        """Whether who bears a name are all the members who read."""
        if not bearers or members.isdisjoint(bearers):
            return False
        return not any(self._find_person(each).reads for each in sorted(members - bearers))

    def _find_groups(self, team_ids: Iterable[str]) -> Mapping[str, _Group]:
        """The user groups of workspaces."""
        found: dict[str, _Group] = {}
        for team_id in self._pick_teams(team_ids):
            ask = partial(_ask_groups, team_id)
            found |= self._ask("usergroups.list", team_id, ask, refused=NO_GROUPS)
        return found

    def _find_channels(self, user_id: str, team_ids: Iterable[str]) -> frozenset[str]:
        """The channels of workspaces in which a person is; of private ones, those where we are."""
        found: frozenset[str] = frozenset()
        for team_id in self._pick_teams(team_ids):
            ask = partial(_ask_channels, team_id, user_id)
            about = f"{user_id} in {team_id}"
            found |= self._ask("users.conversations", about, ask, refused=NO_CHANNELS)
        return found

    def _find_members(self, channel_id: str) -> frozenset[str]:
        return self._ask("conversations.members", channel_id, partial(_ask_members, channel_id))

    def _pick_teams(self, team_ids: Iterable[str]) -> list[str]:
        """Of which workspaces Slack is asked: of the one in which we are installed, or of these."""
        own = self._find_us().team_id
        return sorted(team_ids) if own is None else [own]

    def _find_place(self, channel_id: str) -> _Place:
        def ask(client: WebClient) -> _Place:
            told = client.conversations_info(channel=channel_id)
            return _read_place(_take(told, "channel"))

        return self._ask("conversations.info", channel_id, ask)

    def _find_person(self, user_id: str) -> _Person:
        us = self._find_us()

        def ask(client: WebClient) -> _Person:
            return _read_person(_take(client.users_info(user=user_id), "user"), us)

        return self._ask("users.info", user_id, ask, refused=UNSEEN)

    def _find_us(self) -> _Us:
        return self._ask("auth.test", "us", lambda client: _read_us(client.auth_test()))

    def _ask(
        self,
        method: str,
        about: str,
        ask: Callable[[WebClient], Told],
        *,
        refused: Mapping[str, Told] = MappingProxyType({}),
    ) -> Told:
        """What Slack says or, within FRESH_S, has said; else, where it fails, what it said last.

        refused is what some of its errors say.
        """
        key = method, about
        with self._lock:
            asking = self._asking.setdefault(key, threading.Lock())
        with asking:
            with self._lock:
                known: tuple[float, Told] | None = self._told.get(key)
            if known is not None and self._now() - known[0] < FRESH_S:
                return known[1]
            try:
                # Now, as a copy of the client does not follow its token.
                told = ask(posting.hasten(self._client))
            except (SlackClientError, KeyError, *posting.CONNECTION_FAULTS) as error:
                reason = _find_reason(error)
                if reason not in refused:
                    log.warning("%s of %s: %s", method, about, reason)
                    if known is not None and reason not in UNKNOWN:
                        return known[1]
                    raise RightsUnknown(f"Slack does not answer {method}.") from error
                told = refused[reason]
            with self._lock:
                self._told[key] = self._now(), told
            return told


def _find_reason(error: Exception) -> str:
    """What Slack says is wrong, or else what is."""
    if isinstance(error, SlackApiError):
        return str(error.response.get("error"))
    return type(error).__name__


def _kind(name: str) -> str:
    """Of what it is the name: group, channel or user."""
    return name.partition(":")[0]


def _ask_groups(team_id: str, client: WebClient) -> dict[str, _Group]:
    told = client.usergroups_list(team_id=team_id, include_users=True)
    return {
        each["id"]: _Group(handle=each.get("handle"), user_ids=frozenset(each.get("users") or ()))
        for each in _take(told, "usergroups")
    }


def _ask_channels(team_id: str, user_id: str, client: WebClient) -> frozenset[str]:
    list_channels = partial(
        client.users_conversations,
        user=user_id,
        team_id=team_id,
        types="public_channel,private_channel,mpim",
    )
    return frozenset(each["id"] for each in _list_pages(list_channels, "channels"))


def _ask_members(channel_id: str, client: WebClient) -> frozenset[str]:
    return frozenset(
        _list_pages(partial(client.conversations_members, channel=channel_id), "members")
    )


def _list_pages(ask: Callable[..., SlackResponse], name: str) -> Iterator[Any]:
    """What is under a name of all pages of an answer."""
    cursor: str | None = ""
    while cursor is not None:
        told = ask(limit=PAGE, **({"cursor": cursor} if cursor else {}))
        yield from _take(told, name)
        cursor = (told.get("response_metadata") or {}).get("next_cursor") or None


def check_scopes(client: WebClient) -> None:
    """Raise ConfigError naming the scopes that the token lacks, as far as Slack tells its scopes.

    What Slack or the connection refuses raises as slack_sdk does.
    """
    granted = read_scopes(client.auth_test())
    if granted is None:
        return
    if missing := [scope for scope in SCOPES if scope not in granted]:
        raise ConfigError(
            f"The Slack app lacks {_count(missing)}, without which nobody can tell who reads an "
            "answer. Add what manifest.yml has under OAuth & Permissions, and install it again."
        )


def read_scopes(told: SlackResponse) -> frozenset[str] | None:
    """The scopes of the token by which Slack was asked; None where it does not tell them."""
    headers = {name.lower(): value for name, value in told.headers.items()}
    if "x-oauth-scopes" not in headers:
        return None
    return frozenset(scope.strip() for scope in headers["x-oauth-scopes"].split(","))


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
        team_ids=_read_teams(
            (channel.get("context_team_id"), *_list(channel, "internal_team_ids"))
        ),
    )


def _read_person(user: Mapping[str, Any], us: _Us) -> _Person:
    in_organisation = user.get("enterprise_user") or {}
    profile = user.get("profile") or {}
    theirs = {user.get("team_id"), in_organisation.get("enterprise_id")}
    return _Person(
        is_stranger=bool(user.get("is_stranger")) or not theirs & us.ids,
        is_guest=bool(user.get("is_restricted") or user.get("is_ultra_restricted")),
        reads=not (user.get("is_bot") or user.get("deleted")),
        email=(profile.get("email") or "").lower() or None,
        name=_read_name(profile, "display_name") or _read_name(profile, "real_name"),
        team_ids=_read_teams((user.get("team_id"), *_list(in_organisation, "teams"))),
    )


def _read_name(profile: Mapping[str, Any], kind: str) -> str | None:
    """A name on one line; None where nothing of it is seen."""
    return mrkdwn.flatten(profile.get(kind) or "", NAME_LENGTH) or None


def _read_us(told: SlackResponse) -> _Us:
    return _Us(
        ids=frozenset(filter(None, (told.get("team_id"), told.get("enterprise_id")))),
        team_id=None if told.get("is_enterprise_install") else told.get("team_id"),
    )


def _read_teams(ids: Iterable[str | None]) -> frozenset[str]:
    """The workspaces among ids, of which some are those of organisations."""
    return frozenset(each for each in ids if each and each.startswith("T"))


def _list(told: Mapping[str, Any], name: str) -> Sequence[str]:
    return told.get(name) or ()
