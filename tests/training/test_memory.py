"""Freed blocks stay with the process that asks for it."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
import torch
from saguaro.training.memory import keep_freed_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

if sys.argv[1] == "keep":
    assert keep_freed_memory()
before = resident()
block = torch.ones(64 << 20, dtype=torch.uint8)
del block
print(resident() - before)
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="the C library is not glibc")
@pytest.mark.parametrize("keep", ["keep", "give back"])
def test_a_freed_block_stays(keep):
    done = subprocess.run([sys.executable, "-c", SCRIPT, keep], capture_output=True, text=True, check=True)
    assert (int(done.stdout) > 60 << 20) == (keep == "keep")
