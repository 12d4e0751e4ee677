"""Check arguments against their annotations at run time, and record the call in its result.

An error names the wrong argument. Functions themselves check units, dims and ranges, which annotations do not
state.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import numbers
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, ParamSpec, TypeAlias, TypeVar

import numpy as np

from derivdata.support import calls
from derivdata.support.text import did_you_mean

P = ParamSpec("P")
T = TypeVar("T")

Numbers: TypeAlias = Annotated[Any, "numbers"]
"""A number or an array of numbers: list, numpy, pandas, xarray or another library, in memory or lazy."""

_NUMERIC = ("i", "u", "f")
_WITH_LABELS = ("numpy", "pandas", "xarray")
_MAX_LISTED = 6  # names of arguments in a message
_NOT_TABLES = frozenset({"builtins", "datetime", "derivdata", *_WITH_LABELS})
"""Packages whose objects are not tables of another library, so they are not examined."""
_WHOLE = 2**53  # a larger float does not represent every integer

_CONVERTED = frozenset({"pandas.Series", "xarray.DataArray", "xarray.Dataset"})
"""Types of arguments that are converted to plain types."""
_RECORDED = {"pandas.DataFrame", "xarray.DataArray", "xarray.Dataset"}
"""Types of results that get the record of their call."""


class _Rule(NamedTuple):
    """Rule of an annotation: words for messages, test, conversion, and the choices of a Literal."""

    words: str
    fits: Callable[[Any], bool]
    convert: Callable[[Any], Any] | None = None
    choices: tuple[Any, ...] = ()


_ANYTHING = _Rule("anything", lambda _: True)
"""Rule of a member of a list or a mapping that may be any value."""


def typed(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with a check of its arguments against their annotations.

    A list for `Numbers` is converted to an array of floats. Floating-point errors give NaN or infinity,
    without warnings. Only annotations with a meaning at run time are checked. A TypeError or ValueError names
    the argument, with the nearest known name or choice, but does not show its value, which may be a key. If
    an error of the function does not name an argument, a note lists the shapes of arguments. A table or a
    labelled array that the outermost call returns has the record of the call in its ``attrs``: see
    `derivdata.support.calls`.
    """
    _suggest_names(function.__module__)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    takes_any = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    most = sys.maxsize if code.co_flags & inspect.CO_VARARGS else len(positional)
    # Built at the first call, when all names in the annotations are defined.
    rules = functools.cache(lambda: _rules(function))
    defaults = functools.cache(lambda: _defaults(function))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        expected = rules()
        if len(args) > most or not (takes_any or names.issuperset(kwargs)):
            raise TypeError(_unknown_argument(function, len(args), kwargs))
        if kwargs and not kwargs.keys().isdisjoint(positional[: len(args)]):
            raise TypeError(_given_twice(function, positional[: len(args)], kwargs))
        placed = [_checked(expected, name, value) for name, value in zip(positional, args, strict=False)]
        named = {name: _checked(expected, name, value) for name, value in kwargs.items()}
        try:
            with np.errstate(all="ignore"):
                result = function(*placed, *args[len(placed) :], **named)  # type: ignore[arg-type]
            if _name(type(result)) not in _RECORDED or not _is_outermost(sys._getframe()):
                return result
            arguments = defaults() | dict(zip(positional, placed, strict=False)) | named
            return _with_record(function, arguments, result)  # type: ignore[no-any-return]
        except ArithmeticError as fault:  # from Python's own numbers; numpy's give NaN
            arguments = dict(zip(positional, placed, strict=False)) | named
            single = [f"{name}={value!r}" for name, value in arguments.items() if _is_number(value)]
            if not single:
                raise
            raise ValueError(f"no result for {', '.join(single)}: {fault}") from fault
        except ValueError as fault:
            _note_shapes(fault, function, dict(zip(positional, placed, strict=False)) | named)
            raise

    return call


