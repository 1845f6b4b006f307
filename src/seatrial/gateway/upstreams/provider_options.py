"""ProviderOptions: where a provider is, how it is spoken to, and how patient we are with it."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from seatrial.model.base import StrictModel
from seatrial.model.trace import Dialect

Seconds = Annotated[float, Field(gt=0)]


class ProviderOptions(StrictModel):
    """A provider of models. Its key is named, never written: `api_key_var` is a variable of our own environment."""

    base_url: str
    api_key_var: str | None = None
    dialects: Annotated[frozenset[Dialect], Field(min_length=1)] = frozenset({"openai_chat"})
    max_concurrent: Annotated[int, Field(gt=0)] = 64
    retries: Annotated[int, Field(ge=0)] = 4
    connect_timeout_sec: Seconds = 10.0
    first_byte_timeout_sec: Seconds = 600.0
    idle_timeout_sec: Seconds = 300.0
    longest_wait_sec: Seconds = 60.0
    ca_file: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{value!r} is not the address of a provider; expected something like https://host/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("the address of a provider has no password, query or fragment; name its key by a variable")
        return value.rstrip("/")
