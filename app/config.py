"""Every environment variable that Footnote reads, read once."""

import json
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic.types import StringConstraints
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.channels import ChannelMode
from retrieval import cron
from retrieval.errors import ConfigError
from retrieval.tuning import PACKAGED


def _split(value: object) -> object:
    """The parts of a comma-separated text, without the blanks around them."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.split(",") if part.strip()]


def _parse_json(value: object) -> object:
    """What a JSON text says; raises ValueError, which names the variable, where it is none."""
    return json.loads(value) if isinstance(value, str) else value


def _read_secret(secret: SecretStr) -> SecretStr:
    """The secret without blanks around it, such as the line break at the end of a file.

    Raises ValueError for what no header may hold: HTTP clients quote that in their errors.
    """
    stripped = secret.get_secret_value().strip()
    if not stripped:
        raise ValueError("it is blank")
    if not (stripped.isascii() and stripped.isprintable()):
        raise ValueError("it holds a line break or another character that no secret has")
    return SecretStr(stripped)


def _read_url(url: str) -> str:
    """The URL without blanks around it; raises ValueError where it is none, without quoting it."""
    stripped = url.strip()
    try:
        parts = urlsplit(stripped)
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or not (stripped.isascii() and stripped.isprintable()) or " " in stripped:
        raise ValueError("it is no URL such as https://example.com/")
    return stripped


def _read_tracker(tracker: str) -> str:
    """A GitHub repository or a webhook's URL; raises ValueError where it is neither."""
    if re.fullmatch(r"github:[A-Za-z0-9-]+/[A-Za-z0-9._-]+", tracker.strip()):
        return tracker.strip()
    try:
        return _read_url(tracker)
    except ValueError:
        raise ValueError("it is neither github:OWNER/REPOSITORY nor a URL") from None


Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Secret = Annotated[SecretStr, AfterValidator(_read_secret)]
SlackChannelId = Annotated[str, StringConstraints(pattern=r"^(\*|[CG][A-Z0-9]+)$")]  # *: any
Schedule = Annotated[str, AfterValidator(cron.check)]
SlackExpertId = Annotated[str, StringConstraints(pattern=r"^[CGS][A-Z0-9]+$")]
SlackRoomId = Annotated[str, StringConstraints(pattern=r"^[CG][A-Z0-9]+$")]
SlackUserId = Annotated[str, StringConstraints(pattern=r"^[UW][A-Z0-9]+$")]
Tracker = Annotated[str, AfterValidator(_read_tracker)]
Url = Annotated[str, AfterValidator(_read_url)]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]  # no blank


class Settings(BaseSettings):
    """Deployment: what differs between two installations of the same code."""

    model_config = SettingsConfigDict(extra="ignore", frozen=True, env_ignore_empty=True)

    database_url: SecretStr | None = Field(None, description="PostgreSQL; unset: embedded server")
    footnote_home: Path = Field(
        default_factory=lambda: user_data_path("footnote"),
        description="Folder of the embedded server's data",
    )
    tenant_id: Word = Field("default", description="Whose documents and traces are used")
    sources: Path | None = Field(None, description="File that names the sources, sources.yml")
    embedding_model: Word = Field(PACKAGED, description="sentence-transformers name or folder")
    rerank_model: Word | None = Field(
        None, description="CrossEncoder name or folder; unset: late interaction"
    )
    anthropic_api_key: Secret | None = Field(None, description="Unset: answers are quoted")
    anthropic_base_url: Url | None = Field(None, description="Another base URL of the Messages API")
    answer_model: Word = Field("claude-sonnet-5-5", description="Claude model that writes answers")
    answer_timeout_s: float = Field(60, gt=0, description="Longest wait for one Claude call")
    rewrite_model: Word = Field(
        "claude-haiku-5-5", description="Claude model that rewords questions"
    )
    rewrite_timeout_ms: int = Field(1_500, gt=0, description="Longest wait for its rewording")
    slack_bot_token: Secret | None = Field(None, description="xoxb-…, for `footnote serve`")
    slack_app_token: Secret | None = Field(None, description="xapp-…, for Socket Mode")
    slack_signing_secret: Secret | None = Field(None, description="For HTTP instead")
    slack_client_id: Word | None = Field(
        None, description="For many workspaces, which install the app themselves"
    )
    slack_client_secret: Secret | None = Field(None, description="With SLACK_CLIENT_ID")
    slack_api_url: Url = Field("https://slack.com/api/", description="Base URL of Slack's Web API")
    admins: Annotated[frozenset[SlackUserId], NoDecode, BeforeValidator(_split)] = Field(
        frozenset(),
        description="Slack user ids, by commas, of who may read all questions and confirm pages",
    )
    experts: Annotated[dict[str, SlackExpertId], NoDecode, BeforeValidator(_parse_json)] = Field(
        {}, description="Channel or user group id to ask, by page owner or source, in JSON"
    )
    channels: Annotated[
        dict[SlackChannelId, ChannelMode], NoDecode, BeforeValidator(_parse_json)
    ] = Field({}, description="What is answered besides mentions, by channel id, in JSON")
    answer_strangers: bool = Field(
        False, description="Whether people of other companies in shared channels are answered"
    )
    review_channel: SlackRoomId | None = Field(
        None, description="Channel id in which flagged answers are reviewed"
    )
    report_channel: SlackRoomId | None = Field(
        None, description="Channel id to which nightly figure, digest and stale pages go"
    )
    eval_schedule: Schedule | None = Field(
        None, description="When all approved cases are run, as five fields of cron, in UTC"
    )
    tickets: Tracker | None = Field(
        None, description="Where a drop is told: github:OWNER/REPOSITORY or a webhook's URL"
    )
    github_token: Secret | None = Field(None, description="For TICKETS on GitHub")
    github_api_url: Url = Field("https://api.github.com", description="Base URL of GitHub's API")
    freshness_days: int = Field(
        365, gt=0, le=36_500, description="How long a page counts as verified"
    )
    questions_per_person: int = Field(60, gt=0, description="Answered an hour, at most")
    questions_per_channel: int = Field(300, gt=0, description="Answered an hour, at most")
    retention_days: int | None = Field(
        None, gt=0, le=36_500, description="How long questions and answers are kept; unset: always"
    )
    prices: Annotated[dict[str, tuple[Price, Price]], NoDecode, BeforeValidator(_parse_json)] = (
        Field({}, description="USD per million input and output tokens, by model, in JSON")
    )
    # In a container, 127.0.0.1 could be reached by nobody.
    host: Word = Field("0.0.0.0", description="Address to listen on")
    port: int | None = Field(
        None, gt=0, lt=65_536, description="Unset: 3000 for HTTP, none for Socket Mode"
    )
    answer_workers: int = Field(8, gt=0, description="Questions worked on at once")
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(str.upper)
    ] = Field("INFO", description="Least log")
    log_format: Annotated[Literal["text", "json"], BeforeValidator(str.lower)] = Field(
        "text", description="text, or json for one JSON object a line"
    )
    otel_exporter_otlp_endpoint: Url | None = Field(
        None, description="Base URL of an OTLP/HTTP receiver of traces; unset: none are sent"
    )


def load_settings() -> Settings:
    """The settings of this process; raises ConfigError naming every malformed variable at once."""
    try:
        return Settings()
    except ValidationError as error:
        # A value may be a secret: only its name and what is wrong with it are told.
        wrong = "; ".join(
            f"{str(item['loc'][0]).upper()}: {item['msg']}"
            for item in error.errors()
            if item["loc"]
        )
        raise ConfigError(f"Settings in the environment are wrong: {wrong}.") from None
