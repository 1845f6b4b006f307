"""ClientConfig: where a model is, and how patient we are with it."""

import os
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, ValidationError

from seatrial.env.arguments import refuse_unknown
from seatrial.errors import UsageError
from seatrial.model.base import NonNegativeInt, StrictModel
from seatrial.model.trace import Dialect

if TYPE_CHECKING:  # an HTTP client, slow to import and of no use to those who only describe an environment
    from seatrial.gateway.upstreams.provider import HttpProvider

_OPENAI = "https://api.openai.com/v1"
_OPENAI_KEY = "OPENAI_API_KEY"
_OPENAI_DIALECTS: tuple[Dialect, ...] = ("openai_chat", "openai_responses")

Seconds = Annotated[float, Field(gt=0)]


class ClientConfig(StrictModel):
    """A provider of models. Raises UsageError for values that make no sense.

    The key is `api_key`, or what the variable `api_key_var` holds. Without either, OpenAI's own address gets the key
    in OPENAI_API_KEY and any other address none: a key goes only where it was named for. `timeout` is how long an
    answer may take to begin, `idle_timeout` how long it may pause.
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

    def __init__(self, **values: Any) -> None:
        if "api_base_url" in values:  # what the address is called elsewhere
            values.setdefault("base_url", values.pop("api_base_url"))
        fields = type(self).model_fields
        refuse_unknown("ClientConfig", [name for name in values if name not in fields], fields)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _usage_error(error) from None

    def with_key(self) -> Self:
        """The same with its key in it, for a process that does not have the variable in which the key is."""
        key = os.environ.get(self._variable) if self._variable else None
        return self if self.api_key is not None or key is None else self.model_copy(update={"api_key": key})

    @property
    def _at_home(self) -> bool:
        return self.base_url.rstrip("/") == _OPENAI

    @property
    def _variable(self) -> str | None:
        return self.api_key_var or (_OPENAI_KEY if self._at_home or self.api_key is not None else None)

    def provider(self) -> "HttpProvider":
        """The provider, not opened yet. Raises UsageError when its address is none or its key is not there."""
        from seatrial.gateway.upstreams.provider import HttpProvider  # noqa: PLC0415 - slow, see above
        from seatrial.gateway.upstreams.provider_options import ProviderOptions  # noqa: PLC0415 - as above

        variable = self._variable
        try:
            options = ProviderOptions(
                base_url=self.base_url,
                api_key_var=variable,
                dialects=frozenset(self.dialects or (_OPENAI_DIALECTS if self._at_home else ("openai_chat",))),
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


def _usage_error(error: ValidationError) -> UsageError:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return UsageError(f"ClientConfig: {where}: {first['msg'].removeprefix('Value error, ')}")
