# SPDX-License-Identifier: Apache-2.0
"""Which torques go to a controller: order, limits, switch; with a publisher that only notes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shipped import text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no messages to send')

from ros_lagdyn.command_guard import State
from ros_lagdyn.live_model import LiveModel, Settings
from ros_lagdyn.ros_node.command_output import (
    HEARD_WITHIN,
    LET_GO,
    LET_GO_EVERY,
    CommandOutput,
)
from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS

DEFAULTS = {spec.name: spec.default for spec in NODE_PARAMETERS}
TWO_LINK = text_of('two_link')
# Joints that turn for ever, one with a <limit> that knows no velocity, one without any.
UNLIMITED = TWO_LINK.replace(
    '<joint name="joint1" type="revolute">', '<joint name="joint1" type="continuous">').replace(
    '<joint name="joint2" type="revolute">', '<joint name="joint2" type="continuous">')


def without_limits(text: str) -> str:
    """Return a URDF without any <limit>."""
    lines = [line for line in text.splitlines() if '<limit' not in line]
    assert len(lines) == len(text.splitlines()) - 2
    return '\n'.join(lines)


class Controller:
    """Notes what is published, and hears it or not."""

    def __init__(self) -> None:
        self.commands: list[list[float]] = []
        self.hears: bool | None = True
        self.waited = 0.0  # [s]

    def take(self, message: Any) -> None:
        self.commands.append(list(message.data))

    def is_heard(self, seconds: float) -> bool | None:
        self.waited += seconds
        return self.hears


def output_of(urdf: str = TWO_LINK, controller: Controller | None = None, **values: Any
              ) -> CommandOutput:
    controller = controller or Controller()
    named = {name.replace('__', '.'): value for name, value in values.items()}
    return CommandOutput(
        LiveModel(urdf, Settings()), {**DEFAULTS, 'command.mode': 'gravity', **named},
        controller.take, controller.is_heard)


class Table:
    """What an arm at rest has just said."""

    def __init__(self, now: float, n: int = 2) -> None:
        self.q = self.v = np.zeros(n)
        self.stamps, self.received = [round(1e9 * now)] * n, [now] * n


def follow(output: CommandOutput, torque: np.ndarray, begin: float, seconds: float = 1.0) -> float:
    """Let joint states come at 500 Hz for a while; return the time [s]."""
    now = begin
    for _ in range(round(500 * seconds)):
        now += 0.002
        output.update(Table(now, len(torque)), torque, torque, disagrees=False, now=now)
    return now


def test_torques_go_out_in_the_order_of_command_joints() -> None:
    controller = Controller()
    output = output_of(controller=controller, command__joints=['joint2', 'joint1'])
    output.enable(True, 0.0)
    follow(output, np.array([3.0, 1.0]), 0.0)
    assert controller.commands[0] == [0.0, 0.0]
    assert controller.commands[-1] == pytest.approx([1.0, 3.0])


def test_nothing_goes_out_before_it_is_enabled_and_zeros_when_it_is_disabled() -> None:
    controller = Controller()
    output = output_of(controller=controller)
    now = follow(output, np.ones(2), 0.0)
    assert controller.commands == []
    output.enable(True, now)
    now = follow(output, np.ones(2), now)
    assert controller.commands[-1] == pytest.approx([1.0, 1.0])
    count = len(controller.commands)
    output.enable(False, now)
    follow(output, np.ones(2), now)
    assert controller.commands[count:] == [[0.0, 0.0]]


@pytest.mark.parametrize(('hears', 'zeros'), [
    (True, 1), (None, 1), (False, round(LET_GO / LET_GO_EVERY))])
def test_the_last_zeros_are_repeated_while_they_are_not_heard(
        hears: bool | None, zeros: int) -> None:
    """For a second at the most: then the controller is dead. Where there is none, once."""
    controller = Controller()
    output = output_of(controller=controller)
    output.enable(True, 0.0)
    now = follow(output, np.ones(2), 0.0)
    count = len(controller.commands)
    controller.hears, controller.waited = hears, 0.0
    output.let_go(now)
    assert controller.commands[count:] == [[0.0, 0.0]] * zeros
    assert controller.waited <= LET_GO + 1e-9
    output.let_go(now)
    assert len(controller.commands) == count + zeros


@pytest.mark.parametrize('hears', [False, None])
def test_zeros_go_out_until_somebody_hears_them(hears: bool | None) -> None:
    controller = Controller()
    controller.hears = hears
    output = output_of(controller=controller)
    output.enable(True, 0.0)
    now = follow(output, np.ones(2), 0.0)
    assert output.is_waiting and not np.any(controller.commands)
    controller.hears = True
    now = follow(output, np.ones(2), now)
    assert output.guard.state is State.FOLLOWING


def test_other_joints_are_off_until_somebody_switches_them_on() -> None:
    """Even with command.enable_at_start, which is for the activation."""
    before = output_of(command__enable_at_start=True)
    before.start(0.0)
    now = follow(before, np.ones(2), 0.0)
    for after in (
        output_of(TWO_LINK.replace('"joint2"', '"elbow"'), command__enable_at_start=True),
        output_of(command__joints=['joint2', 'joint1'], command__enable_at_start=True),
    ):
        after.take_over(before, now)
        assert not after.guard.is_enabled
        before.start(now)


def test_the_same_joints_go_on_without_a_break() -> None:
    controller = Controller()
    before = output_of(controller=controller)
    before.enable(True, 0.0)
    now = follow(before, np.ones(2), 0.0)
    after = output_of(controller=controller, command__policy='zero')
    after.take_over(before, now)
    count = len(controller.commands)
    follow(after, np.ones(2), now, 0.1)
    assert np.array(controller.commands[count:]) == pytest.approx(np.ones((50, 2)))


def test_what_has_no_limits_is_named() -> None:
    assert output_of().unguarded == ()
    free = output_of(without_limits(UNLIMITED))
    assert free.unguarded == (
        'no effort limit: joint1, joint2 (command.max_effort sets one)',
        'no velocity limit in the URDF: joint1, joint2 (no jump, no speed is too much)')
    limited = output_of(without_limits(UNLIMITED), command__max_effort=[9.0, 9.0])
    assert len(limited.unguarded) == 1 and 'velocity' in limited.unguarded[0]


def test_an_effort_limit_of_zero_is_the_urdfs_only_where_it_is() -> None:
    assert output_of(command__max_effort=[0.0, 5.0]).effortless == ()
    none = TWO_LINK.replace('effort="80"', 'effort="0"')
    assert none != TWO_LINK
    assert output_of(none).effortless == ('joint1',)


def motors(urdf: str = TWO_LINK, controller: Controller | None = None, **values: Any
           ) -> CommandOutput:
    """Return the output for two motors, the first of which also moves the second joint back."""
    controller = controller or Controller()
    named = {name.replace('__', '.'): value for name, value in values.items()}
    model = LiveModel(urdf, Settings(
        actuation=(1.0, 0.0, -1.0, 1.0), actuators=('base', 'remote')))
    return CommandOutput(
        model, {**DEFAULTS, 'command.mode': 'gravity', 'command.joints': ['base', 'remote'],
                **named}, controller.take, controller.is_heard)


B = np.array([[1.0, 0.0], [-1.0, 1.0]])  # joint torques = B motor torques
JOINT_LIMITS = np.array([80.0, 10.0])  # [Nm], of the URDF


@pytest.mark.parametrize('policy', ['fade', 'hold_gravity'])
def test_motors_never_take_a_joint_above_its_limit(policy: str) -> None:
    """Following torques that leap beyond all limits, and after the silence that follows."""
    controller = Controller()
    output = motors(controller=controller, command__policy=policy, command__timeout=0.1)
    output.enable(True, 0.0)
    now = follow(output, np.array([300.0, -300.0]), 0.0)
    assert output.guard.saturated
    np.testing.assert_allclose(B @ controller.commands[-1], [80.0, -10.0])
    rng = np.random.default_rng(0)
    for _ in range(200):
        now = follow(output, rng.uniform(-2.0, 2.0, 2) * JOINT_LIMITS, now, 0.01)
    for _ in range(200):
        now += 0.01
        output.tick(now)
    joints = np.array(controller.commands) @ B.T
    assert (abs(joints) <= JOINT_LIMITS * (1.0 + 1e-9)).all()
    assert abs(joints).max(axis=0) == pytest.approx(JOINT_LIMITS)


def test_every_joint_must_be_fresh_where_motors_drive_them() -> None:
    """One motor alone moves both joints."""
    output = motors(command__joints=['remote'])
    output.enable(True, 0.0)
    now = follow(output, np.ones(2), 0.0)
    table = Table(now)
    table.received = [now, now - 0.06]
    output.update(table, np.ones(2), np.ones(2), disagrees=False, now=now)  # type: ignore
    assert output.guard.reason == 'stale'


def test_by_default_a_torque_takes_a_tenth_of_a_second_from_zero_to_its_limit() -> None:
    controller = Controller()
    output = output_of(controller=controller, command__ramp_time=0.0)
    output.enable(True, 0.0)
    follow(output, JOINT_LIMITS, 0.0, 0.3)
    sent = np.array(controller.commands)
    rises = np.diff(sent, axis=0)
    np.testing.assert_allclose(rises.max(axis=0), JOINT_LIMITS * 0.002 / 0.1)
    np.testing.assert_allclose(sent[-1], JOINT_LIMITS)


def test_a_velocity_limit_of_zero_is_none() -> None:
    """Exporters of CAD programs write it for "not known"."""
    text = TWO_LINK.replace('velocity="3"', 'velocity="0"')
    assert text != TWO_LINK
    output = output_of(text)
    assert 'joint1' in output.unguarded[0] and 'joint2' not in output.unguarded[0]
    output.enable(True, 0.0)
    now = follow(output, np.ones(2), 0.0)
    table = Table(now + 0.002)
    table.v = np.array([50.0, 0.0])
    output.update(table, np.ones(2), np.ones(2), disagrees=False, now=now + 0.002)  # type: ignore
    assert output.guard.reason == ''


def test_what_was_switched_off_stays_off_through_a_change_of_mode() -> None:
    """And what was on stays on, with the faults that were counted."""
    for on in (False, True):
        before = output_of(command__enable_at_start=True)
        before.start(0.0)
        now = follow(before, np.ones(2), 0.0)
        before.guard.faults['stale'] = 3
        before.enable(on, now)
        off = output_of(command__mode='off')
        off.take_over(before, now)
        again = output_of(command__enable_at_start=True)
        again.take_over(off, now)
        assert again.guard.is_enabled is on
        assert again.guard.faults['stale'] == 3


def test_a_subscriber_that_is_silent_for_long_holds_up_nobody() -> None:
    """A recorder that was stopped beside a sound controller, say."""
    controller = Controller()
    controller.hears = False
    output = output_of(controller=controller)
    output.enable(True, 0.0)
    now = follow(output, np.ones(2), 0.0, HEARD_WITHIN - 0.1)
    assert output.is_waiting
    follow(output, np.ones(2), now, 0.2)
    assert output.guard.state is State.RAMPING