def _is_outermost(frame: types.FrameType) -> bool:
    """Return whether the call of a checked function is not within another one of its thread.

    The stack is inspected, because a counter would be wrong after an interrupt between its two changes.
    """
    caller = frame.f_back
    while caller is not None and caller.f_code is not frame.f_code:
        caller = caller.f_back
    return caller is None


def _with_record(function: Callable[..., Any], arguments: Mapping[str, Any], result: Any) -> Any:
    """Return a table or an array with the record of its call in ``attrs``."""
    described = {name: _described(value) for name, value in arguments.items()}
    if any(result is value for value in arguments.values()):
        result = result.copy(deep=False)  # do not change the attributes of the caller's object
    text = calls.record_text(_public_name(function), described)
    result.attrs = {**result.attrs, calls.ATTRIBUTE: text}
    if _name(type(result)) == "pandas.DataFrame":
        return result
    return _storable(result)


def _storable(result: Any) -> Any:
    """Return a labelled result that can be written to netCDF or zarr, and appended to."""
    from derivdata.support.plain_data import storable

    return storable(result)


def _described(value: Any) -> Any:
    """Return an argument as JSON; text, integers and lists, the usual types, take the fast path."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if type(value) is list:
        return [_described(item) for item in value]
    return calls.described(value)


@functools.cache
def _public_name(function: Callable[..., Any]) -> str:
    """Return the name under which a user calls a function: ``analysis.backtest.carry``."""
    # Packages of its module from the top down, then all others, those with the fewest dots first.
    ancestors = list(accumulate(function.__module__.split("."), "{}.{}".format))
    loaded = [name for name in sys.modules if name.startswith("derivdata.")]
    loaded.sort(key=lambda name: (name.count("."), name))
    for module_name in [*ancestors, *loaded]:
        module = sys.modules.get(module_name)
        if function.__name__ not in getattr(module, "__all__", ()):
            continue
        public = getattr(module, function.__name__, None)
        if getattr(public, "__wrapped__", public) is function:
            return f"{module_name}.{function.__name__}".removeprefix("derivdata.")
    return f"{function.__module__}:{function.__qualname__}"


def _suggest_names(name: str) -> None:
    """Let a module of public functions, and its package, suggest the nearest name for a misspelt one.

    ``__getattr__`` is set at run time. In the source of a module it would hide misspelt names from type
    checkers.
    """
    for module_name in (name, name.rpartition(".")[0]):
        module = sys.modules.get(module_name)
        if module is not None and module_name.startswith("derivdata."):
            vars(module).setdefault("__getattr__", functools.partial(_raise_unknown_name, module))


def _raise_unknown_name(module: types.ModuleType, name: str) -> Any:
    """Raise `AttributeError` for a name that a module lacks, with the nearest public name."""
    message = f"module {module.__name__!r} has no attribute {name!r}"
    if name.isidentifier() and not name.startswith("__"):  # Python itself looks up names such as __path__
        hint = did_you_mean(name, getattr(module, "__all__", ()))
        message += hint or _hint_of_other_modules(module, name)
    raise AttributeError(message)


def _hint_of_other_modules(module: types.ModuleType, name: str) -> str:
    """Return the end of a message with the modules of the same package that have a public name."""
    if hasattr(module, "__path__") and importlib.util.find_spec(f"{module.__name__}.{name}") is not None:
        return ""  # an import statement looks up a submodule before it is loaded
    package_name = module.__name__.rpartition(".")[0]
    if name.startswith("_") or "." not in package_name:
        return ""  # loading all modules of derivdata itself would load matplotlib
    package = sys.modules[package_name]
    places = []
    for module_name in getattr(package, "__all__", ()):
        other = getattr(package, module_name)
        if isinstance(other, types.ModuleType) and name in getattr(other, "__all__", ()):
            places.append(f"{module_name}.{name}")
    if not places:
        return ""
    return f"; did you mean {' or '.join(places)}?"


def require_fields(record: Any) -> None:
    """Check the fields of a dataclass against their annotations, as `typed` checks arguments."""
    rules = _field_rules(type(record))  # type: ignore[arg-type]
    for name in rules:
        _checked(rules, name, getattr(record, name))


@functools.cache
def _field_rules(kind: type) -> dict[str, _Rule]:
    return _rules(kind.__init__)  # type: ignore[misc]


def _unknown_argument(function: Callable[..., Any], count: int, by_keyword: Mapping[str, Any]) -> str:
    """Return the message about an unknown argument, or about too many arguments."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    by_name = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    names = [*positional, *by_name]
    for name in by_keyword:
        if name not in names:
            listed = "; it takes no arguments"
            if names:
                listed = f"; its arguments are {', '.join(names)}"
            return f"{function.__name__} has no argument {name!r}{did_you_mean(name, names, listed)}"
    message = f"{function.__name__}: expected at most {len(positional)} positional arguments, got {count}"
    if not by_name:
        return message
    if len(by_name) > _MAX_LISTED:
        return f"{message}; pass the others by name"
    return f"{message}; pass {', '.join(by_name)} by name"


