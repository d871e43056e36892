# SPDX-License-Identifier: Apache-2.0
"""The guard between computed torques and motors: every promise, and every transition."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from ros_lagdyn.command_guard import (
    CROSS_CHECK,
    JITTER,
    LONGEST_PAUSE,
    NOT_FINITE,
    POLICIES,
    POSITION_JUMP,
    REASONS,
    SLACK,
    SOUND_FOR,
    STALE,
    TOO_FAST,
    TRANSITIONS,
    Command,
    CommandGuard,
    Event,
    GuardLimits,
    GuardSettings,
    Sample,
    State,
)
from ros_lagdyn.errors import InvalidArgumentError

DOCS = Path(__file__).resolve().parents[1] / 'docs' / 'command_guard.md'
STEP = 0.002  # [s]
TICK = 0.01  # [s]
TORQUE = np.array([6.0, -3.0])
GRAVITY = np.array([5.0, -2.0])
EFFORT = np.array([10.0, 4.0])
SLEW = np.array([400.0, 200.0])  # [1/s]
VELOCITY = np.array([2.0, 3.0])
LIMITS = GuardLimits(EFFORT, SLEW, VELOCITY, range(2))


class Bench:
    """A guard, and an arm that is at rest unless told otherwise."""

    def __init__(self, *, max_effort: np.ndarray = EFFORT, max_slew: np.ndarray = SLEW,
                 enabled: bool = True, **settings: object) -> None:
        self.guard = CommandGuard(replace(GuardSettings(), **settings), LIMITS._replace(
            max_effort=max_effort, max_slew=max_slew))
        self.now = 100.0
        self.q = np.array([0.3, -0.4])
        if enabled:
            self.guard.enable(True, self.now)

    def sample(self, **changes: object) -> Sample:
        return Sample(q=self.q, v=np.zeros(2), stamps=[round(1e9 * self.now)] * 2,
                      received=[self.now] * 2, torque=TORQUE, gravity=GRAVITY,
                      disagrees=False)._replace(**changes)

    def send(self, step: float = STEP, **changes: object) -> Command | None:
        """Let time pass and take one sample."""
        self.now += step
        return self.guard.update(self.sample(**changes), self.now)

    def run(self, seconds: float, **changes: object) -> list[Command]:
        """Take samples for a while."""
        return [command for _ in range(round(seconds / STEP))
                if (command := self.send(**changes)) is not None]

    def silence(self, seconds: float) -> list[Command]:
        """Let time pass without samples."""
        commands = []
        for _ in range(round(seconds / TICK)):
            self.now += TICK
            if (command := self.guard.tick(self.now)) is not None:
                commands.append(command)
        return commands

    def follow(self) -> Bench:
        """Go on until it follows."""
        self.run(self.guard.settings.ramp_time + 4 * STEP)
        assert self.guard.state is State.FOLLOWING
        return self


def sizes(commands: list[Command]) -> np.ndarray:
    return np.array([abs(command.torque[0]) for command in commands])


# -- start -------------------------------------------------------------------------------------


def test_off_at_the_start_nothing_is_sent() -> None:
    bench = Bench(enabled=False)
    assert bench.run(0.1) == [] and bench.silence(0.1) == []
    assert bench.guard.state is State.OFF and not bench.guard.is_enabled


def test_enabled_without_joint_states_it_sends_nothing_and_says_stale() -> None:
    """There is nothing to take back yet."""
    bench = Bench()
    assert bench.silence(0.1) == []
    assert (bench.guard.state, bench.guard.reason) == (State.WAITING, STALE)
    assert bench.run(SOUND_FOR - STEP) == []
    assert bench.run(2 * STEP)[-1].state is State.RAMPING
    assert bench.guard.reason == ''


def test_switching_on_is_no_fault() -> None:
    """Nobody looked at joint states before: their age counts from the switch."""
    bench = Bench(enabled=False)
    bench.silence(1.0)
    bench.guard.enable(True, bench.now)
    assert bench.guard.tick(bench.now + TICK) is None
    assert (bench.guard.reason, bench.guard.faults[STALE]) == ('', 0)
    assert bench.send(2 * TICK).state is State.RAMPING


def test_zeros_go_out_until_a_controller_has_heard_one_then_the_ramp_begins() -> None:
    """Else its first command might be from the middle of the ramp."""
    bench = Bench()
    commands = bench.run(1.0, heard=False)
    assert len(commands) == round(1.0 / STEP)
    assert {(command.state, command.reason, *command.torque) for command in commands} == {
        (State.WAITING, '', 0.0, 0.0)}
    assert bench.silence(0.03) == []
    first, second = bench.send(), bench.send()
    assert first.state is State.RAMPING and first.torque.tolist() == [0.0, 0.0]
    assert 0.0 < abs(second.torque[0]) < 0.01 * abs(TORQUE[0])
    # Who has begun to listen and does so no longer is no reason to let go.
    bench.follow()
    assert bench.send(heard=False).state is State.FOLLOWING


def test_stopped_it_says_zero_again_and_again() -> None:
    """A controller that starts in between, or loses one, holds nothing."""
    bench = Bench().follow()
    commands = bench.silence(5.0)[-100:]
    assert len(commands) == 100
    assert {command.state for command in commands} == {State.STOPPED}
    assert {command.reason for command in commands} == {STALE}
    np.testing.assert_array_equal([command.torque for command in commands], 0.0)


@pytest.mark.parametrize('ramp_time', [0.2, 1.0])
def test_the_torque_ramps_from_zero(ramp_time: float) -> None:
    bench = Bench(ramp_time=ramp_time)
    commands = bench.run(1.5 * ramp_time)
    assert commands[0].torque.tolist() == [0.0, 0.0]
    for index, command in enumerate(commands):
        share = min(index * STEP / ramp_time, 1.0)
        # Rounding of times near 100 s.
        np.testing.assert_allclose(command.torque, share * TORQUE, rtol=0.0, atol=1e-9)
    assert commands[-1].state is State.FOLLOWING and commands[-1].reason == ''


def test_without_a_ramp_the_slew_rates_are_the_ramp() -> None:
    bench = Bench(ramp_time=0.0)
    commands = [bench.send() for _ in range(12)]
    expected = [np.sign(TORQUE) * np.minimum(abs(TORQUE), k * STEP * SLEW) for k in range(12)]
    np.testing.assert_allclose([command.torque for command in commands], expected, atol=1e-9)


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize('torque', [[50.0, -1.0], [1.0, -50.0], [-1e308, 1e308]])
def test_no_command_is_above_its_limit_and_saturation_is_flagged(torque: list[float]) -> None:
    bench = Bench(ramp_time=0.0).follow()
    commands = bench.run(0.2, torque=np.array(torque))
    np.testing.assert_allclose(commands[-1].torque, np.clip(torque, -EFFORT, EFFORT))
    assert all((abs(command.torque) <= EFFORT).all() for command in commands)
    assert commands[-1].saturated and bench.guard.saturated
    assert not bench.send().saturated


def test_no_command_changes_faster_than_its_slew_rate() -> None:
    """Torques that leap by their full range, at uneven times."""
    bench = Bench(ramp_time=0.0).follow()
    rng = np.random.default_rng(0)
    before, time_before = bench.send().torque, bench.now
    for _ in range(500):
        command = bench.send(float(rng.uniform(1e-4, 0.02)), torque=rng.uniform(-1, 1, 2) * EFFORT)
        most = SLEW * (bench.now - time_before) + 1e-9
        assert (abs(command.torque - before) <= most).all()
        before, time_before = command.torque, bench.now


def test_after_a_silence_a_step_is_no_larger_than_the_timeout_allows() -> None:
    bench = Bench(ramp_time=0.0, max_slew=SLEW / 10.0).follow()
    before = bench.run(1.0)[-1].torque
    command = bench.send(0.4, torque=-TORQUE)
    most = SLEW / 10.0 * bench.guard.settings.timeout
    assert (most < abs(TORQUE)).all()
    np.testing.assert_allclose(command.torque, np.clip(-TORQUE, before - most, before + most))


def test_without_limits_the_torque_passes() -> None:
    bench = Bench(max_effort=np.full(2, inf), max_slew=np.full(2, inf), ramp_time=0.0)
    bench.send()
    command = bench.send(torque=np.array([1e6, -1e6]))
    assert command.torque.tolist() == [1e6, -1e6] and not command.saturated


# -- faults ------------------------------------------------------------------------------------


def faults(bench: Bench) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield what can be wrong with a sample, and the reason."""
    yield NOT_FINITE, {'torque': np.array([nan, 0.0])}
    yield NOT_FINITE, {'torque': np.array([0.0, inf])}
    yield NOT_FINITE, {'q': np.array([nan, 0.0])}
    yield NOT_FINITE, {'v': np.array([0.0, nan])}
    yield NOT_FINITE, {'gravity': np.array([inf, 0.0])}
    yield POSITION_JUMP, {'q': bench.q + np.array([0.0, 0.1])}
    yield TOO_FAST, {'v': np.array([3.1, 0.0])}
    yield TOO_FAST, {'v': np.array([0.0, -4.6])}
    yield STALE, {'received': [bench.now, bench.now - 0.051]}


