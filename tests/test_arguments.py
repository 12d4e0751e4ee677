"""Arguments are checked against their annotations; errors name them."""

from __future__ import annotations

import inspect
import pickle  # noqa: TID251 - decorated functions travel by it
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import dask.array
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd
from derivdata.support import arguments
from derivdata.support.arguments import Numbers, typed
from derivdata.support.calls import record_of
from tests.support.interrupts import interrupted, places

if TYPE_CHECKING:
    from decimal import Decimal


@typed
def asked(
    numbers: Numbers = 1.0,
    *,
    text: str = "",
    whole: int | None = None,
    number: float = 1.0,
    flag: bool = False,
    names: str | Sequence[str] = "",
    pair: tuple[float, float] = (1.0, 2.0),
    mixed: tuple[int, str] = (1, "b"),
    kind: Literal["a", "b"] = "a",
    kinds: Sequence[Literal["a", "b"]] = (),
    derivative: Literal[0, 1] | None = None,
    costs: Mapping[str, float] | float = 1.0,
    frame: pd.DataFrame | None = None,
    path: str | Path = "",
    done: Callable[[], None] | None = None,
    anything: Any = None,
    unread: Decimal | None = None,
) -> str:
    """Return the text of the arguments."""
    return "done"


SERIES = pd.Series([1.0, 2.0])
RIGHT = [
    *(
        {"numbers": value}
        for value in (1, 1.5, Fraction(1, 3), np.float32(1), np.array(2.0), [1, 2], (1.0, 2), [])
    ),
    {"numbers": np.arange(3, dtype="uint8")},
    {"numbers": SERIES},
    {"numbers": SERIES.astype("float32[pyarrow]")},
    {"numbers": pd.DataFrame({"a": [1], "b": [1.0]})},
    {"numbers": xr.DataArray(1.0)},
    {"numbers": xr.Dataset({"a": 1.0})},
    {"numbers": dask.array.ones(3)},
    {"whole": np.int64(3)},
    {"number": 3},
    {"flag": np.True_},
    {"names": ("a", "b")},
    {"names": np.array(["a"])},
    {"names": pd.Series(["a"])},
    {"pair": [1, 2]},
    {"kind": "b"},
    {"kinds": ["a", "b"]},
    {"derivative": 1},
    {"costs": {"a": 1}},
    {"frame": pd.DataFrame()},
    {"path": Path()},
    {"done": print},
    {"anything": object()},
    {"unread": object()},
]
WRONG = [
    ({"numbers": "1"}, "numbers must be a number or an array of numbers, got str"),
    ({"numbers": True}, "numbers must be a number or an array of numbers, got bool"),
    ({"numbers": ["a"]}, "numbers must be a number or an array of numbers, got list of str"),
    ({"numbers": [[1], [1, 2]]}, "numbers must be a number or an array of numbers, got list of list"),
    ({"numbers": {"a": 1}}, "numbers must be a number or an array of numbers, got dict"),
    (
        {"numbers": np.array([True])},
        "numbers must be a number or an array of numbers, got numpy.ndarray of bool",
    ),
    ({"numbers": xr.Dataset({"a": "x"})}, "got xarray.Dataset of <U1"),
    ({"text": b"a"}, "text must be text, got bytes"),
    ({"whole": True}, "whole must be a whole number or None, got bool"),
    ({"number": "1"}, "number must be a number, got str"),
    ({"flag": 1}, "flag must be True or False, got int"),
    ({"names": ["a", 1]}, "names must be text or a list (each text), got list of int, str"),
    ({"names": np.array("a")}, "got numpy.ndarray of <U1"),
    ({"pair": (1.0,)}, "pair must be a list of 2 (each a number), got tuple of float"),
    ({"mixed": ("b", 1)}, "mixed must be a list of 2 (a whole number, text), got tuple of int, str"),
    ({"kind": 1}, "kind must be one of 'a', 'b', got int"),
    ({"derivative": True}, "derivative must be one of 0, 1 or None, got bool"),
    ({"costs": {"a": "1"}}, "costs must be a mapping from text to a number or a number, got dict"),
    ({"frame": {}}, "frame must be a pandas.DataFrame or None, got dict"),
    ({"path": 1}, "path must be text or a pathlib.Path, got int"),
    ({"done": 1}, "done must be a Callable or None, got int"),
]


@pytest.mark.parametrize("arguments", RIGHT)
def test_values_allowed_by_an_annotation_pass(arguments: dict[str, Any]) -> None:
    assert asked(**arguments) == "done"


