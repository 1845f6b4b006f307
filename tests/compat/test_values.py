from seatrial.compat.values import Endpoint, Tool

FUNCTION = {"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}


def test_a_tool_is_what_chat_completions_take():
    tool = Tool(**FUNCTION, strict=True)
    assert tool == {"type": "function", "function": {**FUNCTION, "strict": True}}
    assert (tool.name, tool.description, tool["strict"]) == ("add", "Adds.", True)
    assert tool == Tool({"type": "function", "function": {**FUNCTION, "strict": True}})


def test_small_tables_have_attributes():
    endpoint = Endpoint(model="m", url="u")
    assert (endpoint.model, endpoint["url"]) == ("m", "u")