@pytest.mark.parametrize('policy', POLICIES)
@pytest.mark.parametrize('case', range(9))
def test_a_fault_has_its_reason_and_its_policy(case: int, policy: str) -> None:
    bench = Bench(policy=policy).follow()
    cases = list(faults(bench))
    assert len(cases) == 9
    reason, changes = cases[case]
    command = bench.send(**changes)
    assert command.reason == reason
    assert command.state is {'fade': State.FADING, 'zero': State.STOPPED,
                             'hold_gravity': State.HOLDING}[policy]
    assert bench.guard.faults == {**dict.fromkeys(REASONS, 0), reason: 1}
    assert np.isfinite(command.torque).all()
    if policy == 'zero':
        assert command.torque.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(('reason', 'changes', 'culprit', 'measured'), [
    (TOO_FAST, {'v': np.array([-2.9, -5.0])}, 1, -5.0),
    (POSITION_JUMP, {'q': np.array([0.3, 0.6])}, 1, 1.0),
    (CROSS_CHECK, {'disagrees': True}, None, 0.0),
])
def test_a_fault_says_whose_it_is_and_what_was_measured(
        reason: str, changes: dict[str, object], culprit: int | None, measured: float) -> None:
    bench = Bench(patience=0.0).follow()
    bench.send(**changes)
    bench.send(**changes)
    guard = bench.guard
    if reason == POSITION_JUMP:  # the next one is where it was before, so it is no jump
        assert guard.faults[reason] == 1
    else:
        assert guard.reason == reason
    assert (guard.culprit, guard.measured) == (culprit, pytest.approx(measured))
    bench.run(1.0)
    assert guard.culprit is None


