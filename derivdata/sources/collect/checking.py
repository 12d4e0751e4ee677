"""Check live responses of venues: shape, units, and equal figures in two responses; redact their bodies.

Redaction is for bug reports. Requests have no key, but a response may have the address that sent the request,
or accounts whose trades it lists.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from derivdata import units
from derivdata.errors import DerivdataError, SchemaError, VenueError
from derivdata.sources.collect.contracts import contract_name, list_contracts
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint, walk
from derivdata.sources.venues.record_types import Instrument, Records, State
from derivdata.sources.venues.registry import VENUES
from derivdata.support import times

__all__ = ["REDACTED", "redacted"]


REDACTED = "[redacted]"
_MAX_LIST_ROWS = 20
"""Maximum rows of a list in a report."""
_MAX_TEXT_LENGTH = 2_000
"""Maximum characters of a body that is not JSON."""

_PRIVATE_FIELDS = re.compile(
    r"((client|remote|source|your)[-_]?)?(account|address|client|cookie|device|email|ip|liquidator|maker|nick|owner|password|secret|session"
    r"|signature|signer|subaccount|taker|token|trace|trader|uid|user|wallet)"
    r"(s|_?(id|ids|name|addr|address|hash|key|order_?id))?",
    re.IGNORECASE,
)
"""Names of fields whose text is removed. Flags and small numbers stay, such as ``maker: true``."""
_REQUEST_ID_FIELDS = re.compile(
    r"(x-)?(request|trace|correlation|ray|span|cf-?ray)[-_]?(id|no)?", re.IGNORECASE
)
_PRIVATE_TEXTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b[\w.+-]+@[\w-]+\.[\w.]+\b",  # e-mail
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",  # IPv4
        r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4})*(?![\w:])",  # IPv6
        r"(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}:?)*(?![\w:])",  # IPv6, shortened
        r"\b0x[0-9a-f]{40,}\b",  # account or transaction of a chain
        r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{32,}\b",  # key or hash
        r"\b(?:eyJ|Bearer )[\w.+/=-]{20,}",  # token
        r"\b(?:dydx1|inj1|cosmos1|paradex1)[0-9a-z]{30,}\b",
    )
)


def redacted(body: bytes) -> tuple[Any, list[str]]:
    """Return a response body without private values, and notes about removed or truncated values.

    Parameters
    ----------
    body
        A response body: JSON or other text.

    Returns
    -------
    tuple
        The parsed JSON or the text, with long lists and texts truncated; and a list with one note per kind of
        change.
    """
    notes: dict[str, int] = {}

    def count(kind: str) -> None:
        notes[kind] = notes.get(kind, 0) + 1

    try:
        parsed = json.loads(body)
    except ValueError:
        text = body.decode(errors="replace")
        if len(text) > _MAX_TEXT_LENGTH:
            count(f"a text of {len(text)} characters was truncated")
        cleaned: Any = _redacted_text(text[:_MAX_TEXT_LENGTH], count)
    else:
        cleaned = _redacted_value(parsed, "", count)
    texts = []
    for kind, number in notes.items():
        repeated = f" ({number} times)" if number > 1 else ""
        texts.append(kind + repeated)
    return cleaned, texts


def _redacted_value(value: Any, name: str, count: Callable[[str], None]) -> Any:
    """Remove private values from the JSON value of the field `name`."""
    if isinstance(value, dict):
        cleaned = {}
        for key, inner in value.items():
            cleaned[_redacted_text(key, count)] = _redacted_value(inner, key, count)
        return cleaned
    if isinstance(value, list):
        if len(value) > _MAX_LIST_ROWS:
            count(f"a list of {len(value)} rows was truncated to {_MAX_LIST_ROWS}")
        return [_redacted_value(inner, name, count) for inner in value[:_MAX_LIST_ROWS]]
    is_text = isinstance(value, str)
    is_identifier = isinstance(value, int) and not isinstance(value, bool) and value > _LARGEST_FIGURE
    is_private = _PRIVATE_FIELDS.fullmatch(name) or _REQUEST_ID_FIELDS.fullmatch(name)
    if is_private and value != "" and (is_text or is_identifier):
        count(f"{name} was removed")
        return REDACTED
    if is_text:
        return _redacted_text(value, count)
    return value


_LARGEST_FIGURE = 9_999
"""A larger number in a field with a private name is an identifier, not a share or a count."""


def _redacted_text(text: str, count: Callable[[str], None]) -> str:
    """Replace addresses, keys and accounts in a text."""
    for pattern in _PRIVATE_TEXTS:
        text, times = pattern.subn(REDACTED, text)
        for _ in range(times):
            count("an address, a key or an account in a text was removed")
    return text


_DAY = pd.Timedelta(24, "h")
_VENUE_OF_PREDICTION = {  # names of venues in Hyperliquid's predictedFundings
    "BinPerp": "binance",
    "BybitPerp": "bybit",
    "HlPerp": "hyperliquid",
}
_RATE_FACTOR = 3.0
"""Tolerated ratio of running rates, which may be minutes apart; a wrong interval gives 4 or 8."""
_MEDIAN_FACTOR = 5.0
"""Tolerated ratio of a venue's median rate to that of other venues; a wrong unit gives 8 or 100."""
_SAME_FACTOR = 1.3
"""Tolerated ratio of open interest or marks in two responses; counting both sides gives 2."""

