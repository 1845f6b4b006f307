"""An evaluation that is ready to run: what the options of `seatrial eval` mean, once the environment is loaded."""

import importlib
import importlib.util
import os
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import tomli

from seatrial.cli.eval_options import LATEST
from seatrial.env.client import ClientConfig
from seatrial.env.environment import Environment
from seatrial.env.loading import Loader, blaming_module, find_environment, read_project
from seatrial.env.saving import RESULTS, ROLLOUTS, read_metadata
from seatrial.errors import JobError, UsageError
from seatrial.jobs.api import new_job_folder
from seatrial.model.outcome import format_reward
from seatrial.store.files import JOB
from seatrial.untrusted.json import mapping

_USUAL_MODEL = "gpt-4.1-mini"
# The address of each, and the variable that its key is in.
_PROVIDERS: Mapping[str, tuple[str, str]] = {
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
_Options = Mapping[str, Any]
USUAL_EXAMPLES, USUAL_ROLLOUTS = 5, 3
_USUAL_FOLDER = Path("environments")
_OUTPUTS = Path("outputs/evals")
_MUST_AGREE = ("env_id", "env_args", "model", "sampling_args", "shuffle", "shuffle_seed")


@dataclass(frozen=True, slots=True)
class _ModelAsked:
    """A model by the name its server knows it by, and the client to ask it through."""

    name: str
    client: ClientConfig | str

    @property
    def address(self) -> str:
        """Where it is, for those who read the results."""
        return self.client if isinstance(self.client, str) else self.client.base_url


def model_asked(options: Mapping[str, Any], environ: Mapping[str, str]) -> _ModelAsked:
    """The model that the options ask for. Raises UsageError for options that contradict each other."""
    name: str = options["model"] or _USUAL_MODEL
    upstream, provider = options["upstream"], options["provider"]
    address, key = options["base_url"], options["key_var"]
    if upstream is not None:
        if address or key or provider or options["headers"]:
            raise UsageError("--upstream says where the model is: leave out -b, -k, --provider and --header")
        return _ModelAsked(name, upstream)
    endpoint = {} if provider or address else _endpoint(name, options["endpoints_path"])
    if provider == "anthropic" and not address:
        return _ModelAsked(name, f"anthropic,key={key}" if key else "anthropic")
    if provider is not None:
        known_address, known_key = _provider(provider)
        address = address or known_address
        key = key or (None if provider in _WITHOUT_KEY and known_key not in environ else known_key)
    values = {"base_url": address or endpoint.get("url"), "api_key_var": key or endpoint.get("key")}
    given = {option: value for option, value in values.items() if value is not None}
    client = ClientConfig(**given, extra_headers=options["headers"])
    return _ModelAsked(str(endpoint.get("model", name)), client)


def sampling_asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling arguments: those of the JSON object first, then those that have options of their own."""
    own = {"max_tokens": options["max_tokens"], "temperature": options["temperature"]}
    return {**{name: value for name, value in own.items() if value is not None}, **options["sampling_args"]}


def _provider(name: str) -> tuple[str, str]:
    if name not in _PROVIDERS:
        raise UsageError(f"there is no provider {name!r}; there are: {', '.join(_PROVIDERS)}. Others by -b URL -k NAME")
    return _PROVIDERS[name]


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


@dataclass(frozen=True, slots=True)
class PreparedEval:
    """An environment with all that `evaluate` is to be told. `home` is the folder of its module, if it has one."""

    environment: Environment
    model: _ModelAsked
    sampling_args: Mapping[str, Any]
    num_examples: int
    rollouts: int
    planned: int
    seed: int | None
    folder: Path | None
    resume: bool
    settings: Mapping[str, Any]
    options: _Options
    home: Path | None = None


def prepare_eval(options: _Options) -> PreparedEval:
    """Load the environment and find out what is to be done. Raises UsageError or JobError."""
    options = _with_place(options)
    if options["resume"] is not None and not options["save"]:
        raise UsageError("--resume goes on with results that are kept: leave out --no-save-results")
    model, sampling = model_asked(options, os.environ), sampling_asked(options)
    _stand_in_for_verifiers(options["compat"])
    loader = find_environment(options["env"], [options["env_dir_path"] or _USUAL_FOLDER])
    environment = loader.load(options["env_args"])
    _set_attributes(environment, options)
    usual = _usual_numbers(loader)
    num_examples = usual[0] if options["num_examples"] is None else options["num_examples"]
    rollouts = usual[1] if options["rollouts"] is None else options["rollouts"]
    with blaming_module(loader.env_id, "its dataset cannot be loaded", loader.home):
        examples = len(environment.get_eval_dataset(num_examples))
    seed = (options["seed"] or 0) if options["shuffle"] else None
    settings = _settings_of(environment.env_id, options["env_args"], model.name, sampling, seed)
    folder, resume = _place(environment, model, settings, options)
    return PreparedEval(
        environment=environment,
        model=model,
        sampling_args=sampling,
        num_examples=num_examples,
        rollouts=rollouts,
        planned=examples * rollouts,
        seed=seed,
        folder=folder,
        resume=resume,
        settings=settings,
        options=options,
        home=loader.home,
    )


def _stand_in_for_verifiers(asked: bool | None) -> None:
    """Let `import verifiers` find our names, if that was asked for or nothing else would answer to it."""
    if asked is None:
        asked = importlib.util.find_spec("verifiers") is None
    if asked:
        importlib.import_module("seatrial.compat.verifiers").install()


def _with_place(options: _Options) -> _Options:
    """`-p` was the folder of environments in one release of verifiers and a provider in the next."""
    given = options["place_or_provider"]
    if given is None:
        return options
    return {**options, **({"provider": given} if given in _PROVIDERS else {"env_dir_path": Path(given)})}


def _set_attributes(environment: Environment, options: _Options) -> None:
    values = dict(options["extra_env_kwargs"])
    if options["timeout_sec"] is not None:
        values["timeout_seconds"] = options["timeout_sec"]
    for name, value in values.items():
        if not hasattr(environment, name):
            kind = type(environment).__name__
            raise UsageError(f"-x: {kind} has no attribute {name!r}; arguments of load_environment go to -a")
        set_own = getattr(environment, f"set_{name}", None)
        if callable(set_own):
            set_own(value)
        else:
            setattr(environment, name, value)


def _usual_numbers(loader: Loader) -> tuple[int, int]:
    """How many examples and rollouts the environment's own pyproject.toml asks for."""
    tools = mapping(read_project(loader.home).get("tool")) if loader.home else {}
    found: dict[str, Any] = {}
    for name in ("verifiers", "seatrial"):
        found |= mapping(mapping(tools.get(name)).get("eval"))
    numbers = (found.get("num_examples", USUAL_EXAMPLES), found.get("rollouts_per_example", USUAL_ROLLOUTS))
    if not all(isinstance(number, int) for number in numbers):
        named = f"num_examples and rollouts_per_example are {numbers}, expected whole numbers"
        raise UsageError(f"{loader.home}/pyproject.toml: {named}")
    return numbers


def _place(
    environment: Environment, model: _ModelAsked, settings: Mapping[str, Any], options: _Options
) -> tuple[Path | None, bool]:
    if not options["save"]:
        return None, False
    folder, resume = _evaluation_folder(environment.env_id, model.name, options["output"], options["resume"])
    if resume:
        _refuse_other_settings(folder, settings)
        _warn_of_other_mark(folder, environment.pass_threshold)
    return folder, resume


def _evaluation_folder(env_id: str, model: str, output: Path | None, resume: str | None) -> tuple[Path, bool]:
    """Where results go, and whether there are some already to go on with. Raises JobError."""
    if resume is not None and resume != LATEST:
        folder = Path(resume)
        if not _has_results(folder):
            raise JobError(f"{folder}: has no evaluation to go on with; expected {ROLLOUTS} or {JOB} in it")
        return folder, True
    if output is not None:
        if _has_results(output) and resume is None:
            raise JobError(f"{output}: holds results already; go on with them by --resume {output}, or name another")
        return output, _has_results(output)
    runs = _OUTPUTS / f"{_plain(env_id)}--{_plain(model)}"
    latest = _latest_unfinished(runs) if resume == LATEST else None
    return (latest, True) if latest is not None else (new_job_folder(runs), False)


def _settings_of(
    env_id: str, env_args: Mapping[str, Any], model: str, sampling: Mapping[str, Any], seed: int | None
) -> dict[str, Any]:
    """What must be the same for rollouts to be those of one evaluation."""
    return {
        "env_id": env_id,
        "env_args": dict(env_args),
        "model": model,
        "sampling_args": dict(sampling),
        "shuffle": seed is not None,
        "shuffle_seed": seed,
    }


def _refuse_other_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Raise JobError that lists how an evaluation to go on with differs from the one that is asked for."""
    stored = read_metadata(folder)
    different = [name for name in _MUST_AGREE if name in stored and stored[name] != settings[name]]
    if different:
        listed = "; ".join(f"{name} was {stored[name]!r} and is {settings[name]!r}" for name in different)
        raise JobError(f"{folder}: is another evaluation: {listed}. Give the same options, or another folder")


def _warn_of_other_mark(folder: Path, mark: float) -> None:
    before = read_metadata(folder).get("pass_threshold")
    if isinstance(before, float) and before != mark:
        click.echo(
            f"Warning: {folder}: rollouts passed from {format_reward(before)} on when this evaluation began, "
            f"and pass from {format_reward(mark)} on now; all of them are counted so",
            err=True,
        )


def _has_results(folder: Path) -> bool:
    return any((folder / name).exists() for name in (JOB, ROLLOUTS, RESULTS))


def _latest_unfinished(runs: Path) -> Path | None:
    found = [path for path in runs.glob("*") if _has_results(path)] if runs.is_dir() else []
    unfinished = [path for path in found if read_metadata(path).get("status") != "complete"]
    return max(unfinished, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def _plain(name: str) -> str:
    return name.replace("/", "--")
