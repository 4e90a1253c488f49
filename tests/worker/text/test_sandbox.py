import time

import pytest

from shoal.errors import InvalidItem
from shoal.tasks.generate.conversation import Conversation
from shoal.worker.text.sandbox import MOST_S
from shoal.worker.text.template import ChatTemplate

CHAT = Conversation([{"role": "user", "content": "hi"}])

ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(90) }}",
    "{% for a in [[1], [1]] recursive %}{{ loop([a, a]) }}{% endfor %}",
]
HUGE = [
    "{{ 'x' * 999999999 }}",
    "{{ 999999999 * ['x'] }}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}{% set n.a = n.a + n.a %}{% endfor %}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}{% set n.a = n.a ~ n.a %}{% endfor %}",
    "{% set n = namespace(a='xx') %}{% for i in range(40) %}"
    "{% set n.a = n.a.replace('x', n.a) %}{% endfor %}",
    "{% set n = namespace(a='xx') %}{% for i in range(40) %}"
    "{% set n.a = n.a | replace('x', n.a) %}{% endfor %}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}"
    "{% set n.a = [n.a, n.a] | join(n.a) %}{% endfor %}",
    "{% set n = namespace(a='x') %}{% for i in range(40) %}"
    "{% set n.a = n.a.join([n.a, n.a]) %}{% endfor %}",
    "{{ '%999999999d' % 1 }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%999999999d' | format(1) }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ '{:{}}'.format(1, 999999999) }}",
    "{{ 'x'.ljust(999999999) }}",
    "{{ 'x' | center(999999999) }}",
    "{{ 'a\nb' | indent(999999999) }}",
    "{{ [1] | tojson(indent=999999999) }}",
    "{{ 9 ** (9 ** 9) }}",
    "{% for a in range(9999) %}{{ 'x' * 9999 }}{% endfor %}",
    "{% set n = namespace(a='x') %}{% for i in range(60) %}"
    "{% set n.a %}{{ n.a }}{{ n.a }}{% endset %}{% endfor %}",
    "{% macro f(a) %}{% for i in range(99999) %}{{ a }}{% endfor %}{% endmacro %}{{ f('x' * 9999) }}",
    "{% set a %}{% for i in range(99999) %}" + "x" * 9999 + "{% endfor %}{% endset %}",
    # Lists in lists: each is short, and all that is in it is not.
    *(
        "{% set n = namespace(a=['x']) %}{% for i in range(40) %}{% set n.a = " + made + " %}"
        "{% endfor %}{{ n.a == n.a }}"
        for made in (
            "[n.a, n.a]",
            "(n.a, n.a)",
            "{'a': n.a, 'b': n.a}",
            "[n.a] * 2",
            "dict(a=n.a, b=n.a)",
        )
    ),
    "{{ [['x' * 9999] * 9999] }}",
    "{{ [['x' * 9999] * 9999] | tojson }}",
    "{{ raise_exception([['x' * 9999] * 9999]) }}",
    "{{ range(9999) | map('replace', '1', 'x' * 9999999) | list }}",
    "{{ ''.join(range(9999) | map(attribute='x', default='x' * 9999999)) }}",
    "{{ ('%(a)s' * 99999) % {'a': 'x' * 9999} }}",
    "{{ ('%(a)s' * 99999) | format(a='x' * 9999) }}",
    "{{ ('{0}' * 99999).format('x' * 9999) }}",
    "{{ ('{a}' * 99999).format_map({'a': 'x' * 9999}) }}",
    "{{ 'x'.encode() * 999999999 }}",
    "{{ (5).to_bytes(999999999, 'big') }}",
    "{{ ('x' * 99999).translate({120: 'y' * 99999}) }}",
    "{{ 'x\t'.expandtabs(999999999) }}",
    "{{ 1.5 | round(99999999, 'ceil') }}",
    "{{ [1] | batch(999999999, 'x') | list }}",
    "{{ [1] | slice(999999999) | list }}",
    "{{ lipsum(n=1, min=99999999, max=999999999) }}",
    "{{ ('x ' * 8000000) | title }}",
    "{{ ('x ' * 8000000) | wordwrap(1) }}",
    "{{ ('x\n' * 8000000) | indent(999) }}",
    "{% for a in range(99) %}{% set b = [[b or 1]] %}{% endfor %}{{ [b] * 9999999 }}",
]
FOREIGN = [
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'role': 'system'}) }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ raise_exception.__globals__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os }}",
    "{{ cycler.__init__.__globals__.os }}",
]


@pytest.mark.parametrize("source", ENDLESS)
def test_what_does_not_end_is_ended(source: str) -> None:
    template = ChatTemplate({"default": source}, {})
    start = time.thread_time()
    with pytest.raises(InvalidItem, match=r"takes longer than|recursion"):
        template.render(CHAT, [], {})
    assert time.thread_time() - start < MOST_S + 1.0


@pytest.mark.parametrize("source", HUGE)
def test_what_has_no_size_is_refused(source: str) -> None:
    template = ChatTemplate({"default": source}, {})
    start = time.thread_time()
    with pytest.raises(InvalidItem, match="refuses this conversation"):
        template.render(CHAT, [], {})
    assert time.thread_time() - start < MOST_S + 1.0


@pytest.mark.parametrize("source", FOREIGN)
def test_nothing_is_reached_or_changed(source: str) -> None:
    template = ChatTemplate({"default": "{{ messages | length }}" + source}, {})
    try:
        text = template.render(CHAT, [], {})
    except InvalidItem:
        text = "1"
    assert text == "1", "what is not there is empty"
    assert CHAT.messages == [{"role": "user", "content": "hi"}]


def test_what_templates_use_works() -> None:
    source = "{{ '-' * 3 }}{{ '%s %d' % ('a', 2) }}{{ '{} {:>4}'.format('b', 3) }}{{ [1, 2] | join('+') }}"
    source += (
        "{{ ', '.join(messages | map(attribute='role')) }}{{ [{'a': [1]}] | tojson(indent=1) }}"
    )
    source += "{{ 1.25 | round(1) }}{{ 'a b' | title }}{{ ['a'] + ['b'] }}{% set t %}c{{ 1 }}{% endset %}{{ t }}"
    text = "---a 2b    31+2user[\n {\n  \"a\": [\n   1\n  ]\n }\n]1.2A B['a', 'b']c1"
    assert ChatTemplate({"default": source}, {}).render(CHAT, [], {}) == text