def test_silence_says_which_joint_is_silent_and_for_how_long() -> None:
    bench = Bench(timeout=0.05).follow()
    bench.send(received=[bench.now, bench.now - 0.03])
    bench.silence(0.05)
    assert (bench.guard.reason, bench.guard.culprit) == (STALE, 1)
    assert bench.guard.measured == pytest.approx(0.03 + 0.05 + STEP)


def test_a_fault_that_changes_its_reason_to_and_fro_counts_once_for_each() -> None:
    bench = Bench().follow()
    for _ in range(20):
        bench.send(v=np.full(2, 9.0))
        bench.q = bench.q + 1.0
        bench.send()
    counts = {reason: count for reason, count in bench.guard.faults.items() if count}
    assert counts == {TOO_FAST: 1, POSITION_JUMP: 1}
    bench.run(1.0)
    bench.send(v=np.full(2, 9.0))
    assert bench.guard.faults[TOO_FAST] == 2


def test_a_torque_that_the_slew_rate_holds_back_is_flagged() -> None:
    bench = Bench(ramp_time=0.0).follow()
    bench.run(0.5)
    assert not bench.guard.held_back
    bench.send(torque=-TORQUE)
    assert bench.guard.held_back and not bench.guard.saturated
    bench.run(0.5)
    assert not bench.guard.held_back


