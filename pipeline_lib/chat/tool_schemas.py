"""The tools that a conversation was offered: JSON schemas, as OpenAI writes them. Pure."""

from collections.abc import Mapping
from typing import Any

from pipeline_lib.chat.json_values import checked_json, from_json, has_nulls, without_nulls
from pipeline_lib.chat.reject import Reject
from pipeline_lib.chat.turn_fields import blank
from pipeline_lib.records import JsonObject

NULLS = "nulls of tool schemas left out"


def read_tools(tools: Any, notes: dict[str, None]) -> list[JsonObject] | None:
    """The tools of a row, ``{"type": "function", "function": {...}}``; None if it has none.

    They may be a list, one tool, or JSON in a text. The bare schema of a function is wrapped. Keys
    with null are left out, with a note, because columnar files fill schemas with nulls; what is
    JSON in a text stays as it is. ``Reject`` for anything else.
    """
    if blank(tools):
        return None
    if isinstance(tools, str | bytes):
        return checked_tools(_listed(from_json(tools, "tools are text that is not JSON")))
    return checked_tools([_read_tool(tool, notes) for tool in _listed(tools)])


def checked_tools(tools: Any) -> list[JsonObject] | None:
    """The tools, with their nulls; None for an empty list; ``Reject`` if they are not usable."""
    if tools is None:
        return None
    if not isinstance(tools, list | tuple):
        raise Reject(f"tools are not a list ({type(tools).__name__})")
    return [_checked_tool(tool) for tool in tools] or None


def _listed(tools: Any) -> list[Any]:
    if isinstance(tools, Mapping):
        return [tools]
    if not hasattr(tools, "__iter__"):
        raise Reject(f"tools are not a list ({type(tools).__name__})")
    return [tool for tool in tools if not blank(tool)]


def _read_tool(tool: Any, notes: dict[str, None]) -> Any:
    if isinstance(tool, str | bytes):
        return from_json(tool, "a tool is text that is not JSON")
    if has_nulls(tool):
        notes[NULLS] = None
        return without_nulls(tool)
    return tool


def _checked_tool(tool: Any) -> JsonObject:
    if not isinstance(tool, Mapping):
        raise Reject(f"a tool is not an object ({type(tool).__name__})")
    found: JsonObject = checked_json(tool, "the schema of a tool")
    kind = found.get("type")
    if kind not in (None, "function"):
        raise Reject(f"a tool of the type {str(kind)[:20]!r} is not read")
    if "input_schema" in found:
        raise Reject("tools are not read in this form ('input_schema')")
    wrapped = "function" in found
    schema = found["function"] if wrapped else {k: v for k, v in found.items() if k != "type"}
    if not isinstance(schema, dict) or not isinstance(schema.get("name"), str):
        raise Reject("a tool without a name")
    if not wrapped:
        return {"type": "function", "function": schema}
    return found if kind else {"type": "function"} | {**found, "type": "function"}
