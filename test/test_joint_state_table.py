# SPDX-License-Identifier: Apache-2.0
"""Each decision about joint state messages, and all of them against a slow reference."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from ros_lagdyn import joint_state_table
from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.joint_state_table import NOTES, REASONS, JointStateTable, Verdict

SECOND = 1_000_000_000  # [ns]
STEP = 10_000_000  # [ns], between two messages
NOW = 1_800_000_000 * SECOND  # [ns]
JOINTS = ('shoulder', 'elbow')
VELOCITY_CUTOFF, ACCELERATION_CUTOFF, MAX_AGE, MAX_GAP = 30.0, 12.0, 0.25, 0.5
# Names, positions, velocities and efforts of a message without faults.
GOOD = (['shoulder', 'elbow'], [0.1, 0.2], [1.0, 2.0], [10.0, 20.0])


def new_table(joints: tuple[str, ...] = JOINTS) -> JointStateTable:
    return JointStateTable(
        joints,
        velocity_cutoff=VELOCITY_CUTOFF,
        acceleration_cutoff=ACCELERATION_CUTOFF,
        max_age=MAX_AGE,
        max_gap=MAX_GAP,
    )


def send(
    table: JointStateTable,
    step: int,
    *message: Any,
    stamp_ns: int | None = None,
) -> Verdict:
    """Put a message, received at `step` times STEP, and by default stamped so too."""
    names, positions, velocities, efforts = message or GOOD
    stamp_ns = NOW + step * STEP if stamp_ns is None else stamp_ns
    return table.put(
        names, positions, velocities, efforts, stamp_ns=stamp_ns, received=step * STEP / SECOND
    )


def contents(table: JointStateTable) -> tuple[Any, ...]:
    """Return a copy of all that a table says, apart from its counters."""
    efforts = table.efforts
    return (
        table.q.tolist(),
        table.v.tolist(),
        table.a.tolist(),
        None if efforts is None else efforts.tolist(),
        table.missing(),
    )


def counted(table: JointStateTable) -> dict[str, int]:
    return {name: count for name, count in table.counts.items() if count}


def low_pass(before: float, quotient: float, cutoff: float, dt: float) -> float:
    return quotient + (before - quotient) * math.exp(-2.0 * math.pi * cutoff * dt)


def assert_refused(table: JointStateTable, reason: str, step: int, *message: Any) -> None:
    """The message is refused for this reason, counted, and leaves no trace in the state."""
    before, counts = contents(table), Counter(table.counts)
    assert send(table, step, *message) == Verdict(reason=reason)
    np.testing.assert_equal(contents(table), before)
    assert Counter(table.counts) - counts == Counter({reason: 1})


@pytest.fixture
def table() -> JointStateTable:
    return new_table()


def test_good_message_is_usable(table: JointStateTable) -> None:
    """A complete message gives its values, acceleration 0 at first, and counts nothing."""
    assert table.missing() == JOINTS
    assert np.isnan(table.q).all()
    assert send(table, 0) == Verdict()
    assert send(table, 1).usable
    assert contents(table) == ([0.1, 0.2], [1.0, 2.0], [0.0, 0.0], [10.0, 20.0], ())
    assert counted(table) == {}


def test_arrays_are_updated_in_place(table: JointStateTable) -> None:
    """q, v, a and efforts are float64 arrays that stay the same objects."""
    send(table, 0)
    arrays = (table.q, table.v, table.a, table.efforts)
    send(table, 1, ['shoulder', 'elbow'], [3.0, 4.0], [], [5.0, 6.0])
    for before, after in zip(arrays, (table.q, table.v, table.a, table.efforts), strict=True):
        assert before is after
        assert after is not None and after.dtype == np.float64 and after.shape == (2,)
    assert arrays[0].tolist() == [3.0, 4.0]


@pytest.mark.parametrize('kind', [list, tuple, lambda x: array('d', x), np.array])
def test_any_sequence_will_do(table: JointStateTable, kind: Any) -> None:
    """Numbers may come in a list, a tuple, an array.array or a numpy array."""
    assert send(table, 0, GOOD[0], *map(kind, GOOD[1:])).usable
    assert contents(table) == ([0.1, 0.2], [1.0, 2.0], [0.0, 0.0], [10.0, 20.0], ())


def test_names_in_any_order_with_extra_joints(table: JointStateTable) -> None:
    """Joints are found by name; gripper and mimic joints do not matter, whatever they say."""
    names = ['gripper', 'elbow', 'elbow_mimic', 'shoulder', 'gripper']
    positions, velocities = [nan, 0.2, inf, 0.1, 7.0], [nan, 2.0, nan, 1.0, 8.0]
    assert send(table, 0, names, positions, velocities, [0.0, 20.0, nan, 10.0, 0.0]).usable
    assert contents(table) == ([0.1, 0.2], [1.0, 2.0], [0.0, 0.0], [10.0, 20.0], ())
    assert counted(table) == {}


def test_order_may_change_between_messages(table: JointStateTable) -> None:
    """Other names get another map, also when the caller changes the list it sent before."""
    names = ['shoulder', 'elbow']
    send(table, 0, names, [0.1, 0.2], [], [])
    names.reverse()
    send(table, 1, names, [0.2, 0.1], [], [])
    assert table.q.tolist() == [0.1, 0.2]
    send(table, 2, ['shoulder', 'elbow'], [0.1, 0.2], [], [])
    send(table, 3, ('elbow', 'shoulder'), [0.2, 0.1], [], [])
    assert table.q.tolist() == [0.1, 0.2]


def test_remembered_names_are_limited(table: JointStateTable) -> None:
    """A publisher that always sends new names does not fill the memory, nor confuse the table."""
    for step in range(200):
        assert send(table, step, [f'x{step}', 'elbow', 'shoulder'], [9, 0.2, 0.1], [], []).usable
    assert table.q.tolist() == [0.1, 0.2]
    assert len(table._layouts) <= 16


def test_no_known_joint(table: JointStateTable) -> None:
    """A message with none of our joints is refused, and its names are kept for diagnostics."""
    send(table, 0)
    assert table.unknown_names == ()
    assert_refused(table, 'no_known_joint', 1, ['wheel', 'rudder'], [0.0, 0.0], [], [])
    assert table.unknown_names == ('wheel', 'rudder')
    send(table, 2)
    assert table.unknown_names == ('wheel', 'rudder')
    assert_refused(table, 'no_known_joint', 3, ['fin'], [], [1.0, 2.0], [])
    assert table.unknown_names == ('fin',)
    assert_refused(table, 'no_known_joint', 4, [], [], [], [])


def test_no_position(table: JointStateTable) -> None:
    """A message without positions is refused, even if it has velocities."""
    send(table, 0)
    assert_refused(table, 'no_position', 1, ['shoulder', 'elbow'], [], [1.0, 2.0], [])


@pytest.mark.parametrize('positions', [[0.1], [0.1, 0.2, 0.3]])
def test_wrong_number_of_positions(table: JointStateTable, positions: list[float]) -> None:
    """More or fewer positions than names: nobody knows whose they are."""
    send(table, 0)
    assert_refused(table, 'wrong_length', 1, ['shoulder', 'elbow'], positions, [], [])


@pytest.mark.parametrize('values', [[0.1], [0.1, 0.2, 0.3]])
def test_wrong_number_of_velocities_or_efforts(
    table: JointStateTable, values: list[float]
) -> None:
    """Velocities and efforts are as many as names, or none."""
    send(table, 0)
    assert_refused(table, 'wrong_length', 1, ['shoulder', 'elbow'], [0.1, 0.2], values, [])
    assert_refused(table, 'wrong_length', 2, ['shoulder', 'elbow'], [0.1, 0.2], [], values)


def test_repeated_name(table: JointStateTable) -> None:
    """One of our joints named twice is refused, even with equal values."""
    send(table, 0)
    names = ['shoulder', 'elbow', 'shoulder']
    assert_refused(table, 'repeated_name', 1, names, [0.1, 0.2, 0.1], [], [])


@pytest.mark.parametrize('bad', [nan, inf, -inf, 1.1e9, -1e308, 10**400])
def test_impossible_position(table: JointStateTable, bad: float) -> None:
    """A position of one of our joints that no joint can have: the whole message is refused."""
    send(table, 0)
    assert_refused(table, 'impossible_position', 1, ['shoulder', 'elbow'], [0.5, bad], [], [])


@pytest.mark.parametrize('velocities', [[], [nan, nan], [inf, -inf], [1e10, -1e300]])
def test_missing_velocity_is_derived(table: JointStateTable, velocities: list[float]) -> None:
    """Without velocities they are derived from positions: 0, the quotient, then low-passed."""
    q = [0.0, 0.01, 0.05, 0.04]
    v = [0.0, 1.0]
    v += [low_pass(v[1], 4.0, VELOCITY_CUTOFF, 0.01)]
    v += [low_pass(v[2], -1.0, VELOCITY_CUTOFF, 0.01)]
    for step, (q_k, v_k) in enumerate(zip(q, v, strict=True)):
        assert send(table, step, ['shoulder', 'elbow'], [q_k, -q_k], velocities, []).usable
        assert table.v.tolist() == pytest.approx([v_k, -v_k])
    assert counted(table) == {}


def test_one_missing_velocity_is_derived_alone(table: JointStateTable) -> None:
    """Only the joint whose velocity is NaN has it derived."""
    for step in range(3):
        send(table, step, ['shoulder', 'elbow'], [0.02 * step, 0.0], [nan, 7.0], [])
    assert table.v.tolist() == pytest.approx([2.0, 7.0])


def test_derived_velocity_goes_on_from_a_sent_one(table: JointStateTable) -> None:
    """When velocities stop coming, the estimate goes on from the last sent one, without a jump."""
    send(table, 0, ['shoulder', 'elbow'], [0.0, 0.0], [3.0, 3.0], [])
    send(table, 1, ['shoulder', 'elbow'], [0.03, 0.01], [], [])
    assert table.v.tolist() == pytest.approx([3.0, low_pass(3.0, 1.0, VELOCITY_CUTOFF, 0.01)])


def test_acceleration_is_the_derivative_of_velocity(table: JointStateTable) -> None:
    """Acceleration: 0, the quotient of the velocities, then low-passed, at uneven stamps."""
    names, stamps, v = ['shoulder', 'elbow'], [0, 4_000_000, 5_000_000], [0.0, 0.02, 0.03]
    a = [0.0, 5.0, low_pass(5.0, 10.0, ACCELERATION_CUTOFF, 0.001)]
    for step, (stamp, v_k, a_k) in enumerate(zip(stamps, v, a, strict=True)):
        send(table, step, names, [0.0, 0.0], [v_k, -v_k], [], stamp_ns=NOW + stamp)
        assert table.a.tolist() == pytest.approx([a_k, -a_k])


def test_unknown_velocity_is_not_differentiated(table: JointStateTable) -> None:
    """An arm that moves evenly from the first message on has no acceleration, derived or not."""
    for step in range(5):
        send(table, step, ['shoulder', 'elbow'], [0.05 * step, 1.0], [nan, 2.0], [])
        np.testing.assert_allclose(table.a, 0.0, rtol=0.0, atol=1e-9)
    assert table.v.tolist() == pytest.approx([5.0, 2.0])


@pytest.mark.parametrize('efforts', [[], [nan, 20.0], [10.0, inf]])
def test_unknown_effort(table: JointStateTable, efforts: list[float]) -> None:
    """Efforts are None as soon as one joint has none, and back when all have."""
    send(table, 0)
    assert table.efforts is not None
    assert send(table, 1, ['shoulder', 'elbow'], [0.1, 0.2], [], efforts).usable
    assert table.efforts is None
    send(table, 2)
    assert table.efforts is not None


def test_efforts_of_several_publishers(table: JointStateTable) -> None:
    """Efforts may come in different messages; too old ones do not count."""
    send(table, 0, ['shoulder'], [0.1], [], [10.0])
    assert table.efforts is None
    assert send(table, 1, ['elbow'], [0.2], [], [20.0]).usable
    assert table.efforts is not None and table.efforts.tolist() == [10.0, 20.0]
    send(table, 2, ['elbow'], [0.2], [], [])
    assert table.efforts is None
    send(table, 3, ['elbow'], [0.2], [], [21.0])
    assert table.efforts is not None
    send(table, 40, ['elbow'], [0.2], [], [21.0])
    assert table.efforts is None


def test_repeated_stamp(table: JointStateTable) -> None:
    """A repeated stamp is answered with the values as sent, derivatives held, and noted."""
    names = ['shoulder', 'elbow']
    send(table, 0, names, [0.0, 0.0], [1.0, nan], [])
    send(table, 1, names, [0.01, 0.02], [2.0, nan], [])
    v, a = table.v.tolist(), table.a.tolist()
    assert a[0] == pytest.approx(100.0)
    verdict = send(table, 2, names, [0.5, 0.6], [9.0, nan], [1.0, 2.0], stamp_ns=NOW + STEP)
    assert verdict == Verdict(note='repeated_stamp') and verdict.usable
    assert contents(table) == ([0.5, 0.6], [9.0, v[1]], a, [1.0, 2.0], ())
    assert counted(table) == {'repeated_stamp': 1}
    # It leaves no trace in the derivatives.
    send(table, 3, names, [0.0, 0.03], [3.0, nan], [], stamp_ns=NOW + 2 * STEP)
    assert table.v[1] == pytest.approx(low_pass(2.0, 1.0, VELOCITY_CUTOFF, 0.01))
    assert table.a[0] == pytest.approx(100.0)


def test_repeated_stamp_keeps_joints_young(table: JointStateTable) -> None:
    """A publisher whose stamps stand still is noted, but its joints were received just now."""
    for step in range(100):
        assert send(table, step, stamp_ns=NOW).usable
    assert counted(table) == {'repeated_stamp': 99}


@pytest.mark.parametrize('back', [1, STEP, SECOND])
def test_stamp_went_back(table: JointStateTable, back: int) -> None:
    """A stamp that goes back by up to 1 s is refused."""
    send(table, 0)
    before = contents(table)
    assert send(table, 1, stamp_ns=NOW - back) == Verdict(reason='stamp_went_back')
    assert contents(table) == before
    assert counted(table) == {'stamp_went_back': 1}


def test_fifth_step_back_is_a_clock_reset(table: JointStateTable) -> None:
    """Four messages in a row from before are refused; with the fifth the clock was set back."""
    send(table, 0, ['shoulder', 'elbow'], [0.0, 0.0], [nan, 1.0], [])
    send(table, 1, ['shoulder', 'elbow'], [0.1, 0.0], [nan, 2.0], [])
    for step in range(2, 6):
        stamp = NOW - SECOND // 2 + step * STEP
        assert send(table, step, stamp_ns=stamp).reason == 'stamp_went_back'
    stamp = NOW - SECOND // 2 + 6 * STEP
    message = (['shoulder', 'elbow'], [0.3, 0.4], [nan, 5.0], [])
    assert send(table, 6, *message, stamp_ns=stamp) == Verdict(note='clock_reset')
    assert contents(table) == ([0.3, 0.4], [0.0, 5.0], [0.0, 0.0], None, ())
    assert counted(table) == {'stamp_went_back': 4, 'clock_reset': 1}
    assert send(table, 7, stamp_ns=stamp + STEP) == Verdict()


def test_steps_back_count_only_in_a_row(table: JointStateTable) -> None:
    """One good message between those from before: none of them is a clock reset."""
    for step in range(0, 40, 4):
        assert send(table, step, stamp_ns=NOW + step * STEP).usable
        for late in range(1, 4):
            assert not send(table, step + late, stamp_ns=NOW + step * STEP - late).usable
    assert counted(table) == {'stamp_went_back': 30}


def test_long_step_back_is_a_clock_reset(table: JointStateTable) -> None:
    """A stamp that goes back by more than 1 s at once means that the clock was set back."""
    send(table, 0, ['shoulder', 'elbow'], [0.0, 0.0], [], [])
    send(table, 1, ['shoulder', 'elbow'], [0.1, 0.1], [], [])
    stamp = NOW + STEP - SECOND - 1
    verdict = send(table, 2, ['shoulder', 'elbow'], [0.2, 0.2], [], [], stamp_ns=stamp)
    assert verdict == Verdict(note='clock_reset')
    assert contents(table) == ([0.2, 0.2], [0.0, 0.0], [0.0, 0.0], None, ())
    send(table, 3, ['shoulder', 'elbow'], [0.21, 0.22], [], [], stamp_ns=stamp + STEP)
    assert table.v.tolist() == pytest.approx([1.0, 2.0])


def test_stamp_back_for_some_joints(table: JointStateTable) -> None:
    """Where only some joints' stamps go back, those are skipped and the others taken."""
    send(table, 0)
    send(table, 1, ['elbow'], [0.3], [], [])
    verdict = send(table, 2, ['shoulder', 'elbow'], [7.0, 8.0], [], [], stamp_ns=NOW + STEP // 2)
    assert verdict == Verdict(note='stamp_went_back') and verdict.usable
    assert table.q.tolist() == [7.0, 0.3]
    assert counted(table) == {'stamp_went_back': 1}


def test_gap_starts_derivatives_anew(table: JointStateTable) -> None:
    """After a gap of more than max_gap the next message is a first one for the derivatives."""
    names = ['shoulder', 'elbow']
    send(table, 0, names, [0.0, 0.0], [nan, 1.0], [])
    send(table, 1, names, [0.1, 0.0], [nan, 2.0], [])
    stamp = NOW + STEP + SECOND // 2 + 1
    assert send(table, 60, names, [0.9, 0.0], [nan, 5.0], [], stamp_ns=stamp) == Verdict()
    assert contents(table) == ([0.9, 0.0], [0.0, 5.0], [0.0, 0.0], None, ())


def test_publishers_with_different_clocks(table: JointStateTable) -> None:
    """Each joint has its own stamps: a publisher a day behind is as good as any."""
    for step in range(4):
        day_before = NOW - 86_400 * SECOND + step * STEP
        send(table, step, ['shoulder'], [0.01 * step], [], [])
        assert send(table, step, ['elbow'], [0.02 * step], [], [], stamp_ns=day_before).usable
    assert table.v.tolist() == pytest.approx([1.0, 2.0])
    assert counted(table) == {'incomplete': 1}


def test_incomplete(table: JointStateTable) -> None:
    """Until every joint has been seen, messages are taken but not answered."""
    assert send(table, 0, ['elbow'], [0.2], [], []) == Verdict(reason='incomplete')
    assert table.missing() == ('shoulder',)
    verdict = send(table, 1, ['elbow'], [0.3], [], [], stamp_ns=NOW)
    assert verdict == Verdict(reason='incomplete', note='repeated_stamp')
    assert send(table, 2, ['shoulder'], [0.1], [], []) == Verdict()
    assert table.missing() == ()
    assert table.q.tolist() == [0.1, 0.3]
    assert counted(table) == {'incomplete': 2, 'repeated_stamp': 1}


def test_joint_too_old(table: JointStateTable) -> None:
    """A joint received longer ago than max_age is missing, until it is seen again."""
    send(table, 0)
    assert send(table, 25, ['elbow'], [0.2], [], []).usable
    assert send(table, 26, ['elbow'], [0.2], [], []) == Verdict(reason='incomplete')
    assert table.missing() == ('shoulder',)
    assert table.missing(now=10.0) == JOINTS
    assert send(table, 27).usable


def test_max_age_goes_by_receipt_not_by_stamp(table: JointStateTable) -> None:
    """A joint received just now is young, though its publisher's clock is an hour behind."""
    send(table, 0, ['shoulder'], [0.1], [], [], stamp_ns=NOW - 3600 * SECOND)
    assert send(table, 1, ['elbow'], [0.2], [], []).usable


def test_infinite_max_age_still_needs_every_joint(table: JointStateTable) -> None:
    """With an infinite max_age no joint is too old, but one never seen is missing."""
    table.max_age = inf
    assert send(table, 0, ['elbow'], [0.2], [], []).reason == 'incomplete'
    send(table, 1)
    assert send(table, 10**6, ['elbow'], [0.2], [], []).usable


def test_reset_keeps_the_counters(table: JointStateTable) -> None:
    """After a reset no joint has been seen, any stamp is a first one, and the counters stay."""
    send(table, 0)
    send(table, 1, ['wheel'], [0.0], [], [])
    send(table, 1, ['shoulder', 'elbow'], [0.1, 0.2], [], [nan, 1.0])
    table.reset()
    assert table.missing() == JOINTS
    assert table.efforts is None and np.isnan([table.q, table.v, table.a]).all()
    assert counted(table) == {'no_known_joint': 1}
    message = (['shoulder', 'elbow'], [0.1, 0.2], [], [])
    assert send(table, 2, *message, stamp_ns=NOW - 1) == Verdict()
    assert table.v.tolist() == [0.0, 0.0]
    send(table, 3, ['shoulder', 'elbow'], [0.1, 0.2], [1.0, 1.0], [])
    table.reset()
    send(table, 4, ['shoulder', 'elbow'], [0.1, 0.2], [2.0, 2.0], [])
    assert table.a.tolist() == [0.0, 0.0]


def test_settings_may_change(table: JointStateTable) -> None:
    """Cut-offs and max_age may be changed while running; a bad value leaves the old one."""
    names = ['shoulder', 'elbow']
    table.velocity_cutoff = inf
    for step, q in enumerate([0.0, 0.01, 0.03]):
        send(table, step, names, [q, q], [], [])
    assert table.v.tolist() == pytest.approx([2.0, 2.0])
    table.acceleration_cutoff = inf
    send(table, 3, names, [0.03, 0.03], [2.5, 2.5], [])
    assert table.a.tolist() == pytest.approx([50.0, 50.0])
    table.max_age = 0.05
    assert send(table, 9, ['elbow'], [0.0], [], []).reason == 'incomplete'
    for setting in ('velocity_cutoff', 'acceleration_cutoff', 'max_age'):
        before = getattr(table, setting)
        with pytest.raises(InvalidArgumentError, match=r'must be > 0 (Hz|s), got -1.0'):
            setattr(table, setting, -1.0)
        assert getattr(table, setting) == before


def test_acceleration_starts_anew_with_velocity(table: JointStateTable) -> None:
    """Where a velocity has to start anew, the step to the next one is no acceleration."""
    for step, q in ((0, 0.0), (1, 0.01), (200, 0.0), (201, 0.05)):  # a gap of 2 s
        send(table, step, ['shoulder', 'elbow'], [q, q], [], [])
    assert table.v.tolist() == pytest.approx([5.0, 5.0])
    assert table.a.tolist() == [0.0, 0.0]


class Nasty:
    """An object that raises whatever one does with it."""

    def __len__(self) -> int:
        raise RuntimeError('no length')

    def __eq__(self, other: object) -> bool:
        raise RuntimeError('no comparison')

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    'message',
    [
        (None, [], [], []),
        (7, [0.1], [], []),
        (GOOD[0], None, [], []),
        (GOOD[0], [0.1, 0.2], None, []),
        (GOOD[0], [0.1, 0.2], [], 5.0),
        (GOOD[0], ['0.1', 0.2], [], []),
        (GOOD[0], [None, 0.2], [], []),
        (GOOD[0], {1: 0.1, 2: 0.2}, [], []),
        (GOOD[0], [0.1, 0.2], [1j, 0.0], []),
        (GOOD[0], [0.1, 0.2], [], [[], 0.0]),
        (GOOD[0], np.zeros((2, 2)), [], []),
        (Nasty(), Nasty(), Nasty(), Nasty()),
        (GOOD[0], [Nasty(), Nasty()], [], []),
    ],
)
def test_malformed_message(table: JointStateTable, message: tuple[Any, ...]) -> None:
    """What is no joint state at all is refused without an exception, and leaves no trace."""
    send(table, 0)
    assert_refused(table, 'malformed', 1, *message)
    assert send(table, 2) == Verdict()


