# SPDX-License-Identifier: Apache-2.0
r"""Every formula of the five documents, derived anew from kinetic and potential energy.

The torques of a mechanism come from its energies and from nothing else:

.. math::
    \tau_k = \frac{d}{dt} \frac{\partial L}{\partial \dot q_k} - \frac{\partial L}{\partial q_k},
    \quad L = T - U

Inertia matrix, velocity coefficients and gravity are read off these torques and compared with what
the documents print. Tests with ``@misprint`` prove a row of ``docs/misprints.md``: the corrected
statement is an identity and the printed one is not. The other tests prove formulas that are right.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path

import pytest
import sympy as sp
from sympy import cos, sin
from sympy.core.function import AppliedUndef

HALF = sp.Rational(1, 2)
Q1, Q2, Q3 = Q = sp.symbols('q1:4')  # joint coordinates: q, theta or p of the documents
V1, V2, V3 = V = sp.symbols('v1:4')  # their first time derivatives
A1, A2, A3 = A = sp.symbols('a1:4')  # their second time derivatives
G0 = sp.Symbol('g', positive=True)  # magnitude of the acceleration of gravity
M1, M2, M3, M4 = sp.symbols('m1:5', positive=True)  # masses
L1, L2 = sp.symbols('l1 l2', positive=True)  # link lengths
LC1, LC2, LC3, LC4 = sp.symbols('lc1:5', real=True)  # joint to centre of mass
I1, I2, I3, I4 = sp.symbols('I1:5', positive=True)  # inertias about the centre of mass

# ------------------------------------------------------------------ identities and witnesses

PYTHAGOREAN = ((3, 4, 5), (5, 12, 13), (8, 15, 17))  # exact cos and sin: 3/5 and 4/5, ...


def normal_form(expression):
    """Expand to a polynomial in sin and cos of single angles, cos^2 replaced by 1 - sin^2.

    The form is unique, so an expression is identically zero exactly when its form is 0.
    """

    def is_cos_power(part):
        return part.is_Pow and isinstance(part.base, cos) and part.exp.is_Integer and part.exp > 1

    def lower(power):
        squares, single = divmod(int(power.exp), 2)
        return power.base**single * (1 - sin(power.base.args[0]) ** 2) ** squares

    expanded = sp.expand(sp.expand_trig(sp.sympify(expression)))
    return sp.expand(expanded.replace(is_cos_power, lower))


def differences(left, right):
    """Return the entries of left - right that are not identically zero, by position."""
    left, right = (x if isinstance(x, sp.MatrixBase) else sp.Matrix([x]) for x in (left, right))
    assert left.shape == right.shape
    residual = (left - right).applyfunc(normal_form)
    return {
        (row + 1, column + 1): residual[row, column]
        for row in range(residual.rows)
        for column in range(residual.cols)
        if residual[row, column] != 0
    }


def exact_value(expression, at):
    """Evaluate exactly: rational numbers for symbols, Pythagorean triples for angles.

    Undefined functions and their derivatives are arbitrary at a point: they get numbers too.
    """
    value = normal_form(sp.sympify(expression).subs(at))
    angles = sorted({part.args[0] for part in value.atoms(sin, cos)}, key=str)
    assert len(angles) <= len(PYTHAGOREAN)
    for angle, (adjacent, opposite, hypotenuse) in zip(angles, PYTHAGOREAN, strict=False):
        value = value.subs(cos(angle), sp.Rational(adjacent, hypotenuse))
        value = value.subs(sin(angle), sp.Rational(opposite, hypotenuse))
    for kind in (sp.Derivative, AppliedUndef, sp.Symbol):
        parts = enumerate(sorted(value.atoms(kind), key=str), start=1)
        value = value.xreplace({part: sp.Rational(sp.prime(i), 7) for i, part in parts})
    assert value.is_number
    return value


def assert_identical(left, right):
    """Both sides are equal for all values of all symbols."""
    assert differences(left, right) == {}


def assert_refuted(printed, right, at=None):
    """The printed side differs from the right one, as one exact pair of numbers shows."""
    found = differences(printed, right)
    assert found != {}
    assert any(exact_value(residual, at or {}) != 0 for residual in found.values())


# --------------------------------------------------------------------- from energies to torques


def rate(expression, q, v, a=()):
    """Total time derivative of a scalar or a matrix that depends on q and, if a is given, on v."""
    terms = [sp.diff(expression, x) * x_dot for x, x_dot in [*zip(q, v, strict=True)]]
    terms += [sp.diff(expression, x) * x_dot for x, x_dot in zip(v[: len(a)], a, strict=True)]
    return sum(terms[1:], terms[0])


def lagrange(lagrangian, q, v, a):
    """Left side of Lagrange's equations, one row per coordinate."""
    return sp.Matrix(
        [
            rate(sp.diff(lagrangian, v_k), q, v, a) - sp.diff(lagrangian, q_k)
            for q_k, v_k in zip(q, v, strict=True)
        ]
    )


@dataclass(frozen=True)
class Mechanism:
    """Kinetic energy T, potential energy U, and what Lagrange's equations make of them."""

    T: sp.Expr
    U: sp.Expr
    n: int

    @property
    def states(self):
        """Coordinates, velocities and accelerations of the n joints."""
        return Q[: self.n], V[: self.n], A[: self.n]

    def torque(self):
        """Return what Lagrange's equations give for T - U."""
        return lagrange(self.T - self.U, *self.states).applyfunc(normal_form)

    def mass_matrix(self):
        """Return the coefficients of the accelerations in the torque."""
        return self.torque().jacobian(self.states[2])

    def gravity(self):
        """Return the torque at rest."""
        return self.torque().subs(dict.fromkeys(V + A, 0))

    def velocity_coefficient(self, i, j, k):
        """Return c_ijk, the part of tau_k in v_i v_j: from the torque, not from a definition."""
        return HALF * sp.diff(self.torque()[k - 1], V[i - 1], V[j - 1])


def planar(n, *links):
    """Mechanism in the vertical x-y plane from (mass, centre of mass, inertia, angle) of links."""
    q, v = Q[:n], V[:n]
    T = U = sp.Integer(0)
    for mass, centre, inertia, angle in links:
        velocity = rate(sp.Matrix(centre), q, v)
        T += HALF * mass * velocity.dot(velocity) + HALF * inertia * rate(angle, q, v) ** 2
        U += mass * G0 * centre[1]
    return Mechanism(T, U, n)


def along(length, angle):
    """Return the vector of this length at this angle from the x axis."""
    return sp.Matrix([length * cos(angle), length * sin(angle)])


ELBOW_CENTRES = along(LC1, Q1), along(L1, Q1) + along(LC2, Q1 + Q2)


@cache
def elbow():
    """Two links, both angles measured at the joints."""
    c_1, c_2 = ELBOW_CENTRES
    return planar(2, (M1, c_1, I1, Q1), (M2, c_2, I2, Q1 + Q2))


@cache
def remote_elbow():
    """The same two links; the second angle is measured from the horizontal."""
    c_2 = along(L1, Q1) + along(LC2, Q2)
    return planar(2, (M1, along(LC1, Q1), I1, Q1), (M2, c_2, I2, Q2))


FIVE_BAR_CENTRES = (
    along(LC1, Q1),
    along(LC2, Q2),
    along(L2, Q2) + along(LC3, Q1),
    along(L1, Q1) - along(LC4, Q2),
)


@cache
def five_bar():
    """Parallelogram: links 1 and 3 turn with q1, links 2 and 4 with q2."""
    masses, inertias, angles = (M1, M2, M3, M4), (I1, I2, I3, I4), (Q1, Q2, Q1, Q2)
    return planar(2, *zip(masses, FIVE_BAR_CENTRES, inertias, angles, strict=True))


@cache
def point_mass_elbow():
    """Two massless links with a point mass at the end of each."""
    tip_1 = along(L1, Q1)
    tip_2 = tip_1 + along(L2, Q1 + Q2)
    return planar(2, (M1, tip_1, 0, Q1), (M2, tip_2, 0, Q1 + Q2))


