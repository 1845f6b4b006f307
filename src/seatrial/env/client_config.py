"""ClientConfig: where a model is, and how patient we are with it."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator

from seatrial.env.arguments import refuse_unknown
from seatrial.errors import UsageError
from seatrial.model.base import NonNegativeInt, StrictModel
from seatrial.model.trace import Dialect

if TYPE_CHECKING:  # an HTTP client, slow to import and of no use to those who only describe an environment
    from seatrial.gateway.upstreams.provider import HttpProvider

_OPENAI = "https://api.openai.com/v1"
_OPENAI_KEY = "OPENAI_API_KEY"
_OPENAI_DIALECTS: tuple[Dialect, ...] = ("openai_chat", "openai_responses")

ClientType = Literal[
    "openai_completions",
    "openai_chat_completions",
    "openai_chat_completions_token",
    "openai_responses",
    "renderer",
    "anthropic_messages",
    "nemorl_chat_completions",
]
_CLIENT_TYPES: dict[str, Dialect] = {"openai_responses": "openai_responses", "anthropic_messages": "anthropic"}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Seconds = Annotated[float, Field(gt=0)]


class ClientConfig(StrictModel):
    """A provider of models. Raises UsageError for values that make no sense.

    The key is `api_key`, or what the variable `api_key_var` holds. Without either, OpenAI's own address gets the key
    in OPENAI_API_KEY and any other address none: a key goes only where it was named for. `timeout` is how long an
    answer may take to begin, `idle_timeout` how long it may pause. `client_type` says how requests are written where
    `dialects` does not; of those that verifiers knows, the ones with tokens and the renderer are chat completions.
    Of several `endpoint_configs` each rollout has the next; what one does not say is as it is here.

    What is kept for those who ask, and has no effect: `client_idx`, `max_keepalive_connections` (connections are kept
    as long as they are good), `extra_headers_from_state`, and the `renderer` with its fields.
    """

    base_url: str = _OPENAI
    api_key: str | None = Field(default=None, repr=False)
    api_key_var: str | None = None
    timeout: Seconds = 600.0
    connect_timeout: Seconds = 10.0
    idle_timeout: Seconds = 120.0
    max_retries: NonNegativeInt = 4
    max_connections: Annotated[int, Field(gt=0)] = 512
    extra_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    dialects: tuple[Dialect, ...] | None = None
    client_type: ClientType | None = None
    endpoint_configs: tuple[dict[str, Any], ...] = Field(default=(), repr=False)
    client_idx: int = 0
    max_keepalive_connections: int | None = None
    extra_headers_from_state: dict[str, str] = Field(default_factory=dict)
    renderer: Any = None
    renderer_config: Any = None
    renderer_model_name: str | None = None
    renderer_pool_size: int | None = None

    @field_validator("api_key")
    @classmethod
    def _is_key(cls, value: str | None) -> str | None:
        if value is not None and not (value.isascii() and value.isprintable() and value.strip()):
            found = "empty" if not value.strip() else "text with characters that no key has, such as a line break"
            raise ValueError(f"is {found}, expected a key; leave it out where none is needed")
        return value

    @field_validator("extra_headers")
    @classmethod
    def _are_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, said in value.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a header, expected letters, digits and dashes")
            if any(character in said for character in "\r\n\0"):
                raise ValueError(f"the header {name} holds a line break, which no header may")
        return value

    def __init__(self, **values: Any) -> None:
        if "api_base_url" in values:  # what the address is called elsewhere
            values.setdefault("base_url", values.pop("api_base_url"))
        if values.get("extra_headers", {}) is None:
            del values["extra_headers"]
        values["endpoint_configs"] = tuple(_as_table(each) for each in values.get("endpoint_configs") or ())
        fields = type(self).model_fields
        refuse_unknown("ClientConfig", [name for name in values if name not in fields], fields)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _usage_error(error) from None

    def with_key(self) -> Self:
        """The same with its key in it, for a process that does not have the variable in which the key is."""
        if self.endpoint_configs:
            keys = [each.with_key().api_key for each in self.endpoints()]
            tables = tuple({**each, "api_key": key} for each, key in zip(self.endpoint_configs, keys, strict=True))
            return self.model_copy(update={"endpoint_configs": tables})
        key = os.environ.get(self._variable) if self._variable else None
        return self if self.api_key is not None or key is None else self.model_copy(update={"api_key": key})

    @property
    def api_base_url(self) -> str:
        """The address, by the name that verifiers has for it."""
        return self.base_url

    def endpoints(self) -> "list[ClientConfig]":
        """What the rollouts are spread over: several, or only this one."""
        if not self.endpoint_configs:
            return [self]
        own = self.model_dump(exclude={"endpoint_configs"}, exclude_unset=True)
        return [ClientConfig(**{**own, **each}) for each in self.endpoint_configs]

    @property
    def _at_home(self) -> bool:
        return self.base_url.rstrip("/") == _OPENAI

    @property
    def _variable(self) -> str | None:
        return self.api_key_var or (_OPENAI_KEY if self._at_home or self.api_key is not None else None)

    @property
    def _dialects(self) -> tuple[Dialect, ...]:
        if self.dialects is not None or self.client_type is not None:
            return self.dialects or (_CLIENT_TYPES.get(self.client_type or "", "openai_chat"),)
        return _OPENAI_DIALECTS if self._at_home else ("openai_chat",)

    def provider(self) -> "HttpProvider":
        """The provider, not opened yet. Raises UsageError when its address is none or its key is not there."""
        from seatrial.gateway.upstreams.provider import HttpProvider  # noqa: PLC0415 - slow, see above
        from seatrial.gateway.upstreams.provider_options import ProviderOptions  # noqa: PLC0415 - as above

        variable = self._variable
        try:
            options = ProviderOptions(
                base_url=self.base_url,
                api_key_var=variable,
                dialects=frozenset(self._dialects),
                max_concurrent=self.max_connections,
                retries=self.max_retries,
                connect_timeout_sec=self.connect_timeout,
                first_byte_timeout_sec=self.timeout,
                idle_timeout_sec=self.idle_timeout,
                headers=self.extra_headers,
            )
        except ValidationError as error:
            raise _usage_error(error) from None
        if self.api_key is None or variable is None:
            return HttpProvider(options)
        return HttpProvider(options, environ={variable: self.api_key})


def _as_table(endpoint: Any) -> dict[str, Any]:
    """What an endpoint says itself, by our names."""
    if not isinstance(endpoint, Mapping) and not hasattr(endpoint, "model_dump"):
        raise UsageError(f"ClientConfig: endpoint_configs: {endpoint!r} is none, expected a list of tables or configs")
    table: dict[str, Any] = {**endpoint} if isinstance(endpoint, Mapping) else endpoint.model_dump(exclude_unset=True)
    if "api_base_url" in table:
        table.setdefault("base_url", table.pop("api_base_url"))
    if table.get("endpoint_configs"):
        raise UsageError("ClientConfig: endpoint_configs: an endpoint has no endpoints of its own")
    table.pop("endpoint_configs", None)
    return table


def _usage_error(error: ValidationError) -> UsageError:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return UsageError(f"ClientConfig: {where}: {first['msg'].removeprefix('Value error, ')}")
