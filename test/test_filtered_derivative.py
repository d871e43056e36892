# SPDX-License-Identifier: Apache-2.0
"""The filtered derivative is the exact low-pass of a polyline's slope, at any time stamps."""

from __future__ import annotations

import numpy as np
import pytest

from ros_lagdyn.errors import InvalidArgumentError
from ros_lagdyn.filtered_derivative import SECOND, FilteredDerivative

NOW = 1_800_000_000 * SECOND  # [ns], a time stamp of these years
CUTOFF = 20.0  # [Hz]
OMEGA = 2.0 * np.pi * CUTOFF  # [rad/s]
EPS = np.finfo(float).eps


def stamps(count: int, *, uneven: bool) -> np.ndarray:
    """Return time stamps from NOW on [ns], 1 ms apart, or 0.1 to 1.9 ms apart."""
    steps = np.full(count, 1_000_000)
    if uneven:
        steps = np.random.default_rng(1).integers(100_000, 1_900_000, count)
    return NOW + np.cumsum(steps)


def run(derivative: FilteredDerivative, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.array(
        [derivative.update([x_k], int(t_k))[0] for x_k, t_k in zip(x, t, strict=True)]
    )


@pytest.mark.parametrize('uneven', [False, True])
def test_ramp_is_exact(uneven: bool) -> None:
    """The derivative of a ramp is its slope as soon as the filter starts, at any time stamps."""
    t = stamps(500, uneven=uneven)
    slope, start = 2.5, 0.3
    x = start + slope * (t - NOW) / SECOND
    d = run(FilteredDerivative(1, CUTOFF), x, t)
    early = t - t[0] < 0.25 / OMEGA * SECOND
    assert (d[early] == 0.0).all() and 2 <= early.sum() < 10
    # The rounding of x, over the shortest step.
    atol = 4 * EPS * np.abs(x).max() * SECOND / np.diff(t).min()
    np.testing.assert_allclose(d[~early], slope, rtol=0.0, atol=atol)


def test_polyline_is_exact() -> None:
    """Samples of a polyline give the continuous filter's output, however many are in between."""
    rng = np.random.default_rng(2)
    corners = np.concatenate([[0], np.cumsum(rng.integers(10_000_000, 90_000_000, 12))])
    values = rng.normal(size=corners.size)
    # More samples on the same polyline must not change the output at its corners.
    between = np.unique(np.concatenate([corners[1:], rng.integers(corners[1], corners[-1], 300)]))
    between = np.concatenate([[0], between])
    coarse = run(FilteredDerivative(1, CUTOFF), values, NOW + corners)
    fine = run(FilteredDerivative(1, CUTOFF), np.interp(between, corners, values), NOW + between)
    at = np.searchsorted(between, corners)
    np.testing.assert_allclose(fine[at], coarse, rtol=1e-9, atol=1e-9)
    # And the solution of d' = omega (slope - d) on each piece, written down by hand.
    slopes = np.diff(values) / np.diff(corners) * SECOND
    d = slopes[0]
    for slope, dt, found in zip(slopes[1:], np.diff(corners)[1:], coarse[2:], strict=True):
        d = slope + (d - slope) * np.exp(-OMEGA * dt / SECOND)
        assert found == pytest.approx(d, rel=1e-12)


@pytest.mark.parametrize('uneven', [False, True])
@pytest.mark.parametrize('frequency', [2.0, 20.0, 60.0])
def test_sine_has_the_gain_and_phase_of_the_analytic_filter(
    frequency: float, uneven: bool
) -> None:
    """A sine's derivative has gain 1 / sqrt(1 + (f/fc)^2) and is late by atan(f/fc)."""
    t = stamps(2000, uneven=uneven)
    s = (t - NOW) / SECOND
    pulse = 2.0 * np.pi * frequency
    d = run(FilteredDerivative(1, CUTOFF), np.sin(pulse * s), t)
    gain = 1.0 / np.sqrt(1.0 + (frequency / CUTOFF) ** 2)
    phase = np.arctan(frequency / CUTOFF)
    analytic = pulse * gain * np.cos(pulse * s - phase)
    # d = omega (x - lowpass(x)), and a polyline misses the sine by at most (pulse dt)^2 / 8.
    bound = OMEGA * (pulse * np.diff(t).max() / SECOND) ** 2 / 8.0
    settled = s > s[0] + 20.0 / OMEGA  # the start has decayed to e^-20
    atol = bound + 2.0 * pulse * np.exp(-20.0) + 1e-9
    np.testing.assert_allclose(d[settled], analytic[settled], rtol=0.0, atol=atol)
    assert bound < 0.5 * pulse * gain  # so the test can fail


def test_noise_gain() -> None:
    """White noise of x comes out with alpha / dt * sqrt(2 / (1 + e^(-omega dt))) its deviation."""
    count, dt = 40_000, 1e-3
    noise = np.random.default_rng(3).normal(size=count)
    d = run(FilteredDerivative(1, CUTOFF), noise, stamps(count, uneven=False))
    decay = np.exp(-OMEGA * dt)
    expected = (1.0 - decay) / dt * np.sqrt(2.0 / (1.0 + decay))
    # The deviation of count normal numbers is uncertain by 1 / sqrt(2 count); five times that.
    assert d[200:].std() == pytest.approx(expected, rel=5.0 / np.sqrt(2.0 * count))


def test_second_sample_starts_the_filter() -> None:
    """The first sample gives 0, the second the whole difference quotient."""
    derivative = FilteredDerivative(2, CUTOFF)
    assert derivative.update([1.0, 5.0], NOW) == [0.0, 0.0]
    assert not derivative.started(0)
    assert derivative.update([1.5, 4.0], NOW + 100_000_000) == pytest.approx([5.0, -10.0])
    assert derivative.started(0)


def test_a_burst_at_the_start_is_no_derivative() -> None:
    """Samples that are held up and come at once are a few microseconds apart, and noisy."""
    derivative = FilteredDerivative(1, CUTOFF)
    slope, tick, quarter = 0.5, 1e-4, 0.25 / OMEGA
    largest = 0.0
    for k in range(4000):
        t = 5e-6 * k
        x = slope * t + tick * (k % 2)  # the last bit of an encoder flickers
        largest = max(largest, abs(derivative.update([x], NOW + round(t * SECOND))[0]))
    # One tick over a quarter of 1 / omega at the start; later at most omega times a tick.
    assert slope < largest <= slope + tick / quarter + OMEGA * tick


@pytest.mark.parametrize('step', [0, -1, -SECOND])
def test_time_that_does_not_advance_holds_the_derivative(step: int) -> None:
    """A step of time that is zero or negative changes nothing: the sample leaves no trace."""
    with_it, without = FilteredDerivative(1, CUTOFF), FilteredDerivative(1, CUTOFF)
    for derivative in (with_it, without):
        derivative.update([0.0], NOW)
        derivative.update([0.1], NOW + 10_000_000)
    assert with_it.update([7.0], NOW + 10_000_000 + step) == pytest.approx([10.0])
    later = NOW + 13_000_000
    assert with_it.update([0.05], later) == without.update([0.05], later)


def test_gap_starts_anew() -> None:
    """After a gap longer than max_gap a sample is a first one; exactly max_gap is no gap."""
    derivative = FilteredDerivative(1, CUTOFF, max_gap=0.5)
    derivative.update([0.0], NOW)
    assert derivative.update([1.0], NOW + SECOND // 2) == pytest.approx([2.0])
    assert derivative.update([9.0], NOW + SECOND + 1) == [0.0]
    assert derivative.update([9.1], NOW + SECOND + 1 + SECOND // 10) == pytest.approx([1.0])


def test_reset_forgets_the_samples() -> None:
    """After a reset, also into the past, the next sample is a first one."""
    derivative = FilteredDerivative(1, CUTOFF)
    derivative.update([0.0], NOW)
    derivative.update([1.0], NOW + 1_000_000)
    derivative.reset()
    assert derivative.update([5.0], 0) == [0.0]
    assert derivative.update([5.1], SECOND // 10) == pytest.approx([1.0])


def test_known_derivative_is_continued() -> None:
    """A sample with a known derivative is the state from which the filter goes on."""
    derivative = FilteredDerivative(1, CUTOFF)
    derivative.put_known(0, 1.0, 3.0, NOW)
    expected = 5.0 + (3.0 - 5.0) * np.exp(-OMEGA * 0.01)
    assert derivative.update([1.05], NOW + 10_000_000) == pytest.approx([expected])


def test_channels_have_their_own_time() -> None:
    """Each channel is differentiated over its own step of time."""
    derivative = FilteredDerivative(2, CUTOFF)
    derivative.update([0.0, 0.0], NOW)
    assert derivative.update_channel(1, 1.0, NOW + 100_000_000) == pytest.approx(10.0)
    assert derivative.update([1.0, 2.0], NOW + 200_000_000)[0] == pytest.approx(5.0)


def test_cutoff_may_change() -> None:
    """A new cut-off holds from the next sample on; an infinite one gives the bare quotient."""
    derivative = FilteredDerivative(1, CUTOFF)
    derivative.update([0.0], NOW)
    derivative.update([0.0], NOW + 10_000_000)
    derivative.cutoff = np.inf
    assert derivative.update([1.0], NOW + 11_000_000) == pytest.approx([1000.0])
    derivative.cutoff = 5.0
    expected = 1000.0 * np.exp(-2.0 * np.pi * 5.0 * 1e-3)
    assert derivative.update([1.0], NOW + 12_000_000) == pytest.approx([expected])
    with pytest.raises(InvalidArgumentError, match='cutoff must be > 0 Hz, got 0'):
        derivative.cutoff = 0.0
    assert derivative.cutoff == 5.0


def test_overflow_does_not_stay() -> None:
    """A difference too large for a float starts the channel anew instead of leaving a NaN."""
    derivative = FilteredDerivative(1, CUTOFF)
    derivative.update([1e308], NOW)
    assert derivative.update([-1e308], NOW + 5_000_000) == [0.0]
    derivative.update([1.0], NOW + 10_000_000)
    derivative.update([1.0], NOW + 15_000_000)
    assert derivative.update([1.0], NOW + 20_000_000) == [0.0]


@pytest.mark.parametrize('cutoff', [0.0, -1.0, np.nan])
def test_bad_cutoff_is_refused(cutoff: float) -> None:
    """A cut-off that is not a positive number is refused with its value."""
    with pytest.raises(InvalidArgumentError, match=f'got {cutoff}'):
        FilteredDerivative(1, cutoff)


def test_bad_max_gap_and_length_are_refused() -> None:
    """A max_gap that is no positive time and samples of the wrong number are refused."""
    with pytest.raises(InvalidArgumentError, match='max_gap'):
        FilteredDerivative(1, CUTOFF, max_gap=0.0)
    with pytest.raises(InvalidArgumentError, match='length 2, got 1'):
        FilteredDerivative(2, CUTOFF).update([0.0], NOW)