def cross_matrix(w):
    """Return the matrix W with W r = w x r."""
    x, y, z = w
    return sp.Matrix([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def vee(W):
    """Return the w of a cross_matrix."""
    return sp.Matrix([W[2, 1], W[0, 2], W[1, 0]])


def rotation(axis, angle):
    """Rodrigues' formula."""
    K = cross_matrix(axis)
    return sp.eye(3) + sin(angle) * K + (1 - cos(angle)) * K * K


X, Y, Z = (sp.Matrix(column) for column in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))

L0, R0, R1, R2 = sp.symbols('l0 r0 r1 r2', positive=True)
IX1, IY1, IZ1, IX2, IY2, IZ2, IX3, IY3, IZ3 = sp.symbols('Ix1 Iy1 Iz1 Ix2 Iy2 Iz2 Ix3 Iy3 Iz3')
SPATIAL_MASSES = M1, M2, M3
SPATIAL_INERTIAS = (
    sp.diag(IX1, IY1, IZ1),
    sp.diag(IX2, IY2, IZ2),
    sp.diag(IX3, IY3, IZ3),
)


def spatial_poses(upwards=-1):
    """Rotation and centre of mass of the links of the spatial 3R arm of document 003.

    Joint 1 turns about the vertical z, joints 2 and 3 about the horizontal x; at rest the arm
    points along y. With upwards = -1 positive angles 2 and 3 turn the links downwards.
    """
    turn_1 = rotation(Z, Q1)
    turn_2 = turn_1 * rotation(X, upwards * Q2)
    turn_3 = turn_1 * rotation(X, upwards * (Q2 + Q3))
    shoulder = L0 * Z
    elbow_point = shoulder + turn_2 * L1 * Y
    return (
        (turn_1, R0 * Z),
        (turn_2, shoulder + turn_2 * R1 * Y),
        (turn_3, elbow_point + turn_3 * R2 * Y),
    )


def body_twist(R, p, q, v):
    """Angular and linear velocity in the body frame, from R' dR/dt and R' dp/dt."""
    omega = vee((R.T * rate(R, q, v)).applyfunc(normal_form))
    return sp.Matrix.vstack(omega, (R.T * rate(p, q, v)).applyfunc(normal_form))


@cache
def spatial(upwards=-1):
    """Spatial 3R arm of document 003."""
    T = U = sp.Integer(0)
    links = zip(spatial_poses(upwards), SPATIAL_MASSES, SPATIAL_INERTIAS, strict=True)
    for (R, p), mass, inertia in links:
        twist = body_twist(R, p, Q, V)
        T += HALF * (twist.T * sp.diag(inertia, mass * sp.eye(3)) * twist)[0]
        U += mass * G0 * p[2]
    return Mechanism(normal_form(T), normal_form(U), 3)


@cache
def generic(n):
    """Inertia matrix and potential energy of an n-joint arm as unknown functions of q."""
    q = Q[:n]
    D = sp.Matrix(n, n, lambda i, j: sp.Function(f'd{min(i, j) + 1}{max(i, j) + 1}')(*q))
    return D, sp.Function('P')(*q)


def generic_mechanism(n):
    """n-joint arm with the unknown functions of generic(n)."""
    D, P = generic(n)
    return Mechanism(HALF * (sp.Matrix([V[:n]]) * D * sp.Matrix(V[:n]))[0], P, n)


def christoffel(D, i, j, k):
    """c_ijk of documents 001 and 002 (6), with indices from 1."""
    return HALF * (
        sp.diff(D[k - 1, j - 1], Q[i - 1])
        + sp.diff(D[k - 1, i - 1], Q[j - 1])
        - sp.diff(D[i - 1, j - 1], Q[k - 1])
    )


def coriolis(D):
    """C with c_kj = sum over i of c_ijk v_i, of documents 001 and 002 (9)."""
    indices = range(1, D.rows + 1)

    def entry(k, j):
        return sum(christoffel(D, i, j + 1, k + 1) * V[i - 1] for i in indices)

    return sp.Matrix(D.rows, D.rows, entry)


# ------------------------------------------------------------------------ the list of misprints

PROVED_BY = {}


def misprint(identifier):
    """Tie a test to its row of docs/misprints.md."""

    def register(test):
        assert identifier not in PROVED_BY
        PROVED_BY[identifier] = test.__name__
        return test

    return register


def test_list_of_misprints_and_tests_are_the_same():
    """Each M row names its test, each test has its row; W rows are wording and have no test."""
    text = (Path(__file__).parents[1] / 'docs' / 'misprints.md').read_text(encoding='utf-8')
    rows = re.findall(r'^\| ([MW]\d{3}-\d+) \|(.*)\|$', text, flags=re.MULTILINE)
    identifiers = [identifier for identifier, _ in rows]
    assert len(identifiers) == len(set(identifiers))
    named = {name: re.findall(r'`(test_\w+)`', rest) for name, rest in rows}
    assert {name: tests for name, tests in named.items() if name.startswith('M')} == {
        name: [test] for name, test in PROVED_BY.items()
    }
    assert not any(tests for name, tests in named.items() if name.startswith('W'))


def test_zero_test_tells_identities_from_others():
    """The zero test accepts true trigonometric identities and rejects false ones."""
    assert_identical(cos(Q1 + Q2) ** 2 + sin(Q1 + Q2) ** 2, 1)
    assert_identical(sin(Q1) * cos(Q2) - cos(Q1) * sin(Q2), sin(Q1 - Q2))
    assert_refuted(sin(Q1) * cos(Q2) + cos(Q1) * sin(Q2), sin(Q1 - Q2))
    with pytest.raises(AssertionError):
        assert_identical(cos(Q1), sin(Q1))
    with pytest.raises(AssertionError):
        assert_refuted(cos(Q1) ** 4, (1 - sin(Q1) ** 2) ** 2)


# ------------------------------------------- 000, section 5.2: Lagrangian formulation

GRAVITY = sp.Matrix([0, 0, -G0])  # the acceleration of gravity: downwards


@misprint('M000-1')
@pytest.mark.parametrize('equation', ['5-30', '5-37', '5-40', '5-45'])
def test_potential_energy_has_a_minus_before_the_gravity_vector(equation):
    """With g the acceleration of gravity, U is minus the sum of m g'r; G follows with a minus."""
    x, y, z = sp.symbols('x y z')
    if equation == '5-30':  # the force -dU/dr of the potential must be the weight m g
        printed_U = M1 * GRAVITY.dot(sp.Matrix([x, y, z]))

        def force(U):
            return -sp.Matrix([sp.diff(U, coordinate) for coordinate in (x, y, z)])

        assert_identical(force(-printed_U), M1 * GRAVITY)
        assert_refuted(force(printed_U), M1 * GRAVITY)
        return
    if equation == '5-45':
        right = elbow().gravity()
        g = sp.Matrix([0, -G0])
        J_1, J_2 = (centre.jacobian([Q1, Q2]) for centre in ELBOW_CENTRES)
        printed = (g.T * (M1 * J_1 + M2 * J_2)).T
    else:  # the general equations, on the spatial arm
        right = spatial().gravity()
        centres = [p for _, p in spatial_poses()]
        if equation == '5-37':
            U = sum(m * GRAVITY.dot(p) for m, p in zip(SPATIAL_MASSES, centres, strict=True))
            printed = sp.Matrix([sp.diff(U, q_i) for q_i in Q])
        else:
            columns = [p.jacobian(Q) for p in centres]
            printed = sum(
                (m * J.T * GRAVITY for m, J in zip(SPATIAL_MASSES, columns, strict=True)),
                sp.zeros(3, 1),
            )
    assert_identical(-printed, right)
    assert_refuted(printed, right)


@cache
def rrp_arm():
    """Spatial arm: joint 1 about z, joint 2 about the turned x, joint 3 slides along the link.

    Per joint its kind, its axis and a point on it; per link its rotation and centre of mass.
    """
    turn_1 = rotation(Z, Q1)
    turn_2 = turn_1 * rotation(X, Q2)
    shoulder = L0 * Z + turn_1 * L1 * X
    joints = (
        ('revolute', Z, sp.zeros(3, 1)),
        ('revolute', turn_1 * X, shoulder),
        ('prismatic', turn_2 * Y, shoulder),
    )
    links = (
        (turn_1, turn_1 * (R0 * Z + R1 * X)),
        (turn_2, shoulder + turn_2 * (R2 * Y + LC2 * Z)),
        (turn_2, shoulder + turn_2 * (Q3 * Y + LC3 * X)),
    )
    return joints, links


def jacobian_columns(i, j, base_point):
    """J_L and J_A of 000 (5-26), with the arm of the cross product from base_point."""
    joints, links = rrp_arm()
    kind, b, _ = joints[j]
    if kind == 'prismatic':
        return b, sp.zeros(3, 1)
    return b.cross(links[i][1] - base_point), b


@misprint('M000-2')
def test_jacobian_column_uses_the_vector_from_the_joint_not_from_the_base():
    """J_Lj = b x r needs the r from joint j's axis to the centroid; r from the base is wrong."""
    joints, links = rrp_arm()
    for i, j in product(range(3), repeat=2):
        R, p = links[i]
        if j > i:
            continue
        J_L, J_A = jacobian_columns(i, j, joints[j][2])
        assert_identical(J_L, sp.diff(p, Q[j]))
        assert_identical(J_A, vee(sp.diff(R, Q[j]) * R.T))
    printed, _ = jacobian_columns(1, 1, sp.zeros(3, 1))
    assert_refuted(printed, sp.diff(links[1][1], Q2))


@misprint('M000-3')
def test_jacobian_columns_are_zero_only_beyond_the_link():
    """Columns j > i of link i vanish; column j = i does not."""
    _, links = rrp_arm()
    for i, (R, p) in enumerate(links):
        for j in range(i + 1, 3):
            assert_identical(sp.diff(p, Q[j]), sp.zeros(3, 1))
            assert_identical(sp.diff(R, Q[j]), sp.zeros(3, 3))
        assert_refuted(sp.zeros(3, 1), sp.diff(p, Q[i]))


def test_inertia_tensor_of_000_is_the_sum_over_the_jacobians():
    """(5-22) to (5-29): T of each link through its Jacobians gives H, with T = v'Hv / 2."""
    joints, links = rrp_arm()
    inertias = [sp.Matrix(3, 3, sp.symbols(f'J{k}(1:4)(1:4)')) for k in (1, 2, 3)]
    inertias = [(inertia + inertia.T) / 2 for inertia in inertias]
    v = sp.Matrix(V)
    T, H = sp.Integer(0), sp.zeros(3, 3)
    for i, ((R, p), m, inertia) in enumerate(zip(links, SPATIAL_MASSES, inertias, strict=True)):
        velocity = rate(p, Q, V)
        omega = vee(rate(R, Q, V) * R.T)
        T += HALF * m * velocity.dot(velocity) + HALF * (omega.T * inertia * omega)[0]
        columns = [
            jacobian_columns(i, j, joints[j][2]) if j <= i else (sp.zeros(3, 1),) * 2
            for j in range(3)
        ]
        J_L, J_A = (sp.Matrix.hstack(*side) for side in zip(*columns, strict=True))
        assert_identical(velocity, J_L * v)
        assert_identical(omega, J_A * v)
        H += m * J_L.T * J_L + J_A.T * inertia * J_A
    assert_identical(T, HALF * (v.T * H * v)[0])
    assert_identical(H, H.T)
    double_sum = sum(H[i, j] * V[i] * V[j] for i, j in product(range(3), repeat=2))
    assert_identical(T, HALF * double_sum)


def h(H, i, j, k):
    """h_ijk of 000 (5-39), with indices from 1."""
    H_ij, H_jk = H[i - 1, j - 1], H[j - 1, k - 1]
    return sp.diff(H_ij, Q[k - 1]) - HALF * sp.diff(H_jk, Q[i - 1])


@pytest.mark.parametrize('n', [2, 3])
def test_lagrange_equations_of_000_hold_for_any_arm(n):
    """(5-34) to (5-39) with unknown functions H_ij(q) and U(q)."""
    mechanism = generic_mechanism(n)
    H, U = generic(n)
    q, v, a = mechanism.states
    indices = range(1, n + 1)
    for i in indices:
        momentum = sum(H[i - 1, j] * v[j] for j in range(n))
        assert_identical(sp.diff(mechanism.T, v[i - 1]), momentum)
        H_dot = [sum(sp.diff(H[i - 1, j], q[k]) * v[k] for k in range(n)) for j in range(n)]
        assert_identical(
            rate(momentum, q, v, a),
            sum(H[i - 1, j] * a[j] + H_dot[j] * v[j] for j in range(n)),
        )
        assert_identical(
            sp.diff(mechanism.T, q[i - 1]),
            HALF
            * sum(
                sp.diff(H[j, k], q[i - 1]) * v[j] * v[k] for j, k in product(range(n), repeat=2)
            ),
        )
        quadratic = sum(h(H, i, j, k) * v[j - 1] * v[k - 1] for j, k in product(indices, repeat=2))
        inertia = sum(H[i - 1, j] * a[j] for j in range(n))
        assert_identical(inertia + quadratic + sp.diff(U, q[i - 1]), mechanism.torque()[i - 1])


def elbow_H():
    """000 (5-43)."""
    H_12 = M2 * L1 * LC2 * cos(Q2) + M2 * LC2**2 + I2
    H_11 = M1 * LC1**2 + I1 + M2 * (L1**2 + LC2**2 + 2 * L1 * LC2 * cos(Q2)) + I2
    return sp.Matrix([[H_11, H_12], [H_12, M2 * LC2**2 + I2]])


def test_elbow_of_000_is_right():
    """(5-41) to (5-46), with the gravity term of the corrected (5-45)."""
    H = elbow_H()
    s_1, c_1, s_12, c_12 = sin(Q1), cos(Q1), sin(Q1 + Q2), cos(Q1 + Q2)
    J_1 = sp.Matrix([[-LC1 * s_1, 0], [LC1 * c_1, 0]])
    J_2 = sp.Matrix(
        [
            [-L1 * s_1 - LC2 * s_12, -LC2 * s_12],
            [L1 * c_1 + LC2 * c_12, LC2 * c_12],
        ]
    )
    for centre, J in zip(ELBOW_CENTRES, (J_1, J_2), strict=True):
        assert_identical(centre.jacobian([Q1, Q2]), J)
    row_1, row_2 = sp.Matrix([[1, 0]]), sp.Matrix([[1, 1]])
    summed = M1 * J_1.T * J_1 + M2 * J_2.T * J_2 + row_1.T * I1 * row_1 + row_2.T * I2 * row_2
    assert_identical(summed, H)
    assert_identical(elbow().mass_matrix(), H)

    sine = M2 * L1 * LC2 * sin(Q2)
    h_111, h_122, h_112_121 = 0, -sine, -2 * sine
    h_211, h_222, h_212_221 = sine, 0, 0
    assert_identical(h(H, 1, 1, 1), h_111)
    assert_identical(h(H, 1, 2, 2), h_122)
    assert_identical(h(H, 1, 1, 2) + h(H, 1, 2, 1), h_112_121)
    assert_identical(h(H, 2, 1, 1), h_211)
    assert_identical(h(H, 2, 2, 2), h_222)
    assert_identical(h(H, 2, 1, 2) + h(H, 2, 2, 1), h_212_221)

    G_1, G_2 = -sp.Matrix([[0, -G0]]) * (M1 * J_1 + M2 * J_2)
    tau_1 = H[0, 0] * A1 + H[0, 1] * A2 + h_122 * V2**2 + h_112_121 * V1 * V2 + G_1
    tau_2 = H[1, 1] * A2 + H[0, 1] * A1 + h_211 * V1**2 + G_2
    assert_identical(sp.Matrix([tau_1, tau_2]), elbow().torque())


def test_generalized_forces_of_000_are_right():
    """(5-31) to (5-33): the virtual work of joint torques and of a force at the endpoint."""
    endpoint = along(L1, Q1) + along(L2, Q1 + Q2)
    J = endpoint.jacobian([Q1, Q2])
    tau, force, dq = (sp.Matrix(sp.symbols(f'{name}1:3')) for name in ('tau', 'F', 'dq'))
    work = tau.dot(dq) + force.dot(rate(endpoint, (Q1, Q2), tuple(dq)))
    assert_identical(work, (tau + J.T * force).dot(dq))


def test_remote_drive_of_000_and_001_agree():
    """(5-47), (5-48): turning motor 2 at the base by q1 + q2 gives Q = (tau1 + tau2, tau2)."""
    p = {Q1: Q1, Q2: Q1 + Q2, V1: V1, V2: V1 + V2, A1: A1, A2: A1 + A2}
    tau_star = remote_elbow().torque().subs(p, simultaneous=True)
    assert_identical(sp.Matrix([tau_star[0] + tau_star[1], tau_star[1]]), elbow().torque())


# --------------------------------------------------------------- 001, section 13: Dynamics III


def test_generalized_coordinates_of_001_follow_from_dalembert():
    """For particles r_i(q), the inertial work over dq_j is d/dt dK/dq'_j - dK/dq_j."""
    position = sp.Matrix([sp.Function(name)(Q1, Q2) for name in 'xyz'])
    q, v, a = Q[:2], V[:2], A[:2]
    velocity = rate(position, q, v)
    acceleration = rate(velocity, q, v, a)
    K = HALF * M1 * velocity.dot(velocity)
    inertial = sp.Matrix([M1 * acceleration.dot(sp.diff(position, q_j)) for q_j in q])
    assert_identical(lagrange(K, q, v, a), inertial)
    P = sp.Function('P')(Q1, Q2)
    gradient = sp.Matrix([sp.diff(P, q_j) for q_j in q])
    assert_identical(lagrange(K - P, q, v, a), lagrange(K, q, v, a) + gradient)


@pytest.mark.parametrize('n', [2, 3])
def test_equations_of_motion_of_001_and_002_hold_for_any_arm(n):
    """001, and 002 (6), (7), (9) to (18), with unknown functions d_ij(q) and P(q)."""
    mechanism = generic_mechanism(n)
    D, P = generic(n)
    q, v, a = mechanism.states
    pairs = list(product(range(n), repeat=2))
    L = mechanism.T - mechanism.U
    assert_identical(mechanism.T, HALF * sum(D[i, j] * v[i] * v[j] for i, j in pairs))  # (11)
    for k in range(n):
        inertia = sum(D[k, j] * a[j] for j in range(n))
        momentum = sum(D[k, j] * v[j] for j in range(n))
        assert_identical(sp.diff(L, v[k]), momentum)  # (12)
        growth = sum(sp.diff(D[k, j], q[i]) * v[i] * v[j] for i, j in pairs)
        assert_identical(rate(momentum, q, v, a), inertia + growth)  # (13), (14)
        shape = HALF * sum(sp.diff(D[i, j], q[k]) * v[i] * v[j] for i, j in pairs)
        assert_identical(sp.diff(L, q[k]), shape - sp.diff(P, q[k]))  # (15)
        tau_k = mechanism.torque()[k]
        assert_identical(inertia + growth - shape + sp.diff(P, q[k]), tau_k)  # (16)
        swapped = sum(sp.diff(D[k, i], q[j]) * v[i] * v[j] for i, j in pairs)
        assert_identical(growth, HALF * (growth + swapped))  # (17)
        quadratic = sum(christoffel(D, i + 1, j + 1, k + 1) * v[i] * v[j] for i, j in pairs)
        assert_identical(inertia + quadratic + sp.diff(P, q[k]), tau_k)  # (6), (18)
        for i, j in pairs:
            c_ijk = christoffel(D, i + 1, j + 1, k + 1)
            assert_identical(c_ijk, christoffel(D, j + 1, i + 1, k + 1))
            assert_identical(c_ijk, mechanism.velocity_coefficient(i + 1, j + 1, k + 1))
    g = sp.Matrix([sp.diff(P, q_k) for q_k in q])  # (7)
    vector = D * sp.Matrix(a) + coriolis(D) * sp.Matrix(v) + g
    assert_identical(vector, mechanism.torque())  # (9), (10)


@pytest.mark.parametrize('n', [2, 3])
def test_skew_symmetry_of_001_and_002_holds_for_any_arm(n):
    """N = D' - 2 C is skew-symmetric and has the printed entries; h_ijk would not give it."""
    D, _ = generic(n)
    q, v = Q[:n], V[:n]
    D_dot = rate(D, q, v)
    N = D_dot - 2 * coriolis(D)
    assert_identical(N.T, -N)
    printed = sp.Matrix(
        n,
        n,
        lambda k, j: sum(
            (sp.diff(D[i, j], q[k]) - sp.diff(D[k, i], q[j])) * v[i] for i in range(n)
        ),
    )
    assert_identical(N, printed)
    C_of_h = sp.Matrix(n, n, lambda i, j: sum(h(D, i + 1, j + 1, k + 1) * v[k] for k in range(n)))
    N_of_h = D_dot - 2 * C_of_h
    assert_refuted(N_of_h.T, -N_of_h)


@misprint('M001-1')
def test_velocity_terms_are_quadratic_in_the_first_derivatives_of_q():
    """The second type of terms is quadratic in q', the first derivatives of q, not of q'."""
    _, v, a = generic_mechanism(2).states
    for tau_k in generic_mechanism(2).torque():
        assert_identical(sp.hessian(tau_k, a), sp.zeros(2, 2))  # never quadratic in q''
        assert_refuted(sp.hessian(tau_k, v), sp.zeros(2, 2))
        assert_identical(
            sp.Matrix([sp.diff(tau_k, x, y, z) for x in v for y in v for z in v]), sp.zeros(8, 1)
        )


def supplied_power(n=2):
    """Return q' tau of a generic arm and the rate of its total energy along the motion."""
    mechanism = generic_mechanism(n)
    q, v, a = mechanism.states
    power = sum(v_k * tau_k for v_k, tau_k in zip(v, mechanism.torque(), strict=True))
    return power, rate(mechanism.T + mechanism.U, q, v, a)


@misprint('M001-2')
def test_work_of_the_torques_is_supplied_to_the_system():
    """The energy H grows by the integral of q' tau: the arm takes this energy, not gives it."""
    power, H_dot = supplied_power()
    assert_identical(H_dot, power)
    assert_refuted(-H_dot, power)  # produced by the system: its own energy would fall


@misprint('M001-3')
def test_passivity_bounds_the_supplied_energy_not_the_dissipated_one():
    """Nothing is dissipated without friction; with it, what is dissipated is never negative."""
    power, H_dot = supplied_power()
    assert_identical(power - H_dot, 0)  # dissipated is what is supplied and not stored
    assert_refuted(power, power - H_dot)  # the printed integral is not the dissipated energy
    v = sp.Matrix(V[:2])
    F_v = sp.diag(*sp.symbols('fv1:3', positive=True))
    supplied_with_friction = power + v.dot(F_v * v)
    dissipated = supplied_with_friction - H_dot
    assert_identical(dissipated, sum(F_v[k, k] * V[k] ** 2 for k in range(2)))


@misprint('M001-4')
def test_passivity_bound_needs_the_minimum_of_the_potential():
    """H(T) - H(0) >= -H(0) fails for the elbow; >= min P - H(0) holds for every motion."""
    arm = elbow()
    rest = dict.fromkeys(V, 0)
    energy = arm.T + arm.U
    start = energy.subs(rest).subs({Q1: 0, Q2: 0})
    end = energy.subs(rest).subs({Q1: -sp.pi / 2, Q2: 0})
    weight_1, weight_2 = (M1 * LC1 + M2 * L1) * G0, M2 * LC2 * G0
    lowest = -weight_1 - weight_2
    assert_identical(start, 0)
    assert_identical(end, lowest)
    lengths = {LC1: sp.Rational(1, 2), LC2: sp.Rational(1, 3)}
    assert (end - start).subs(lengths).is_negative  # the torques' work from start to end ...
    assert (-start).subs(lengths).is_zero  # ... is below the printed bound -H(0)
    # P - min P is a sum of weights times (1 + sin), so it is never negative; neither is K.
    above = weight_1 * (1 + sin(Q1)) + weight_2 * (1 + sin(Q1 + Q2))
    assert_identical(arm.U - lowest, above)


def test_passivity_derivation_of_001_is_right():
    """Each printed line of the derivative of H is the same."""
    D, P = generic(2)
    q, v, a = Q[:2], V[:2], A[:2]
    v_, a_ = sp.Matrix(v), sp.Matrix(a)
    D_dot, C = rate(D, q, v), coriolis(D)
    g = sp.Matrix([sp.diff(P, q_k) for q_k in q])
    tau = D * a_ + C * v_ + g
    line_1 = v_.dot(D * a_) + HALF * v_.dot(D_dot * v_) + v_.dot(g)
    line_2 = v_.dot(tau - C * v_ - g) + HALF * v_.dot(D_dot * v_) + v_.dot(g)
    line_3 = v_.dot(tau) + HALF * v_.dot((D_dot - 2 * C) * v_)
    line_4 = v_.dot(tau)
    H_dot = rate(HALF * v_.dot(D * v_) + P, q, v, a)
    for line in (line_1, line_2, line_3, line_4):
        assert_identical(line, H_dot)


def test_elbow_of_001_is_right():
    """D, all Christoffel symbols, P, g and the equations of motion."""
    arm = elbow()
    d_11 = M1 * LC1**2 + M2 * (L1**2 + LC2**2 + 2 * L1 * LC2 * cos(Q2)) + I1 + I2
    d_12 = M2 * (LC2**2 + L1 * LC2 * cos(Q2)) + I2
    d_22 = M2 * LC2**2 + I2
    D = sp.Matrix([[d_11, d_12], [d_12, d_22]])
    assert_identical(D, arm.mass_matrix())
    h_ = -M2 * L1 * LC2 * sin(Q2)
    c = {'111': 0, '121': h_, '211': h_, '221': h_, '112': -h_, '122': 0, '212': 0, '222': 0}
    for name, symbol in c.items():
        i, j, k = map(int, name)
        assert_identical(symbol, arm.velocity_coefficient(i, j, k))
        assert_identical(symbol, christoffel(D, i, j, k))
    assert_identical(c['221'], sp.diff(d_12, Q2) - HALF * sp.diff(d_22, Q1))
    assert_identical(c['112'], sp.diff(d_12, Q1) - HALF * sp.diff(d_11, Q2))
    P = (M1 * LC1 + M2 * L1) * G0 * sin(Q1) + M2 * LC2 * G0 * sin(Q1 + Q2)
    assert_identical(P, arm.U)
    g_2 = M2 * LC2 * G0 * cos(Q1 + Q2)
    g_1 = (M1 * LC1 + M2 * L1) * G0 * cos(Q1) + g_2
    assert_identical(sp.Matrix([g_1, g_2]), arm.gravity())
    tau_1 = d_11 * A1 + d_12 * A2 + 2 * c['121'] * V1 * V2 + c['221'] * V2**2 + g_1
    tau_2 = d_12 * A1 + d_22 * A2 + c['112'] * V1**2 + g_2
    assert_identical(sp.Matrix([tau_1, tau_2]), arm.torque())


def test_remotely_driven_elbow_of_001_is_right():
    """D(p), all Christoffel symbols, g, and the claim: centrifugal but no Coriolis terms."""
    arm = remote_elbow()
    d_12 = M2 * L1 * LC2 * cos(Q2 - Q1)
    D = sp.Matrix([[M1 * LC1**2 + M2 * L1**2 + I1, d_12], [d_12, M2 * LC2**2 + I2]])
    assert_identical(D, arm.mass_matrix())
    sine = M2 * L1 * LC2 * sin(Q2 - Q1)
    c = {'111': 0, '121': 0, '211': 0, '221': -sine, '112': sine, '212': 0, '122': 0, '222': 0}
    for name, symbol in c.items():
        i, j, k = map(int, name)
        assert_identical(symbol, arm.velocity_coefficient(i, j, k))
        assert_identical(symbol, christoffel(D, i, j, k))
    P = M1 * G0 * LC1 * sin(Q1) + M2 * G0 * (L1 * sin(Q1) + LC2 * sin(Q2))
    assert_identical(P, arm.U)
    g = sp.Matrix([(M1 * LC1 + M2 * L1) * G0 * cos(Q1), M2 * LC2 * G0 * cos(Q2)])
    assert_identical(g, arm.gravity())
    quadratic = sp.Matrix([c['221'] * V2**2, c['112'] * V1**2])
    assert_identical(D * sp.Matrix([A1, A2]) + quadratic + g, arm.torque())


def five_bar_D():
    """Inertia matrix of the slide "Robots with parallelogram structure"."""
    d_12 = (M3 * L2 * LC3 - M4 * L1 * LC4) * cos(Q2 - Q1)
    d_11 = I1 + M1 * LC1**2 + I3 + M3 * LC3**2 + M4 * L1**2
    d_22 = I2 + M2 * LC2**2 + I4 + M4 * LC4**2 + M3 * L2**2
    return sp.Matrix([[d_11, d_12], [d_12, d_22]])


def test_five_bar_linkage_of_001_is_right():
    """Velocities, T_i, D, U_i, g, the design condition, and balance by further conditions."""
    arm = five_bar()
    s_1, c_1, s_2, c_2 = sin(Q1), cos(Q1), sin(Q2), cos(Q2)
    u_1, u_2 = sp.Matrix([-s_1, c_1]), sp.Matrix([-s_2, c_2])
    velocities = (
        LC1 * u_1 * V1,
        LC2 * u_2 * V2,
        LC3 * u_1 * V1 + L2 * u_2 * V2,
        L1 * u_1 * V1 - LC4 * u_2 * V2,
    )
    for centre, velocity in zip(FIVE_BAR_CENTRES, velocities, strict=True):
        assert_identical(rate(centre, Q[:2], V[:2]), velocity)
    both = 2 * cos(Q2 - Q1) * V1 * V2
    T = HALF * (
        M1 * LC1**2 * V1**2 + I1 * V1**2
        + M2 * LC2**2 * V2**2 + I2 * V2**2
        + I3 * V1**2 + M3 * (L2**2 * V2**2 + LC3**2 * V1**2 + L2 * LC3 * both)
        + I4 * V2**2 + M4 * (L1**2 * V1**2 + LC4**2 * V2**2 - L1 * LC4 * both)
    )  # fmt: skip
    assert_identical(T, arm.T)
    U = G0 * (
        M1 * LC1 * s_1 + M2 * LC2 * s_2 + M3 * (L2 * s_2 + LC3 * s_1)
        + M4 * (L1 * s_1 - LC4 * s_2)
    )  # fmt: skip
    assert_identical(U, arm.U)
    D = five_bar_D()
    assert_identical(D, arm.mass_matrix())
    g = sp.Matrix(
        [
            G0 * (M1 * LC1 + M3 * LC3 + M4 * L1) * c_1,
            G0 * (M2 * LC2 + M3 * L2 - M4 * LC4) * c_2,
        ]
    )
    assert_identical(g, arm.gravity())
    condition = {LC3: M4 * L1 * LC4 / (M3 * L2)}
    decoupled = sp.Matrix([D[0, 0] * A1, D[1, 1] * A2]) + g
    assert_identical(arm.torque().subs(condition), decoupled.subs(condition))
    assert_refuted(arm.torque(), decoupled)  # without the condition the joints are coupled
    balance = {
        LC1: -(M3 * LC3 + M4 * L1) / M1,
        LC2: (M4 * LC4 - M3 * L2) / M2,
    }
    assert_identical(g.subs(balance).subs(condition), sp.zeros(2, 1))


ALPHA = sp.Symbol('alpha')  # fixed angle between the two slides of the skew robot
SHAPES = {
    # robot: (mechanism, entries that vary, entries that are zero)
    'Cartesian': (((M1, (Q1, 0), I1, 0), (M2, (Q1, Q2), I2, 0)), set(), {(0, 1)}),
    'Cartesian skew': (
        ((M1, (Q1, 0), I1, 0), (M2, (Q1 + Q2 * cos(ALPHA), Q2 * sin(ALPHA)), I2, 0)),
        set(),
        set(),
    ),
    'PR': (
        ((M1, (Q1, 0), I1, 0), (M2, (Q1 + LC2 * cos(Q2), LC2 * sin(Q2)), I2, Q2)),
        {(0, 1)},
        set(),
    ),
    '2R': (
        ((M1, ELBOW_CENTRES[0], I1, Q1), (M2, ELBOW_CENTRES[1], I2, Q1 + Q2)),
        {(0, 0), (0, 1)},
        set(),
    ),
}


@pytest.mark.parametrize('robot', SHAPES)
def test_shapes_of_inertial_couplings_of_001_are_right(robot):
    """Which entries of D vanish, which vary with q2, and that none varies with q1."""
    links, varying, zero = SHAPES[robot]
    D = planar(2, *links).mass_matrix()
    for entry in ((0, 0), (0, 1), (1, 1)):
        assert_identical(sp.diff(D[entry], Q1), 0)
        assert (normal_form(sp.diff(D[entry], Q2)) != 0) == (entry in varying)
        assert (normal_form(D[entry]) == 0) == (entry in zero)
    balanced = D.subs(LC2, 0)  # centre of mass of link 2 on the axis of joint 2
    assert_identical(rate(balanced, Q[:2], V[:2]), sp.zeros(2, 2))
    assert_identical(coriolis(balanced), sp.zeros(2, 2))


def test_bounds_of_the_inertia_matrix_of_001_are_right():
    """For the elbow trace and determinant have positive bounds that do not depend on q."""
    D = elbow().mass_matrix()
    floor = (I1 + M1 * LC1**2) * (I2 + M2 * LC2**2) + M2 * L1**2 * I2
    assert floor.is_positive
    assert_identical(D.det(), floor + (M2 * L1 * LC2 * sin(Q2)) ** 2)
    trace = I1 + 2 * I2 + M1 * LC1**2 + M2 * (L1**2 + 2 * LC2**2 + 2 * L1 * LC2 * cos(Q2))
    assert_identical(D.trace(), trace)


@misprint('M001-5')
def test_equations_are_linear_in_first_moments_not_in_centres_of_mass():
    """Torques are linear in m, m lc and the inertia about the joint, but not in lc."""
    tau = elbow().torque()
    assert_refuted(sp.diff(tau[1], LC2, 2), 0)
    h_1, h_2, J_1, J_2 = sp.symbols('h1 h2 J1 J2')
    about_joints = {I1: J_1 - M1 * LC1**2, I2: J_2 - M2 * LC2**2}
    moments = {LC1: h_1 / M1, LC2: h_2 / M2}
    tau = tau.subs(about_joints).subs(moments).applyfunc(sp.expand)
    for tau_k in tau:
        assert_identical(sp.hessian(tau_k, (M1, M2, h_1, h_2, J_1, J_2)), sp.zeros(6, 6))


THETA = sp.Matrix(
    [
        M1 * LC1**2 + M2 * (L1**2 + LC2**2) + I1 + I2,
        M2 * L1 * LC2,
        M2 * LC2**2 + I2,
        M1 * LC1 + M2 * L1,
        M2 * LC2,
    ]
)


def regressor(squared):
    """Y of 001, with the velocity that is squared in the entry Y_12."""
    g_1, g_12 = G0 * cos(Q1), G0 * cos(Q1 + Q2)
    Y_12 = cos(Q2) * (2 * A1 + A2) - sin(Q2) * (squared**2 + 2 * V1 * V2)
    Y_22 = cos(Q2) * A1 + sin(Q2) * V1**2
    return sp.Matrix([[A1, Y_12, A2, g_1, g_12], [0, Y_22, A1 + A2, 0, g_12]])


@misprint('M001-6')
def test_regressor_has_the_square_of_the_second_velocity():
    """Y Theta is the torque with q2'^2 in Y_12; the printed q1'^2 is wrong."""
    assert_identical(regressor(V2) * THETA, elbow().torque())
    assert_refuted(regressor(V1) * THETA, elbow().torque())


def test_inertia_and_gravity_through_the_parameters_of_001_are_right():
    """d_ij and g_k in Theta; with l1 known only four parameters are free: Theta2 = l1 Theta5."""
    t_1, t_2, t_3, t_4, t_5 = THETA
    d_12 = t_3 + t_2 * cos(Q2)
    D = sp.Matrix([[t_1 + 2 * t_2 * cos(Q2), d_12], [d_12, t_3]])
    assert_identical(D, elbow().mass_matrix())
    g_2 = t_5 * G0 * cos(Q1 + Q2)
    assert_identical(sp.Matrix([t_4 * G0 * cos(Q1) + g_2, g_2]), elbow().gravity())
    assert_identical(t_2, L1 * t_5)


@misprint('M001-7')
def test_contact_force_acts_through_the_transpose_of_the_jacobian():
    """J'F with J the Jacobian has the power of F; with J its transpose it has not."""
    endpoint = along(L1, Q1) + along(L2, Q1 + Q2)
    jacobian, v = endpoint.jacobian([Q1, Q2]), sp.Matrix(V[:2])
    force = sp.Matrix(sp.symbols('F1:3'))
    power = force.dot(rate(endpoint, Q[:2], V[:2]))
    J = jacobian
    assert_identical((J.T * force).dot(v), power)
    J = jacobian.T
    assert_refuted((J.T * force).dot(v), power)


def test_generalized_forces_of_001_are_right():
    """A point at (r, theta) with a torque tau and a radial force F: f_1 = tau, f_2 = F."""
    r, theta, tau, force = sp.symbols('r theta tau F', positive=True)
    point = along(r, theta)
    applied = along(force, theta) + tau / r * sp.Matrix([-sin(theta), cos(theta)])
    assert_identical(applied.dot(sp.diff(point, theta)), tau)
    assert_identical(applied.dot(sp.diff(point, r)), force)


# ---------------------------------------- 002, Euler-Lagrange formulation of an n-link manipulator


@misprint('M002-1')
@pytest.mark.parametrize('n', [2, 3])
def test_sum_of_accelerations_runs_over_j(n):
    """(8) with the sum over j gives the torque; over i, with j left free, it does not."""
    D, P = generic(n)
    mechanism = generic_mechanism(n)
    _, v, a = mechanism.states
    indices = range(n)
    for k in indices:
        rest = sp.diff(P, Q[k]) + sum(
            christoffel(D, i + 1, j + 1, k + 1) * v[i] * v[j]
            for i, j in product(indices, repeat=2)
        )
        tau_k = mechanism.torque()[k]
        assert_identical(sum(D[k, j] * a[j] for j in indices) + rest, tau_k)
        for j in indices:  # whatever j is taken to be
            assert_refuted(sum(D[k, j] * a[j] for i in indices) + rest, tau_k)


def test_inertia_integrals_of_002_are_right():
    """(3), (4): w'Iw is the integral of density times |w x r|^2, for each point of the body."""
    x, y, z = r = sp.Matrix(sp.symbols('x y z'))
    omega = sp.Matrix(sp.symbols('w1:4'))
    integrand = sp.Matrix(
        [
            [y**2 + z**2, -x * y, -x * z],
            [-x * y, x**2 + z**2, -y * z],
            [-x * z, -y * z, x**2 + y**2],
        ]
    )
    swept = omega.cross(r)
    assert_identical((omega.T * integrand * omega)[0], swept.dot(swept))
    R = rotation(Z, Q1) * rotation(X, Q2)  # the same tensor in the inertial frame: R I R'
    turned = (R * omega).cross(R * r)
    assert_identical(((R * omega).T * R * integrand * R.T * (R * omega))[0], turned.dot(turned))


def test_potential_energy_of_002_is_right():
    """(5): with g against gravity P = m g'r, with g along gravity P = -m g'r."""
    r = sp.Matrix(sp.symbols('x y z'))
    for P in (M1 * (-GRAVITY).dot(r), -M1 * GRAVITY.dot(r)):
        assert_identical(-sp.Matrix([sp.diff(P, x) for x in r]), M1 * GRAVITY)


# --------------------------------------------------- 003, lecture note 12: Lagrangian formulation


def gamma(M, i, j, k):
    """Christoffel symbol of 003, with indices from 1."""
    return HALF * (
        sp.diff(M[i - 1, j - 1], Q[k - 1])
        + sp.diff(M[i - 1, k - 1], Q[j - 1])
        - sp.diff(M[j - 1, k - 1], Q[i - 1])
    )


@pytest.mark.parametrize('n', [2, 3])
def test_vector_form_of_003_holds_for_any_arm(n):
    """Gamma_ijk, C_ij and the vector form; Gamma_ijk of 003 is c_jki of 001 and 002."""
    M, P = generic(n)
    indices = range(1, n + 1)
    for i, j, k in product(indices, repeat=3):
        assert_identical(gamma(M, i, j, k), christoffel(M, j, k, i))
    C = sp.Matrix(n, n, lambda i, j: sum(gamma(M, i + 1, j + 1, k) * V[k - 1] for k in indices))
    g = sp.Matrix([sp.diff(P, q_i) for q_i in Q[:n]])
    tau = M * sp.Matrix(A[:n]) + C * sp.Matrix(V[:n]) + g
    assert_identical(tau, generic_mechanism(n).torque())


@misprint('M003-1')
def test_potential_energy_does_not_depend_on_velocities():
    """The printed torque follows from P(theta); a P(theta, theta') would add terms to it."""
    M, P = generic(2)
    q, v, a = Q[:2], V[:2], A[:2]
    T = generic_mechanism(2).T

    def printed_torque(potential):
        quadratic = [
            sum(gamma(M, i, j, k) * V[j - 1] * V[k - 1] for j in (1, 2) for k in (1, 2))
            for i in (1, 2)
        ]
        gradient = sp.Matrix([sp.diff(potential, q_i) for q_i in q])
        return M * sp.Matrix(a) + sp.Matrix(quadratic) + gradient

    assert_identical(printed_torque(P), lagrange(T - P, q, v, a))
    with_velocities = sp.Function('P')(*q, *v)
    assert_refuted(printed_torque(with_velocities), lagrange(T - with_velocities, q, v, a))


@misprint('M003-2')
def test_energies_depend_on_angles_and_velocities_not_on_torques():
    """At the same angles and torques any velocity is possible, and K changes with it."""
    arm = elbow()
    tau = sp.symbols('tau1:3')
    assert normal_form(arm.mass_matrix().det()) != 0  # each (theta, theta', tau) is possible
    assert not (arm.T - arm.U).free_symbols & {*A, *tau}
    v = sp.Matrix(V[:2])
    change = sp.Matrix([sp.diff(arm.T, v_k) for v_k in V[:2]])
    assert_identical(change, arm.mass_matrix() * v)
    assert_refuted(sp.zeros(2, 1), change)  # as it were if (theta, tau) fixed the energy


def spatial_M():
    """M of the spatial 3R arm as document 003 prints it."""
    s_2, c_2, s_23, c_23, c_3 = sin(Q2), cos(Q2), sin(Q2 + Q3), cos(Q2 + Q3), cos(Q3)
    M_11 = (
        IY2 * s_2**2 + IY3 * s_23**2 + IZ1 + IZ2 * c_2**2 + IZ3 * c_23**2
        + M2 * R1**2 * c_2**2 + M3 * (L1 * c_2 + R2 * c_23) ** 2
    )  # fmt: skip
    M_22 = IX2 + IX3 + M3 * L1**2 + M2 * R1**2 + M3 * R2**2 + 2 * M3 * L1 * R2 * c_3
    M_23 = IX3 + M3 * R2**2 + M3 * L1 * R2 * c_3
    M_33 = IX3 + M3 * R2**2
    return sp.Matrix([[M_11, 0, 0], [0, M_22, M_23], [0, M_23, M_33]])


def spatial_gamma():
    """The Christoffel symbols that document 003 prints; the others are zero."""
    s_2, c_2, s_3 = sin(Q2), cos(Q2), sin(Q3)
    s_23, c_23 = sin(Q2 + Q3), cos(Q2 + Q3)
    reach, drop = L1 * c_2 + R2 * c_23, L1 * s_2 + R2 * s_23
    gamma_112 = (
        (IY2 - IZ2 - M2 * R1**2) * c_2 * s_2 + (IY3 - IZ3) * c_23 * s_23 - M3 * reach * drop
    )
    gamma_113 = (IY3 - IZ3) * c_23 * s_23 - M3 * R2 * s_23 * reach
    gamma_211 = (
        (IZ2 - IY2 + M2 * R1**2) * c_2 * s_2 + (IZ3 - IY3) * c_23 * s_23 + M3 * reach * drop
    )
    gamma_223 = -L1 * M3 * R2 * s_3
    gamma_311 = (IZ3 - IY3) * c_23 * s_23 + M3 * R2 * s_23 * reach
    return {
        (1, 1, 2): gamma_112,
        (1, 1, 3): gamma_113,
        (1, 2, 1): gamma_112,
        (1, 3, 1): gamma_113,
        (2, 1, 1): gamma_211,
        (2, 2, 3): gamma_223,
        (2, 3, 2): gamma_223,
        (2, 3, 3): gamma_223,
        (3, 1, 1): gamma_311,
        (3, 2, 2): L1 * M3 * R2 * s_3,
    }


def test_mass_matrix_of_003_is_right():
    """M of the spatial 3R arm follows from its kinetic energy, whichever way is positive."""
    assert_identical(spatial_M(), spatial().mass_matrix())
    assert_identical(spatial_M(), spatial(upwards=1).mass_matrix())


def test_christoffel_symbols_of_003_are_right_and_complete():
    """All 27 symbols: the ten printed ones and seventeen zeros."""
    arm, printed = spatial(), spatial_gamma()
    for i, j, k in product((1, 2, 3), repeat=3):
        symbol = printed.get((i, j, k), 0)
        assert_identical(symbol, arm.velocity_coefficient(j, k, i))
        assert_identical(symbol, gamma(spatial_M(), i, j, k))


def spatial_gravity(g):
    """Gravity vector of 003; g is the factor of the term m3 r2 cos in the second row."""
    c_2, c_23 = cos(Q2), cos(Q2 + Q3)
    return sp.Matrix(
        [
            0,
            -(M2 * G0 * R1 + M3 * G0 * L1) * c_2 - M3 * g * R2 * c_23,
            -M3 * G0 * R2 * c_23,
        ]
    )


@misprint('M003-3')
def test_gravity_vector_has_g_in_every_term():
    """The second row needs g in its last term; minus signs mean: theta2, theta3 turn down."""
    assert_identical(spatial_gravity(G0), spatial().gravity())
    assert_refuted(spatial_gravity(1), spatial().gravity())
    assert_identical(-spatial_gravity(G0), spatial(upwards=1).gravity())


@misprint('M003-4')
@pytest.mark.parametrize(('k', 'independent'), [(3, True), (4, True), (5, False)])
def test_degrees_of_freedom_count_independent_constraints(k, independent):
    """A rigid set of five points has ten distances, nine of them independent: 6, not 5."""
    points = [sp.Matrix(sp.symbols(f'x{i} y{i} z{i}')) for i in range(k)]
    distances = [(a - b).dot(a - b) for a, b in combinations(points, 2)]
    coordinates = [x for point in points for x in point]
    corners = [(0, 0, 0), (1, 0, 0), (0, 2, 0), (0, 0, 3), (1, 3, 5)][:k]
    place = dict(zip(coordinates, [x for corner in corners for x in corner], strict=True))
    rank = sp.Matrix(distances).jacobian(coordinates).subs(place).rank()
    assert 3 * k - rank == 6  # a rigid body
    assert (3 * k - len(distances) == 6) == independent


def adjoint(R, p):
    """Return the adjoint of a pose, for twists (angular, linear)."""
    return sp.Matrix(sp.BlockMatrix([[R, sp.zeros(3, 3)], [cross_matrix(p) * R, R]]))


def test_body_jacobian_of_003_is_right():
    """J_b of each link of the spatial 3R arm, by adjoints of exponentials, gives its twist."""
    axes = (Z, -X, -X)
    on_axis = (sp.zeros(3, 1), L0 * Z, L0 * Z + L1 * Y)
    home = (R0 * Z, L0 * Z + R1 * Y, L0 * Z + (L1 + R2) * Y)
    for i, (R, p) in enumerate(spatial_poses()):
        columns = []
        for j in range(i + 1):
            # screw axis B_j in the frame of link i at rest, moved by the joints j + 1 to i
            column = sp.Matrix.vstack(axes[j], axes[j].cross(home[i] - on_axis[j]))
            for k in range(j + 1, i + 1):
                R_k = rotation(axes[k], -Q[k])
                point = on_axis[k] - home[i]
                column = adjoint(R_k, point - R_k * point) * column
            columns.append(column)
        J_ib = sp.Matrix.hstack(*columns, sp.zeros(6, 2 - i))
        assert_identical(J_ib * sp.Matrix(V), body_twist(R, p, Q, V))


def test_newton_euler_line_of_003_is_right():
    """F = G V' - ad_V' G V, from the kinetic energy of a free body and virtual work."""
    x = sp.symbols('x1:7')  # three angles, three coordinates of the centre of mass
    x_dot, x_ddot = sp.symbols('u1:7'), sp.symbols('b1:7')
    R = rotation(Z, x[0]) * rotation(Y, x[1]) * rotation(X, x[2])
    twist = body_twist(R, sp.Matrix(x[3:]), x, x_dot)
    J = twist.jacobian(x_dot)
    inertia = sp.diag(IX1, IY1, IZ1)
    G = sp.diag(inertia, M1 * sp.eye(3))
    T = normal_form(HALF * (twist.T * G * twist)[0])
    omega, velocity = (cross_matrix(part) for part in (twist[:3], twist[3:]))
    ad = sp.Matrix(sp.BlockMatrix([[omega, sp.zeros(3, 3)], [velocity, omega]]))
    wrench = G * rate(twist, x, x_dot, x_ddot) - ad.T * G * twist
    assert_identical(J.T * wrench, lagrange(T, x, x_dot, x_ddot))


# ----------------------------------------------------------- 004, Lagrangian Manipulator Dynamics

TIP = along(L1, Q1) + along(L2, Q1 + Q2)
TIP_VELOCITY = rate(TIP, Q[:2], V[:2])


@misprint('M004-1')
def test_squared_speed_is_of_velocities_not_of_positions():
    """v2^2 is the sum of the squared velocities; the printed sum has the positions."""
    v_2_squared = TIP_VELOCITY.dot(TIP_VELOCITY)
    x_dot = -L1 * V1 * sin(Q1) - L2 * (V1 + V2) * sin(Q1 + Q2)
    y_dot = L1 * V1 * cos(Q1) + L2 * (V1 + V2) * cos(Q1 + Q2)
    assert_identical(sp.Matrix([x_dot, y_dot]), TIP_VELOCITY)
    assert_identical(x_dot**2 + y_dot**2, v_2_squared)
    assert_refuted(TIP[0] ** 2 + TIP[1] ** 2, v_2_squared)


def printed_squared_speed(angle):
    """v2^2 of 004, with the argument of its last cosine."""
    return L1**2 * V1**2 + L2**2 * (V1 + V2) ** 2 + 2 * L1 * L2 * (V1**2 + V1 * V2) * cos(angle)


@misprint('M004-2')
@pytest.mark.parametrize('line', ['v2^2', 'K2, first line', 'K2, second line'])
def test_cosine_is_of_the_angle_not_of_its_rate(line):
    """v2^2 and both lines of K2 need cos(theta2); they print the cosine of its rate."""

    def stated(angle):
        if line == 'v2^2':
            return printed_squared_speed(angle)
        if line == 'K2, first line':
            return HALF * M2 * printed_squared_speed(angle)
        return (
            HALF * M2 * L1**2 * V1**2
            + HALF * M2 * L2**2 * (V1 + V2) ** 2
            + M2 * L1 * L2 * (V1**2 + V1 * V2) * cos(angle)
        )

    right = TIP_VELOCITY.dot(TIP_VELOCITY) * (1 if line == 'v2^2' else HALF * M2)
    assert_identical(stated(Q2), right)
    assert_refuted(stated(V2), right, at={V2: 0})


def point_mass_lagrangian():
    """L of 004."""
    return (
        HALF * (M1 + M2) * L1**2 * V1**2
        + HALF * M2 * L2**2 * (V1 + V2) ** 2
        + M2 * L1 * L2 * (V1**2 + V1 * V2) * cos(Q2)
        - (M1 + M2) * G0 * L1 * sin(Q1)
        - M2 * G0 * L2 * sin(Q1 + Q2)
    )


def lagrange_with(first, second):
    """d/dt dL/d(first) - dL/d(second) of the arm of 004."""
    L = point_mass_elbow().T - point_mass_elbow().U
    states = Q[:2], V[:2], A[:2]
    return sp.Matrix(
        [rate(sp.diff(L, x), *states) - sp.diff(L, y) for x, y in zip(first, second, strict=True)]
    )


@misprint('M004-3')
def test_lagrange_equation_differentiates_first_by_the_velocity():
    """Vector form, first slide: the first derivative is by theta', not by theta."""
    right = point_mass_elbow().torque()
    assert_identical(lagrange_with(V[:2], Q[:2]), right)
    assert_refuted(lagrange_with(Q[:2], Q[:2]), right)


@misprint('M004-4')
def test_lagrange_equation_differentiates_then_by_the_angle():
    """Vector form, second slide: the second derivative is by theta, not by theta'."""
    right = point_mass_elbow().torque()
    assert_identical(lagrange_with(V[:2], Q[:2]), right)
    assert_refuted(lagrange_with(V[:2], V[:2]), right)


def point_mass_terms():
    """Inertia matrix, velocity vector and gravity vector of 004, its last vector form."""
    cosine, sine = M2 * L1 * L2 * cos(Q2), M2 * L1 * L2 * sin(Q2)
    m_12 = M2 * L2**2 + cosine
    M = sp.Matrix([[(M1 + M2) * L1**2 + M2 * L2**2 + 2 * cosine, m_12], [m_12, M2 * L2**2]])
    velocity = sp.Matrix([-sine * (2 * V1 * V2 + V2**2), sine * V1**2])
    g_2 = M2 * G0 * L2 * cos(Q1 + Q2)
    return M, velocity, sp.Matrix([(M1 + M2) * G0 * L1 * cos(Q1) + g_2, g_2])


@misprint('M004-5')
def test_second_torque_has_the_square_of_the_second_length():
    """tau2, second slide: m2 l2^2 multiplies theta1'', not m2 l1^2."""

    def tau_2(length):
        return (
            (M2 * length**2 + M2 * L1 * L2 * cos(Q2)) * A1
            + M2 * L2**2 * A2
            + M2 * L1 * L2 * V1**2 * sin(Q2)
            + M2 * G0 * L2 * cos(Q1 + Q2)
        )

    assert_identical(tau_2(L2), point_mass_elbow().torque()[1])
    assert_refuted(tau_2(L1), point_mass_elbow().torque()[1])


@misprint('M004-6')
def test_first_velocity_term_is_negative():
    """Vector form, first slide: the first row of the velocity vector has a minus sign."""
    M, velocity, gravity = point_mass_terms()
    acceleration = sp.Matrix([A1, A2])
    right = point_mass_elbow().torque()
    assert_identical(M * acceleration + velocity + gravity, right)
    printed = sp.Matrix([-velocity[0], velocity[1]])
    assert_refuted(M * acceleration + printed + gravity, right)


def test_two_link_arm_of_004_is_right():
    """Energies, L, its derivatives, tau1 and tau2 in both forms."""
    arm = point_mass_elbow()
    q, v, a = arm.states
    L = point_mass_lagrangian()
    K_1, P_1 = HALF * M1 * L1**2 * V1**2, M1 * G0 * L1 * sin(Q1)
    K_2 = HALF * M2 * printed_squared_speed(Q2)
    P_2 = M2 * G0 * (L1 * sin(Q1) + L2 * sin(Q1 + Q2))
    assert_identical(K_1 + K_2, arm.T)
    assert_identical(P_1 + P_2, arm.U)
    assert_identical(L, arm.T - arm.U)

    l_12 = M2 * L1 * L2
    gravity_2 = M2 * G0 * L2 * cos(Q1 + Q2)
    momentum_1 = (M1 + M2) * L1**2 * V1 + M2 * L2**2 * (V1 + V2) + l_12 * (2 * V1 + V2) * cos(Q2)
    momentum_1_dot = (
        (M1 + M2) * L1**2 * A1 + M2 * L2**2 * (A1 + A2) + l_12 * (2 * A1 + A2) * cos(Q2)
        - l_12 * (2 * V1 * V2 + V2**2) * sin(Q2)
    )  # fmt: skip
    slope_1 = -(M1 + M2) * G0 * L1 * cos(Q1) - gravity_2
    momentum_2 = M2 * L2**2 * (V1 + V2) + l_12 * V1 * cos(Q2)
    momentum_2_dot = M2 * L2**2 * (A1 + A2) + l_12 * A1 * cos(Q2) - l_12 * V1 * V2 * sin(Q2)
    slope_2 = -l_12 * (V1**2 + V1 * V2) * sin(Q2) - gravity_2
    printed = ((momentum_1, momentum_1_dot, slope_1), (momentum_2, momentum_2_dot, slope_2))
    M, velocity, gravity = point_mass_terms()
    tau = M * sp.Matrix(a) + velocity + gravity
    for k, (momentum, momentum_dot, slope) in enumerate(printed):
        assert_identical(momentum, sp.diff(L, v[k]))
        assert_identical(momentum_dot, rate(momentum, q, v, a))
        assert_identical(slope, sp.diff(L, q[k]))
        assert_identical(momentum_dot - slope, arm.torque()[k])
        assert_identical(tau[k], arm.torque()[k])


# --------------------------------------------------------------------------------------- units


@pytest.mark.parametrize(
    ('right', 'printed'),
    [
        pytest.param(spatial_gravity(G0)[1], spatial_gravity(1)[1], id='M003-3'),
        pytest.param(TIP_VELOCITY.dot(TIP_VELOCITY), TIP.dot(TIP), id='M004-1'),
        pytest.param(printed_squared_speed(Q2), printed_squared_speed(V2), id='M004-2'),
    ],
)
def test_unit_of_time_exposes_misprints(right, printed):
    """In a unit of time half as long velocities halve and torques and squared speeds quarter."""
    shorter = {V1: V1 / 2, V2: V2 / 2, G0: G0 / 4}
    assert_identical(right.subs(shorter, simultaneous=True), right / 4)
    assert_refuted(printed.subs(shorter, simultaneous=True), printed / 4, at={V2: sp.pi})
