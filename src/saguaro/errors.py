"""The errors of Saguaro: whose fault it is, and what to do.

    SaguaroError
    ├── ConfigError      the caller: an option, a path or a pair of models that cannot work
    ├── RequestRefused   the caller: one request that cannot be served (others go on)
    ├── CapacityError    the machine: no room now; the same call may succeed later
    ├── ProtocolError    a peer said something that the protocol does not allow
    ├── WorkerDied       a process of ours is gone
    └── WeightsError     a checkpoint is incomplete, damaged or of an unknown kind

Every message is one sentence that says what was wrong and, where it can be known, what to do.
Tests: tests/ground/.
"""

from __future__ import annotations


class SaguaroError(Exception):
    """Base of everything that this package raises on purpose."""

    http_status = 500
    exit_status = 1


class ConfigError(SaguaroError, ValueError):
    """An option, path, device or pair of models that cannot work."""

    http_status = 400
    exit_status = 2


class RequestRefused(SaguaroError, ValueError):
    """One request that can never be served as asked: too long, or an unsupported field."""

    http_status = 400
    exit_status = 2


class CapacityError(SaguaroError):
    """No room at the moment; the same call may succeed later."""

    http_status = 429


class ProtocolError(SaguaroError):
    """A message that the protocol does not allow in the present state."""


class WorkerDied(SaguaroError):
    """A worker process ended or stopped answering."""

    http_status = 503


class WeightsError(SaguaroError, ValueError):
    """A checkpoint that is incomplete, damaged or of an unknown kind."""

    exit_status = 2