@pytest.mark.parametrize('torque', [5.9e3, -5.9e3])
def test_what_is_within_the_limits_is_no_fault(torque: float) -> None:
    bench = Bench().follow()
    assert bench.send(v=1.49 * VELOCITY).reason == ''
    assert bench.send(q=bench.q + 1.5 * VELOCITY * STEP).reason == ''
    assert bench.send(received=[bench.now - 0.047, bench.now]).reason == ''
    assert bench.send(torque=np.array([torque, 0.0])).reason == ''


def test_a_burst_after_a_pause_is_no_jump() -> None:
    """Stamps say that time has passed, though the messages come at once."""
    bench = Bench().follow()
    stamp = round(1e9 * bench.now)
    for k in range(1, 6):
        command = bench.send(1e-5, q=bench.q + 0.005 * k * VELOCITY, stamps=[
            stamp + k * 5_000_000] * 2)
        assert command.reason == ''


def test_stamps_that_stand_are_no_jump() -> None:
    """A publisher that does not stamp, or repeats its stamps: then the time of receipt counts."""
    bench = Bench().follow()
    stamps = bench.sample().stamps
    for _ in range(20):
        bench.q = bench.q + VELOCITY * STEP
        assert bench.send(stamps=stamps).reason == ''


def test_the_resolution_of_an_encoder_is_no_jump_more_than_that_is() -> None:
    bench = Bench().follow()
    bench.q = bench.q + 0.99 * SLACK
    assert bench.send(1e-9).reason == ''
    bench.q = bench.q + 1.01 * 1.5 * VELOCITY * JITTER
    assert bench.send(1e-9).reason == POSITION_JUMP


def test_a_continuous_joint_may_be_counted_from_pi_to_minus_pi() -> None:
    """And no other joint, nor may it jump by half a turn."""
    bench = Bench()
    bench.guard.use(GuardSettings(), LIMITS._replace(turning_joints=[1]))
    bench.q = np.array([0.3, np.pi - 1e-3])
    bench.follow()
    bench.q = np.array([0.3, -np.pi + 1e-3])
    assert bench.send().reason == ''
    bench.q = np.array([0.3, 0.0])
    assert bench.send().reason == POSITION_JUMP
    bench.run(1.0)
    bench.q = np.array([0.3 + 2.0 * np.pi, 0.0])
    assert bench.send().reason == POSITION_JUMP


def test_positions_beyond_all_sense_are_a_jump() -> None:
    bench = Bench()
    bench.guard.use(GuardSettings(), LIMITS._replace(turning_joints=[0, 1]))
    bench.q = np.array([1e308, 0.0])
    bench.follow()
    bench.q = np.array([-1e308, 0.0])
    assert bench.send().reason == POSITION_JUMP


def test_a_jump_is_noticed_behind_a_position_that_is_none() -> None:
    """What is no number is not what the next position is compared with."""
    bench = Bench().follow()
    assert bench.send(q=np.full(2, nan)).reason == NOT_FINITE
    bench.q = bench.q + 1.0
    assert bench.send().reason == POSITION_JUMP
    assert bench.send().state is not State.FOLLOWING