@pytest.mark.parametrize(
    'times',
    [
        {'stamp_ns': '1', 'received': 0.0},
        {'stamp_ns': 1.5, 'received': 0.0},
        {'stamp_ns': None, 'received': 0.0},
        {'stamp_ns': NOW + STEP, 'received': nan},
        {'stamp_ns': NOW + STEP, 'received': None},
    ],
)
def test_malformed_time(table: JointStateTable, times: dict[str, Any]) -> None:
    """A time that is no time is refused without an exception, and leaves no trace."""
    send(table, 0)
    before = contents(table)
    assert table.put(*GOOD, **times) == Verdict(reason='malformed')
    assert contents(table) == before


def test_huge_numbers_do_not_raise(table: JointStateTable) -> None:
    """Stamps of any size and the largest positions give finite derivatives."""
    for step, q in enumerate([1e9, -1e9, 1e9, 0.0, 0.0, 0.0]):
        assert send(table, step, ['shoulder', 'elbow'], [q, q], [nan, q], []).usable
        assert np.isfinite([table.q, table.v, table.a]).all()
    for stamp in (10**400, -(10**400), 10**400, 0):
        assert send(table, 9, stamp_ns=stamp).usable
        assert np.isfinite([table.q, table.v, table.a]).all()


@pytest.mark.parametrize('stranger', [5, None, ['shoulder'], b'shoulder', ('elbow',), 1.5])
def test_names_that_are_no_strings_are_unknown(table: JointStateTable, stranger: Any) -> None:
    """A name that is not a string is the name of none of our joints."""
    message = (['shoulder', stranger, 'elbow'], [0.1, 9.0, 0.2], [], [])
    assert send(table, 0, *message) == Verdict()
    assert send(table, 1, *message) == Verdict()
    assert table.q.tolist() == [0.1, 0.2]
    assert send(table, 2, [stranger], [0.0], [], []).reason == 'no_known_joint'
    assert table.unknown_names == (str(stranger),)