@pytest.mark.parametrize(("arguments", "said"), WRONG)
def test_values_not_allowed_by_an_annotation_raise_with_the_name(
    arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError) as caught:
        asked(**arguments)
    assert str(caught.value).endswith(said) if said.startswith("not") else said in str(caught.value)


def test_wrong_positional_argument_is_named_without_its_value() -> None:
    with pytest.raises(TypeError, match=r"^numbers must be") as caught:
        asked("secret")  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_table_instead_of_a_panel_names_dd_panel() -> None:
    message = (
        r"data must be an xarray\.Dataset, got pandas\.DataFrame of float64; convert a table with dd\.panel"
    )
    with pytest.raises(TypeError, match=message):
        dd.analysis.volatility.realised(pd.DataFrame({"price_usd": [1.0]}))  # type: ignore[arg-type]


def test_arguments_that_do_not_fit_the_signature_are_rejected() -> None:
    with pytest.raises(TypeError, match="asked has no argument 'other'; its arguments are "):
        asked(other=1)
    with pytest.raises(
        TypeError, match=r"asked: expected at most 1 positional arguments, got 2; pass the others by name"
    ):
        asked(1.0, 2.0)


def test_typed_preserves_name_signature_and_pickling() -> None:
    assert asked.__name__ == "asked"
    assert asked.__doc__ == "Return the text of the arguments."
    assert list(inspect.signature(asked).parameters)[:2] == ["numbers", "text"]
    assert pickle.loads(pickle.dumps(asked)) is asked


@typed
def echo(numbers: Numbers | None = None) -> Any:
    return numbers


def test_object_numbers_become_floats_and_others_are_unchanged() -> None:
    np.testing.assert_array_equal(echo([1, 2]), np.array([1.0, 2.0]), strict=True)
    np.testing.assert_array_equal(echo(()), np.array([]), strict=True)
    assert [type(echo(value)) for value in (10**30, Fraction(1, 2), 3)] == [float, float, int]
    with pytest.raises(TypeError, match="numbers must be"):
        echo(10**400)
    given = (None, 1.5, np.float32(1), SERIES, np.arange(3))
    assert all(echo(value) is value for value in given)


def test_division_by_zero_of_python_numbers_names_the_arguments() -> None:
    @typed
    def ratio(top: Numbers, *, bottom: Numbers) -> Any:
        return top / bottom

    assert ratio(np.float64(-1.0), bottom=np.float64(0.0)) == -np.inf
    with pytest.raises(ValueError, match=r"no result for top=1, bottom=0: division by zero"):
        ratio(1, bottom=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "c"}, "kind must be one of a, b, got 'c'"),
        ({"kinds": ["a", "c"]}, "kinds must be one of a, b, got 'c'"),
        ({"derivative": 2}, "derivative must be one of None, 0, 1, got 2"),
    ],
)
def test_literal_annotation_accepts_its_members_only(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        asked(**arguments)


@typed
def added(left: Numbers, right: Numbers) -> Any:
    """The sum, as it is."""
    return left + right


def test_an_error_of_numpy_passes_unchanged_with_a_note_of_the_shapes() -> None:
    with pytest.raises(ValueError, match=r"^operands could not be broadcast together") as caught:
        added([1.0, 2.0], [1.0, 2.0, 3.0])
    assert caught.value.__notes__ == ["added was called with left of shape (2,), right of shape (3,)"]


def test_error_that_names_an_argument_is_unchanged() -> None:
    @typed
    def refuses(left: Numbers, right: Numbers) -> None:
        raise ValueError("left is too long")

    with pytest.raises(ValueError, match=r"^left is too long$") as caught:
        refuses([1.0, 2.0], [1.0])
    assert not hasattr(caught.value, "__notes__")


def test_results_have_their_record_after_an_interrupted_call() -> None:
    """A count of nested calls that an interrupt leaves at 1 would make later calls nested."""
    table = pd.DataFrame({"time": [pd.Timestamp("2026-01-01", tz="UTC")], "symbol": "BTC", "exchange": "okx"})
    table["rate_bps_8h"] = 1.0

    def call() -> Any:
        return dd.panel(table)

    call()  # the rules of a function are made by its first call
    for place in places(call, (arguments.__file__,)):
        result = interrupted(call, (arguments.__file__,), place)
        assert type(result.problem) is KeyboardInterrupt
        assert record_of(call()) is not None, result.place
