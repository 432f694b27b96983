"""Nobody who does not read stops whoever writes."""

import io
import logging
import os
import sys

import pytest

from saguaro.cli.serve_output import Unwaiting, log_without_waiting, say


def test_a_pipe_that_nobody_reads_costs_lines_alone():
    reading, writing = os.pipe()
    with open(writing, "w") as stream, open(reading, "rb", buffering=0) as reader:
        log = Unwaiting(stream)
        for number in range(100):
            log.write(f"{number} " + "é" * 3000 + "\n")  # far more than a pipe holds
        held = reader.read(1 << 20)
        assert held.startswith(b"0 ")
        assert len(held) <= 1 << 16
        log.write("read again\n")
        assert reader.read(1 << 20).endswith(b"read again\n")


def test_the_log_goes_through_it(monkeypatch):
    reading, writing = os.pipe()
    with open(writing, "w") as stream, open(reading, "rb", buffering=0) as reader:
        monkeypatch.setattr(sys, "stderr", stream)
        handler = logging.StreamHandler(stream)
        monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
        log_without_waiting()
        for _ in range(100):
            logging.getLogger("saguaro.server").error("x" * 3000)
        assert reader.read(1 << 20).startswith(b"xxx")


def test_what_has_no_descriptor_is_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    handler = logging.StreamHandler(sys.stderr)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    log_without_waiting()
    assert handler.stream is sys.stderr
    with pytest.raises(io.UnsupportedOperation):
        Unwaiting(sys.stderr)


def test_a_full_disk_takes_the_line(monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        say("nobody hears it")
        say("nor this")