def test_joint_states_that_are_sent_late_are_no_jump() -> None:
    """Sampled every 2 ms of a joint at its fastest, sent with up to 8 ms of delay."""
    bench = Bench().follow()
    rng = np.random.default_rng(0)
    before = 0.0
    for k in range(1, 2000):
        sent = max(k * STEP + rng.uniform(0.0, 0.8) * JITTER, before + 1e-5)
        bench.q = bench.q + 1.5 * VELOCITY * STEP
        assert bench.send(sent - before).reason == ''
        before = sent


def test_positions_that_creep_too_fast_are_a_jump_all_the_same() -> None:
    """Each step is small enough for jitter, all together are not."""
    bench = Bench().follow()
    found = []
    for _ in range(20):
        bench.q = bench.q + SLACK + 3.0 * VELOCITY * STEP
        found.append(bench.send().reason)
    assert POSITION_JUMP in found
    assert found.index(POSITION_JUMP) * STEP <= JITTER + STEP


def test_stamps_that_leap_do_not_excuse_a_jump() -> None:
    bench = Bench().follow()
    far = round(1e9 * (bench.now + 3600.0))
    assert bench.send(q=bench.q + 1.0, stamps=[far] * 2).reason == POSITION_JUMP


def test_a_joint_that_no_velocity_limit_holds_may_jump() -> None:
    guard = CommandGuard(GuardSettings(), LIMITS._replace(max_velocity=np.full(2, inf)))
    bench = Bench()
    bench.guard = guard
    guard.enable(True, bench.now)
    bench.send()
    assert bench.send(q=bench.q + 100.0, v=np.full(2, 1e6)).reason == ''


def test_only_joints_that_are_commanded_must_be_fresh() -> None:
    bench = Bench()
    bench.guard = CommandGuard(GuardSettings(), GuardLimits(
        max_effort=EFFORT[:1], max_slew=SLEW[:1], max_velocity=VELOCITY, fresh_joints=[1]))
    bench.guard.enable(True, bench.now)
    changes = {'torque': TORQUE[:1], 'gravity': GRAVITY[:1]}
    assert bench.send(received=[0.0, bench.now], **changes).reason == ''
    assert bench.send(received=[bench.now, bench.now - 0.06], **changes).reason == STALE


def test_engines_may_disagree_for_a_while() -> None:
    bench = Bench(patience=0.1).follow()
    assert {command.reason for command in bench.run(0.098, disagrees=True)} == {''}
    bench.send()
    assert {command.reason for command in bench.run(0.098, disagrees=True)} == {''}
    assert bench.run(0.01, disagrees=True)[-1].reason == CROSS_CHECK


def test_silence_is_noticed_within_the_timeout_and_a_tick() -> None:
    bench = Bench(timeout=0.05).follow()
    assert bench.silence(0.04) == []  # the controller has the last command
    command = bench.silence(2 * TICK)[-1]
    assert (command.reason, command.state) == (STALE, State.FADING)


def test_a_process_that_was_held_up_is_no_silent_robot() -> None:
    """Joint states that came meanwhile are delivered only after the first look at the time."""
    bench = Bench().follow()
    bench.silence(2 * TICK)
    bench.now += 0.8 * LONGEST_PAUSE
    assert bench.guard.tick(bench.now) is None
    assert bench.send().reason == ''
    assert bench.guard.state is State.FOLLOWING


@pytest.mark.parametrize('ramps', [True, False])
def test_after_a_long_pause_of_the_process_itself_the_ramp_begins_anew(ramps: bool) -> None:
    """Whatever was commanded meanwhile, the arm is elsewhere now: as after any silence."""
    bench = Bench(ramp_time=1.0)
    bench.run(0.5)
    if not ramps:
        bench.run(1.0)
    bench.now += 1.1 * LONGEST_PAUSE
    command = bench.send()
    assert (command.reason, command.state) == (STALE, State.FADING)
    assert bench.guard.measured > LONGEST_PAUSE
    states = [one.state for one in bench.run(SOUND_FOR + 0.1)]
    assert State.RAMPING in states and State.FOLLOWING not in states