def _given_twice(function: Callable[..., Any], placed: Sequence[str], by_keyword: Mapping[str, Any]) -> str:
    """Return the message about an argument that is passed both by position and by name."""
    twice = next(name for name in placed if name in by_keyword)
    code = function.__code__
    order = ", ".join(code.co_varnames[: code.co_argcount])
    return (
        f"{function.__name__} got {twice} twice, by position and as {twice}=; the positional order is "
        f"{order}: pass {placed[-1]} by name or omit {twice}="
    )


def names_checked(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function with a check of the names of its arguments, and a suggestion for a wrong one.

    For functions that take an API key, which must not remain in a frame of a traceback.
    """
    code = function.__code__
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            if not names.issuperset(kwargs):
                raise TypeError(_unknown_argument(function, len(args), kwargs))
            return function(*args, **kwargs)
        finally:
            del args, kwargs  # so that a frame of a traceback does not have the key

    return call


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _checked(rules: dict[str, _Rule], name: str, value: Any) -> Any:
    """Return a value as the function receives it; raise if the annotation does not allow it."""
    rule = rules.get(name)
    if rule is None:
        return value
    if not rule.fits(value):
        _refuse(rule, name, value)
    if rule.convert is None:
        return value
    try:
        return rule.convert(value)
    except (TypeError, ValueError, RuntimeError, BufferError, NotImplementedError) as fault:
        if rule.convert is _data:
            raise TypeError(
                f"{name} ({_kind(value)}) cannot be converted to {rule.words}: {fault}"
            ) from fault
        raise TypeError(
            f"{name} ({_kind(value)}) cannot be converted to a NumPy array: expected numbers in the memory "
            f"of the host; copy the array there and pass it without gradients ({fault})"
        ) from fault


def _refuse(rule: _Rule, name: str, value: Any) -> NoReturn:
    """Raise for a value that does not fit a rule: ValueError for a wrong choice, otherwise TypeError."""
    for item in value if _is_listed(value) else [value]:
        if _has_kind(item, rule.choices) and item not in rule.choices:
            choices = ", ".join(map(str, rule.choices))
            raise ValueError(
                f"{name} must be one of {choices}, got {item!r}{did_you_mean(item, rule.choices)}"
            )
    problem = f"{name} must be {rule.words}, got {_kind(value)}"
    takes_panel = "xarray" in rule.words and "DataFrame" not in rule.words
    if takes_panel and _name(type(value)) == "pandas.DataFrame":
        problem += "; convert a table with dd.panel, or an option chain with surface.from_chain"
    raise TypeError(problem)


def _note_shapes(fault: ValueError, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Add the shapes of arrays to an error that does not name an argument; most come from unequal shapes."""
    shapes = {name: value.shape for name, value in arguments.items() if hasattr(value, "shape")}
    words = re.findall(r"\w+", str(fault))
    if len(shapes) > 1 and arguments.keys().isdisjoint(words):
        listed = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        fault.add_note(f"{function.__name__} was called with {listed}")


def _rules(function: Callable[..., Any]) -> dict[str, _Rule]:
    """Return the rules of a function's arguments by name."""
    rules: dict[str, _Rule] = {}
    for name, hint in function.__annotations__.items():
        if name == "return":
            continue
        rule = _rule(_resolved(hint, function.__globals__))
        if rule is not None:
            rules[name] = rule
    return rules


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """Return an annotation evaluated; `Any` if it uses a name that only type checkers import."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["it"]
    except NameError:
        return Any


def _rule(hint: Any) -> _Rule | None:
    """Return the rule of an annotation, or None if it allows every value."""
    if hint is Any or hint in _SIMPLE:
        return _SIMPLE.get(hint)
    origin = typing.get_origin(hint)
    members = typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(list(map(_rule, members)))
    if origin is Literal:
        # Check the type first: True equals 1, and == of an array is an array.
        return _Rule(
            f"one of {', '.join(map(repr, members))}",
            lambda value: _has_kind(value, members) and value in members,
            choices=members,
        )
    if origin is tuple and members[-1] is not ...:
        return _tuple(list(map(_rule, members)))
    if origin in (Sequence, list, tuple):
        return _list(_rule(members[0]))
    if origin is Mapping:
        return _mapping(_rule(members[0]), _rule(members[1]))
    kind = origin or hint
    if _name(kind) == "pandas.DataFrame":
        return _Rule("a pandas.DataFrame", lambda value: isinstance(value, kind) or _is_foreign(value), _data)
    name = _name(kind)
    article = "an" if name.startswith("xarray") else "a"
    convert = _data if name in _CONVERTED else None
    return _Rule(f"{article} {name}", lambda value: isinstance(value, kind), convert)


def _is_foreign(value: Any) -> bool:
    """Return whether a value is a table of another library: polars, pyarrow, DuckDB, ibis, narwhals."""
    if type(value).__module__.partition(".")[0] in _NOT_TABLES:
        return False
    from derivdata.support.plain_data import is_table

    return is_table(value)


def _data(value: Any) -> Any:
    """Convert tables of any library to pandas, and data to plain types; return other values unchanged.

    Named levels of an index become columns.
    """
    if type(value).__module__.partition(".")[0] in _WITH_LABELS:
        return _table(_plain(value))
    if not _is_foreign(value):
        return value
    from derivdata.support.plain_data import to_pandas

    return _table(_plain(to_pandas(value)))


def _table(value: Any) -> Any:
    if _name(type(value)) != "pandas.DataFrame" or value.index.names == [None]:
        return value
    from derivdata.support.plain_data import with_index_as_columns

    return with_index_as_columns(value)


def _plain(value: Any) -> Any:
    from derivdata.support.plain_data import plain

    return plain(value)


def _has_kind(value: Any, choices: tuple[Any, ...]) -> bool:
    """Return whether a value has the type of one of the choices; True is not an integer here."""
    kinds = tuple(map(type, choices))
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds)


def _union(rules: Sequence[_Rule | None]) -> _Rule | None:
    """Return the rule for a value that fits any of several rules; None if one accepts everything."""
    checked = [rule for rule in rules if rule is not None]
    if len(checked) < len(rules):
        return None
    words = [rule.words for rule in checked]
    choices = tuple(choice for rule in checked for choice in rule.choices)
    if choices and any(rule is _SIMPLE[type(None)] for rule in checked):
        choices = (None, *choices)
    convert = next((rule.convert for rule in checked if rule.convert is not None), None)
    return _Rule(
        f"{', '.join(words[:-1])} or {words[-1]}",
        lambda value: any(rule.fits(value) for rule in checked),
        convert,
        choices,
    )


def _list(item: _Rule | None) -> _Rule:
    """Return the rule for a list whose items fit a rule."""
    if item is None:
        return _Rule("a list", _is_listed)
    convert = None
    if item.convert is _data:
        convert = _data_of_list
    return _Rule(
        f"a list (each {item.words})",
        lambda value: _is_listed(value) and all(map(item.fits, value)),
        convert,
        choices=item.choices,
    )


def _data_of_list(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return list(map(_data, value))
    return value


def _tuple(members: Sequence[_Rule | None]) -> _Rule:
    """Return the rule for a list of fixed length with a rule for each item."""
    rules = [member or _ANYTHING for member in members]
    words = [rule.words for rule in rules]
    listed = ", ".join(words)
    if len(set(words)) == 1:
        listed = f"each {words[0]}"

    def fits(value: Any) -> bool:
        if not _is_listed(value) or len(value) != len(rules):
            return False
        return all(rule.fits(element) for rule, element in zip(rules, value, strict=True))

    return _Rule(f"a list of {len(rules)} ({listed})", fits)


def _mapping(key: _Rule | None, item: _Rule | None) -> _Rule:
    """Return the rule for a mapping with rules for keys and values."""
    words = "a mapping"
    if key is not None:
        words += f" from {key.words}"
    if item is not None:
        words += f" to {item.words}"
    fits_key = (key or _ANYTHING).fits
    fits_item = (item or _ANYTHING).fits

    def fits(value: Any) -> bool:
        return (
            isinstance(value, Mapping) and all(map(fits_key, value)) and all(map(fits_item, value.values()))
        )

    return _Rule(words, fits)


def _is_listed(value: Any) -> bool:
    """Return whether a value is a list or another collection with one dimension, not text or a mapping."""
    is_other = isinstance(value, str | bytes | bytearray | Mapping)
    return isinstance(value, Collection) and not is_other and getattr(value, "ndim", 1) == 1


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_numeric(value: Any) -> bool:
    """Return whether a value is a number or has only numeric dtypes."""
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
    """Convert lists and unlabelled arrays to numpy arrays, and numbers of other types to floats."""
    if isinstance(value, list | tuple):
        return np.asarray(value, dtype=np.float64)
    if isinstance(value, float | np.generic):
        return value
    if isinstance(value, numbers.Real):
        if isinstance(value, int) and abs(value) <= _WHOLE:
            return value
        return float(value)
    library = type(value).__module__.partition(".")[0]
    if library in _WITH_LABELS or hasattr(value, "__dask_graph__") or not hasattr(value, "__array__"):
        return _plain(value)
    return np.asarray(value)


def _dtypes(value: Any) -> Iterator[Any]:
    """Yield the dtypes of an array, of the columns of a frame or of the variables of a dataset."""
    several = getattr(value, "dtypes", None)
    if isinstance(several, Mapping):
        yield from several.values()
    elif several is not None and hasattr(value, "columns"):
        yield from several
    elif hasattr(value, "dtype"):
        yield value.dtype
    elif hasattr(value, "type") and hasattr(value, "__array__"):  # a column of pyarrow
        yield np.dtype(value.type.to_pandas_dtype())


def _name(kind: type) -> str:
    """Return the usual name of a class: ``pandas.DataFrame``."""
    place = kind.__module__.partition(".")[0]
    if place in ("builtins", "collections", "derivdata"):
        return kind.__name__
    return f"{place}.{kind.__name__}"


def _kind(value: Any) -> str:
    """Describe the type of a value without showing the value, which may be a key."""
    if value is None:
        return "None"
    kind = _name(type(value))
    if isinstance(value, list | tuple | set):
        inside = {_name(type(item)) for item in value} or {"nothing"}
    else:
        inside = set(map(str, _dtypes(value)))
    if not inside:
        return kind
    return f"{kind} of {', '.join(sorted(inside))}"


_SIMPLE: dict[Any, _Rule] = {
    Numbers: _Rule("a number or an array of numbers", _is_numeric, _numeric),
    str: _Rule("text", lambda value: isinstance(value, str)),
    int: _Rule(
        "a whole number", lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool)
    ),
    float: _Rule("a number", _is_number),
    bool: _Rule("True or False", lambda value: isinstance(value, bool | np.bool_)),
    type(None): _Rule("None", lambda value: value is None),
}
