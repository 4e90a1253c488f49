import pytest

from shoal.tasks.generate.calls import read_call, read_head
from shoal.wire.objects import ToolCall
from tests.tasks.generate.test_tagged import ULM, WRITTEN


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (WRITTEN, ULM),
        ('{"name": "weather", "parameters": {"city": "Ulm"}}', ULM),
        ('{"arguments": "{\\"a\\": 1}", "name": "f"}', ToolCall("f", '{"a": 1}')),
        ('{"name": "f"}', ToolCall("f", "{}")),
        (
            '{"name": "f", "arguments": {"a":1.0,  "b":"\\u00fc"}}',
            ToolCall("f", '{"a":1.0,  "b":"\\u00fc"}'),
        ),
        ('{"name": "f", "arguments": [1]}', None),
        ('{"name": "f", "arguments": "no"}', None),
        ('{"name": 1}', None),
        ("{'name': 'f'}", None),
        ("[1]", None),
        ("", None),
    ],
)
def test_a_call_is_json_with_a_name(text: str, call: ToolCall | None) -> None:
    assert read_call(text) == call


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('\n{"name": "f", "arguments": {"a"', "f"),
        ('{"name":"\\u00fc\\"","parameters":{', 'ü"'),
        ('{"name": "f", "arguments":', None),
        ('{"name": "f", "arguments": "{', None),
        ('{"arguments": {}, "name": "f"}', None),
        ('{"name": "\\x", "arguments": {', None),
        ('{"name": "\\ud800", "arguments": {', None),
        ('{"name": "f\n", "arguments": {', None),
        ('{"name": "' + "f" * 257 + '", "arguments": {', None),
    ],
)
def test_a_head_is_a_call_up_to_where_its_arguments_begin(text: str, name: str | None) -> None:
    found = read_head(text)
    assert (found and found.name) == name
    if found is not None:
        assert text[found.end] == "{"
        assert read_head(text[: found.end]) is None
