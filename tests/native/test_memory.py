"""Aligned memory that lives as long as a tensor on it, and 32-bit words shared between processes."""

import gc
import mmap
import os
import subprocess
import sys

import pytest
import torch

from saguaro.native import allocate, spin_while_u32, store_release_u32


@pytest.mark.parametrize("size", [0, 1, 63, 4096, (1 << 20) - 1, 1 << 20, 5_000_001])
def test_memory_is_zeroed_aligned_and_writable(size):
    tensor = allocate(size)
    assert tensor.numel() == size
    assert tensor.data_ptr() % (1 << 21 if size >= 1 << 20 else 64) == 0 or size == 0
    assert not tensor.any()
    tensor.fill_(255)
    assert int(tensor.sum(dtype=torch.int64)) == 255 * size


def test_views_keep_memory_alive():
    views = [allocate(1 << 21)[100:200] for _ in range(5)]
    for number, view in enumerate(views):
        view.fill_(number)
    gc.collect()
    assert [int(view[50]) for view in views] == [0, 1, 2, 3, 4]


def test_memory_is_given_back():
    def resident_pages():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    allocate(64 << 20).fill_(1)
    gc.collect()
    before = resident_pages()
    for _ in range(4):
        allocate(64 << 20).fill_(1)
    gc.collect()
    assert (resident_pages() - before) * 4096 < 64 << 20


ANSWER = """
import mmap, os, sys, torch
from saguaro.native import load_acquire_u32, pause, store_release_u32
with open(sys.argv[1], "r+b") as file:
    word = torch.frombuffer(mmap.mmap(file.fileno(), 4096), dtype=torch.int32)
address = word.data_ptr()
for number in range(1, 10):
    while load_acquire_u32(address) != 2 * number - 1:
        pause()
        os.sched_yield()
    word[17] = int(word[16]) * number
    store_release_u32(address, 2 * number)
"""


@pytest.mark.processes
def test_words_hand_over_what_was_written_before(tmp_path):
    """Two processes on one mapped file take turns; whoever sees the word also sees what was written before it."""
    path = tmp_path / "shared"
    path.write_bytes(bytes(4096))
    with open(path, "r+b") as file:
        word = torch.frombuffer(mmap.mmap(file.fileno(), 4096), dtype=torch.int32)
    process = subprocess.Popen([sys.executable, "-c", ANSWER, str(path)])
    try:
        address = word.data_ptr()
        for number in range(1, 10):
            word[16] = number
            store_release_u32(address, 2 * number - 1)
            while spin_while_u32(address, 2 * number - 1, spins=1000) != 2 * number:
                os.sched_yield()
                assert process.poll() is None
            assert int(word[17]) == number * number
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


def test_spinning_ends():
    word = torch.zeros(16, dtype=torch.int32)
    assert spin_while_u32(word.data_ptr(), 0, spins=10) == 0
    word[0] = -1
    assert spin_while_u32(word.data_ptr(), 0) == 2**32 - 1