_PATIENCE_SECONDS = 20.0
"""Maximum waiting time for one venue in a check."""

_Key = tuple[str, str, str]


class _VenueResponse(NamedTuple):
    """Response to a request: records, or an error. An error is final if a repeated request would fail too."""

    endpoint: VenueEndpoint
    records: Records | None
    error: str
    is_final: bool
    body: bytes = b""
    params: Mapping[str, str] = MappingProxyType({})
    at: str = ""

    @property
    def key(self) -> _Key:
        return self.endpoint.exchange, self.endpoint.host, self.endpoint.path

    @property
    def line(self) -> str:
        """The request, and its error if it has one."""
        error = self.error.removeprefix(f"{self.endpoint.where}: ")[:300]
        return f"{self.endpoint.exchange} {self.endpoint.path}: {error or 'response received'}"


def check_venues(
    sessions: Sequence[VenueSession],
    symbol: str = "BTC",
    *,
    progress: Callable[[str], None] | None = None,
    bodies: Path | None = None,
) -> pd.DataFrame:
    """Send every request of some venues once, venues in parallel, and compare the responses.

    Returns a row per request. Its ``verdict`` is ``confirms``; ``contradicts``, if the body has another shape
    or its figures another unit than other responses; ``no rows``; or ``no answer``. Figures are compared
    between two responses of a venue, between venues, and with the rates that Hyperliquid predicts for three
    venues. The redacted bodies are written to the folder `bodies`.
    """
    report = progress or (lambda _: None)
    with ThreadPoolExecutor(max(len(sessions), 1)) as threads:
        by_venue = list(threads.map(lambda session: _responses_of_venue(session, symbol, report), sessions))
    responses = list(itertools.chain.from_iterable(by_venue))
    troubles = {
        **_compare_between_venues(responses, symbol),
        **_compare_within_venues(responses),
        **_compare_with_predictions(responses),
    }
    rows = [_verdict_row(response, troubles.get(response.key, "")) for response in responses]
    if bodies is not None:
        write_bodies(bodies, responses, rows)
    return pd.DataFrame(rows)


def write_bodies(
    folder: Path, responses: Sequence[_VenueResponse], rows: Sequence[Mapping[str, object]]
) -> None:
    """Write each response with its request and the verdict, ready for a bug report."""
    folder.mkdir(parents=True, exist_ok=True)
    for response, row in zip(responses, rows, strict=True):
        if not response.body:
            continue
        body, removed = redacted(response.body)
        error, _ = redacted(str(row["error"]).encode())
        report = {
            "exchange": row["exchange"],
            "request": response.endpoint.path,
            "method": response.endpoint.method,
            "params": dict(response.params),
            "at": response.at,
            "version": version("derivdata"),
            "verdict": row["verdict"],
            "error": error,
            "removed": removed,
            "body": body,
        }
        name = re.sub(r"[^a-z0-9]+", "-", response.endpoint.label.lower()).strip("-")
        path = folder / f"{row['exchange']}-{response.endpoint.what}-{name[:80]}.json"
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _responses_of_venue(
    session: VenueSession, symbol: str, report: Callable[[str], None]
) -> list[_VenueResponse]:
    """Send each request of a venue once for a symbol; only the list's error if the contracts are unknown."""
    session.patience = _PATIENCE_SECONDS
    responses: list[_VenueResponse] = []
    try:
        item = list_contracts(session).by_symbol.get(symbol)
    except DerivdataError as problem:
        endpoint = session.venue.endpoints[0]
        at = f"{session.clock.utc():%Y-%m-%dT%H:%M:%SZ}"
        failed = _VenueResponse(endpoint, None, str(problem), _is_final(problem), session.last_body, at=at)
        report(failed.line)
        return [failed]
    for endpoint in dict.fromkeys(session.venue.endpoints):
        if endpoint.method != "WS" and (item is None or endpoint.covers(item)):
            response = _response_of(session, endpoint, item, symbol)
            responses.append(response)
            report(response.line)
    return responses


