# SPDX-License-Identifier: Apache-2.0
"""What /diagnostics says of joint states: rates, latencies, ages, and why none is answered."""

from __future__ import annotations

import time
from itertools import count
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shipped import text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no messages to fill')

from diagnostic_msgs.msg import DiagnosticStatus
from ros_graph import OK, SECOND, WARN, Probe, joint_state, running, values_of
from sensor_msgs.msg import JointState

from ros_lagdyn.joint_state_table import JointStateTable
from ros_lagdyn.ros_node import diagnostics
from ros_lagdyn.ros_node.diagnostics import Traffic, traffic_status

JOINTS = ('joint1', 'joint2')
FINGERS = ('finger1', 'finger2')
NOW = 1_800_000_000 * SECOND  # [ns], of the node's clock
RATE = 50  # [Hz]
LATE = 0.1  # [s] by which a busy machine may hold a message or a report up


class Inbound:
    """A table and its traffic, as the pipeline keeps them."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self.table = JointStateTable(
            JOINTS, velocity_cutoff=20.0, acceleration_cutoff=10.0, max_age=0.5)
        self._stamps = count(NOW, SECOND // 1000)

    def put(self, times: int, names: tuple[str, ...] = JOINTS, position: float = 0.0) -> None:
        """Enter joint states that are not answered."""
        for _ in range(times):
            self.table.put(names, [position] * len(names), [], [], stamp_ns=next(self._stamps),
                           received=0.0)
            self.traffic.received += 1

    def status(self, *, is_active: bool = True) -> DiagnosticStatus:
        """End the period."""
        return traffic_status(
            'lagdyn: joint states', 'robot', self.traffic, self.table, topic='/joint_states',
            is_active=is_active, now_ns=NOW, now=0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a steady clock of which the test sets `now` [s]."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(diagnostics, 'time', SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_rates_and_percentiles_are_of_the_period_that_ends(clock: SimpleNamespace) -> None:
    """Of 1, 2, ... 101 ms half are below 51 ms and 99 % below 100 ms; then all begins anew.

    But for the counts since the start.
    """
    traffic = Traffic()
    traffic.received = 300
    traffic.latencies = [1e-3 * number for number in range(101, 0, -1)]
    traffic.answered = len(traffic.latencies)
    clock.now += 2.0
    assert traffic.next_period() == {
        'rate in [Hz]': '150.0', 'rate out [Hz]': '50.5',
        'latency p50 [ms]': '51.000', 'latency p99 [ms]': '100.000',
        'latency max [ms]': '101.000', 'received': '300', 'answered': '101', 'skipped': '0'}
    traffic.received += 1
    clock.now += 0.5
    assert traffic.next_period() == {
        'rate in [Hz]': '2.0', 'rate out [Hz]': '0.0',
        'latency p50 [ms]': 'nan', 'latency p99 [ms]': 'nan', 'latency max [ms]': 'nan',
        'received': '301', 'answered': '101', 'skipped': '0'}


def test_the_age_of_data_is_that_of_the_newest_usable_stamp(clock: SimpleNamespace) -> None:
    """By the clock of the node; before the first joint state there is none."""
    inbound = Inbound()
    assert 'age of data [s]' not in values_of(inbound.status())
    inbound.traffic.newest_stamp = NOW - 1_250_000_000
    assert values_of(inbound.status())['age of data [s]'] == '1.250'


def test_what_is_counted_is_shown_under_refused_or_noted(clock: SimpleNamespace) -> None:
    """Since the start, unlike the rates."""
    inbound = Inbound()
    inbound.put(3, position=nan)
    inbound.traffic.refused['reference'] = 2
    for _ in range(2):
        values = values_of(inbound.status())
        shown = {key: value for key, value in values.items()
                 if key.startswith(('refused', 'noted')) and value != '0'}
        assert shown == {'refused: impossible_position': '3', 'refused: reference': '2'}
    assert 'noted: clock_reset' in values and 'refused: stamp_went_back' in values


@pytest.mark.parametrize(('put', 'said'), [
    ([], 'no joint states on /joint_states'),
    ([(5, JOINTS, nan), (1, FINGERS, 0.0)],
     'joint states on /joint_states cannot be answered: impossible_position, '
     'missing or too old: joint1, joint2'),
    ([(5, JOINTS[:1], 0.0), (1, FINGERS, 0.0), (1, JOINTS, nan)],
     'joint states on /joint_states cannot be answered: incomplete, missing or too old: joint2'),
    ([(1, JOINTS, nan), (5, FINGERS, 0.0)],
     'joint states on /joint_states name none of the joints of the arm: they name finger1, '
     'finger2; the arm has joint1, joint2'),
], ids=['silence', 'NaN', 'half of the arm', 'another robot'])
def test_the_text_says_the_most_frequent_reason_of_the_period(
        clock: SimpleNamespace, put: list[Any], said: str) -> None:
    """Whatever was more frequent before, as a gripper that spoke long ago."""
    inbound = Inbound()
    inbound.put(9, FINGERS)
    inbound.put(7, ('joint1', 'joint1'))
    assert 'they name finger1, finger2' in inbound.status().message
    for arguments in put:
        inbound.put(*arguments)
    status = inbound.status()
    assert (status.level, status.message) == (WARN, said)


def test_all_is_well_while_something_is_answered_or_nothing_is_expected(
        clock: SimpleNamespace) -> None:
    """One answer in the period will do; a node that is not active need not answer."""
    inbound = Inbound()
    inbound.put(5, FINGERS)
    inbound.traffic.latencies.append(1e-3)
    status = inbound.status()
    assert (status.level, status.message) == (OK, 'joint states are answered')
    assert inbound.status().level == WARN
    status = inbound.status(is_active=False)
    assert (status.level, status.message) == (OK, 'not active')


def test_fifty_joint_states_a_second_are_fifty_in_and_fifty_out(tmp_path: Path) -> None:
    """In each of three reports; latency and age are those of a node that keeps up."""
    parameters = {'robot_description': text_of('two_link')}
    with running('dynamics_node', tmp_path, parameters) as node, Probe('/lagdyn', node) as probe:
        probe.wait_for_state('active')
        publisher = probe.publisher(JointState, 'joint_states')
        late, sent, begin = 0.0, 0, time.monotonic()

        def send_what_is_due() -> None:
            nonlocal late, sent
            while (lag := time.monotonic() - begin - sent / RATE) >= 0.0:
                publisher.publish(joint_state(JOINTS, [0.3, 0.5], [0.0, 0.0],
                                              stamp=time.time_ns()))
                late, sent = max(late, lag), sent + 1

        reports: list[dict[str, str]] = []

        def seen(status: DiagnosticStatus) -> bool:
            reports.append(values_of(status))
            return len(reports) == 4

        # The timer of the probe sends; while it waits for reports it is served.
        probe.node.create_timer(0.25 / RATE, send_what_is_due)
        probe.diagnostics('joint states', seen)
    for report in reports[1:]:  # the first period began before the first joint state
        values = {key: float(value) for key, value in report.items()}
        # In a time T of about 1 s, 50 T joint states are due, give or take the one at its edge
        # and those that were sent or taken late; rates are rounded to 0.05.
        off = (1.0 + RATE * (late + LATE)) / 0.9 + 0.05
        assert values['rate in [Hz]'] == pytest.approx(RATE, abs=off)
        assert values['rate out [Hz]'] == values['rate in [Hz]']
        assert values['answered'] == values['received'] > 0.0
        assert 0.0 < values['latency p50 [ms]'] <= values['latency p99 [ms]'] < 1e3 * LATE
        assert 0.0 < values['age of data [s]'] < 1.0 / RATE + late + LATE
