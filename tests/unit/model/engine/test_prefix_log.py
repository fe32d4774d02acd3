"""The log of a prefix tree: what a reader gets, and that it may read while the engine writes."""

import threading

from sandlot.core.tokens import packed_ids, unpacked_ids
from sandlot.model.engine.prefix_log import DroppedAll, DroppedBlock, PrefixLog, StoredBlock


def stored(name: int, parent: int | None, token: int) -> StoredBlock:
    return StoredBlock(name, parent, packed_ids([token]))


def test_a_reader_gets_what_came_after_the_number_it_has():
    log = PrefixLog(16)
    log.store(5, None, packed_ids([1]))
    log.store(9, 5, packed_ids([2]))
    assert log.read(log.stream, 0).changes == [stored(1, None, 1), stored(2, 1, 2)]
    log.remove(9)
    log.store(9, 5, packed_ids([3]))  # the pool uses a block again; it has another name
    reply = log.read(log.stream, 2)
    assert (reply.after, reply.sequence) == (2, 4)
    assert reply.changes == [DroppedBlock(2), stored(3, 1, 3)]
    assert log.read(log.stream, 4).changes == []
    log.clear()
    assert log.read(log.stream, 4).changes == [DroppedAll()]


def test_another_stream_a_number_of_the_future_and_forgotten_changes_get_a_snapshot():
    log = PrefixLog(16, most_changes=2)
    for block in range(3):
        log.store(block, None, packed_ids([block]))
    log.remove(1)
    for stream, after in (("other", 4), ("", 0), (log.stream, 5), (log.stream, 10**15), (log.stream, 1)):
        reply = log.read(stream, after)
        assert (reply.after, reply.sequence) == (None, 4)
        assert reply.changes == [stored(1, None, 0), stored(3, None, 2)]
    assert log.read(log.stream, 2).after == 2
    assert PrefixLog(16).stream != log.stream


def test_it_is_read_by_one_thread_while_another_writes():
    log = PrefixLog(16, most_changes=50)

    def write() -> None:
        for number in range(20_000):
            if number >= 10:
                log.remove(number % 10)
            log.store(number % 10, None, packed_ids([number]))

    thread = threading.Thread(target=write)
    thread.start()
    held: dict[int, int] = {}
    after = 0
    while thread.is_alive() or after < log.read("", 0).sequence:
        reply = log.read(log.stream, after)
        if reply.after is None:
            held = {}
        for change in reply.changes:
            if isinstance(change, StoredBlock):
                held[change.name] = unpacked_ids(change.tokens)[0]
            elif isinstance(change, DroppedBlock):
                del held[change.name]
        after = reply.sequence
        assert len(held) <= 10
    thread.join()
    assert sorted(held.values()) == list(range(19_990, 20_000))
