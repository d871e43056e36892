# SPDX-License-Identifier: Apache-2.0
r"""Every formula of ros_lagdyn.closed_form, proved from kinetic and potential energy.

Each mechanism is drawn here once more: where the centres of mass are, how the links turn, what
they weigh. The drawing knows rotation matrices and vectors in space, full inertia tensors and a
gravity of any direction, and nothing of the formulas. From it follow

.. math::
    T = \sum \tfrac12 m\, \dot p^T \dot p + \tfrac12\, \omega^T I\, \omega, \quad
    U = \sum m\, u^T p, \quad
    M_{ij} = \frac{\partial^2 T}{\partial v_i\, \partial v_j}, \quad
    C_{kj} = \sum_i \tfrac12 \Bigl( \frac{\partial M_{kj}}{\partial q_i}
             + \frac{\partial M_{ki}}{\partial q_j} - \frac{\partial M_{ij}}{\partial q_k} \Bigr)
             v_i, \quad g_k = \frac{\partial U}{\partial q_k}

(002, eq. 5, 6, 7 and 9, with u against gravity). The formulas are called with SymPy symbols, and
both sides are brought to a normal form that is unique: equal forms are equal for all values of
all symbols. The last part shows that an arm drawn in any position, in any frames and with axes of
either sense, is recognised as the formula that computes it.

``scripts/mutants`` shows that no sign, term, sin or cos of a formula can change unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import sympy as sp
from random_arms import ArmWriter, Mass, direction, random_mass, rotation_of, somewhere
from sympy.polys.rings import PolyElement

from ros_lagdyn.arm import Arm
from ros_lagdyn.closed_form import FORMULAS
from ros_lagdyn.closed_form.cartesian import Cartesian
from ros_lagdyn.closed_form.five_bar import FiveBar
from ros_lagdyn.closed_form.geometry import EXACT_WITHIN
from ros_lagdyn.closed_form.prismatic_revolute import PrismaticRevolute
from ros_lagdyn.closed_form.skew_cartesian import SkewCartesian
from ros_lagdyn.closed_form.spatial_3r import Spatial3R
from ros_lagdyn.closed_form.spherical_pendulum import SphericalPendulum
from ros_lagdyn.closed_form.two_link import TwoLink
from ros_lagdyn.closed_form.two_link_remote import REMOTE_DRIVE, TwoLinkRemote
from ros_lagdyn.closed_form_dynamics import ClosedFormDynamics
from ros_lagdyn.coordinates import Coordinates, TransformedDynamics
from ros_lagdyn.dynamics import load_dynamics
from ros_lagdyn.errors import AssumptionError
from ros_lagdyn.lagrangian_dynamics import LagrangianDynamics
from ros_lagdyn.urdf_model import load_arm

CHECKOUT = Path(__file__).resolve().parents[1]
HALF = sp.Rational(1, 2)
Q = sp.symbols('q1:4')
V = sp.symbols('v1:4')
A = sp.symbols('a1:4')
X, Y, Z = (sp.eye(3)[:, index] for index in range(3))
EXACT = 1e-12  # relative: some thousand roundings of float64

# ---------------------------------------------------------------------- the zero test


class TrigPolynomials:
    """Polynomials in symbols and in cos and sin of angles, modulo cos^2 + sin^2 = 1.

    No sin stands in a higher power than 1, so the form is unique: cos and sin of independent
    angles satisfy no other algebraic equation. Two expressions are equal for all values of all
    symbols exactly when their forms are equal.
    """

    def __init__(self, angles: tuple[sp.Symbol, ...], others: tuple[sp.Symbol, ...]) -> None:
        self.angles = angles
        cosines = [sp.Symbol(f'cos_{angle}') for angle in angles]
        sines = [sp.Symbol(f'sin_{angle}') for angle in angles]
        self.ring = sp.ring([*cosines, *sines, *others], sp.QQ)[0]
        self._known = {sp.cos(a): c for a, c in zip(angles, cosines, strict=True)}
        self._known |= {sp.sin(a): s for a, s in zip(angles, sines, strict=True)}
        self._generator = dict(zip(self.ring.symbols, self.ring.gens, strict=True))
        self._count = len(angles)

    def __call__(self, expression: Any) -> PolyElement:
        """Return the form of a number or a SymPy expression."""
        expression = sp.sympify(expression)
        # A float literal such as 2.0 is a binary fraction, exactly.
        expression = expression.xreplace({
            number: sp.Rational(float(number)) for number in expression.atoms(sp.Float)})
        expression = expression.xreplace({
            wave: sp.expand_trig(wave) for wave in expression.atoms(sp.cos, sp.sin)})
        expression = expression.xreplace(self._known)
        return self.reduced(self.ring.from_expr(expression))

    def matrix(self, rows: Any) -> list[list[PolyElement]]:
        """Return the forms of all entries."""
        return [[self(entry) for entry in row] for row in rows]

    def reduced(self, polynomial: PolyElement) -> PolyElement:
        """Replace every sin^2 by 1 - cos^2."""
        for index in range(self._count):
            cosine, sine = self.ring.gens[index], self._count + index
            parts: dict[int, PolyElement] = {}
            for monomial, coefficient in polynomial.terms():
                squares, single = divmod(monomial[sine], 2)
                term = (*monomial[:sine], single, *monomial[sine + 1:])
                part = parts.setdefault(squares, self.ring.zero)
                parts[squares] = part + self.ring.term_new(term, coefficient)
            polynomial = self.ring.zero
            for squares, part in parts.items():
                polynomial += part * (1 - cosine**2) ** squares
        return polynomial

    def derivative(self, polynomial: PolyElement, symbol: sp.Symbol) -> PolyElement:
        """Return the form of the partial derivative by an angle or another symbol."""
        if symbol not in self.angles:
            return polynomial.diff(self._generator[symbol])
        index = self.angles.index(symbol)
        cosine, sine = self.ring.gens[index], self.ring.gens[self._count + index]
        return self.reduced(polynomial.diff(sine) * cosine - polynomial.diff(cosine) * sine)

    def is_constant(self, polynomial: PolyElement) -> bool:
        """Say whether no angle and no position is in it."""
        moving = {str(symbol) for symbol in (*self._known.values(), *Q)}
        return not any(
            power and str(symbol) in moving for monomial in polynomial.itermonoms()
            for power, symbol in zip(monomial, self.ring.symbols, strict=True))


def test_zero_test_tells_identities_from_others() -> None:
    """The normal form accepts true trigonometric identities and rejects false ones."""
    form = TrigPolynomials(Q, V)
    q1, q2, q3 = Q
    assert form(sp.cos(q1 + q2 - q3) ** 2 + sp.sin(q1 + q2 - q3) ** 2) == 1
    assert form(sp.sin(2.0 * q1)) == form(2 * sp.sin(q1) * sp.cos(q1))
    assert form(sp.sin(q1) ** 4) == form((1 - sp.cos(q1) ** 2) ** 2)
    assert form(sp.cos(q1 + q2)) != form(sp.cos(q1 - q2))
    assert form(sp.cos(q1) ** 2) != form(sp.sin(q1) ** 2)
    assert form(0.5 * V[0]) == form(V[0] / 2)
    expression = sp.sin(q1 + q2) ** 3 * sp.cos(q2) * V[0] ** 2
    for symbol in (*Q, V[0]):
        assert form.derivative(form(expression), symbol) == form(sp.diff(expression, symbol))


# ------------------------------------------------------------- from a drawing to the terms


@dataclass(frozen=True)
class Link:
    """A rigid body: mass, centre of mass in the base frame, rotation, tensor in its own axes."""

    mass: sp.Expr
    centre: sp.Matrix
    rotation: sp.Matrix
    tensor: sp.Matrix


@dataclass(frozen=True)
class Drawing:
    """A mechanism as it is drawn, and the formula whose parameters are read off the drawing."""

    of: type
    parameters: dict[str, sp.Expr]
    n: int
    links: tuple[Link, ...]
    up: sp.Matrix  # (3,), against gravity
    angles: tuple[sp.Symbol, ...]  # coordinates that are angles, and constant angles

    @property
    def formula(self) -> Any:
        """The formula, made anew: nothing that it computed before is kept."""
        return self.of(**self.parameters)

    @property
    def states(self) -> tuple[tuple[sp.Symbol, ...], ...]:
        """Coordinates, velocities, accelerations."""
        return Q[:self.n], V[:self.n], A[:self.n]

    @cached_property
    def form(self) -> TrigPolynomials:
        """The normal form over all symbols of the drawing."""
        expressions = [self.up, *(part for link in self.links for part in (
            sp.Matrix([link.mass]), link.centre, link.rotation, link.tensor))]
        symbols = set().union(*(part.free_symbols for part in expressions))
        symbols |= {symbol for state in self.states for symbol in state}
        symbols |= set().union(*(part.free_symbols for part in self.parameters.values()))
        return TrigPolynomials(self.angles, tuple(sorted(symbols - set(self.angles), key=str)))

    def derivative(self, of: PolyElement, by: sp.Symbol) -> PolyElement:
        """Return the partial derivative."""
        return self.form.derivative(of, by)

    def rate(self, of: PolyElement) -> PolyElement:
        """Return the total derivative by time of what depends on q and v."""
        q, v, a = self.states
        return sum((self.derivative(of, x) * self.form(x_dot)
                    for x, x_dot in zip((*q, *v), (*v, *a), strict=True)), self.form.ring.zero)

    @cached_property
    def T(self) -> PolyElement:
        """Kinetic energy, from the velocity of each point and the turning of each body."""
        q, v, _ = self.states

        def rate(matrix: sp.Matrix) -> sp.Matrix:
            return sum((matrix.diff(x) * x_dot for x, x_dot in zip(q, v, strict=True)),
                       sp.zeros(*matrix.shape))

        total = self.form.ring.zero
        for link in self.links:
            velocity = rate(link.centre)
            turning = link.rotation.T * rate(link.rotation)  # [omega] in the link's own axes
            omega = sp.Matrix([self.form(entry).as_expr() for entry in (
                turning[2, 1], turning[0, 2], turning[1, 0])])
            total += self.form(HALF * link.mass * velocity.dot(velocity))
            total += self.form(HALF * (omega.T * link.tensor * omega)[0])
        return total

    @cached_property
    def U(self) -> PolyElement:
        """Potential energy (002, eq. 5)."""
        return self.form(sum(link.mass * self.up.dot(link.centre) for link in self.links))

    @cached_property
    def M(self) -> list[list[PolyElement]]:
        """The Hessian of T in the velocities."""
        v = self.states[1]
        return [[self.derivative(self.derivative(self.T, v_i), v_j) for v_j in v] for v_i in v]

    @cached_property
    def C(self) -> list[list[PolyElement]]:
        """From Christoffel symbols (002, eq. 6 and 9)."""
        q, v, _ = self.states
        n = range(self.n)
        d = [[[self.derivative(self.M[i][j], x) for x in q] for j in n] for i in n]
        return [[sum(((d[k][j][i] + d[k][i][j] - d[i][j][k]) * self.form(v[i] * HALF) for i in n),
                     self.form.ring.zero) for j in n] for k in n]

    @cached_property
    def g(self) -> list[PolyElement]:
        """The gradient of U."""
        return [self.derivative(self.U, x) for x in self.states[0]]

    @cached_property
    def torque(self) -> list[PolyElement]:
        """The left side of Lagrange's equations, d/dt dL/dv - dL/dq (002, eq. 1)."""
        L = self.T - self.U
        return [self.rate(self.derivative(L, v_k)) - self.derivative(L, q_k)
                for q_k, v_k in zip(*self.states[:2], strict=True)]


