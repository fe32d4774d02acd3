"""Frames of workers, whatever pieces they arrive in."""

import pytest

from sandlot.audit.subjects.worker_process import GarbledFrame, WorkerFrames, frame


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_frames_are_cut_out_of_any_pieces(piece: int):
    data = b"".join(map(frame, (b"", b"one", b"x" * 500)))
    frames, found = WorkerFrames(500), []
    for start in range(0, len(data), piece):
        frames.feed(data[start : start + piece])
        while (body := frames.next()) is not None:
            found.append(body)
    assert found == [b"", b"one", b"x" * 500]


def test_a_frame_that_is_too_long_is_refused_before_it_has_arrived():
    frames = WorkerFrames(10)
    frames.feed(frame(b"x" * 11)[:4])
    with pytest.raises(GarbledFrame, match="a frame of 11 bytes; at most 10"):
        frames.next()
