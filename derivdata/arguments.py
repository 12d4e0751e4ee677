"""Arguments held to their annotations, so that a wrong one is refused by name before anything is done.

What an annotation can not say (a unit, a dim, a range) is the function's own to check.
"""

from __future__ import annotations

import functools
import numbers
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

__all__ = ["Numbers", "typed"]

P = ParamSpec("P")
T = TypeVar("T")

Numbers: TypeAlias = Annotated[Any, "numbers"]
"""A number, or an array of them: list, numpy, pandas, xarray or another library's, in memory or lazy."""

_NUMERIC = ("i", "u", "f")
_PAIR = 2
_MISFIT = re.compile(r"broadcast|shape|dimension|conflicting sizes")  # in the words of numpy and xarray
_WHOLE = 2**53  # above, a float holds a whole number only about


class _Rule(NamedTuple):
    """What an argument must be, in words; whether a value is it; and as what the function gets it."""

    words: str
    fits: Callable[[Any], bool]
    given: Callable[[Any], Any] | None = None


def typed(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which first holds its arguments to their annotations.

    A list for `Numbers` is given as an array of floats. Floating-point faults are NaN or infinite in the
    result and no warnings. An annotation that says nothing (``Any``), or that only a type checker can read,
    holds for every value.

    Raises
    ------
    TypeError
        An argument is of another kind: the message names it and says what it must be, but not what it held.
    ValueError
        Python's arithmetic has no result for the numbers that the message names: a division by zero. Or
        the arrays that it names do not fit together.
    """
    positional = function.__code__.co_varnames[: function.__code__.co_argcount]
    # Made with the first call: only then is every name known that the annotations use.
    rules = functools.cache(lambda: _rules(function))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        held = rules()
        placed = [_held(held, name, value) for name, value in zip(positional, args, strict=False)]
        named = {name: _held(held, name, value) for name, value in kwargs.items()}
        try:
            with np.errstate(all="ignore"):
                return function(*placed, *args[len(placed) :], **named)  # type: ignore[arg-type]
        except (ArithmeticError, ValueError) as fault:
            said = _said(fault, dict(zip(positional, placed, strict=False)) | named)
            if not said:
                raise
            raise ValueError(said) from fault

    return call


def _held(rules: dict[str, _Rule], name: str, value: Any) -> Any:
    rule = rules.get(name)
    if rule is None:
        return value
    if not rule.fits(value):
        raise TypeError(f"{name} must be {rule.words}, not {_kind(value)}")
    return value if rule.given is None else rule.given(value)


def _said(fault: Exception, arguments: dict[str, Any]) -> str:
    """A fault of arithmetic in terms of the arguments; empty where it names one of them itself."""
    if isinstance(fault, ArithmeticError):  # of Python's own numbers, for numpy's give NaN
        single = [f"{name}={value!r}" for name, value in arguments.items() if _is_number(value)]
        return f"no result for {', '.join(single)}: {fault}" if single else ""
    if type(fault) is not ValueError or any(re.search(rf"\b{name}\b", str(fault)) for name in arguments):
        return ""
    shapes = {name: value.shape for name, value in arguments.items() if hasattr(value, "shape")}
    if len(shapes) < _PAIR or not _MISFIT.search(str(fault)):
        return ""
    listed = " and ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
    return f"{listed} do not fit together: {fault}"


def _rules(function: Callable[..., Any]) -> dict[str, _Rule]:
    annotations = {name: said for name, said in function.__annotations__.items() if name != "return"}
    rules = {name: _rule(_resolved(said, function.__globals__)) for name, said in annotations.items()}
    return {name: rule for name, rule in rules.items() if rule is not None}


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except NameError:  # imported for the type checker only
        return Any


def _rule(hint: Any) -> _Rule | None:
    """The rule of an annotation; None where it says nothing that could be held against a value."""
    if hint is Any or hint in _SIMPLE:
        return _SIMPLE.get(hint)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _either([_rule(part) for part in parts])
    if origin is Literal:
        kinds = tuple({type(part) for part in parts})
        return _Rule(f"one of {', '.join(map(repr, parts))}", lambda value: isinstance(value, kinds))
    if origin is tuple and parts[-1] is not ...:
        return _listed(_rule(parts[0]), len(parts))
    if origin in (Sequence, list, tuple):
        return _listed(_rule(parts[0]))
    if origin is Mapping:
        return _keyed(_rule(parts[0]), _rule(parts[1]))
    kind = origin or hint
    return _Rule(f"a {_name(kind)}", lambda value: isinstance(value, kind))


def _either(rules: Sequence[_Rule | None]) -> _Rule | None:
    known = [rule for rule in rules if rule is not None]
    if len(known) < len(rules):
        return None
    words = [rule.words for rule in known]
    said = f"{', '.join(words[:-1])} or {words[-1]}"
    given = next((rule.given for rule in known if rule.given is not None), None)
    return _Rule(said, lambda value: any(rule.fits(value) for rule in known), given)


def _listed(item: _Rule | None, length: int | None = None) -> _Rule:
    words = "a list" if length is None else f"a list of {length}"
    if item is not None:
        words = f"{words} (each {item.words})"

    def fits(value: Any) -> bool:
        right = _is_listed(value) and length in (None, len(value))
        return right and (item is None or all(map(item.fits, value)))

    return _Rule(words, fits)


def _keyed(key: _Rule | None, item: _Rule | None) -> _Rule:
    words = "a mapping" + "".join(
        f" {joint} {rule.words}" for joint, rule in (("from", key), ("to", item)) if rule is not None
    )
    rules = [rule.fits if rule is not None else _is_anything for rule in (key, item)]

    def fits(value: Any) -> bool:
        return isinstance(value, Mapping) and all(rules[0](k) and rules[1](v) for k, v in value.items())

    return _Rule(words, fits)


def _is_anything(_: Any) -> bool:
    return True


def _is_listed(value: Any) -> bool:
    whole = isinstance(value, str | bytes | bytearray | Mapping)
    return isinstance(value, Collection) and not whole and getattr(value, "ndim", 1) == 1


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        try:
            value = np.asarray(value)
        except ValueError:  # lists of unequal length inside
            return False
    if isinstance(value, numbers.Number):
        return _is_number(value) and not (isinstance(value, int) and abs(value) > sys.float_info.max)
    dtypes = list(_dtypes(value))
    return bool(dtypes) and all(getattr(dtype, "kind", "f") in _NUMERIC for dtype in dtypes)


def _numeric(value: Any) -> Any:
    """A list as an array, and a number that numpy would hold as an object as a float."""
    if isinstance(value, list | tuple):
        return np.asarray(value, dtype=np.float64)
    if isinstance(value, numbers.Real) and not isinstance(value, float | np.generic):
        return value if isinstance(value, int) and abs(value) <= _WHOLE else float(value)
    return value


def _dtypes(value: Any) -> Iterator[Any]:
    """Dtypes of an array, of the columns of a frame or of the variables of a dataset."""
    several = getattr(value, "dtypes", None)
    if isinstance(several, Mapping):
        yield from several.values()
    elif several is not None and hasattr(value, "columns"):
        yield from several
    elif hasattr(value, "dtype"):
        yield value.dtype


def _name(kind: type) -> str:
    """A class as people know it: ``pandas.DataFrame``."""
    place = kind.__module__.partition(".")[0]
    return kind.__name__ if place in ("builtins", "collections", "derivdata") else f"{place}.{kind.__name__}"


def _kind(value: Any) -> str:
    """What a value is, without what it holds: that may be a key."""
    if value is None:
        return "None"
    if isinstance(value, list | tuple | set):
        inside = {_name(type(item)) for item in value} or {"nothing"}
    else:
        inside = {str(dtype) for dtype in _dtypes(value)}
    return _name(type(value)) + (f" of {', '.join(sorted(inside))}" if inside else "")


_SIMPLE: dict[Any, _Rule] = {
    Numbers: _Rule("a number or an array of numbers", _is_numeric, _numeric),
    str: _Rule("text", lambda value: isinstance(value, str)),
    int: _Rule("a whole number", _is_whole),
    float: _Rule("a number", _is_number),
    bool: _Rule("True or False", lambda value: isinstance(value, bool | np.bool_)),
    type(None): _Rule("None", lambda value: value is None),
}
