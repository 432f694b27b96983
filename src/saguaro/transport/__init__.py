"""Ways to carry the conversation: a plug point.

`loopback` joins two workers in one process; `mailbox` joins two processes of one host through shared memory without a
name. `control.py` carries the parent's commands and the workers' events. Must not know: models, policies.
"""

from saguaro.registry import Table

TRANSPORTS = Table(
    "transport",
    {
        "loopback": "saguaro.transport.loopback:pair",
        "mailbox": "saguaro.transport.mailbox:pair",
    },
)

__all__ = ["TRANSPORTS"]
