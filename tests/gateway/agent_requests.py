"""What real agents send with their default settings, by hand and in short: the fields and shapes, not the words."""

from typing import Any

CACHED = {"type": "ephemeral"}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
PATCH = "*** Begin Patch\n*** Add File: p.txt\n+x\n*** End Patch\n"

CLAUDE_CODE: dict[str, Any] = {
    "model": "m",
    "system": [
        {"type": "text", "text": "billing"},
        {"type": "text", "text": "You are an agent.", "cache_control": CACHED},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>"}, {"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "tool_use_id": "t1",
                    "type": "tool_result",
                    "content": "x.txt",
                    "is_error": False,
                    "cache_control": CACHED,
                }
            ],
        },
    ],
    "tools": [
        {"name": "Bash", "description": "run", "input_schema": SCHEMA},
        {"name": "DeferredToolPlaceholder", "description": "later", "input_schema": SCHEMA, "defer_loading": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
    "metadata": {"user_id": '{"device_id":"' + "0" * 64 + '"}'},
    "max_tokens": 64000,
    "thinking": {"type": "adaptive", "display": "updates"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "stream": True,
}

_CODEX: dict[str, Any] = {
    "model": "m",
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "01a1",
    "client_metadata": {"session_id": "01a1"},
    "text": {"verbosity": "low"},
}
_SAID = [
    {"type": "message", "id": "msg_1", "role": "developer", "content": [{"type": "input_text", "text": "Be Codex."}]},
    {"type": "message", "id": "msg_2", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
        "encrypted_content": None,
    },
    {
        "type": "message",
        "status": "completed",
        "id": "msg_3",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
    },
    {"type": "function_call", "status": "completed", "id": "fc_1", "name": "run", "arguments": "{}", "call_id": "c1"},
    {"type": "function_call_output", "id": "fco_1", "call_id": "c1", "output": "Chunk ID: 5c18f4\nx.txt"},
]
_RUN = {"type": "function", "name": "run", "description": "run", "strict": False, "parameters": SCHEMA}
_GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: hunk+"}
_PATCHING = {"type": "custom", "name": "apply_patch", "description": "patch", "format": _GRAMMAR}

CODEX: dict[str, Any] = {
    **_CODEX,
    "input": [
        *_SAID,
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "apply_patch", "input": PATCH},
        {"type": "custom_tool_call_output", "id": "cto_1", "call_id": "c2", "output": "Success."},
    ],
    "tools": [
        _RUN,
        _PATCHING,
        {"type": "namespace", "name": "multi_agent_v1", "description": "", "tools": [_RUN]},
        {"type": "web_search", "external_web_access": True},
    ],
}
CODEX_ADDING_TOOLS: dict[str, Any] = {
    **_CODEX,
    "input": [
        {
            "type": "additional_tools",
            "id": "at_1",
            "role": "developer",
            "tools": [
                {"type": "namespace", "name": "functions", "description": "", "tools": [_PATCHING, _RUN]},
                {"type": "namespace", "name": "clock", "description": "", "tools": [_RUN]},
            ],
        },
        *_SAID,
    ],
}

KIMI: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be Kimi."},
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "x.txt"},
    ],
    "tools": [{"type": "function", "function": {"name": "run", "parameters": SCHEMA}}],
    "reasoning_effort": "high",
    "max_tokens": 9,
    "stream": True,
    "stream_options": {"include_usage": True},
    "prompt_cache_key": "k",
}