def test_a_process_that_is_held_up_all_the_time_notices_silence_all_the_same() -> None:
    bench = Bench().follow()
    commands = []
    for _ in range(2):
        bench.now += 1.0
        commands.append(bench.guard.tick(bench.now))
    assert commands[0] is None
    assert commands[1] is not None and commands[1].reason == STALE


# -- letting go --------------------------------------------------------------------------------


def test_fading_goes_down_to_zero_in_its_time_and_stays() -> None:
    bench = Bench(fade_time=0.4).follow()
    commands = bench.silence(0.05 + 0.4 + 0.3)
    size = sizes(commands)
    assert (np.diff(size) <= 0.0).all()
    fading = [command for command in commands if command.state is State.FADING]
    assert len(fading) == pytest.approx(0.4 / TICK, abs=1.0)
    assert np.ptp(np.diff(sizes(fading))) < 1e-9  # evenly
    assert commands[-1].state is State.STOPPED and size[-1] == 0.0


def test_a_fault_on_the_ramp_fades_from_what_was_commanded() -> None:
    """Not from the torque, of which the arm has felt a part only."""
    bench = Bench(ramp_time=1.0)
    commanded = bench.run(0.4)[-1].torque
    assert abs(commanded[0]) < 0.5 * abs(TORQUE[0])
    size = sizes(bench.silence(1.0))
    assert size[0] <= abs(commanded[0]) and (np.diff(size) <= 0.0).all()


def test_a_fault_is_over_when_a_joint_state_says_so_not_when_time_passes() -> None:
    bench = Bench(timeout=1.0).follow()
    bench.send(v=np.full(2, 9.0))
    assert {command.state for command in bench.silence(0.9)} == {State.FADING, State.STOPPED}
    assert bench.guard.reason == TOO_FAST
    assert bench.send().state is State.RAMPING


def test_gravity_is_held_for_a_limited_time() -> None:
    bench = Bench(policy='hold_gravity', hold_time=0.5, fade_time=0.2).follow()
    commands = bench.silence(0.05 + 0.5 + 0.2 + 0.1)
    held = [command for command in commands if command.state is State.HOLDING]
    assert len(held) == pytest.approx(0.5 / TICK, abs=1.0)
    np.testing.assert_allclose(held[-1].torque, GRAVITY)
    assert [command.state for command in commands][-1] is State.STOPPED


def test_what_was_held_may_be_dropped_at_once() -> None:
    """With a fade_time of 0, the end of holding is the end of the command."""
    bench = Bench(policy='hold_gravity', hold_time=0.5, fade_time=0.0, max_slew=np.full(2, inf))
    commands = bench.follow().silence(1.0)
    assert bench.guard.state is State.STOPPED
    assert not commands[-1].torque.any()


def test_what_is_held_after_a_fault_on_the_ramp_is_no_more_than_was_reached() -> None:
    """The ramp from zero would be none otherwise."""
    bench = Bench(policy='hold_gravity', ramp_time=1.0, hold_time=1.0)
    bench.run(0.2)
    held = [one for one in bench.silence(0.8) if one.state is State.HOLDING]
    assert len(held) > 50
    assert all((abs(one.torque) <= 0.25 * abs(GRAVITY)).all() for one in held)
    np.testing.assert_allclose(held[-1].torque, 0.2 * GRAVITY, atol=0.05)


def test_what_is_held_is_no_gravity_of_engines_that_disagreed() -> None:
    bench = Bench(policy='hold_gravity', patience=0.1).follow()
    wrong = np.array([-9.0, 3.5])
    commands = bench.run(0.3, disagrees=True, gravity=wrong)
    assert commands[-1].state is State.HOLDING
    np.testing.assert_allclose(commands[-1].torque, GRAVITY)


