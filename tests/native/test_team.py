"""Teams of threads: start, many jobs, sleep and wake, use from several threads at once, refusals."""

import os
import threading
import time

import pytest
import torch

from saguaro.errors import ConfigError
from saguaro.native import Team, norm_linear, pack

LINEAR = pack(torch.randn(320, 64, generator=torch.Generator().manual_seed(1)), "int8")
X = torch.randn(5, 64, generator=torch.Generator().manual_seed(2))


def product(team=None):
    out = torch.empty(5, 320)
    norm_linear(X, None, 0.0, LINEAR, out, team=team)
    return out


def threads_of_this_process():
    """Once it does not change: a thread that was joined may be listed for a moment longer."""
    count, since = len(os.listdir("/proc/self/task")), time.monotonic()
    while time.monotonic() - since < 0.1:
        time.sleep(0.01)
        if (now := len(os.listdir("/proc/self/task"))) != count:
            count, since = now, time.monotonic()
    return count


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_team_starts_and_ends_its_threads(size):
    before = threads_of_this_process()
    team = Team([-1] * size)
    assert len(team) == size
    assert threads_of_this_process() == before + size - 1
    assert torch.equal(product(team), product())
    team.close()
    team.close()
    assert threads_of_this_process() == before


def test_a_team_that_is_dropped_ends_its_threads():
    before = threads_of_this_process()
    Team([-1, -1, -1])
    assert threads_of_this_process() == before


def test_members_sleep_and_wake():
    team, wanted = Team([-1, -1, -1]), product()
    try:
        for pause in (0, 0, 0.02, 0, 0.05):
            time.sleep(pause)
            for _ in range(20):
                assert torch.equal(product(team), wanted)
        time.sleep(0.05)
        started = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - started < 0.1  # nobody spins
    finally:
        team.close()


def test_pinned_members_stay_on_their_core():
    core = max(os.sched_getaffinity(0))
    before = set(os.listdir("/proc/self/task"))
    team = Team([-1, core])
    try:
        for _ in range(200):
            (new,) = set(os.listdir("/proc/self/task")) - before
            if os.sched_getaffinity(int(new)) == {core}:
                break
            time.sleep(0.005)
        assert os.sched_getaffinity(int(new)) == {core}
        assert os.sched_getaffinity(0) != {core} or len(os.sched_getaffinity(0)) == 1
    finally:
        team.close()


def test_calls_from_several_threads_do_not_meet():
    """Each Python thread has scratch memory of its own; the interpreter's lock is free during a call."""
    wanted, wrong = product(), []

    def work(team):
        for _ in range(100):
            if not torch.equal(product(team), wanted):
                wrong.append(1)

    teams = [None, None, Team([-1, -1]), Team([-1, -1])]
    threads = [threading.Thread(target=work, args=(team,)) for team in teams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for team in teams[2:]:
        team.close()
    assert not wrong


@pytest.mark.parametrize("cores", [[], [0, 4095]])
def test_bad_cores_are_refused(cores):
    with pytest.raises(ConfigError, match="core"):
        Team(cores)
