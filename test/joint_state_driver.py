# SPDX-License-Identifier: Apache-2.0
"""A robot driver as a process: joint states of an arm at rest, as badly as they are asked for.

    python joint_state_driver.py <settings.json> [--ros-args ...]

The file is read again whenever it is replaced; its keys are those of DEFAULTS. Whenever it has
been taken, a line `applied <serial> <monotonic time>` is printed: all that was sent before had
the settings before. `matched <monotonic time>` is printed when somebody listens. SIGKILL and
SIGSTOP do to it what they do to any driver. It ends with the process that has started it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import rclpy
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

SECOND = 1_000_000_000  # [ns]
DEFAULTS: dict[str, Any] = {
    'serial': 0,
    'joints': ['joint1', 'joint2'],
    'position': [0.4, 0.7],  # [rad]
    'velocity': [0.0, 0.0],  # [rad/s]; what is said, the positions stay
    'rate': 200.0,  # [Hz]; 0: silence
    'burst': 1,  # so many at once, at the same rate on the average
    'jitter': 0.0,  # [s], the most that a stamp is too early or too late
    'reorder': False,  # each second one is sent before the one before it
    'offset': 0.0,  # [s], added to all stamps: a clock that was set
    'clock': '',  # /clock: '' none, 'runs' or 'stands'; stamps are its time then
    'clock_time': 0.0,  # [s], what /clock starts at whenever this number changes
}
CLOCK_PERIOD = 0.01  # [s]
LOOK_UP = 0.01  # [s], how often the file is looked at
MOST_LATE = 0.02  # [s]; what is later than that, and than a period, is left out


class Driver(Node):
    """Publishes joint states, and /clock where it is asked to."""

    def __init__(self, path: Path) -> None:
        super().__init__('driver', start_parameter_services=False, enable_rosout=False)
        self._path, self._version = path, (0, 0)
        self._settings = dict(DEFAULTS)
        self._states = self.create_publisher(JointState, 'joint_states', QoSProfile(depth=10))
        self._clock_publisher = self.create_publisher(Clock, '/clock', QoSProfile(depth=1))
        self._held: JointState | None = None
        self._simulated = 0.0  # [s], what /clock says
        self._clock_time: float | None = None  # of the settings
        self._moved_at = time.monotonic()
        self._random = random.Random(20261118)

    def run(self) -> None:
        """Publish until the process that started this one has ended."""
        parent, is_matched = os.getppid(), False
        due = next_clock = next_look = time.monotonic()
        while os.getppid() == parent:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + LOOK_UP
                if self._look():
                    due = now
            if not is_matched and self._states.get_subscription_count():
                is_matched = True
                print(f'matched {now!r}', flush=True)
            self._move_clock(now)
            if self._settings['clock'] and now >= next_clock:
                next_clock = now + CLOCK_PERIOD
                self._clock_publisher.publish(Clock(clock=_time(self._now_ns())))
            rate, burst = self._settings['rate'], self._settings['burst']
            if rate and now >= due:
                period = burst / rate
                due = due + period if now - due < max(MOST_LATE, period) else now + period
                for number in range(burst):
                    self._send(self._now_ns() - round((burst - 1 - number) / rate * SECOND))
            wake = min(due, next_look) if rate else next_look
            time.sleep(max(0.0, wake - time.monotonic()))

    def _look(self) -> bool:
        """Take the settings if there are new ones, and say whether there were."""
        found = self._path.stat()
        version = (found.st_ino, found.st_mtime_ns)
        if version == self._version:
            return False
        self._version = version
        self._settings = {**DEFAULTS, **json.loads(self._path.read_text(encoding='utf-8'))}
        if self._settings['clock_time'] != self._clock_time:
            self._simulated = self._clock_time = self._settings['clock_time']
        self._held = None
        print(f'applied {self._settings["serial"]} {time.monotonic()!r}', flush=True)
        return True

    def _move_clock(self, now: float) -> None:
        if self._settings['clock'] == 'runs':
            self._simulated += now - self._moved_at
        self._moved_at = now

    def _now_ns(self) -> int:
        return round(self._simulated * SECOND) if self._settings['clock'] else time.time_ns()

    def _send(self, stamp_ns: int) -> None:
        settings = self._settings
        jitter = self._random.uniform(-settings['jitter'], settings['jitter'])
        message = JointState(
            name=settings['joints'], position=settings['position'],
            velocity=settings['velocity'])
        message.header.stamp = _time(stamp_ns + round((settings['offset'] + jitter) * SECOND))
        if settings['reorder'] and self._held is None:
            self._held = message
            return
        self._states.publish(message)
        if self._held is not None:
            self._states.publish(self._held)
            self._held = None


def _time(stamp_ns: int) -> Time:
    return Time(sec=stamp_ns // SECOND, nanosec=stamp_ns % SECOND)


if __name__ == '__main__':
    rclpy.init()
    Driver(Path(sys.argv[1])).run()