def test_commands_that_belong_together_are_cut_by_the_same_factor() -> None:
    """Effort and slew: between two torques of the motors that suit the joints, all do."""
    limits = LIMITS._replace(together=True, max_slew=np.array([400.0, 20.0]))
    bench = Bench(ramp_time=0.0)
    bench.guard.use(bench.guard.settings, limits)
    bench.run(0.5)
    torque = np.array([20.0, -2.0])
    before = bench.send().torque
    for _ in range(50):
        now = bench.send(torque=torque).torque
        way, whole = now - before, np.array([10.0, -1.0]) - before
        np.testing.assert_allclose(way[0] * whole[1], way[1] * whole[0], atol=1e-9)
        assert (abs(way) <= limits.max_slew * STEP + 1e-9).all()
        before = now
    for _ in range(200):
        now = bench.send(torque=torque).torque
    np.testing.assert_allclose(now, [10.0, -1.0])
    assert bench.guard.saturated


def test_what_is_held_is_the_gravity_of_the_last_sound_sample() -> None:
    bench = Bench(policy='hold_gravity').follow()
    bench.send(q=bench.q + 1.0, gravity=np.array([-9.0, 9.0]))
    bench.silence(0.03)
    np.testing.assert_allclose(bench.silence(TICK)[-1].torque, GRAVITY)


@pytest.mark.parametrize('policy', POLICIES)
@pytest.mark.parametrize('pause', [0.1, 0.3, 3.0])
def test_it_recovers_by_itself_with_the_ramp_from_zero(policy: str, pause: float) -> None:
    """In whichever state the end of the fault finds it."""
    bench = Bench(policy=policy, ramp_time=0.5).follow()
    bench.silence(pause)
    before = bench.guard.state
    commands = bench.run(SOUND_FOR + 0.5 + 0.1)
    states = [command.state for command in commands]
    assert commands[-1].reason == '' and states[-1] is State.FOLLOWING
    np.testing.assert_allclose(commands[-1].torque, TORQUE)
    start = states.index(State.RAMPING)
    assert start * STEP == pytest.approx(SOUND_FOR, abs=3 * STEP)
    # From what was left, down at the slew rate, then up: at 0.1 s all of it is the ramp.
    way_down = EFFORT[0] / SLEW[0]
    ramp = commands[start + round((way_down + 0.02) / STEP):]
    for index, command in enumerate(ramp[:100]):
        share = (way_down + 0.02 + index * STEP) / 0.5
        np.testing.assert_allclose(command.torque, min(share, 1.0) * TORQUE, atol=0.1)
    if before is State.STOPPED:
        assert commands[start].torque.tolist() == [0.0, 0.0]


def test_a_fault_that_comes_again_and_again_is_no_end_of_the_fault() -> None:
    bench = Bench().follow()
    for _ in range(20):
        bench.send(v=np.array([9.0, 0.0]))
        assert {command.state for command in bench.run(0.5 * SOUND_FOR)} <= {
            State.FADING, State.STOPPED}
    assert bench.guard.faults[TOO_FAST] == 1


def test_the_switch_works_at_once_in_every_state() -> None:
    for prepare in (lambda b: b.send(), lambda b: b.follow(), lambda b: b.silence(0.2),
                    lambda b: b.silence(2.0)):
        for policy in POLICIES:
            bench = Bench(policy=policy)
            prepare(bench)
            bench.guard.enable(False, bench.now)
            assert bench.guard.state is State.OFF and bench.guard.reason == ''
            assert bench.run(0.1) == [] and bench.silence(0.1) == []
            bench.guard.enable(True, bench.now)
            assert bench.send().torque.tolist() == [0.0, 0.0]
            bench.follow()
            for on in (False, True):
                bench.guard.enable(on, bench.now)
            assert bench.send(1e-6).torque.tolist() == [0.0, 0.0]