def _response_of(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument | None, symbol: str
) -> _VenueResponse:
    """Send one request for a contract. A history is requested for the first page of the last 24 hours."""
    name = value = symbol
    if item is not None:
        name = item.name
        value = contract_name(endpoint, item)
    if endpoint.symbol_values:
        value = endpoint.symbol_values[0]
    params = dict.fromkeys(endpoint.pattern.groupindex, name)
    if endpoint.symbol:
        params[endpoint.symbol] = value
    now = session.clock.utc()
    if endpoint.paging is not None:
        params |= next(walk(endpoint.paging, times.us(now - _DAY), times.us(now)))
    if endpoint.expiry:  # options of every venue expire on the last Friday of a month
        month_end = (now + pd.DateOffset(months=1)) + pd.offsets.MonthEnd(0)
        days_since_friday = (month_end.weekday() - 4) % 7
        friday = month_end - pd.Timedelta(days_since_friday, "D")
        params |= {endpoint.symbol: symbol, endpoint.expiry: f"{friday:%y%m%d}"}
    at = f"{now:%Y-%m-%dT%H:%M:%SZ}"
    try:
        records, _, body = session.request(endpoint, params, context={"instrument": name})
    except DerivdataError as problem:
        return _VenueResponse(endpoint, None, str(problem), _is_final(problem), session.last_body, params, at)
    return _VenueResponse(endpoint, records, "", True, body, params, at)


def _is_final(problem: DerivdataError) -> bool:
    """Return whether the request itself is wrong, so that the error is not temporary or due to a block."""
    if isinstance(problem, VenueError):
        return problem.reason == "refused"
    return isinstance(problem, SchemaError)


def verdicts_of_tables(checks: pd.DataFrame) -> pd.DataFrame:
    """Return the best verdict for each venue and table, and its request."""
    order = ["confirms", "no rows", "contradicts", "no answer"]
    verdicts = checks.set_index(["exchange", "path_or_channel"])["verdict"].to_dict()
    rows = []
    for name in dict.fromkeys(checks["exchange"]):
        for endpoint in VENUES[name].endpoints:
            verdict = verdicts.get((name, endpoint.path))
            if verdict is not None:
                rank = order.index(verdict)
                rows += [(rank, name, table, verdict, endpoint.path) for table in endpoint.tables]
    columns = ["exchange", "table", "verdict", "path_or_channel"]
    frame = pd.DataFrame(sorted(rows), columns=["rank", *columns])[columns]
    return frame.drop_duplicates(["exchange", "table"]).sort_values(columns[:2], ignore_index=True)


def _verdict_row(response: _VenueResponse, trouble: str) -> dict[str, object]:
    """Return the row of `check_venues` for a response; `trouble` states a deviating figure, if any."""
    count = 0
    if response.records is not None:
        for name, rows in vars(response.records).items():
            if isinstance(rows, list) and name != "times":
                count += len(rows)
    verdict = "confirms"
    if response.records is None and not response.is_final:
        verdict = "no answer"
    elif response.records is None or trouble:
        verdict = "contradicts"
    elif not count:
        verdict = "no rows"
    return {
        "exchange": response.endpoint.exchange,
        "path_or_channel": response.endpoint.path,
        "rows": count,
        "mark": "confirmed" if response.endpoint.confirmed else "unconfirmed",
        "verdict": verdict,
        "error": response.error or trouble,
    }


def _bps(state: State) -> float | None:
    """Return the rate of a contract [bps per 8 hours], None if it or its interval is missing."""
    if state.rate is None or state.period_h is None:
        return None
    return float(units.convert(state.rate, "native", "bps_8h", hours=state.period_h))


_QUANTITIES: tuple[tuple[str, Callable[[State], float | None], float], ...] = (
    ("the rate", _bps, _RATE_FACTOR),
    ("the mark", lambda state: state.mark, _SAME_FACTOR),
    ("open interest", lambda state: state.oi_usd, _SAME_FACTOR),
)


