import msgspec
import pytest

from sandlot.apps.browser import tools
from sandlot.apps.browser.keyboard import key_events
from sandlot.apps.recorded import RecordedServer
from sandlot.core.errors import ToolError


@pytest.mark.parametrize("name", tools.OFFERED)
def test_a_tool_takes_the_arguments_of_the_public_server_and_no_others(name: str):
    recorded = RecordedServer.read("playwright").tool(name)
    fields = msgspec.structs.fields(tools.arguments_of(name))
    assert {field.name for field in fields} == set(recorded.input_schema["properties"])
    required = {field.name for field in fields if field.required}
    assert required == set(recorded.input_schema.get("required", ())) - {"scale"}  # it has a default
    assert tools.recorded_tool(name).parameters == recorded.input_schema


def test_left_out_are_only_tools_that_run_code_look_past_the_page_or_use_files():
    known = {tool.name for tool in RecordedServer.read("playwright").tools}
    assert known - set(tools.OFFERED) == {
        "browser_close",
        "browser_console_messages",
        "browser_drag",
        "browser_drop",
        "browser_emulate_media",
        "browser_evaluate",
        "browser_file_upload",
        "browser_network_request",
        "browser_network_requests",
        "browser_resize",
        "browser_run_code_unsafe",
    }


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "chrome://version", "view-source:http://a"]
)
def test_only_addresses_of_sites_can_be_opened(url: str):
    with pytest.raises(ToolError, match="protocol is blocked"):
        tools.checked_url(url)


@pytest.mark.parametrize(
    ("given", "opened"), [("shop.example", "http://shop.example"), ("shop.example:80/a", "http://shop.example:80/a")]
)
def test_an_address_without_a_scheme_is_http(given: str, opened: str):
    assert tools.checked_url(given) == opened


def test_a_broken_address_is_an_error_for_the_agent():
    with pytest.raises(ToolError, match="not an address"):
        tools.checked_url("http://[")


def test_keys_have_codes_text_and_modifiers():
    down, up = key_events("Enter")
    assert (down["type"], down["windowsVirtualKeyCode"], down["text"], up["type"]) == ("keyDown", 13, "\r", "keyUp")
    down, _ = key_events("Control+a")
    assert (down["modifiers"], down["commands"]) == (2, ["selectAll"])
    assert "text" not in down
    assert next(key_events("+"))["text"] == "+"
    assert next(key_events("ß"))["text"] == "ß"


@pytest.mark.parametrize("key", ["", "Entr", "Hyper+a", "Control+"])
def test_a_key_that_does_not_exist_is_refused_with_those_that_do(key: str):
    with pytest.raises(ToolError, match="ArrowLeft"):
        list(key_events(key))


@pytest.mark.parametrize(
    "regex",
    [r"(?:.|..)*\x00", "(a|b)+c", ".*.*.*.*z", "a?" * 30 + "a" * 30, "(a|a)" * 30 + "b", "(?=a)b", "a" * 201, "(?:a{1,9}){1,9}b"],
)
def test_a_regular_expression_that_could_run_for_ever_is_refused(regex: str):
    with pytest.raises(ToolError, match=r"too complex|a group that is repeated"):
        tools.find_lines(["a" * 500] * 100, None, regex)


@pytest.mark.parametrize("regex", ["[", "a{99999999999}"])
def test_what_is_not_a_regular_expression_is_refused(regex: str):
    with pytest.raises(ToolError, match="not a regular expression"):
        tools.find_lines(["a"], None, regex)


@pytest.mark.parametrize("regex", [r"total: \d+", "/TOTAL.*5/i", "(sum|total): ", "tot[ae]l|sum", r"to?tal: [(*+]?\d"])
def test_lines_are_found_by_a_regular_expression(regex: str):
    assert tools.find_lines(["- text: none", "- text: total: 15"] * 100, None, regex) == list(range(1, 200, 2))


def test_lines_are_found_by_text_in_either_case():
    assert tools.find_lines(["a (B)*", "b"], "(b)*", None) == [0]
