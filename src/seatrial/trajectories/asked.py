"""What a request asks for beside its messages: tools, and how hard the model is to think."""

from typing import Any

from seatrial.model.trace import ModelCall

Definition = dict[str, Any]


def read_tools(request: Any) -> list[Definition]:
    """The definitions of tools in the form of chat completions, which others read; those of a provider as they are."""
    tools = request.get("tools") if isinstance(request, dict) else None
    return [defined for tool in (tools if isinstance(tools, list) else []) for defined in _definitions(tool)]


def tool_name(definition: Definition) -> str:
    """The name of a tool, or what kind of thing it is."""
    match definition:
        case {"function": {"name": str() as name}} | {"name": str() as name} | {"type": str() as name}:
            return name
    return next(iter(definition), "tool")


def read_effort(request: Any) -> str | float | None:
    """How hard the model was asked to think: a word, or a number of tokens."""
    found: Any = None
    match request:
        case {"reasoning_effort": found} | {"reasoning": {"effort": found}} | {"output_config": {"effort": found}}:
            pass
        case {"thinking": {"budget_tokens": found}}:
            pass
        case {"generationConfig": {"thinkingConfig": {"thinkingLevel": found}}}:
            pass
        case {"generationConfig": {"thinkingConfig": {"thinkingBudget": found}}}:
            pass
    return found if type(found) in (str, int, float) else None


def is_answered(call: ModelCall) -> bool:
    """Whether a model answered, if only in part. The body of an error is no answer."""
    return call.response is not None and (call.status is None or call.status < 400)


def _definitions(tool: Any) -> list[Definition]:
    match tool:
        case {"functionDeclarations": list() as declared} | {"function_declarations": list() as declared}:
            return [_function(each, "parametersJsonSchema") for each in declared if isinstance(each, dict)]
        case {"type": "function", "function": dict()}:
            return [tool]
        case {"type": "function", "name": str()}:
            return [_function(tool, "parameters")]
        case {"name": str(), "input_schema": dict()}:
            return [_function(tool, "input_schema")]
        case dict():
            return [tool]
    return []


def _function(tool: Definition, schema: str) -> Definition:
    named = {name: tool[name] for name in ("name", "description") if name in tool}
    parameters = tool.get(schema, tool.get("parameters"))
    return {"type": "function", "function": {**named, **({} if parameters is None else {"parameters": parameters})}}
