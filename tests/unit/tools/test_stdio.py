from hypothesis import given, settings
from hypothesis import strategies as st

from sandlot.tools.stdio import LineSplitter, OutputLine, ServerNotes


@settings(deadline=None)
@given(st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"\n")), max_size=8))
def test_lines_come_out_as_if_all_had_been_split_at_once(chunks: list[bytes]):
    splitter = LineSplitter(max_bytes=1000)
    lines = [line.whole for chunk in chunks for line in splitter.feed(chunk)]
    assert lines == b"".join(chunks).split(b"\n")[:-1]


@settings(deadline=None)
@given(st.integers(0, 3000), st.integers(1, 700))
def test_a_line_over_the_cap_keeps_only_its_ends(size: int, chunk: int):
    data = bytes(n % 251 + 1 if n % 251 != 9 else 1 for n in range(size))
    splitter = LineSplitter(max_bytes=1000)
    lines = [line for start in range(0, size, chunk) for line in splitter.feed(data[start : start + chunk])]
    (line,) = lines + splitter.feed(b"\n")
    assert line.size == size
    assert line.whole == (data if size <= 1000 else None)
    assert line.tail == data[-256:]
    assert line.head[:256] == data[:256]
    assert (len(line.head) <= 256) == (size > 1000 or size <= 256)


def test_the_request_is_found_at_either_end_of_a_line():
    def request(text: bytes) -> int | None:
        return OutputLine(text, text[-256:], len(text)).request

    assert request(b'{"jsonrpc":"2.0","id":7,"result":{}}') == 7
    assert request(b'{"id": 7, "jsonrpc": "2.0", "result": {}}') == 7
    assert request(b'{"result":{"text":"x"},"jsonrpc":"2.0","id":7}') == 7
    assert request(b'{"result":{"text":"x"},"id":7,"jsonrpc":"2.0"}') == 7
    assert request(b'{"result":{"text":"\\"id\\":7}"}}') is None
    assert request(b"Server starting") is None


def test_secrets_are_blotted_out():
    notes = ServerNotes(secrets=("sk-1",), stderr=b"key sk-1", trouble="sk-1 died")
    assert notes.summary() == "[redacted] died; it wrote: key [redacted]"