def test_a_limit_that_is_lowered_counts_at_once() -> None:
    """No command is above its limit, not even on its way down; back up it goes at the rate."""
    bench = Bench().follow()
    bench.guard.use(GuardSettings(), LIMITS._replace(max_effort=np.array([2.0, 1.0])))
    command = bench.send()
    assert (command.torque.tolist(), command.state, command.saturated) == (
        [2.0, -1.0], State.FOLLOWING, True)
    bench.guard.use(GuardSettings(), LIMITS)
    np.testing.assert_allclose(
        bench.send().torque, np.array([2.0, -1.0]) + np.sign(TORQUE) * SLEW * STEP)


def test_settings_change_without_a_leap() -> None:
    """A payload is set down: the torque goes on from where it was, at the new slew rate."""
    bench = Bench().follow()
    bench.guard.use(GuardSettings(policy='zero'), LIMITS._replace(max_slew=SLEW / 2))
    command = bench.send(torque=np.zeros(2))
    np.testing.assert_allclose(command.torque, TORQUE - np.sign(TORQUE) * SLEW / 2 * STEP)
    assert bench.send(v=np.full(2, 9.0)).state is State.STOPPED


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match='policy must be one of fade'):
        GuardSettings(policy='hope')


# -- all of it ---------------------------------------------------------------------------------


def test_whatever_comes_in_no_command_is_wrong() -> None:
    """33,000 random events: finite, within limits and slew rates, and only documented moves."""
    rng = np.random.default_rng(1)
    allowed = {(before, after) for (before, _), after in TRANSITIONS.items()}
    # Two events may meet in one step: a fault whose time is 0, say.
    allowed |= {(a, d) for a, b in allowed for c, d in allowed if b is c}
    bad = np.array([nan, inf, -inf, 1e308, -1e308, 0.0])
    for policy in POLICIES:
        bench = Bench(policy=policy, ramp_time=0.05, fade_time=0.05, hold_time=0.05)
        sent, sent_at = np.zeros(2), bench.now
        for _ in range(11_000):
            before = bench.guard.state
            bench.now += float(rng.choice([0.0, 1e-6, STEP, STEP, TICK, 0.06]))
            event = rng.integers(12)
            if event == 0:
                bench.guard.enable(bool(rng.integers(4)), bench.now)
                command = None
            elif event < 4:
                command = bench.guard.tick(bench.now)
            else:
                changes: dict[str, object] = {'torque': rng.normal(0.0, 8.0, 2)}
                if event == 4:
                    changes[str(rng.choice(['torque', 'gravity', 'q', 'v']))] = rng.choice(bad, 2)
                elif event == 5:
                    changes['received'] = (bench.now - rng.choice([0.0, 0.1], 2)).tolist()
                elif event == 6:
                    changes['stamps'] = rng.integers(-2**62, 2**62, 2).tolist()
                elif event == 7:
                    changes['disagrees'] = True
                command = bench.guard.update(bench.sample(**changes), bench.now)
            after = bench.guard.state
            assert before is after or (before, after) in allowed
            if command is None:
                if after is State.OFF:
                    sent, sent_at = np.zeros(2), bench.now
                continue
            assert np.isfinite(command.torque).all()
            assert (abs(command.torque) <= EFFORT).all()
            most = SLEW * (bench.now - sent_at) + 1e-9
            assert after is State.STOPPED or (abs(command.torque - sent) <= most).all()
            assert (after is State.STOPPED) <= (not command.torque.any())
            sent, sent_at = command.torque, bench.now


def test_the_diagram_of_the_docs_has_the_transitions_of_the_code() -> None:
    """docs/command_guard.md draws TRANSITIONS, no more and no less."""
    drawn = {(State(before), Event(event), State(after)) for before, after, event in re.findall(
        r'^ +(\w+) --> (\w+): (.+)$', DOCS.read_text(encoding='utf-8'), re.M) if before != 'start'}
    assert drawn == {(before, event, after) for (before, event), after in TRANSITIONS.items()}


def test_every_state_can_be_reached_and_left() -> None:
    befores = {before for before, _ in TRANSITIONS}
    assert befores == set(TRANSITIONS.values()) == set(State)
