# SPDX-License-Identifier: Apache-2.0
r"""Derivatives of sampled signals, smoothed, right for uneven time stamps.

The difference quotient of a measured signal is noisy, so it goes through a first-order low-pass

.. math::
    \dot d = \omega (\dot x - d), \quad \omega = 2 \pi f_c .

Between two samples x is taken as a straight line, so its slope is constant there and the
filter has the exact solution

.. math::
    d_k = d_{k-1} + \alpha \left( \frac{x_k - x_{k-1}}{\Delta t} - d_{k-1} \right), \quad
    \alpha = 1 - e^{-\omega \Delta t} .

Each step has its own \Delta t: nothing assumes a rate. At a frequency f the result is the true
derivative times 1 / sqrt(1 + (f / f_c)^2), late by the phase atan(f / f_c).

Time is an integer in nanoseconds. Today's time is 1.8e9 s, and a float64 of that size has steps of
2.4e-7 s: 0.02 % of a step of 1 ms, straight into the derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite, pi

from ros_lagdyn.errors import InvalidArgumentError

MAX_GAP = 0.5  # [s], the default
SECOND = 1_000_000_000  # [ns]


class FilteredDerivative:
    """Derivatives of `size` signals; each channel has its own samples and its own time.

    Channel by channel: the first sample gives 0. The filter starts at the difference quotient of
    the first sample and one that is at least a quarter of 1 / omega later: over less time a
    quotient is nearly all noise, and the filter would keep it for long. A step of time that is
    zero or negative changes nothing and gives the last derivative. After a gap longer than
    `max_gap` the channel starts anew, with a first sample.

    Args:
        size: Number of signals.
        cutoff: f_c [Hz], > 0; infinite for the bare difference quotient.
        max_gap: Longest step that is still differentiated [s], > 0.
    """

    def __init__(self, size: int, cutoff: float, *, max_gap: float = MAX_GAP) -> None:
        if not 0.0 < max_gap < 1e9:
            raise InvalidArgumentError(f'max_gap must be > 0 s and finite, got {max_gap}')
        self._max_gap = round(max_gap * SECOND)  # [ns]
        self.cutoff = cutoff
        self._x = [0.0] * size
        self._derivative = [0.0] * size
        self._stamp: list[int | None] = [None] * size  # [ns]; None before the first sample
        self._started = [False] * size

    @property
    def cutoff(self) -> float:
        """f_c [Hz]; it may be changed at any time and holds from the next sample on."""
        return self._cutoff

    @cutoff.setter
    def cutoff(self, cutoff: float) -> None:
        if not cutoff > 0.0:
            raise InvalidArgumentError(f'cutoff must be > 0 Hz, got {cutoff}')
        self._cutoff = cutoff
        self._rate = -2.0 * pi * cutoff / SECOND  # [1/ns], -omega
        self._shortest_start = min(-0.25 / self._rate, 0.5 * self._max_gap)  # [ns]

    def update(self, x: Sequence[float], stamp: int) -> list[float]:
        """Take one finite sample of every signal at `stamp` [ns]; return the derivatives [1/s]."""
        if len(x) != len(self._x):
            raise InvalidArgumentError(f'x must have length {len(self._x)}, got {len(x)}')
        return [self.update_channel(i, x_i, stamp) for i, x_i in enumerate(x)]

    def update_channel(self, i: int, x: float, stamp: int) -> float:
        """Take one finite sample of signal `i` at `stamp` [ns]; return its derivative [1/s]."""
        last = self._stamp[i]
        if last is not None:
            dt = stamp - last
            if dt <= 0:
                return self._derivative[i]
            if not self._started[i] and dt < self._shortest_start:
                return 0.0
            if dt <= self._max_gap:
                derivative = (x - self._x[i]) / dt * 1e9
                if self._started[i]:
                    d = self._derivative[i]
                    derivative = d + (1.0 - exp(self._rate * dt)) * (derivative - d)
                # Differences of huge numbers overflow; an infinity would stay in the filter.
                if isfinite(derivative):
                    self._x[i] = x
                    self._derivative[i] = derivative
                    self._stamp[i] = stamp
                    self._started[i] = True
                    return derivative
        self._x[i] = x
        self._derivative[i] = 0.0
        self._stamp[i] = stamp
        self._started[i] = False
        return 0.0

    def put_known(self, i: int, x: float, derivative: float, stamp: int) -> None:
        """Take a sample whose derivative [1/s] is known: later estimates go on from there."""
        self._x[i] = x
        self._derivative[i] = derivative
        self._stamp[i] = stamp
        self._started[i] = True

    def started(self, i: int) -> bool:
        """Tell if signal `i` has a derivative, not just the 0 of a first sample."""
        return self._started[i]

    def reset_channel(self, i: int) -> None:
        """Forget signal `i`: its next sample is a first one."""
        self._derivative[i] = 0.0
        self._stamp[i] = None
        self._started[i] = False

    def reset(self) -> None:
        """Forget all samples."""
        for i in range(len(self._x)):
            self.reset_channel(i)
