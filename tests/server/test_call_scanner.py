"""One call as JSON: arguments go out as they come, once it is certain that it is a call."""

from saguaro.server.parsers.call_scanner import CallScanner


def test_arguments_come_while_the_object_is_open():
    scanner = CallScanner()
    assert (scanner.push('{"name": "f", "argu'), scanner.name) == ("", None)
    assert (scanner.push('ments": {"a": "x'), scanner.name) == ('{"a": "x', "f")
    assert scanner.push('}"}') == '}"}'
    assert not scanner.done
    assert scanner.push("} tail") == ""
    assert (scanner.done, scanner.rest) == (True, " tail")


def test_arguments_wait_for_the_name():
    scanner = CallScanner()
    assert scanner.push('{"parameters": {"a": 1}, ') == ""
    assert scanner.push('"name": "f"}') == '{"a": 1}'
    assert scanner.name == "f"


def test_what_is_no_call_is_given_back_whole():
    scanner = CallScanner({"f"})
    scanner.push('{"name"')
    scanner.push(': "g", "arguments"')
    assert (scanner.broken, scanner.seen + scanner.rest) == (True, '{"name": "g", "arguments"')


def test_an_escaped_name():
    scanner = CallScanner()
    scanner.push('{"na\\u006de": "\\u0066", "arguments": {}}')
    assert (scanner.name, scanner.done) == ("f", True)


def test_an_object_with_other_keys_is_given_back_at_once():
    scanner = CallScanner({"f"})
    scanner.push('{"city": "Rome')
    assert (scanner.broken, scanner.seen + scanner.rest) == (True, '{"city": "Rome')
