"""Which model an evaluation asks, and where: by address, by a provider's name, by an upstream, or from a file of
endpoints such as `vf-eval` reads.
"""

import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from seatrial.env.client_config import ClientConfig
from seatrial.errors import UsageError

USUAL_MODEL = "gpt-4.1-mini"

# The address of each, and the variable that its key is in.
PROVIDERS: Mapping[str, tuple[str, str]] = {
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "glm": ("https://open.bigmodel.cn/api/paas/v4", "GLM_API_KEY"),
    "local": ("http://localhost:8000/v1", "VLLM_API_KEY"),
    "minimax": ("https://api.minimax.chat/v1", "MINIMAX_API_KEY"),
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "prime": ("https://api.pinference.ai/api/v1", "PRIME_API_KEY"),
    "vllm": ("http://localhost:8000/v1", "VLLM_API_KEY"),
}
_WITHOUT_KEY = ("local", "vllm")
_USUAL_FILES = (Path("configs/endpoints.toml"), Path("configs/endpoints.py"))


@dataclass(frozen=True, slots=True)
class ModelAsked:
    """A model by the name its server knows it by, and the client to ask it through."""

    name: str
    client: ClientConfig | str

    @property
    def address(self) -> str:
        """Where it is, for those who read the results."""
        return self.client if isinstance(self.client, str) else self.client.base_url


def model_asked(options: Mapping[str, Any], environ: Mapping[str, str]) -> ModelAsked:
    """The model that the options ask for. Raises UsageError for options that contradict each other."""
    name: str = options["model"] or USUAL_MODEL
    upstream, provider = options["upstream"], options["provider"]
    address, key = options["base_url"], options["key_var"]
    if upstream is not None:
        if address or key or provider or options["headers"]:
            raise UsageError("--upstream says where the model is: leave out -b, -k, --provider and --header")
        return ModelAsked(name, upstream)
    endpoint = {} if provider or address else _endpoint(name, options["endpoints_path"])
    if provider == "anthropic" and not address:
        return ModelAsked(name, f"anthropic,key={key}" if key else "anthropic")
    if provider is not None:
        known_address, known_key = _provider(provider)
        address = address or known_address
        key = key or (None if provider in _WITHOUT_KEY and known_key not in environ else known_key)
    values = {"base_url": address or endpoint.get("url"), "api_key_var": key or endpoint.get("key")}
    given = {option: value for option, value in values.items() if value is not None}
    client = ClientConfig(**given, extra_headers=options["headers"])
    return ModelAsked(str(endpoint.get("model", name)), client)


def sampling_asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling arguments: those of the JSON object first, then those that have options of their own."""
    own = {"max_tokens": options["max_tokens"], "temperature": options["temperature"]}
    return {**{name: value for name, value in own.items() if value is not None}, **options["sampling_args"]}


def _provider(name: str) -> tuple[str, str]:
    if name not in PROVIDERS:
        raise UsageError(f"there is no provider {name!r}; there are: {', '.join(PROVIDERS)}. Others by -b URL -k NAME")
    return PROVIDERS[name]


def _endpoint(name: str, file: Path | None) -> dict[str, Any]:
    """What a file of endpoints says of a model; nothing where it is in none."""
    found = [file] if file is not None else [path for path in _USUAL_FILES if path.is_file()]
    tables = _read_endpoints(found[0]) if found else {}
    return tables.get(name, {})


def _read_endpoints(file: Path) -> dict[str, dict[str, Any]]:
    """Models by the names a file gives them. Raises UsageError for a file that is none."""
    path = file / "endpoints.toml" if file.is_dir() else file
    try:
        if path.suffix == ".py":
            named = runpy.run_path(str(path))["ENDPOINTS"].items()
        else:
            listed = tomli.loads(path.read_text(encoding="utf-8"))["endpoint"]
            named = [(each["endpoint_id"], each) for each in listed]
        return {str(name): dict(_checked(each)) for name, each in named}
    except Exception as error:  # a program of the user's own may fail in any way
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path}: cannot be read as a file of endpoints ({what}); see docs/eval.md") from error


def _checked(endpoint: Any) -> Mapping[str, Any]:
    missing = [name for name in ("model", "url", "key") if not isinstance(endpoint[name], str)]
    if missing:
        raise ValueError(f"{missing[0]} is no text")
    table: Mapping[str, Any] = endpoint
    return table