@pytest.mark.parametrize('joints', [(), ('elbow', 'elbow')])
def test_bad_joints_are_refused(joints: tuple[str, ...]) -> None:
    """A table needs joints of different names."""
    with pytest.raises(InvalidArgumentError, match='different names'):
        new_table(joints)


def test_every_reason_is_documented_and_counted(table: JointStateTable) -> None:
    """The module's table names every reason and note, and each has a counter from the start."""
    for name in (*REASONS, *NOTES[1:]):
        assert f'`{name}`' in str(joint_state_table.__doc__)
        assert table.counts[name] == 0
    rows = [row for row in str(joint_state_table.__doc__).splitlines() if row.startswith('|')]
    assert {row.count('|') for row in rows} == {4}


def started(before: float, difference: float, dt: float, cutoff: float) -> float:
    """Return the next value of a filter; nan where it has not started and cannot yet."""
    if not math.isnan(before):
        return low_pass(before, difference / dt, cutoff, dt)
    return difference / dt if dt >= 0.25 / (2.0 * math.pi * cutoff) else nan


class Reference:
    """The same decisions, slow and plain: every joint keeps its samples and starts from them."""

    def __init__(self, joints: Sequence[str]) -> None:
        self.samples: dict[str, list[tuple[int, float, float]]] = {name: [] for name in joints}
        self.latest: dict[str, dict[str, float]] = {}  # values of the last message of a joint
        self.refused_in_a_row = dict.fromkeys(joints, 0)
        self.counts: Counter[str] = Counter()

    def put(self, message: Any, stamp: int, received: float) -> tuple[str, str]:
        """Return reason and note."""
        reason, note = self.judge(message, stamp, received)
        self.counts.update({name for name in (reason, note) if name})
        return reason, note

    def judge(self, message: Any, stamp: int, received: float) -> tuple[str, str]:
        names, positions, velocities, efforts = message
        ours = [name for name in names if name in self.samples]
        if not ours:
            return 'no_known_joint', ''
        if len(positions) == 0:
            return 'no_position', ''
        if len(positions) != len(names):
            return 'wrong_length', ''
        if len(velocities) not in (0, len(names)) or len(efforts) not in (0, len(names)):
            return 'wrong_length', ''
        if len(set(ours)) != len(ours):
            return 'repeated_name', ''
        if not all(abs(positions[names.index(name)]) <= 1e9 for name in ours):
            return 'impossible_position', ''
        found = set()
        for name in ours:
            i = names.index(name)
            found.add(
                self.put_joint(
                    name,
                    positions[i],
                    velocities[i] if len(velocities) else nan,
                    efforts[i] if len(efforts) else nan,
                    stamp,
                    received,
                )
            )
        if found == {'stamp_went_back'}:
            return 'stamp_went_back', ''
        note = next(
            (n for n in ('clock_reset', 'stamp_went_back', 'repeated_stamp') if n in found), ''
        )
        self.now = received
        return ('incomplete' if self.missing() else ''), note

    def put_joint(
        self, name: str, q: float, v: float, effort: float, stamp: int, received: float
    ) -> str:
        samples = self.samples[name]
        found = ''
        if samples and stamp < samples[-1][0]:
            if samples[-1][0] - stamp <= SECOND and self.refused_in_a_row[name] < 4:
                self.refused_in_a_row[name] += 1
                return 'stamp_went_back'
            samples.clear()
            found = 'clock_reset'
        self.refused_in_a_row[name] = 0
        v = v if abs(v) <= 1e9 else nan
        effort = effort if abs(effort) <= 1e9 else nan
        if samples and stamp == samples[-1][0]:
            latest = self.latest[name]
            v = latest['v'] if math.isnan(v) else v
            latest.update(q=q, v=v, effort=effort, received=received)
            return 'repeated_stamp'
        if samples and stamp - samples[-1][0] > MAX_GAP * SECOND:
            samples.clear()
        samples.append((stamp, q, v))
        v, a = self.derive(samples)
        self.latest[name] = {'q': q, 'v': v, 'a': a, 'effort': effort, 'received': received}
        return found

    @staticmethod
    def derive(samples: list[tuple[int, float, float]]) -> tuple[float, float]:
        """Run both filters from the first sample to the last."""
        # nan stands for a derivative that has not started; each starts from an older sample that
        # is far enough away.
        t_q, q_0, v = samples[0]
        a, t_v, v_0 = nan, t_q, v
        for t, q, sent in samples[1:]:
            if math.isnan(sent):
                sent = started(v, q - q_0, (t - t_q) / SECOND, VELOCITY_CUTOFF)
            v = sent
            if math.isnan(v):
                continue
            t_q, q_0 = t, q
            if not math.isnan(v_0):
                a = started(a, v - v_0, (t - t_v) / SECOND, ACCELERATION_CUTOFF)
                if math.isnan(a):
                    continue
            t_v, v_0 = t, v
        return (0.0 if math.isnan(v) else v), (0.0 if math.isnan(a) else a)

    def missing(self) -> tuple[str, ...]:
        return tuple(
            name
            for name in self.samples
            if name not in self.latest or self.now - self.latest[name]['received'] > MAX_AGE
        )

    def column(self, key: str) -> list[float]:
        return [self.latest.get(name, {}).get(key, nan) for name in self.samples]

    def efforts(self) -> list[float] | None:
        efforts = self.column('effort')
        return None if self.missing() or any(map(math.isnan, efforts)) else efforts


