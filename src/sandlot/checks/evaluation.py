"""Whether two formulas are equal: by exact arithmetic where they are rational functions, and by 60 digits where they are not.

Rational functions (`+ - * /`, whole powers, the imaginary unit) are evaluated at random points of a field with a random prime of
127 bits. Two that are equal always agree. Two that differ agree at one point with probability at most d / 2**126, where d is the
degree (Schwartz and Zippel), or if the prime divides a coefficient of the difference. Degrees are at most 2**40 and coefficients
have at most 2**40 bits, so both together are below 2**-70; three points must agree.

Formulas with roots, logarithms, trigonometry or variable powers are evaluated at random complex points with 60 digits, and must
agree to 40 digits at four points. This is a test, not a proof: it can be wrong only for formulas that agree to 40 digits.

Prime and points come from a hash of both formulas: verdicts repeat, and no formula can be made to fit points known before.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from random import Random

from sandlot.checks.formulas import Tree

_PRIME_BITS, _WITNESSES = 127, 24
_SMALL_PRIMES = math.prod((3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97))
_POINTS, _MOST_TRIES = 3, 12
_MAX_DEGREE = 2**40
_DIGITS, _AGREE = 60, 40
_MAX_EXPONENT = 10_000
_MAX_FACTORIAL = 500
_CONSTANTS = frozenset({"pi", "e", "i"})
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211707")
_CONTEXT = Context(prec=_DIGITS, Emax=999_999, Emin=-999_999, traps=[InvalidOperation, DivisionByZero, Overflow])

_Complex = tuple[Decimal, Decimal]


class _NotRational(Exception):  # noqa: N818 - a turn in the road, not an error
    """The formula is not a rational function, or its degree is too high."""


class _Undefined(Exception):  # noqa: N818 - a turn in the road, not an error
    """The formula has no value at this point, or one that is too large."""


def equal_formulas(one: Tree, other: Tree, tolerance: Fraction = Fraction(0)) -> bool | None:
    """Whether two formulas are equal as functions of their variables; None if they have no common value to compare.

    `tolerance` is a share of the second one's value, and is used only where both are numbers.
    """
    names = sorted(names_of(one) | names_of(other))
    if names_of(one) != names_of(other) and tolerance:
        return False
    random = Random(hashlib.sha256(repr((one, other)).encode()).digest())  # noqa: S311 - repeatable, not secret
    if _is_rational(one) and _is_rational(other):
        same = _equal_in_field(one, other, names, random)
        if same or same is None or not tolerance or names:
            return same
    return _equal_in_digits(one, other, names, random, tolerance)


def _is_rational(tree: Tree) -> bool:
    try:
        return _degree(tree) <= _MAX_DEGREE
    except _NotRational:
        return False


def names_of(tree: Tree) -> frozenset[str]:
    """The variables of a formula."""
    if tree[0] == "name":
        return frozenset() if tree[1] in _CONSTANTS else frozenset({str(tree[1])})
    return frozenset[str]().union(*(names_of(part) for part in tree[1:] if isinstance(part, tuple)))


def number_of(tree: Tree) -> Fraction | None:
    """The exact value of a formula of rational numbers; None if it is not one, or is very large."""
    try:
        return _exact(tree) if not names_of(tree) and _degree(tree) <= _MAX_EXPONENT else None
    except (_NotRational, ZeroDivisionError):
        return None


# -- exact ---------------------------------------------------------------------------------------------------------------------


def _exact(tree: Tree) -> Fraction:
    match tree:
        case ("number", Fraction() as value):
            return value
        case ("-", tuple() as inside):
            return -_exact(inside)
        case ("+" | "*" | "/", tuple() as left, tuple() as right):
            one, other = _exact(left), _exact(right)
            return one + other if tree[0] == "+" else one * other if tree[0] == "*" else one / other
        case ("^", tuple() as base, tuple() as power):
            times = _whole(power)
            value = _exact(base)
            if abs(times) * max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_EXPONENT:
                raise _NotRational
            return value**times
        case _:
            raise _NotRational


def _degree(tree: Tree) -> int:
    """An upper bound of the degrees of numerator and denominator; `_NotRational` if it is no rational function."""
    match tree:
        case ("number", _):
            return 0
        case ("name", str() as name):
            if name in {"pi", "e", "inf"}:
                raise _NotRational
            return 1
        case ("-", tuple() as inside):
            return _degree(inside)
        case ("+" | "*" | "/", tuple() as left, tuple() as right):
            return min(_degree(left) + _degree(right), 2 * _MAX_DEGREE)
        case ("^", tuple() as base, tuple() as power):
            return min(_degree(base) * abs(_whole(power)), 2 * _MAX_DEGREE)
        case _:
            raise _NotRational


def _whole(tree: Tree) -> int:
    """The value of a whole exponent."""
    match tree:
        case ("number", Fraction() as value) if value.denominator == 1 and value <= _MAX_EXPONENT:
            return int(value)
        case ("-", tuple() as inside):
            return -_whole(inside)
        case _:
            raise _NotRational


def _equal_in_field(one: Tree, other: Tree, names: list[str], random: Random) -> bool | None:
    compared, prime = 0, _random_prime(random)
    for _ in range(_MOST_TRIES):
        point = {name: random.randrange(2, prime) for name in names}
        point["i"] = _root_of_minus_one(random, prime)
        try:
            if _in_field(one, point, prime) != _in_field(other, point, prime):
                return False
        except _Undefined:
            continue
        compared += 1
        if compared == _POINTS:
            return True
    return None


def _random_prime(random: Random) -> int:
    """A prime of the form 4n + 1, so that -1 has a square root (Miller and Rabin: a composite passes with at most 4**-24)."""
    while True:
        number = random.getrandbits(_PRIME_BITS) | 1 << _PRIME_BITS - 1
        number = number - number % 4 + 1
        if math.gcd(number, _SMALL_PRIMES) > 1:
            continue
        odd = (number - 1) >> 2
        shifts = 2 + (odd & -odd).bit_length() - 1
        odd = (number - 1) >> shifts
        if all(_may_be_prime(number, odd, shifts, random.randrange(2, number - 1)) for _ in range(_WITNESSES)):
            return number


def _may_be_prime(number: int, odd: int, shifts: int, witness: int) -> bool:
    value = pow(witness, odd, number)
    if value in {1, number - 1}:
        return True
    for _ in range(shifts - 1):
        value = value * value % number
        if value == number - 1:
            return True
    return False


def _root_of_minus_one(random: Random, prime: int) -> int:
    while True:
        root = pow(random.randrange(2, prime), (prime - 1) // 4, prime)
        if root * root % prime == prime - 1:
            return root


def _in_field(tree: Tree, point: dict[str, int], prime: int) -> int:  # noqa: PLR0911 - one return per operation
    match tree:
        case ("number", Fraction() as value):
            return value.numerator * _inverse(value.denominator, prime) % prime
        case ("name", str() as name):
            return point[name]
        case ("-", tuple() as inside):
            return -_in_field(inside, point, prime) % prime
        case ("+", tuple() as left, tuple() as right):
            return (_in_field(left, point, prime) + _in_field(right, point, prime)) % prime
        case ("*", tuple() as left, tuple() as right):
            return _in_field(left, point, prime) * _in_field(right, point, prime) % prime
        case ("/", tuple() as left, tuple() as right):
            return _in_field(left, point, prime) * _inverse(_in_field(right, point, prime), prime) % prime
        case ("^", tuple() as base, tuple() as power):
            value, times = _in_field(base, point, prime), _whole(power)
            return pow(_inverse(value, prime) if times < 0 else value, abs(times), prime)
        case _:
            raise _NotRational


def _inverse(value: int, prime: int) -> int:
    if value % prime == 0:
        raise _Undefined
    return pow(value, -1, prime)


# -- by digits -----------------------------------------------------------------------------------------------------------------


def _equal_in_digits(one: Tree, other: Tree, names: list[str], random: Random, tolerance: Fraction) -> bool | None:
    compared = 0
    with localcontext(_CONTEXT):
        for point in _points(names, random):
            try:
                left, right = _in_digits(one, point), _in_digits(other, point)
                gap, size = _size(_sub(left, right)), max(_size(left), _size(right))
            except (_Undefined, InvalidOperation, DivisionByZero, Overflow, ZeroDivisionError):
                continue
            allowed = size.scaleb(-_AGREE) if size > Decimal(1).scaleb(-_AGREE) else Decimal(1).scaleb(-_AGREE)
            if tolerance and not names:
                allowed = max(allowed, _size(right) * Decimal(tolerance.numerator) / Decimal(tolerance.denominator))
            if gap > allowed:
                return False
            compared += 1
            if compared > _POINTS or not names:
                return True
    return None


def _points(names: list[str], random: Random) -> Iterator[dict[str, _Complex]]:
    """Positive real points first, then negative and complex ones."""
    for number in range(_MOST_TRIES):
        low = 1 if number < 2 else -3
        yield {
            name: (
                Decimal(random.randrange(low * 10**9 + 1, 3 * 10**9)) / 10**9,
                Decimal(random.randrange(10**9)) / 10**9 if number % 4 == 3 else Decimal(0),
            )
            for name in names
        }


def _in_digits(tree: Tree, point: dict[str, _Complex]) -> _Complex:  # noqa: PLR0911 - one return per operation
    match tree:
        case ("number", Fraction() as value):
            return Decimal(value.numerator) / Decimal(value.denominator), Decimal(0)
        case ("name", str() as name):
            return _constant(name) if name in _CONSTANTS else point[name] if name in point else _undefined()
        case ("-", tuple() as inside):
            value = _in_digits(inside, point)
            return -value[0], -value[1]
        case ("+", tuple() as left, tuple() as right):
            one, other = _in_digits(left, point), _in_digits(right, point)
            return one[0] + other[0], one[1] + other[1]
        case ("*", tuple() as left, tuple() as right):
            return _mul(_in_digits(left, point), _in_digits(right, point))
        case ("/", tuple() as left, tuple() as right):
            return _div(_in_digits(left, point), _in_digits(right, point))
        case ("^", tuple() as base, tuple() as power):
            return _pow(_in_digits(base, point), _in_digits(power, point))
        case ("root", tuple() as inside, tuple() as index):
            return _root(_in_digits(inside, point), _in_digits(index, point))
        case ("log", tuple() as inside, tuple() as base):
            return _div(_ln(_in_digits(inside, point)), _ln(_in_digits(base, point)))
        case ("!", tuple() as inside):
            return _factorial(_in_digits(inside, point))
        case (str() as name, tuple() as inside) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_in_digits(inside, point))
        case _:
            return _undefined()


def _undefined() -> _Complex:
    raise _Undefined


def _constant(name: str) -> _Complex:
    return {"pi": (+_PI, Decimal(0)), "e": (Decimal(1).exp(), Decimal(0)), "i": (Decimal(0), Decimal(1))}[name]


def _size(value: _Complex) -> Decimal:
    return (value[0] * value[0] + value[1] * value[1]).sqrt()


def _sub(one: _Complex, other: _Complex) -> _Complex:
    return one[0] - other[0], one[1] - other[1]


def _mul(one: _Complex, other: _Complex) -> _Complex:
    return one[0] * other[0] - one[1] * other[1], one[0] * other[1] + one[1] * other[0]


def _div(one: _Complex, other: _Complex) -> _Complex:
    size = other[0] * other[0] + other[1] * other[1]
    if size < Decimal(1).scaleb(-2 * _AGREE):
        raise _Undefined
    top = _mul(one, (other[0], -other[1]))
    return top[0] / size, top[1] / size


def _pow(base: _Complex, power: _Complex) -> _Complex:
    if power[1] == 0 and power[0] == power[0].to_integral_value() and abs(power[0]) <= _MAX_EXPONENT:
        result, times, factor = (Decimal(1), Decimal(0)), abs(int(power[0])), base
        while times:
            result, factor, times = _mul(result, factor) if times & 1 else result, _mul(factor, factor), times >> 1
        return _div((Decimal(1), Decimal(0)), result) if power[0] < 0 else result
    if _size(base) == 0:
        return (Decimal(0), Decimal(0)) if power[0] > 0 else _undefined()
    return _exp(_mul(power, _ln(base)))


def _root(value: _Complex, index: _Complex) -> _Complex:
    """The principal root; of a negative number with an odd index, the real one."""
    if index[1] or index[0] != index[0].to_integral_value() or not 1 <= index[0] <= _MAX_EXPONENT:
        raise _Undefined
    if index[0] == 2 and value[1] == 0:
        root = abs(value[0]).sqrt()
        return (root, Decimal(0)) if value[0] >= 0 else (Decimal(0), root)
    if value[1] == 0 and value[0] < 0 and index[0] % 2 == 1:
        root = _root((-value[0], Decimal(0)), index)
        return -root[0], -root[1]
    return _pow(value, (1 / index[0], Decimal(0)))


def _factorial(value: _Complex) -> _Complex:
    if value[1] or value[0] != value[0].to_integral_value() or not 0 <= value[0] <= _MAX_FACTORIAL:
        raise _Undefined
    product = Decimal(1)
    for factor in range(2, int(value[0]) + 1):
        product *= factor
    return product, Decimal(0)


def _exp(value: _Complex) -> _Complex:
    if abs(value[0]) > _MAX_EXPONENT or abs(value[1]) > 10**9:
        raise _Undefined
    size = value[0].exp()
    return size * _cosine(value[1]), size * _cosine(value[1] - _PI / 2)


def _cosine(angle: Decimal) -> Decimal:
    """The cosine by its series, after the angle was brought near zero."""
    angle = abs(angle.remainder_near(2 * _PI))
    term, total, count = Decimal(1), Decimal(1), 0
    while abs(term) > Decimal(1).scaleb(-_DIGITS - 5):
        count += 2
        term = -term * angle * angle / (count * (count - 1))
        total += term
    return total


def _ln(value: _Complex) -> _Complex:
    size = _size(value)
    if size == 0:
        raise _Undefined
    return size.ln(), _angle(value)


def _angle(value: _Complex) -> Decimal:
    """The angle of a complex number, from -pi to pi."""
    real, imaginary = value
    if imaginary == 0:
        return Decimal(0) if real > 0 else +_PI
    if abs(imaginary) > abs(real):
        turn = _PI / 2 if imaginary > 0 else -_PI / 2
        return turn - _arctangent(real / imaginary)
    flat = _arctangent(imaginary / real)
    return flat if real > 0 else flat + (_PI if imaginary > 0 else -_PI)


def _arctangent(value: Decimal) -> Decimal:
    """The arc tangent of a number from -1 to 1: three halvings, then the series."""
    for _ in range(3):
        value = value / (1 + (1 + value * value).sqrt())
    term, total, count = value, value, 1
    while abs(term) > Decimal(1).scaleb(-_DIGITS - 5):
        count += 2
        term = -term * value * value
        total += term / count
    return 8 * total


def _sin(value: _Complex) -> _Complex:
    up, down = _exp((-value[1], value[0])), _exp((value[1], -value[0]))
    return _div(_sub(up, down), (Decimal(0), Decimal(2)))


def _cos(value: _Complex) -> _Complex:
    up, down = _exp((-value[1], value[0])), _exp((value[1], -value[0]))
    return (up[0] + down[0]) / 2, (up[1] + down[1]) / 2


def _arcsin(value: _Complex) -> _Complex:
    """-i ln(iz + sqrt(1 - z^2))."""
    square = _mul(value, value)
    root = _root((1 - square[0], -square[1]), (Decimal(2), Decimal(0)))
    found = _ln((root[0] - value[1], root[1] + value[0]))
    return found[1], -found[0]


def _arctan(value: _Complex) -> _Complex:
    """Half i (ln(1 - iz) - ln(1 + iz))."""
    gap = _sub(_ln((1 + value[1], -value[0])), _ln((1 - value[1], value[0])))
    return -gap[1] / 2, gap[0] / 2


_ONE: _Complex = (Decimal(1), Decimal(0))
_FUNCTIONS: dict[str, Callable[[_Complex], _Complex]] = {
    "exp": _exp,
    "ln": _ln,
    "log": _ln,
    "abs": lambda value: (_size(value), Decimal(0)),
    "sin": _sin,
    "cos": _cos,
    "tan": lambda value: _div(_sin(value), _cos(value)),
    "cot": lambda value: _div(_cos(value), _sin(value)),
    "sec": lambda value: _div(_ONE, _cos(value)),
    "csc": lambda value: _div(_ONE, _sin(value)),
    "arcsin": _arcsin,
    "arccos": lambda value: _sub((_PI / 2, Decimal(0)), _arcsin(value)),
    "arctan": _arctan,
    "sinh": lambda value: _mul((Decimal(0), Decimal(-1)), _sin((-value[1], value[0]))),
    "cosh": lambda value: _cos((-value[1], value[0])),
    "tanh": lambda value: _div(_mul((Decimal(0), Decimal(-1)), _sin((-value[1], value[0]))), _cos((-value[1], value[0]))),
}
"""`log` without a base is the natural logarithm, as in most of mathematics; write `log_{10}` for the other."""
