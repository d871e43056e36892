# SPDX-License-Identifier: Apache-2.0
"""Watch the loop of simulator and node from outside, as told by lines of JSON.

Arguments: full name of the topic of joint states, then namespaces of nodes `lagdyn`.
{"wait": true} answers when joint states flow, and all nodes have answered and reported.
{"look": true} answers what came since the last look: for each namespace
    "ages": of the answers when they were published, by the stamp of their joint state [ns];
    "reports": of /diagnostics: when they were made [ns], the number of joint states sent until
        then, what the node has counted, its largest latency [ms] and the faults of its command.

Nothing here is in the way of what it watches: subscriptions are best effort, which nobody waits
for, and looked at now and then. Times are those that the middleware notes at the publisher, so
that it does not matter when they are read; joint states are counted by their publisher's number,
so that losing some does not matter either.
"""

from __future__ import annotations

import gc
import json
import select
import signal
import struct
import sys
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

LOOK_EVERY = 0.02  # [s]
QOS = QoSProfile(depth=10_000, reliability=ReliabilityPolicy.BEST_EFFORT)
STAMP = struct.Struct('<iI')  # of a header, after the four bytes that begin every message
COUNTS = ('received', 'answered', 'skipped')
MOST_SENT = 100_000  # joint states remembered


class Watched:
    """What is known of one node.

    Attributes:
        ages: of answers [ns].
        reports: when they were made, joint states sent until then, counts.
    """

    def __init__(self, node: Node, namespace: str) -> None:
        self.status = f'{namespace}/lagdyn: '
        self.answers = node.create_subscription(
            JointState, f'/{namespace}/lagdyn/inverse_dynamics', lambda _: None, QOS)
        self.forget()

    def forget(self) -> None:
        """Begin a new look."""
        self.ages: list[int] = []
        self.reports: list[dict[str, float]] = []

    def take_answers(self) -> None:
        """Note how old joint states were when they had been answered."""
        for data, info in taken(self.answers, raw=True):
            seconds, nanoseconds = STAMP.unpack_from(data, 4)
            self.ages.append(info['source_timestamp'] - seconds * 1_000_000_000 - nanoseconds)


def taken(subscription: Any, *, raw: bool = False) -> Iterator[tuple[Any, dict[str, int]]]:
    """Yield what waits in a subscription."""
    with subscription.handle:
        while (found := subscription.handle.take_message(subscription.msg_type, raw)) is not None:
            yield found


class Observer:
    """Takes joint states, answers and reports without an executor, which would take time."""

    def __init__(self, topic: str, namespaces: list[str]) -> None:
        self._node = node = Node('loop_observer')
        self._joint_states = node.create_subscription(JointState, topic, lambda _: None, QOS)
        self._diagnostics = node.create_subscription(
            DiagnosticArray, '/diagnostics', lambda _: None, QOS)
        self._nodes = {namespace: Watched(node, namespace) for namespace in namespaces}
        self._sent: deque[tuple[int, int]] = deque(maxlen=MOST_SENT)  # when [ns], number

    def take(self) -> None:
        """Take what waits."""
        for _, info in taken(self._joint_states, raw=True):
            self._sent.append((info['source_timestamp'], info['publication_sequence_number']))
        for watched in self._nodes.values():
            watched.take_answers()
        for message, info in taken(self._diagnostics):
            for status in message.status:
                self._note(status, info['source_timestamp'])

    def _note(self, status: Any, when: int) -> None:
        for watched in self._nodes.values():
            if status.name == f'{watched.status}joint states':
                index = bisect_right(self._sent, when, key=lambda entry: entry[0])
                if not index:
                    continue  # sent before anything was seen here
                values = {entry.key: entry.value for entry in status.values}
                watched.reports.append({
                    'at': when,
                    'sent': self._sent[index - 1][1],
                    **{name: int(values[name]) for name in COUNTS if name in values},
                    'latency max': float(values.get('latency max [ms]', 'nan'))})
            elif watched.reports and status.name == f'{watched.status}command':
                watched.reports[-1]['faults'] = sum(
                    int(entry.value) for entry in status.values
                    if entry.key.startswith('faults: '))

    def look(self) -> dict[str, Any]:
        """Return what came since the last look."""
        found = {namespace: {'ages': watched.ages, 'reports': watched.reports}
                 for namespace, watched in self._nodes.items()}
        for watched in self._nodes.values():
            watched.forget()
        return found

    @property
    def hears_all(self) -> bool:
        """Say whether all nodes have answered and reported."""
        return all(watched.ages and watched.reports for watched in self._nodes.values())


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    observer = Observer(sys.argv[1], sys.argv[2:])
    gc.collect()
    gc.freeze()
    waits = False
    while True:
        observer.take()
        answer: Any = None
        if waits and observer.hears_all:
            waits, answer = False, True
        if select.select([sys.stdin], [], [], LOOK_EVERY)[0]:
            order = json.loads(sys.stdin.readline() or 'null')
            if order is None:
                return
            waits = 'wait' in order
            if 'look' in order:
                observer.take()
                answer = observer.look()
        if answer is not None:
            print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
