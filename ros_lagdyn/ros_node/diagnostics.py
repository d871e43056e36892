# SPDX-License-Identifier: Apache-2.0
"""What goes to /diagnostics once a second: rates, ages, latencies, refused messages."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from ros_lagdyn.command_guard import (
    CROSS_CHECK,
    NOT_FINITE,
    POSITION_JUMP,
    STALE,
    TOO_FAST,
    State,
)
from ros_lagdyn.filtered_derivative import SECOND
from ros_lagdyn.joint_state_table import NOTES, JointStateTable
from ros_lagdyn.live_model import LiveModel
from ros_lagdyn.ros_node.parameters import OFF

if TYPE_CHECKING:
    from ros_lagdyn.ros_node.command_output import CommandOutput


class Traffic:
    """Counts what comes in and what goes out, since the start and between two reports.

    Attributes:
        received: joint states since the start: answered, refused by the table, or skipped.
        answered: of these, by all outputs.
        skipped: of these, because the node was falling behind.
        latencies: of the answers since the last report [s], from receipt to the last output.
        newest_stamp: of the newest joint state that was usable [ns]; 0 before.
        refused: references and wrenches refused since the start, by topic.
        counts: of the table's remarks at the last report.
    """

    def __init__(self) -> None:
        """Start the first period."""
        self.received = self.answered = self.skipped = 0
        self.latencies: list[float] = []
        self.newest_stamp = 0
        self.refused = dict.fromkeys(('reference', 'external_wrench'), 0)
        self.counts: dict[str, int] = {}
        self._since = time.monotonic()
        self._received_before = 0

    @property
    def received_now(self) -> int:
        """How many joint states have come since the last report."""
        return self.received - self._received_before

    def most_frequent(self, counts: Mapping[str, int]) -> str:
        """Return which count has grown most since the last report."""
        return max(counts, key=lambda reason: counts[reason] - self.counts.get(reason, 0))

    def next_period(self) -> dict[str, str]:
        """Return rates and latencies of the period that ends now, and start the next one."""
        now = time.monotonic()
        period = max(now - self._since, 1e-9)
        p50, p99, most = np.percentile(self.latencies or [float('nan')], (50, 99, 100))
        values = {
            'rate in [Hz]': f'{self.received_now / period:.1f}',
            'rate out [Hz]': f'{len(self.latencies) / period:.1f}',
            'latency p50 [ms]': f'{1e3 * p50:.3f}',
            'latency p99 [ms]': f'{1e3 * p99:.3f}',
            'latency max [ms]': f'{1e3 * most:.3f}',
            'received': str(self.received),
            'answered': str(self.answered),
            'skipped': str(self.skipped),
        }
        self._received_before, self.latencies, self._since = self.received, [], now
        return values


def status(name: str, hardware_id: str, level: bytes, message: str,
           values: Mapping[str, str]) -> DiagnosticStatus:
    """Return one status with its values."""
    return DiagnosticStatus(
        level=level, name=name, hardware_id=hardware_id, message=message,
        values=[KeyValue(key=key, value=value) for key, value in values.items()])


def model_status(name: str, state: str, model: LiveModel | None, fault: str,
                 awaited: str) -> DiagnosticStatus:
    """Return the status of the model: which one, or what is missing.

    Args:
        name: of the status.
        state: of the lifecycle.
        model: the one in force, if any.
        fault: why the last configuration or description was refused, if it was.
        awaited: what an unconfigured node waits for.
    """
    level = DiagnosticStatus.ERROR if fault else DiagnosticStatus.OK
    if model is None:
        return status(name, '', level if fault else DiagnosticStatus.WARN, fault or awaited,
                      {'state': state})
    return status(
        name, model.arm.name, level, fault or model.note or 'engines agree, physical laws hold',
        {'state': state, 'engine': model.dynamics.engine,
         'check_engine': model.check_dynamics.engine, 'joints': ', '.join(model.joints)})


def traffic_status(name: str, hardware_id: str, traffic: Traffic, table: JointStateTable, *,
                   topic: str, is_active: bool, now_ns: int, now: float) -> DiagnosticStatus:
    """Return the status of the joint states, and start the next period.

    Args:
        name: of the status.
        hardware_id: name of the robot.
        traffic: what was counted.
        table: where joint states are entered.
        topic: full name of the topic of joint states.
        is_active: whether the node answers.
        now_ns: time of the node's clock [ns].
        now: steady time [s].
    """
    level, text = DiagnosticStatus.WARN, ''
    if not is_active:
        level, text = DiagnosticStatus.OK, 'not active'
    elif traffic.latencies:
        level, text = DiagnosticStatus.OK, 'joint states are answered'
    elif not traffic.received_now:
        text = f'no joint states on {topic}'
    else:
        reason = traffic.most_frequent(table.counts)
        if reason == 'no_known_joint':
            text = (f'joint states on {topic} name none of the joints of the arm: they name '
                    f'{", ".join(table.unknown_names)}; the arm has {", ".join(table.joints)}')
        else:
            text = f'joint states on {topic} cannot be answered: {reason}'
            if missing := table.missing(now):
                text += f', missing or too old: {", ".join(missing)}'
    traffic.counts = dict(table.counts)
    values = traffic.next_period()
    if traffic.newest_stamp:
        values['age of data [s]'] = f'{(now_ns - traffic.newest_stamp) / SECOND:.3f}'
    noted = {'repeated_stamp', 'clock_reset'} & set(NOTES)
    values |= {f'{"noted" if key in noted else "refused"}: {key}': str(count)
               for key, count in table.counts.items()}
    values |= {f'refused: {key}': str(count) for key, count in traffic.refused.items()}
    return status(name, hardware_id, level, text, values)


FAULTS = {
    STALE: '{joint}: newest joint state {measured:.3f} s old, command.timeout is {timeout:g} s',
    NOT_FINITE: 'a torque, position or velocity is no finite number',
    POSITION_JUMP: '{joint}: {measured:.3g} away from the joint state before, where no velocity '
                   'that its limit allows can have brought it',
    TOO_FAST: '{joint}: velocity {measured:.3g}, more than {velocity_factor:g} times its limit',
    CROSS_CHECK: 'the engines have disagreed for more than {patience:g} s',
}


def command_fault(command: CommandOutput) -> str:
    """Return the fault that lasts, in words."""
    guard = command.guard
    joint = 'no joint state yet' if guard.culprit is None else command.arm_joints[guard.culprit]
    return f'command {guard.state.value}: ' + FAULTS[guard.reason].format(
        joint=joint, measured=guard.measured, **vars(guard.settings))


def command_status(name: str, command: CommandOutput, topic: str,
                   others: Sequence[str]) -> DiagnosticStatus:
    """Return the status of the command.

    Args:
        name: of the status.
        command: what is sent.
        topic: where it goes.
        others: names of nodes that publish there, too.
    """
    guard = command.guard
    level, text = DiagnosticStatus.OK, guard.state.value
    if command.mode == OFF:
        text = 'command.mode is off'
        if guard.is_enabled:
            text += '; ~/enable is on: another mode starts the motors'
    elif not guard.is_enabled:
        text = 'switched off: ~/enable switches it on'
    if command.may_command and guard.reason:
        level, text = DiagnosticStatus.ERROR, command_fault(command)
    elif command.is_waiting:
        level = DiagnosticStatus.WARN
        text = f'waiting until every subscriber of {topic} has a zero, and there is one'
    elif command.may_command and guard.saturated:
        level, text = DiagnosticStatus.WARN, 'limits cut the torque'
        if command.effortless:
            text += (f'; the URDF has effort limits of 0 for {", ".join(command.effortless)}: '
                     'command.max_effort sets others')
    elif command.may_command and guard.held_back and guard.state is State.FOLLOWING:
        level, text = DiagnosticStatus.WARN, 'following, but the slew rates hold the torque back'
    elif command.may_command and command.unguarded:
        level = DiagnosticStatus.WARN
        text = f'{guard.state.value}, without the guard knowing all limits'
    if others:
        level = DiagnosticStatus.ERROR if command.may_command else max(
            level, DiagnosticStatus.WARN)
        text = f'others publish on {topic}, too: {", ".join(others)}; {text}'
    return status(name, command.hardware_id, level, text, {
        'mode': command.mode, 'state': guard.state.value, 'reason': guard.reason,
        'saturated': str(guard.saturated).lower(),
        'held back by slew rate': str(guard.held_back).lower(),
        'unguarded': '; '.join(command.unguarded), 'joints': ', '.join(command.joints),
        **{f'faults: {reason}': str(count) for reason, count in guard.faults.items()},
        'other publishers': ', '.join(others)})