def turn(axis: sp.Matrix, angle: sp.Expr) -> sp.Matrix:
    """Rotation about a unit vector, by Rodrigues' formula."""
    x, y, z = axis
    cross = sp.Matrix([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return sp.eye(3) + sp.sin(angle) * cross + (1 - sp.cos(angle)) * cross * cross


def tensor(name: str, **entries: sp.Expr) -> sp.Matrix:
    """Return a symmetric tensor of six symbols, of which some are given: xx, xy, ..., zz."""

    def entry(i: int, j: int) -> sp.Expr:
        place = ''.join(sorted('xyz'[i] + 'xyz'[j]))
        return entries.get(place, sp.Symbol(f'{name}_{place}'))

    return sp.Matrix(3, 3, entry)


def symbols_of(formula: type) -> dict[str, sp.Symbol]:
    """Return one symbol for each parameter of a formula."""
    return {field.name: sp.Symbol(field.name) for field in fields(formula)}


# --------------------------------------------------------------------------- the drawings

DRAWINGS: dict[type, Callable[[], Drawing]] = {}


def draws(formula: type) -> Callable[[Callable[[], Drawing]], Callable[[], Drawing]]:
    """Register the drawing of a formula's mechanism."""

    def register(function: Callable[[], Drawing]) -> Callable[[], Drawing]:
        assert formula not in DRAWINGS
        DRAWINGS[formula] = cache(function)
        return DRAWINGS[formula]

    return register


@draws(TwoLink)
def draw_two_link() -> Drawing:
    """Two links about z, seen in the x-y plane; y is up, but gravity may also have a part in z."""
    p = symbols_of(TwoLink)
    turn_1 = turn(Z, Q[0])
    turn_2 = turn_1 * turn(Z, Q[1])
    return Drawing(
        of=TwoLink, parameters=p, n=2, angles=Q[:2], up=p['g'] * Y + sp.Symbol('u_n') * Z,
        links=(
            Link(p['m_1'], turn_1 * (p['l_c1'] * X + p['h_1'] * Y + sp.Symbol('z_1') * Z),
                 turn_1, tensor('J_1', zz=p['I_1'])),
            Link(p['m_2'], turn_1 * p['l_1'] * X + turn_2 * (p['l_c2'] * X + sp.Symbol('z_2') * Z),
                 turn_2, tensor('J_2', zz=p['I_2'])),
        ))


@draws(TwoLinkRemote)
def draw_two_link_remote() -> Drawing:
    """The same links, but each motor sets the angle of its link against the horizontal."""
    p = symbols_of(TwoLinkRemote)
    turn_1, turn_2 = turn(Z, Q[0]), turn(Z, Q[1])
    return Drawing(
        of=TwoLinkRemote, parameters=p, n=2, angles=Q[:2], up=p['g'] * Y + sp.Symbol('u_n') * Z,
        links=(
            Link(p['m_1'], turn_1 * (p['l_c1'] * X + p['h_1'] * Y), turn_1,
                 tensor('J_1', zz=p['I_1'])),
            Link(p['m_2'], turn_1 * p['l_1'] * X + turn_2 * p['l_c2'] * X, turn_2,
                 tensor('J_2', zz=p['I_2'])),
        ))


@draws(FiveBar)
def draw_five_bar() -> Drawing:
    """Links 1 and 2 on the base; 3 at the tip of 2, 4 at the tip of 1; they close the loop."""
    p = symbols_of(FiveBar)
    turn_1, turn_2 = turn(Z, Q[0]), turn(Z, Q[1])
    tip_1, tip_2 = turn_1 * p['l_1'] * X, turn_2 * p['l_2'] * X
    # The loop closes where link 4 has gone l_2 along link 2 and link 3 has gone l_1 along link 1.
    assert tip_1 + turn_2 * p['l_2'] * X == tip_2 + turn_1 * p['l_1'] * X
    links = (
        Link(p['m_1'], turn_1 * (p['l_c1'] * X + p['h_1'] * Y), turn_1,
             tensor('J_1', zz=p['I_1'])),
        Link(p['m_2'], turn_2 * (p['l_c2'] * X + p['h_2'] * Y), turn_2,
             tensor('J_2', zz=p['I_2'])),
        Link(p['m_3'], tip_2 + turn_1 * (p['l_c3'] * X + p['h_3'] * Y), turn_1,
             tensor('J_3', zz=p['I_3'])),
        Link(p['m_4'], tip_1 - turn_2 * (p['l_c4'] * X + p['h_4'] * Y), turn_2,
             tensor('J_4', zz=p['I_4'])),
    )
    return Drawing(of=FiveBar, parameters=p, n=2, angles=Q[:2], links=links,
                   up=p['g_0'] * Y + sp.Symbol('u_n') * Z)


@draws(Spatial3R)
def draw_spatial_3r() -> Drawing:
    """A column about z that may lean, then two hinges about the turned y that lower the arm.

    Link 1 has its centre of mass anywhere and a full tensor. In the frames of links 2 and 3 x is
    the hinge and y the link's line, as in 003.
    """
    p = symbols_of(Spatial3R)
    m_1, x_1, y_1, z_1 = sp.symbols('m_1 x_1 y_1 z_1')
    tensor_1 = tensor('J_1')
    p['I_z1'] = tensor_1[2, 2] + m_1 * (x_1**2 + y_1**2)  # about the column (Steiner)
    p['k_x'], p['k_y'] = m_1 * x_1, m_1 * y_1
    turn_1 = turn(Z, Q[0])
    turn_2 = turn_1 * turn(Y, Q[1])
    turn_3 = turn_2 * turn(Y, Q[2])
    frame = sp.Matrix.hstack(Y, X, Y.cross(X))
    shoulder = sp.Symbol('z_2') * Z
    elbow = shoulder + turn_2 * p['l_1'] * X
    return Drawing(
        of=Spatial3R, parameters=p, n=3, angles=Q, up=sp.Matrix([p['u_x'], p['u_y'], p['u_z']]),
        links=(
            Link(m_1, turn_1 * sp.Matrix([x_1, y_1, z_1]), turn_1, tensor_1),
            Link(p['m_2'], shoulder + turn_2 * p['r_1'] * X, turn_2 * frame,
                 sp.diag(p['I_x2'], p['I_y2'], p['I_z2'])),
            Link(p['m_3'], elbow + turn_3 * p['r_2'] * X, turn_3 * frame,
                 sp.diag(p['I_x3'], p['I_y3'], p['I_z3'])),
        ))


def slides(formula: type, alpha: sp.Expr, angles: tuple[sp.Symbol, ...]) -> Drawing:
    """Two slides at the angle alpha; nothing turns, and gravity is any vector."""
    p = symbols_of(formula)
    up = sp.Matrix(sp.symbols('u_a u_b u_c'))
    slide_1, slide_2 = X, sp.cos(alpha) * X + sp.sin(alpha) * Y
    p['u_1'], p['u_2'] = up.dot(slide_1), up.dot(slide_2)
    p['cos_alpha'] = slide_1.dot(slide_2)
    centre_1, centre_2 = sp.Matrix(sp.symbols('x_1:4')), sp.Matrix(sp.symbols('y_1:4'))
    return Drawing(
        of=formula, parameters=p, n=2, angles=angles, up=up,
        links=(
            Link(p['m_1'], centre_1 + Q[0] * slide_1, sp.eye(3), tensor('J_1')),
            Link(p['m_2'], centre_2 + Q[0] * slide_1 + Q[1] * slide_2, sp.eye(3), tensor('J_2')),
        ))


@draws(SkewCartesian)
def draw_skew_cartesian() -> Drawing:
    """Two slides at any angle."""
    alpha = sp.Symbol('alpha')
    return slides(SkewCartesian, alpha, (alpha,))


@draws(Cartesian)
def draw_cartesian() -> Drawing:
    """Two slides at a right angle: the formula is not told the angle."""
    drawing = slides(Cartesian, sp.pi / 2, ())
    told = dict(drawing.parameters)
    assert told.pop('cos_alpha') == 0
    return replace(drawing, parameters=told)


@draws(PrismaticRevolute)
def draw_prismatic_revolute() -> Drawing:
    """A slide at the angle beta to the z axis, about which the second link turns."""
    p = symbols_of(PrismaticRevolute)
    beta = sp.Symbol('beta')
    up = sp.Matrix([p['u_x'], p['u_y'], sp.Symbol('u_a')])
    slide = sp.sin(beta) * X + sp.cos(beta) * Z
    p['kappa'], p['u_s'] = sp.sin(beta), up.dot(slide)
    centre_1, pivot = sp.Matrix(sp.symbols('x_1:4')), sp.Matrix(sp.symbols('y_1:4'))
    turn_2 = turn(Z, Q[1])
    return Drawing(
        of=PrismaticRevolute, parameters=p, n=2, angles=(Q[1], beta), up=up,
        links=(
            Link(p['m_1'], centre_1 + Q[0] * slide, sp.eye(3), tensor('J_1')),
            Link(p['m_2'], pivot + Q[0] * slide + turn_2 * (p['l_c2'] * X + sp.Symbol('z_2') * Z),
                 turn_2, tensor('J_2', zz=p['I_2'])),
        ))


@draws(SphericalPendulum)
def draw_spherical_pendulum() -> Drawing:
    """A slender rod that hangs along -z, lifted by theta towards x, then turned about z."""
    p = symbols_of(SphericalPendulum)
    swing = turn(Z, Q[0]) * turn(-Y, Q[1])
    return Drawing(
        of=SphericalPendulum, parameters=p, n=2, angles=Q[:2],
        up=sp.Matrix([p['u_x'], p['u_y'], p['u_z']]),
        links=(Link(p['m'], swing * -p['l'] * Z, swing, sp.diag(p['I'], p['I'], 0)),))


def test_every_formula_is_drawn_and_so_proved() -> None:
    """A formula without a drawing here would be without a proof."""
    assert set(DRAWINGS) == set(FORMULAS)


# ----------------------------------------------------------------------------- the proofs


@pytest.fixture(params=FORMULAS, ids=lambda formula: formula.stem)
def drawing(request: pytest.FixtureRequest) -> Drawing:
    """Return the drawing of each formula's mechanism."""
    return DRAWINGS[request.param]()


def prove_mass_matrix(drawing: Drawing) -> None:
    """M of the formula is the Hessian of the kinetic energy."""
    q, _, _ = drawing.states
    assert drawing.form.matrix(drawing.formula.mass_matrix(q, sp)) == drawing.M


def prove_coriolis_matrix(drawing: Drawing) -> None:
    """C of the formula is that of the Christoffel symbols, entry by entry."""
    q, v, _ = drawing.states
    assert drawing.form.matrix(drawing.formula.coriolis_matrix(q, v, sp)) == drawing.C


def prove_gravity(drawing: Drawing) -> None:
    """The gravity vector is the gradient of the potential energy."""
    q, _, _ = drawing.states
    assert [drawing.form(entry) for entry in drawing.formula.gravity(q, sp)] == drawing.g


def prove_potential_energy(drawing: Drawing) -> None:
    """The potential energy is that of the weights, up to a constant."""
    q, _, _ = drawing.states
    difference = drawing.form(drawing.formula.potential_energy(q, sp)) - drawing.U
    assert drawing.form.is_constant(difference)


PROOFS = (prove_mass_matrix, prove_coriolis_matrix, prove_gravity, prove_potential_energy)


@pytest.mark.parametrize('prove', PROOFS, ids=lambda proof: proof.__name__)
def test_term_follows_from_the_energies(prove: Callable[[Drawing], None],
                                        drawing: Drawing) -> None:
    """Each term of each formula is what the energies of the drawing give."""
    prove(drawing)


def test_equation_of_motion_is_that_of_lagrange(drawing: Drawing) -> None:
    """M a + C v + g is d/dt dL/dv - dL/dq: no Christoffel symbol is in this proof."""
    q, v, a = drawing.states
    formula = drawing.formula
    tau = (sp.Matrix(formula.mass_matrix(q, sp)) * sp.Matrix(a)
           + sp.Matrix(formula.coriolis_matrix(q, v, sp)) * sp.Matrix(v)
           + sp.Matrix(formula.gravity(q, sp)))
    assert [drawing.form(entry) for entry in tau] == drawing.torque


def test_mass_rate_minus_twice_coriolis_is_skew(drawing: Drawing) -> None:
    """N = M' - 2 C, of the formula's own M and C, is skew-symmetric; and M is symmetric."""
    q, v, _ = drawing.states
    M = drawing.form.matrix(drawing.formula.mass_matrix(q, sp))
    C = drawing.form.matrix(drawing.formula.coriolis_matrix(q, v, sp))
    for i, j in product(range(drawing.n), repeat=2):
        assert M[i][j] == M[j][i]
        assert drawing.rate(M[i][j] + M[j][i]) == 2 * (C[i][j] + C[j][i])


# -------------------------------------------------------------- linearity in the parameters


@pytest.mark.parametrize('beside', [True, False], ids=['h_1 anything', 'h_1 = 0'])
def test_two_link_regressor_times_parameters_is_the_torque(beside: bool) -> None:
    """Y Theta is Lagrange's torque: six parameters, or the five of 001 where h_1 is 0."""
    drawing = DRAWINGS[TwoLink]()
    q, v, a = drawing.states
    formula = drawing.formula if beside else replace(drawing.formula, h_1=0.0)
    Y, theta = formula.regressor(q, v, a, sp), formula.parameters
    assert sp.Matrix(Y).shape == (2, 6 if beside else 5)
    assert len(theta) == (6 if beside else 5)
    torque = drawing.torque if beside else [
        entry.subs(drawing.form(sp.Symbol('h_1')), 0) for entry in drawing.torque]
    assert [drawing.form(entry) for entry in sp.Matrix(Y) * sp.Matrix(theta)] == torque
    # Only what a column multiplies may be in it: no mass, length or inertia.
    assert sp.Matrix(Y).free_symbols <= {*q, *v, *a, sp.Symbol('g')}


@pytest.mark.parametrize('h_1', [0.0, 0.1])
def test_two_link_regressor_is_minimal(h_1: float) -> None:
    """The columns of Y are independent functions: no parameter can be left out."""
    formula = TwoLink(m_1=1.0, l_1=1.0, l_c1=0.5, h_1=h_1, I_1=0.1, m_2=1.0, l_c2=0.5, I_2=0.1,
                      g=9.81)
    q, v, a = np.random.default_rng(7).normal(size=(3, 2, 20))
    Y = np.vstack([[np.broadcast_to(entry, 20) for entry in row]
                   for row in np.array(formula.regressor(q, v, a, np), dtype=object).T.tolist()]
                  ).reshape(len(formula.parameters), -1)
    assert np.linalg.matrix_rank(Y) == len(formula.parameters)


# ----------------------------------------------------------------- designs and special cases


def test_cartesian_is_the_skew_robot_at_a_right_angle() -> None:
    """With cos(alpha) = 0 the skew robot's terms are the Cartesian robot's."""
    p = symbols_of(Cartesian)
    del p['cos_alpha']
    q, v = Q[:2], V[:2]
    special, general = Cartesian(**p), SkewCartesian(**p, cos_alpha=0)
    assert special.mass_matrix(q, sp) == general.mass_matrix(q, sp)
    assert special.mass_matrix(q, sp)[0][1] == 0
    assert special.coriolis_matrix(q, v, sp) == general.coriolis_matrix(q, v, sp)
    assert special.gravity(q, sp) == general.gravity(q, sp)
    assert special.potential_energy(q, sp) == general.potential_energy(q, sp)


def test_two_link_of_point_masses_is_that_of_the_last_document() -> None:
    """With l_c = l and I = 0, M is that of point masses at the tips (004)."""
    m_1, m_2, l_1, l_2, g = sp.symbols('m_1 m_2 l_1 l_2 g')
    formula = TwoLink(m_1=m_1, l_1=l_1, l_c1=l_1, h_1=0, I_1=0, m_2=m_2, l_c2=l_2, I_2=0, g=g)
    form = TrigPolynomials(Q[:2], (*V, m_1, m_2, l_1, l_2, g))
    (v1, v2), c_2 = V[:2], sp.cos(Q[1])
    T = (HALF * (m_1 + m_2) * l_1**2 * v1**2 + HALF * m_2 * l_2**2 * (v1 + v2) ** 2
         + m_2 * l_1 * l_2 * (v1**2 + v1 * v2) * c_2)
    M = sp.Matrix(formula.mass_matrix(Q[:2], sp))
    assert form(HALF * (sp.Matrix(V[:2]).T * M * sp.Matrix(V[:2]))[0]) == form(T)
    U = (m_1 + m_2) * g * l_1 * sp.sin(Q[0]) + m_2 * g * l_2 * sp.sin(Q[0] + Q[1])
    assert form(formula.potential_energy(Q[:2], sp)) == form(U)


# A five-bar of seven free numbers, and the rest as the design conditions of 001 want it.
FREE = {'l_1': 0.5, 'l_2': 0.25, 'm_3': 0.8, 'l_c3': 0.2, 'h_3': 0.03, 'm_4': 3.0, 'm_1': 5.0,
        'm_2': 2.0, 'I_1': 0.2, 'I_2': 0.1, 'I_3': 0.03, 'I_4': 0.05, 'g_0': 9.81}
LINES = ('l_c1', 'h_1', 'l_c2', 'h_2', 'l_c4', 'h_4')


@cache
def solved_design() -> dict[str, sp.Expr]:
    """Return the places of the centres of mass for which the energies lose all coupling."""
    drawing = DRAWINGS[FiveBar]()
    unknown = [sp.Symbol(name) for name in LINES]
    # Every coefficient of every cos and sin must vanish, in the off-diagonal of M and in g.
    waves = drawing.form.ring.symbols[:4]
    equations = [
        coefficient for entry in (drawing.M[0][1], *drawing.g)
        for coefficient in sp.Poly(entry.as_expr(), *waves).coeffs()]
    (solution,) = sp.solve(equations, unknown, dict=True)
    return {str(name): value for name, value in solution.items()}


def balanced_five_bar() -> FiveBar:
    """Return a five-bar of floats that fulfils all design conditions."""
    solved = {name: float(value.subs(FREE)) for name, value in solved_design().items()}
    return FiveBar(**FREE, **solved)


def test_five_bar_design_makes_mass_matrix_constant_and_gravity_vanish() -> None:
    """Where the conditions of 001 hold, D is constant and diagonal, C = 0 and g = 0."""
    p = symbols_of(FiveBar)
    solved = solved_design()
    assert set(solved) == set(LINES)
    m_3, l_1, l_2, l_c3, h_3, m_4 = (p[name] for name in (
        'm_3', 'l_1', 'l_2', 'l_c3', 'h_3', 'm_4'))
    # (*) of 001, and its like across the lines.
    assert sp.cancel(solved['l_c4'] - m_3 * l_2 * l_c3 / (m_4 * l_1)) == 0
    assert sp.cancel(solved['h_4'] + m_3 * l_2 * h_3 / (m_4 * l_1)) == 0
    formula = FiveBar(**{**p, **solved})
    q, v = Q[:2], V[:2]
    ((d_11, d_12), (d_21, d_22)) = formula.mass_matrix(q, sp)
    zeros = [d_12, d_21, *sp.Matrix(formula.coriolis_matrix(q, v, sp)), *formula.gravity(q, sp),
             formula.coupling_cosine, formula.coupling_sine, *formula.moments]
    assert all(sp.cancel(sp.expand(entry)).is_zero for entry in zeros)
    assert not (d_11.free_symbols | d_22.free_symbols) & set(q)


def test_five_bar_design_conditions_say_how_far_a_linkage_is_from_them() -> None:
    """The numbers are 0 at the balanced design, and the moments of the energies elsewhere."""
    balanced = balanced_five_bar()
    assert balanced.design_conditions.decoupled
    assert balanced.design_conditions.balanced
    for name in ('l_c3', 'h_3', 'l_c4', 'h_4'):
        moved = replace(balanced, **{name: getattr(balanced, name) + 1e-6}).design_conditions
        assert not moved.decoupled
        assert not moved.balanced
    for name in ('l_c1', 'h_1', 'l_c2', 'h_2'):
        moved = replace(balanced, **{name: getattr(balanced, name) + 1e-6}).design_conditions
        assert moved.decoupled
        assert not moved.balanced
    odd = replace(balanced, l_c1=0.1, h_1=0.02, l_c2=0.3, h_2=-0.05, l_c4=0.07, h_4=0.11)
    found = odd.design_conditions
    # The greatest values that d_12 and g reach as the motors turn.
    turns = np.linspace(0.0, 2.0 * np.pi, 100_001)
    d_12 = odd.mass_matrix((0.0, turns), np)[0][1]
    g_1, g_2 = odd.gravity((turns, turns), np)
    np.testing.assert_allclose(found.coupling, max(abs(d_12)), rtol=1e-8)
    np.testing.assert_allclose(found.gravity_1, max(abs(g_1)) / odd.g_0, rtol=1e-8)
    np.testing.assert_allclose(found.gravity_2, max(abs(g_2)) / odd.g_0, rtol=1e-8)
    # The scales are what the conditions could reach if nothing cancelled.
    np.testing.assert_allclose(
        found.coupling_scale, 0.8 * 0.25 * np.hypot(0.2, 0.03) + 3.0 * 0.5 * np.hypot(0.07, 0.11))
    np.testing.assert_allclose(found.gravity_scale, (5.0 + 2.0 + 0.8 + 3.0) * (0.5 + 0.25))


# ------------------------------------------------------------------------ other coordinates


def test_two_link_remote_is_the_elbow_in_motor_angles() -> None:
    """With p = J q of REMOTE_DRIVE: M = J' M_p J, C = J' C_p J, g = J' g_p, the same U."""
    elbow, remote = DRAWINGS[TwoLink](), DRAWINGS[TwoLinkRemote]()
    form = elbow.form
    q, v, _ = elbow.states
    J = sp.Matrix(REMOTE_DRIVE.J.astype(int))
    assert sp.Matrix([[1, 0], [1, 1]]) == J
    p, p_dot = tuple(J * sp.Matrix(q)), tuple(J * sp.Matrix(v))
    formula = remote.formula
    assert form.matrix((J.T * sp.Matrix(formula.mass_matrix(p, sp)) * J).tolist()) == elbow.M
    assert form.matrix(
        (J.T * sp.Matrix(formula.coriolis_matrix(p, p_dot, sp)) * J).tolist()) == elbow.C
    assert [form(entry) for entry in J.T * sp.Matrix(formula.gravity(p, sp))] == elbow.g
    assert form.is_constant(form(formula.potential_energy(p, sp)) - elbow.U)


def test_two_link_remote_torques_follow_from_virtual_work() -> None:
    """Q_1 = tau_1* + tau_2*, Q_2 = tau_2* (000, eq. 5-48), and back; alone and as a batch."""
    np.testing.assert_array_equal(REMOTE_DRIVE.joint_torques([3.0, 5.0]), [8.0, 5.0])
    np.testing.assert_array_equal(REMOTE_DRIVE.actuator_torques([8.0, 5.0]), [3.0, 5.0])
    batch = np.random.default_rng(3).normal(size=(9, 2))
    np.testing.assert_allclose(REMOTE_DRIVE.joint_torques(batch),
                               np.column_stack([batch.sum(axis=1), batch[:, 1]]), rtol=EXACT)
    np.testing.assert_allclose(
        REMOTE_DRIVE.actuator_torques(REMOTE_DRIVE.joint_torques(batch)), batch, rtol=EXACT)


def test_law_of_other_coordinates_holds_for_every_arm_of_two_joints() -> None:
    """J^-T (C - M J^-1 J') J^-1 is the C of the Christoffel symbols of M_p, whatever M and p(q).

    M, its derivatives, J and the second derivatives of p(q) at one state are arbitrary symbols.
    """
    n = range(2)
    J = sp.Matrix(2, 2, lambda i, a: sp.Symbol(f'J_{i}{a}'))
    M = sp.Matrix(2, 2, lambda a, b: sp.Symbol('M_{}{}'.format(*sorted((a, b)))))

    def d_J(c: int) -> sp.Matrix:  # dJ/dq_c: symmetric, because J is a gradient
        return sp.Matrix(2, 2, lambda i, a: sp.Symbol('H_{}{}{}'.format(i, *sorted((a, c)))))

    def d_M(c: int) -> sp.Matrix:
        return sp.Matrix(2, 2, lambda a, b: sp.Symbol('D_{}{}{}'.format(c, *sorted((a, b)))))

    q_dot = sp.Matrix(V[:2])
    inverse = J.adjugate() / sp.Symbol('det')  # det stands for J_00 J_11 - J_01 J_10

    def d_M_p(c: int) -> sp.Matrix:
        """Return the derivative of J^-T M J^-1 by q_c."""
        d_inverse = -inverse * d_J(c) * inverse
        half = d_inverse.T * M * inverse
        return half + half.T + inverse.T * d_M(c) * inverse

    by_q = [d_M_p(c) for c in n]
    by_p = [sum((inverse[c, i] * by_q[c] for c in n), sp.zeros(2)) for i in n]  # the chain rule
    p_dot = J * q_dot
    right = sp.Matrix(2, 2, lambda k, j: sum(
        HALF * (by_p[i][k, j] + by_p[j][k, i] - by_p[k][i, j]) * p_dot[i] for i in n))
    C = sp.Matrix(2, 2, lambda k, j: sum(
        HALF * (d_M(i)[k, j] + d_M(j)[k, i] - d_M(k)[i, j]) * q_dot[i] for i in n))
    J_dot = sum((d_J(c) * q_dot[c] for c in n), sp.zeros(2))
    law = inverse.T * (C - M * inverse * J_dot) * inverse
    for entry in law - right:
        # Multiplied by det^5 it is a polynomial, in which det may be written out.
        polynomial = sp.expand(sp.expand(entry) * sp.Symbol('det') ** 5)
        assert sp.expand(polynomial.subs(sp.Symbol('det'), J.det())) == 0


def test_transformed_dynamics_is_the_arm_of_energies_in_those_coordinates() -> None:
    """M, C, g and U in p_1 = q_1 + sin q_2, p_2 = exp q_2 follow from T and U written in p."""
    dynamics = load_dynamics(CHECKOUT / 'urdf' / 'two_link.urdf')
    assert isinstance(dynamics, ClosedFormDynamics)
    coordinates = Coordinates(
        names=('p1', 'p2'),
        positions=lambda q: np.column_stack([q[:, 0] + np.sin(q[:, 1]), np.exp(q[:, 1])]),
        joint_positions=lambda p: np.column_stack(
            [p[:, 0] - np.sin(np.log(p[:, 1])), np.log(p[:, 1])]),
        jacobian=lambda q: np.moveaxis(np.array([
            [np.ones(len(q)), np.cos(q[:, 1])], [np.zeros(len(q)), np.exp(q[:, 1])]]), -1, 0),
        jacobian_rate=lambda q, v: np.moveaxis(np.array([
            [np.zeros(len(q)), -np.sin(q[:, 1]) * v[:, 1]],
            [np.zeros(len(q)), np.exp(q[:, 1]) * v[:, 1]]]), -1, 0),
    )
    seen = TransformedDynamics(dynamics, coordinates)

    # The energies of the drawing with the arm's numbers, in p.
    drawing = DRAWINGS[TwoLink]()
    numbers = {field.name: getattr(dynamics.formula, field.name) for field in fields(TwoLink)}
    p, p_dot = Q[:2], V[:2]
    q_of_p = sp.Matrix([p[0] - sp.sin(sp.log(p[1])), sp.log(p[1])])
    q_dot = q_of_p.jacobian(p) * sp.Matrix(p_dot)
    waves = {symbol: wave for symbol, wave in zip(
        drawing.form.ring.symbols,
        [*(sp.cos(x) for x in q_of_p), *(sp.sin(x) for x in q_of_p)], strict=False)}
    T, U = (energy.as_expr().subs(numbers).subs({'z_1': 0, 'z_2': 0}).subs(
        dict(zip(V, q_dot, strict=False)), simultaneous=True).subs(waves)
        for energy in (drawing.T, drawing.U))
    n = range(2)
    M = sp.hessian(T, p_dot)
    C = sp.Matrix(2, 2, lambda k, j: sum(
        HALF * (M[k, j].diff(p[i]) + M[k, i].diff(p[j]) - M[i, j].diff(p[k])) * p_dot[i]
        for i in n))
    g = [U.diff(x) for x in p]
    rng = np.random.default_rng(5)
    states = np.column_stack([rng.uniform(-3.0, 3.0, 20), rng.uniform(0.3, 3.0, 20)])
    rates = rng.normal(size=(20, 2))
    terms = sp.lambdify([p, p_dot], [M, C, g, U], 'numpy')
    heights = []
    for x, x_dot in zip(states, rates, strict=True):
        M_x, C_x, g_x, U_x = terms(x, x_dot)
        np.testing.assert_allclose(seen.mass_matrix(x), M_x, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(seen.coriolis_matrix(x, x_dot), C_x, rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(seen.gravity(x), g_x, rtol=EXACT, atol=EXACT)
        heights.append(seen.potential_energy(x) - U_x)
    np.testing.assert_allclose(heights, heights[0], rtol=0.0, atol=100.0 * EXACT)


# ------------------------------------------------------- from an arm in space to the formula

EX, EY, EZ = np.eye(3)


@dataclass(frozen=True)
class Part:
    """A link and the joint that moves it, drawn in simple axes with all joints at 0."""

    name: str
    axis: Any  # (3,), unit
    at: Any  # (3,) [m], a point on the axis
    on: str | None = None  # the part that carries this one; None is the base
    mass: Mass | None = None
    mimic: tuple[str, float] | None = None  # part that is followed, and the rate
    kind: str = 'revolute'


@dataclass(frozen=True)
class Sketch:
    """The parts of an arm, and gravity in the axes that they are drawn in."""

    parts: tuple[Part, ...]
    gravity: Any  # (3,) [m/s^2]

    def part(self, name: str) -> Part:
        """Return a part by its name."""
        return next(part for part in self.parts if part.name == name)

    def change(self, name: str, **changes: Any) -> Sketch:
        """Return the sketch with one part changed."""
        return replace(self, parts=tuple(
            replace(part, **changes) if part.name == name else part for part in self.parts))

    def mounted(self, rng: np.random.Generator) -> tuple[Arm, Any]:
        """Return the arm turned as a whole, in random frames, and gravity in its root axes."""
        R = rotation_of(rng.uniform(-np.pi, np.pi, 3))
        writer = ArmWriter('sketch', rng)
        for part in self.parts:
            mass = part.mass and Mass(
                part.mass.mass, R @ part.mass.com, R @ part.mass.moments @ R.T)
            writer.body(
                part.name, on=part.on or writer.base, axis=R @ part.axis, at=R @ part.at,
                mass=mass, kind=part.kind,
                mimic=part.mimic and (f'{part.mimic[0]}_joint', part.mimic[1]))
        return load_arm(writer.text()), R @ self.gravity


def anywhere(rng: np.random.Generator) -> Mass:
    """Return a body of any shape at any place."""
    return random_mass(rng, somewhere(rng))


def sketch_two_link(rng: np.random.Generator) -> Sketch:
    """Two parallel axes along z, everything else anywhere."""
    return Sketch((
        Part('a', EZ, somewhere(rng), mass=anywhere(rng)),
        Part('b', EZ, somewhere(rng), on='a', mass=anywhere(rng)),
    ), rng.normal(size=3))


def sketch_two_link_remote(rng: np.random.Generator) -> Sketch:
    """A massless carrier at the tip of link a is turned back and carries link b."""
    tip = somewhere(rng)
    return Sketch((
        Part('a', EZ, somewhere(rng), mass=anywhere(rng)),
        Part('level', EZ, tip, on='a', mimic=('a', -1.0)),
        Part('b', EZ, tip, on='level', mass=anywhere(rng)),
    ), rng.normal(size=3))


def sketch_five_bar(rng: np.random.Generator, massive: str = 'abcd') -> Sketch:
    """Links a and b on one axis, c at the tip of b parallel to a, d at the tip of a like b."""
    base, tip_a, tip_b = (somewhere(rng) for _ in range(3))
    mass = {name: anywhere(rng) for name in massive}
    return Sketch((
        Part('a', EZ, base, mass=mass.get('a')),
        Part('b', EZ, base, mass=mass.get('b')),
        Part('level_a', EZ, tip_a, on='a', mimic=('a', -1.0)),
        Part('d', EZ, tip_a, on='level_a', mass=mass.get('d'), mimic=('b', 1.0)),
        Part('level_b', EZ, tip_b, on='b', mimic=('b', -1.0)),
        Part('c', EZ, tip_b, on='level_b', mass=mass.get('c'), mimic=('a', 1.0)),
    ), rng.normal(size=3))


def sketch_longer_five_bar(rng: np.random.Generator) -> Sketch:
    """Link c hangs on the tip of link d: the way to it turns twice as motor 1 does."""
    sketch = sketch_five_bar(rng, 'abd')
    tip_d = somewhere(rng)
    return replace(sketch, parts=(
        *(part for part in sketch.parts if part.name not in ('level_b', 'c')),
        Part('level_d', EZ, tip_d, on='d', mimic=('b', -1.0)),
        Part('c', EZ, tip_d, on='level_d', mass=anywhere(rng), mimic=('a', 1.0))))


def sketch_spatial_3r(rng: np.random.Generator, l_1: float = 0.7, r_1: float = 0.4,
                      r_2: float = 0.3) -> Sketch:
    """A column along z, hinges along y; centres of mass in the x-z plane, inertia along links."""
    foot = somewhere(rng)
    shoulder = foot + rng.normal() * EZ
    line_2, line_3 = (np.cos(angle) * EX + np.sin(angle) * EZ
                      for angle in rng.uniform(-3.0, 3.0, 2))
    elbow = shoulder + l_1 * line_2
    return Sketch((
        Part('a', EZ, foot, mass=anywhere(rng)),
        Part('b', EY, shoulder, on='a', mass=random_mass(
            rng, shoulder + r_1 * line_2, np.array([EY, line_2, np.cross(EY, line_2)]))),
        Part('c', EY, elbow, on='b', mass=random_mass(
            rng, elbow + r_2 * line_3, np.array([EY, line_3, np.cross(EY, line_3)]))),
    ), rng.normal(size=3))


def sketch_slides(rng: np.random.Generator, angle: float) -> Sketch:
    """Two slides at an angle, everything else anywhere."""
    axis_2 = np.cos(angle) * EX + np.sin(angle) * EY
    return Sketch((
        Part('a', EX, somewhere(rng), mass=anywhere(rng), kind='prismatic'),
        Part('b', axis_2, somewhere(rng), on='a', mass=anywhere(rng), kind='prismatic'),
    ), rng.normal(size=3))


def sketch_prismatic_revolute(rng: np.random.Generator, slide: Any = None) -> Sketch:
    """A slide in any direction and an axis along z, everything else anywhere."""
    slide = direction(rng) if slide is None else slide
    return Sketch((
        Part('a', slide, somewhere(rng), mass=anywhere(rng), kind='prismatic'),
        Part('b', EZ, somewhere(rng), on='a', mass=anywhere(rng)),
    ), rng.normal(size=3))


def sketch_spherical_pendulum(rng: np.random.Generator, length: float = 0.6,
                              radius: float = 0.2) -> Sketch:
    """Axes z and y that meet, and a slender rod through the point where they do."""
    pivot, angle = somewhere(rng), rng.uniform(-3.0, 3.0)
    line = np.cos(angle) * EX + np.sin(angle) * EZ
    rod = Mass(1.5, pivot + length * line, 1.5 * radius**2 * np.outer(line, line))
    return Sketch((
        Part('a', EZ, pivot + rng.normal() * EZ),
        Part('b', EY, pivot, on='a', mass=rod),
    ), rng.normal(size=3))


def two_link_without(rng: np.random.Generator, length: str) -> Sketch:
    """Return an elbow whose joints lie on one axis, or whose link 2 has its mass on joint 2."""
    sketch = sketch_two_link(rng)
    if length == 'l_1':
        return sketch.change('b', at=sketch.part('a').at)
    return sketch.change('b', mass=random_mass(rng, sketch.part('b').at + 0.3 * EZ))


# What is drawn: in general, and where a length, a link or a part of gravity is missing.
SKETCHES: dict[str, Callable[[np.random.Generator], Sketch]] = {
    'two_link': sketch_two_link,
    'two_link: upright axes': lambda rng: replace(sketch_two_link(rng), gravity=EZ),
    'two_link: l_1 = 0': lambda rng: two_link_without(rng, 'l_1'),
    'two_link: l_c2 = 0': lambda rng: two_link_without(rng, 'l_c2'),
    'two_link_remote': sketch_two_link_remote,
    'two_link_remote: upright axes': lambda rng: replace(
        sketch_two_link_remote(rng), gravity=EZ),
    'five_bar': sketch_five_bar,
    'five_bar: without link 1': lambda rng: sketch_five_bar(rng, 'bcd'),
    'five_bar: without link 2': lambda rng: sketch_five_bar(rng, 'acd'),
    'five_bar: without link 3': lambda rng: sketch_five_bar(rng, 'abd'),
    'five_bar: without link 4': lambda rng: sketch_five_bar(rng, 'abc'),
    'five_bar: links 1 and 4 only': lambda rng: sketch_five_bar(rng, 'ad'),
    'five_bar: links 2 and 3 only': lambda rng: sketch_five_bar(rng, 'bc'),
    'five_bar: links 1 and 3 only': lambda rng: sketch_five_bar(rng, 'ac'),
    'five_bar: links 2 and 4 only': lambda rng: sketch_five_bar(rng, 'bd'),
    'five_bar: link 3 only': lambda rng: sketch_five_bar(rng, 'c'),
    'five_bar: link 4 only': lambda rng: sketch_five_bar(rng, 'd'),
    'five_bar: link 3 at the tip of link 4': sketch_longer_five_bar,
    'spatial_3r': sketch_spatial_3r,
    'spatial_3r: l_1 = 0': lambda rng: sketch_spatial_3r(rng, l_1=0.0),
    'spatial_3r: l_1 = r_1 = 0': lambda rng: sketch_spatial_3r(rng, l_1=0.0, r_1=0.0),
    'spatial_3r: r_1 behind the joint': lambda rng: sketch_spatial_3r(rng, r_1=-0.4),
    'spatial_3r: r_2 = 0': lambda rng: sketch_spatial_3r(rng, r_2=0.0),
    'cartesian': lambda rng: sketch_slides(rng, np.pi / 2),
    'skew_cartesian': lambda rng: sketch_slides(rng, 0.7),
    'skew_cartesian: obtuse': lambda rng: sketch_slides(rng, 2.0),
    'prismatic_revolute': sketch_prismatic_revolute,
    'prismatic_revolute: planar': lambda rng: sketch_prismatic_revolute(rng, EX),
    'prismatic_revolute: along the axis': lambda rng: sketch_prismatic_revolute(rng, -EZ),
    'spherical_pendulum': sketch_spherical_pendulum,
    'spherical_pendulum: point mass': lambda rng: sketch_spherical_pendulum(rng, radius=0.0),
    'spherical_pendulum: l = 0': lambda rng: sketch_spherical_pendulum(rng, length=0.0),
}


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('name', SKETCHES)
def test_arm_anywhere_in_space_is_recognised(name: str, seed: int) -> None:
    """However an arm is mounted and its frames are chosen, the formula is that of its energies."""
    rng = np.random.default_rng(seed)
    arm, gravity = SKETCHES[name](rng).mounted(rng)
    closed_form, general = ClosedFormDynamics(arm, gravity), LagrangianDynamics(arm, gravity)
    assert closed_form.mechanism == name.partition(':')[0]
    q, v, a = rng.uniform(-3.0, 3.0, size=(3, 8, len(arm.joints)))

    def assert_same(found: Any, right: Any) -> None:
        np.testing.assert_allclose(found, right, rtol=0.0, atol=EXACT * max(1, abs(right).max()))

    assert_same(closed_form.mass_matrix(q), general.mass_matrix(q))
    assert_same(closed_form.coriolis_matrix(q, v), general.coriolis_matrix(q, v))
    assert_same(closed_form.gravity(q), general.gravity(q))
    assert_same(closed_form.potential_energy(q), general.potential_energy(q))
    if hasattr(closed_form.formula, 'regressor'):
        assert_same(closed_form.minimal_regressor(q, v, a) @ closed_form.minimal_parameters,
                    general.inverse_dynamics(q, v, a))


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('massive', ['abd', 'abc'], ids=['without c', 'without d'])
def test_five_bar_link_without_another_at_its_tip_has_its_mass_on_its_line(massive: str,
                                                                           seed: int) -> None:
    """Where no joint gives the line of a link, its centre of mass does: h = 0, l_c > 0."""
    rng = np.random.default_rng(seed)
    formula = recognised(sketch_five_bar(rng, massive), rng)
    line = 1 if formula.l_1 == 0.0 else 2  # whichever motor comes first in the URDF is motor 1
    assert getattr(formula, f'l_{line}') == 0.0
    assert abs(getattr(formula, f'h_{line}')) <= EXACT
    assert getattr(formula, f'l_c{line}') > 0.01


def recognised(sketch: Sketch, rng: np.random.Generator) -> Any:
    """Return the formula of a sketch."""
    return ClosedFormDynamics(*sketch.mounted(rng)).formula


def coupler_only(rng: np.random.Generator) -> Sketch:
    """A remote drive whose second massive link hangs on the forearm, parallel to motor 1."""
    sketch, tip_b = sketch_two_link_remote(rng), somewhere(rng)
    return replace(sketch.change('a', mass=None), parts=(
        *sketch.change('a', mass=None).parts,
        Part('level_b', EZ, tip_b, on='b', mimic=('b', -1.0)),
        Part('c', EZ, tip_b, on='level_b', mass=anywhere(rng), mimic=('a', 1.0))))


def on_one_axis(rng: np.random.Generator) -> Sketch:
    """A remote drive without a line from joint 1 to joint 2, up to rounding."""
    sketch = sketch_two_link_remote(rng)
    axis = sketch.part('a').at
    return sketch.change('level', at=axis).change('b', at=axis)


def motors_apart(rng: np.random.Generator) -> Sketch:
    """A five-bar of links 1 and 3 whose motors are not on one axis."""
    sketch = sketch_five_bar(rng, 'ac')
    return sketch.change('a', at=sketch.part('a').at + 0.01 * EX)


MISFITS = {
    'two_link_remote: no link on the base': (coupler_only, 'one massive link on the base'),
    'two_link_remote: no link at the tip': (on_one_axis, 'one massive link on the base'),
    'five_bar: motors on two axes': (motors_apart, 'a loop that closes'),
}


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize('name', MISFITS)
def test_links_in_other_places_are_refused(name: str, seed: int) -> None:
    """Two links that are not those of the book are refused, not computed."""
    sketch, assumption = MISFITS[name]
    rng = np.random.default_rng(seed)
    with pytest.raises(AssumptionError, match=assumption) as caught:
        recognised(sketch(rng), rng)
    assert caught.value.mechanism == name.partition(':')[0]


# Arms whose size or whose own inertia dominates: l or radius of gyration of a link [m].
SCALES = {'long and thin': (30.0, 0.1), 'short and thick': (0.1, 30.0)}


def tolerated(sketch: Sketch, rng: np.random.Generator) -> bool:
    """Say whether a formula takes the sketch."""
    try:
        recognised(sketch, rng)
    except AssumptionError:
        return False
    return True


@pytest.mark.parametrize(('size', 'radius'), SCALES.values(), ids=SCALES)
def test_spatial_3r_products_of_inertia_count_against_all_that_turns(size: float,
                                                                    radius: float) -> None:
    """A product of inertia is mere rounding against the link's tensor and m size^2."""
    for share, right in ((0.1, True), (10.0, False)):
        rng = np.random.default_rng(2)
        sketch = sketch_spatial_3r(rng, l_1=size, r_1=size / 2, r_2=size)
        mass = sketch.part('b').mass
        assert mass is not None
        line = (mass.com - sketch.part('b').at) / (size / 2)
        product = share * EXACT_WITHIN * mass.mass * (size**2 + radius**2)
        across = np.cross(EY, line)
        moments = mass.mass * radius**2 * np.eye(3) + product * (
            np.outer(line, across) + np.outer(across, line))
        sketch = sketch.change('b', mass=replace(mass, moments=moments))
        # Link 1 far away would make the arm larger than its links are.
        sketch = sketch.change('a', mass=random_mass(rng, sketch.part('a').at))
        sketch = sketch.change('a', at=sketch.part('b').at)
        assert tolerated(sketch, rng) is right


@pytest.mark.parametrize(('size', 'radius'), SCALES.values(), ids=SCALES)
def test_spherical_pendulum_may_be_as_thick_as_rounding(size: float, radius: float) -> None:
    """Inertia about the rod's line is mere rounding against m l^2 + I."""
    for share, right in ((0.1, True), (10.0, False)):
        rng = np.random.default_rng(2)
        sketch = sketch_spherical_pendulum(rng, length=size, radius=radius)
        mass = sketch.part('b').mass
        assert mass is not None
        thickness = share * EXACT_WITHIN * mass.mass * (size**2 + radius**2)
        sketch = sketch.change('b', mass=replace(
            mass, moments=mass.moments + thickness * np.eye(3)))
        assert tolerated(sketch, rng) is right


# --------------------------------------------------------------------------------- mutants


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return scripts/mutants as a module."""
    loader = SourceFileLoader('mutants', str(CHECKOUT / 'scripts' / 'mutants'))
    spec = spec_from_loader('mutants', loader)
    assert spec is not None
    module = module_from_spec(spec)
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    monkeypatch.setitem(sys.modules, 'mutants', module)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(('kind', 'at_least'), [('sign', 60), ('term', 60), ('sin-cos', 12)])
def test_mistakes_are_generated_and_noticed(mutants: ModuleType, kind: str,
                                            at_least: int) -> None:
    """Of each kind there are many mutants, and some that are tried fail a proof each."""
    drawing = DRAWINGS[TwoLink]()
    source = Path(sys.modules[TwoLink.__module__].__file__ or '').read_bytes()
    found = [mutant for mutant in mutants.generate(source, TwoLink.stem) if mutant.kind == kind]
    assert len(found) >= at_least
    assert len({mutant.source for mutant in found}) == len(found)
    for prove in PROOFS:
        method = prove.__name__.removeprefix('prove_')
        sample = next(mutant for mutant in found if mutant.function == f'TwoLink.{method}')
        with mutants.applied(sample), pytest.raises(AssertionError):
            prove(drawing)
        prove(drawing)
