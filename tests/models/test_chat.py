"""Chat templates: the rules that templates rely on, and messages brought into one form (traps 14 to 18)."""

from datetime import datetime

import pytest

from saguaro.errors import RequestRefused, WeightsError
from saguaro.models.chat import ChatTemplate, gguf_templates, normalise

ROLES = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"


def render(source, messages=({"role": "user", "content": "x"},), **options):
    return ChatTemplate(source).render(list(messages), **options)


def test_json_is_plain():
    tools = [{"b": "<a> & 'é'", "a": [1, True, None]}]
    assert render("{{ tools | tojson }}", tools=tools) == '[{"b": "<a> & \'é\'", "a": [1, true, null]}]'
    assert render("{{ tools[0] | tojson(indent=4) }}", tools=tools).startswith('{\n    "b": "<a>')


def test_blocks_leave_no_lines_behind():
    assert render("a\n    {% if true %}\nb\n    {% endif %}\nc") == "a\nb\nc"


def test_loops_may_break_and_marks_for_training_do_nothing():
    source = "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.content }}{% endfor %}"
    assert render(source, [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]) == "a"
    assert render("a{% generation %}{{ messages[0].content }}{% endgeneration %}b") == "axb"


def test_the_clock_is_given():
    source = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"
    assert render(source, clock=lambda: datetime(2024, 7, 6)) == "06 Jul 2024"


def test_a_template_can_refuse():
    with pytest.raises(RequestRefused, match="only one system message"):
        render("{{ raise_exception('only one system message') }}")


def test_what_a_template_cannot_do():
    with pytest.raises(RequestRefused):
        render("{{ messages.append(1) }}")
    with pytest.raises(RequestRefused):
        render("{{ ''.__class__.__mro__ }}{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(WeightsError, match="damaged"):
        ChatTemplate("{% if %}")


def test_a_template_that_crashes_is_a_refusal_and_not_a_crash():
    with pytest.raises(RequestRefused, match="cannot render"):
        render("{{ 'a' + 1 }}")


def test_variables_pass_through():
    source = "{{ bos_token }}{{ enable_thinking }}{{ add_generation_prompt }}"
    template = ChatTemplate(source, bos_text="<s>")
    messages = [{"role": "user", "content": "x"}]
    assert template.render(messages, enable_thinking=False) == "<s>FalseTrue"
    assert template.render(messages, enable_thinking=True, add_generation_prompt=False) == "<s>TrueFalse"


def test_an_empty_list_of_tools_is_none():
    assert render("{{ tools is none }}", tools=[]) == "True"


def test_developer_speaks_as_system():
    assert render(ROLES, [{"role": "developer", "content": "be brief"}]) == "[system:be brief]"


@pytest.mark.parametrize(
    "content", [None, "", [], [{"type": "text", "text": ""}]], ids=["null", "empty", "no parts", "empty part"]
)
def test_missing_content_is_empty(content):
    assert render(ROLES, [{"role": "assistant", "content": content, "tool_calls": None}]) == "[assistant:]"


def test_absent_content_is_empty():
    assert normalise({"role": "assistant"}) == {"role": "assistant", "content": ""}


def test_parts_are_joined_and_other_parts_refused():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert render(ROLES, [{"role": "user", "content": parts}]) == "[user:a\nb]"
    with pytest.raises(RequestRefused, match="image_url"):
        render(ROLES, [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])
    with pytest.raises(RequestRefused, match="str"):
        render(ROLES, [{"role": "user", "content": ["a"]}])


def test_null_keys_are_dropped_everywhere():
    call = {"id": None, "function": {"name": "f", "arguments": "{}", "strict": None}}
    clean = normalise({"role": "assistant", "content": None, "name": None, "tool_calls": [call], "refusal": None})
    assert clean == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
    }
    assert "tool_calls" not in normalise({"role": "assistant", "content": "x", "tool_calls": None})
    assert "tool_calls" not in normalise({"role": "assistant", "content": "x", "tool_calls": []})


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ('{"city": "Köln <3"}', '{"city": "Köln <3"}'),
        ({"city": "Köln <3"}, '{"city": "Köln <3"}'),
        ("not json", '"not json"'),
        ("[1]", '"[1]"'),
    ],
)
def test_arguments_are_objects_for_the_template(given, seen):
    message = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": given}}]}
    assert render("{{ messages[0].tool_calls[0].function.arguments | tojson }}", [message]) == seen


def test_messages_are_not_changed():
    call = {"function": {"name": "f", "arguments": "{}"}}
    message = {"role": "developer", "content": None, "tool_calls": [call]}
    normalise(message)
    assert message == {"role": "developer", "content": None, "tool_calls": [call]}
    assert call["function"]["arguments"] == "{}"


@pytest.mark.parametrize("messages", [[], [{"content": "x"}], ["x"], [{"role": 3, "content": "x"}]])
def test_messages_without_form_are_refused(messages):
    with pytest.raises(RequestRefused):
        render(ROLES, messages)


def test_templates_of_a_gguf():
    keys = {"tokenizer.chat_template": "A", "tokenizer.chat_template.tool_use": "B", "tokenizer.chat_templates": ["x"]}
    assert gguf_templates(keys) == {"default": "A", "tool_use": "B"}
