"""What is said of the machine."""

import os

from saguaro.bench import machine


def test_facts_are_plain_and_true():
    facts = machine.machine()
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["cpu"]
    assert facts["memory"] > 1 << 30


def test_memory_keeps_to_the_control_group(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 6000 kB\n",
        "/sys/fs/cgroup/memory.max": "4096000\n",
        "/sys/fs/cgroup/memory.current": "1024000\n",
    }
    monkeypatch.setattr(machine, "_read", lambda path: files.get(str(path), ""))
    assert machine.memory() == {"total": 4096000, "available": 3072000}
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert machine.memory() == {"total": 8192000, "available": 6144000}


def test_versions_name_what_numbers_depend_on():
    found = machine.versions()
    assert found["torch"]
    assert found["saguaro"]


def test_cores_read_memory(monkeypatch):
    """Small and short here; the figure itself is `saguaro doctor`'s."""
    monkeypatch.setattr(machine, "READ_BYTES", 32 << 20)
    monkeypatch.setattr(machine, "READ_SECONDS", 0.01)
    rates = machine.read_bandwidth([machine.allowed_cores()[:1]])
    assert len(rates) == 1
    assert rates[0] > 1e8
