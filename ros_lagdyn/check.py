# SPDX-License-Identifier: Apache-2.0
"""Check an arm in every way there is: engines against each other, physical laws, structure."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from math import isfinite
from typing import Any

from numpy.typing import ArrayLike

from ros_lagdyn.cross_check import CrossCheck, Disagreement
from ros_lagdyn.dynamics import EARTH_GRAVITY, ENGINES, Dynamics, dynamics_from_slim_urdf
from ros_lagdyn.errors import InvalidArgumentError, LagdynError, UnrecognisedMechanismError
from ros_lagdyn.inertia_bounds import InertiaBounds, inertia_bounds
from ros_lagdyn.laws import LawResult, check_laws
from ros_lagdyn.sampling import random_states
from ros_lagdyn.structure import Structure, structure
from ros_lagdyn.urdf_text import read_urdf_text, slim_urdf

TOLERANCE = 1e-9  # relative; engines that differ by rounding alone stay below 1e-12
CHUNK = 500  # states computed at once: bounds memory, and paces the progress report


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two engines and how far they disagree."""

    engines: tuple[str, str]
    disagreement: Disagreement


@dataclass(frozen=True, kw_only=True)
class ArmReport:
    """Everything that was found about one arm."""

    robot: str
    joints: tuple[str, ...]
    mechanism: str | None  # which closed form it is, or
    not_recognised: str | None  # why it is none
    states: int
    seed: int
    gravity: tuple[float, ...]  # (3,) [m/s^2]
    tolerance: float
    comparisons: tuple[Comparison, ...]
    laws: dict[str, tuple[LawResult, ...]]  # by engine
    structure: Structure
    bounds: InertiaBounds | None
    no_bounds: str | None  # why there are none

    @property
    def faults(self) -> tuple[str, ...]:
        """What disagrees or is violated, a sentence each; empty when all is well."""
        found = []
        for comparison in self.comparisons:
            for term in fields(Disagreement):
                difference = getattr(comparison.disagreement, term.name)
                if not difference <= self.tolerance:
                    found.append(f'{" and ".join(comparison.engines)} disagree on {term.name} by '
                                 f'{difference:.1e}, more than {self.tolerance:.0e}')
        for engine, results in self.laws.items():
            found += [f'{engine} violates "{result.law}" by {result.violation:.1e}, more than '
                      f'{result.tolerance:.1e}' for result in results if not result.holds]
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, dicts and numbers, fit for JSON."""
        plain: dict[str, Any] = _finite_or_none(asdict(self))
        plain['structure']['linear'] = self.structure.linear
        return {**plain, 'faults': list(self.faults), 'ok': not self.faults}


def _finite_or_none(value: Any) -> Any:
    """Return a value with None for infinities and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite_or_none(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite_or_none(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def check_arm(
    urdf: str | bytes | os.PathLike[str],
    *,
    states: int = 1000,
    seed: int = 0,
    gravity: ArrayLike = EARTH_GRAVITY,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ArmReport:
    """Load an arm into every engine that can compute it, and check them at random states.

    Args:
        urdf: a path, or the XML text.
        states: how many, within joint limits.
        seed: of the random states.
        gravity: (3,) [m/s^2], in root link axes.
        tolerance: largest relative disagreement between engines that is no fault.
        progress: called with (states done, states in all).

    Raises:
        UrdfError: the URDF is no possible arm.
        InvalidArgumentError: states or tolerance make no sense.
    """
    if states < 1:
        raise InvalidArgumentError(f'states must be at least 1, got {states}')
    if not 0.0 < tolerance < 1.0:
        raise InvalidArgumentError(f'tolerance must be between 0 and 1, got {tolerance}')
    text = slim_urdf(read_urdf_text(urdf))
    engines: dict[str, Dynamics] = {}
    reason = None
    for engine in ENGINES:
        try:
            engines[engine] = dynamics_from_slim_urdf(text, engine, gravity)
        except UnrecognisedMechanismError as error:
            reason = str(error)
    reference = engines['lagrangian']
    q, v, a = random_states(reference.arm, states, seed)
    pairs = {pair: CrossCheck(engines[pair[0]], engines[pair[1]])
             for pair in combinations(engines, 2)}
    comparisons: dict[tuple[str, str], Disagreement] = {}
    laws: dict[str, tuple[LawResult, ...]] = {}
    for start in range(0, states, CHUNK):
        chunk = tuple(x[start:start + CHUNK] for x in (q, v, a))
        for pair, compare in pairs.items():
            comparisons[pair] = _worse(comparisons.get(pair), compare(*chunk))
        for engine, dynamics in engines.items():
            laws[engine] = _worse_laws(laws.get(engine), check_laws(dynamics, *chunk))
        progress(min(start + CHUNK, states), states)
    bounds, no_bounds = None, None
    try:
        bounds = inertia_bounds(next(iter(engines.values())))
    except LagdynError as error:
        no_bounds = str(error)
    closed_form: Any = engines.get('closed_form')
    return ArmReport(
        robot=reference.arm.name,
        joints=reference.joints,
        mechanism=closed_form.mechanism if closed_form else None,
        not_recognised=reason,
        states=states,
        seed=seed,
        gravity=tuple(reference.gravity_vector.tolist()),
        tolerance=tolerance,
        comparisons=tuple(Comparison(engines=pair, disagreement=found)
                          for pair, found in comparisons.items()),
        laws=laws,
        structure=structure(next(iter(engines.values()))),
        bounds=bounds,
        no_bounds=no_bounds,
    )


def _worse(first: Disagreement | None, second: Disagreement) -> Disagreement:
    if first is None:
        return second
    return Disagreement(**{
        term.name: max(getattr(first, term.name), getattr(second, term.name))
        for term in fields(Disagreement)})


def _worse_laws(first: tuple[LawResult, ...] | None, second: tuple[LawResult, ...]) -> tuple[
        LawResult, ...]:
    if first is None:
        return second
    return tuple(max(pair, key=lambda result: result.violation)
                 for pair in zip(first, second, strict=True))