def random_numbers(rng: np.random.Generator, count: int, faults: float) -> array[float]:
    """Return numbers, at times none, too few or with a NaN or an infinity."""
    numbers = rng.normal(size=count)
    fault = rng.random()
    if fault < faults:
        return array('d')
    if fault < 1.3 * faults:
        return array('d', numbers[1:])
    if fault < 2.0 * faults:
        numbers[rng.integers(count)] = rng.choice([nan, inf, -inf])
    return array('d', numbers)


@pytest.mark.parametrize('joints', [('j1',), ('j1', 'j2'), ('j1', 'j2', 'j3', 'j4')])
@pytest.mark.parametrize('seed', range(8))
def test_random_messages_against_the_reference(joints: tuple[str, ...], seed: int) -> None:
    """Any sequence of messages gives what the plain reference gives, message by message."""
    rng = np.random.default_rng([seed, len(joints)])
    table, reference = new_table(joints), Reference(joints)
    everyone = [*joints, 'gripper', 'j1_mimic']
    faults = (0.0, 0.05, 0.15, 0.3)[seed % 4]
    publishers = [everyone, list(joints)]
    clocks = [NOW, NOW]
    if seed % 2:  # and two that carry some of the joints, one with a clock of its own
        publishers += [[*joints[:1], 'gripper'], [*joints[1:], 'gripper']]
        clocks += [NOW, NOW - 7 * SECOND]
    steps = [0, -1_000_000, -400_000_000, -1_500_000_000, 700_000_000]
    received = 5.0
    for _ in range(400):
        k = rng.integers(len(publishers))
        names = list(publishers[k])
        if rng.random() < 0.3:
            rng.shuffle(names)
        if rng.random() < 0.3 * faults:
            names[0] = names[-1]
        if rng.random() < 0.3 * faults:
            names = ['wheel', 'rudder']
        pause = float(rng.choice([1e-3, 0.02, 0.3], p=[0.6, 0.37, 0.03])) * rng.uniform(0.5, 1.5)
        received += pause
        clocks = [clock + round(pause * SECOND) for clock in clocks]
        stamp = clocks[k]
        if rng.random() < faults:
            stamp += int(rng.choice(steps))
            if rng.random() < 0.3:  # for good
                clocks[k] = stamp
        if rng.random() < 0.5 * faults:  # a stamp that some joint has had
            last = [samples[-1][0] for samples in reference.samples.values() if samples]
            stamp = int(rng.choice(last)) if last else stamp
        message = (names, *(random_numbers(rng, len(names), faults) for _ in range(3)))
        expected = reference.put(message, stamp, received)
        verdict = table.put(*message, stamp_ns=stamp, received=received)
        assert (verdict.reason, verdict.note) == expected
        # Both run the same recursion in another order of operations.
        for found, key in ((table.q, 'q'), (table.v, 'v'), (table.a, 'a')):
            np.testing.assert_allclose(found, reference.column(key), rtol=1e-9, atol=1e-7)
        efforts = reference.efforts() if reference.latest else None
        if efforts is None:
            assert table.efforts is None
        else:
            np.testing.assert_array_equal(table.efforts, efforts)
        if reference.latest:
            assert table.missing() == reference.missing()
    assert Counter(counted(table)) == reference.counts
    if faults == 0.3 and len(joints) > 1:  # the sequences do come to every decision but one
        assert set(reference.counts) == set(table.counts) - {'malformed'}