def _figures(
    response: _VenueResponse, of: Callable[[State], float | None], *, by_symbol: bool
) -> dict[str, float]:
    """Return the figure `of` each contract in a response by name or symbol, without missing values and 0."""
    figures: dict[str, float] = {}
    if response.records is None:
        return figures
    for state in response.records.states:
        value = of(state)
        if value:
            name = state.instrument.symbol if by_symbol else state.instrument.name
            figures[name] = value
    return figures


def _median_ratio(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float | None:
    """Return the median ratio of figures with common names, or None without common names."""
    ratios = [abs(value / theirs[name]) for name, value in ours.items() if theirs.get(name)]
    if not ratios:
        return None
    return median(ratios)


def _is_outside(ratio: float | None, factor: float) -> bool:
    return ratio is not None and not 1 / factor < ratio < factor


def _compare_within_venues(responses: Sequence[_VenueResponse]) -> dict[_Key, str]:
    """Compare each response with the first one of its venue that has the quantity; return deviations."""
    troubles: dict[_Key, str] = {}
    for quantity, of, factor in _QUANTITIES:
        first: dict[str, tuple[_VenueResponse, dict[str, float]]] = {}
        for response in responses:
            figures = _figures(response, of, by_symbol=False)
            if not figures:
                continue
            before, figures_before = first.setdefault(response.endpoint.exchange, (response, figures))
            ratio = _median_ratio(figures, figures_before)
            if _is_outside(ratio, factor):
                troubles[response.key] = (
                    f"{quantity} is {ratio:.3g} times the value of {before.endpoint.path}"
                )
    return troubles


def _compare_between_venues(responses: Sequence[_VenueResponse], symbol: str) -> dict[_Key, str]:
    """Compare each venue's median rate and its mark of the symbol with other venues; return deviations."""
    median_rates: dict[_Key, float] = {}
    marks: dict[_Key, float] = {}
    for response in responses:
        rates = _figures(response, _bps, by_symbol=True)
        if rates:
            median_rates[response.key] = median(map(abs, rates.values()))
        mark = _figures(response, lambda state: state.mark, by_symbol=True).get(symbol)
        if mark:
            marks[response.key] = mark
    # Rates have no minimum, because the rates of a venue may all be near 0.
    deviating_rates = _deviations("the median rate", median_rates, 0.0, _MEDIAN_FACTOR)
    return deviating_rates | _deviations(f"the mark of {symbol}", marks, 1 / _SAME_FACTOR, _SAME_FACTOR)


def _deviations(
    quantity: str, figures: Mapping[_Key, float], minimum: float, maximum: float
) -> dict[_Key, str]:
    """Return texts about figures whose ratio to the median of other venues is out of bounds.

    Figures with fewer than two others are not compared.
    """
    troubles = {}
    for key, value in figures.items():
        others = [other for (name, *_), other in figures.items() if name != key[0]]
        if len(others) < 2:
            continue
        ratio = value / median(others)
        if not minimum <= ratio <= maximum:
            troubles[key] = f"{quantity} is {ratio:.3g} times the median of the other venues"
    return troubles


def _predicted_rates(body: bytes) -> dict[str, dict[str, float]]:
    """Return Hyperliquid's predicted rates [bps per 8 hours] by venue and coin."""
    predictions: dict[str, dict[str, float]] = {}
    rows: list[tuple[str, list[tuple[str, dict[str, Any] | None]]]] = msgspec.json.decode(body)
    for coin, venues in rows:
        for name, row in venues:
            if row is not None and name in _VENUE_OF_PREDICTION:
                usual_hours = 1 if name == "HlPerp" else 8
                hours = float(row.get("fundingIntervalHours", usual_hours))
                bps = float(units.convert(float(row["fundingRate"]), "native", "bps_8h", hours=hours))
                predictions.setdefault(_VENUE_OF_PREDICTION[name], {})[coin] = bps
    return predictions


def _compare_with_predictions(responses: Sequence[_VenueResponse]) -> dict[_Key, str]:
    """Compare running rates with Hyperliquid's predictions for itself and two other venues."""
    bodies = [r.body for r in responses if r.endpoint.path == "/info predictedFundings" and r.body]
    if not bodies:
        return {}
    predictions = _predicted_rates(bodies[0])
    troubles = {}
    for response in responses:
        rates = _figures(response, _bps, by_symbol=True)
        ratio = _median_ratio(rates, predictions.get(response.endpoint.exchange, {}))
        if _is_outside(ratio, _RATE_FACTOR):
            troubles[response.key] = f"the rate is {ratio:.3g} times the rate that hyperliquid predicts"
    return troubles
