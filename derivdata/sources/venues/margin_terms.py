"""Terms of margin: tiers of maintenance margin by position size, and rates at which venues lend coins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import BorrowRate, Instrument, MarginTier, Records
from derivdata.sources.venues.wire import NUMBER, Wire

_DAYS_PER_YEAR = 365.0
_HOURS_PER_YEAR = 8_760.0
_NO_TIER = "No VIP"  # Bybit's name of an account without a tier

Named = Callable[[str], Instrument]


class _OkxTier(Wire):
    tier: NUMBER
    instFamily: str
    maxSz: NUMBER
    imr: NUMBER
    mmr: NUMBER
    maxLever: NUMBER


class _GateTier(Wire):
    tier: NUMBER
    risk_limit: NUMBER
    initial_rate: NUMBER
    maintenance_rate: NUMBER
    leverage_max: NUMBER
    contract: str = ""


class _KucoinTier(Wire):
    symbol: str
    level: NUMBER
    maxRiskLimit: NUMBER
    initialMargin: NUMBER
    maintainMargin: NUMBER
    maxLeverage: NUMBER


class _BitgetTier(Wire):
    symbol: str
    level: NUMBER
    endUnit: NUMBER
    leverage: NUMBER
    keepMarginRate: NUMBER


def okx_tiers(name_of: Named) -> Callable[[Reading], Records]:
    """Return a reader of OKX's tiers, whose sizes are contracts of a family such as BTC-USDT.

    The size in coins needs the contract's size, from the list of contracts or as ``contract_size``.
    """

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(_OkxTier, "data"):
            with reading.row():
                item = reading.instrument(f"{row.instFamily}-SWAP", name_of)
                contracts = reading.required(row.maxSz)
                coins = usd = None
                if item.inverse:
                    usd = None if item.size is None else contracts * item.size
                else:
                    coins = None if item.size is None else contracts * item.size
                records.margin_tiers.append(_tier(reading, item, row, (usd, coins)))
        return records

    return read


def gate_tiers(name_of: Named) -> Callable[[Reading], Records]:
    """Return a reader of Gate's tiers of contracts in USDT; a body of one contract does not name it."""

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(_GateTier):
            with reading.row():
                item = reading.instrument(row.contract or reading.asked("contract"), name_of)
                limit = reading.required(row.risk_limit)
                records.margin_tiers.append(_tier(reading, item, row, (limit, None)))
        return records

    return read


def kucoin_tiers(name_of: Named) -> Callable[[Reading], Records]:
    """Return a reader of KuCoin's tiers: limits are USDT, or coins of contracts that settle in coin."""

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(_KucoinTier, "data"):
            with reading.row():
                item = reading.instrument(row.symbol, name_of)
                limit = reading.required(row.maxRiskLimit)
                size = (None, limit) if item.inverse else (limit, None)
                records.margin_tiers.append(_tier(reading, item, row, size))
        return records

    return read


def bitget_tiers(name_of: Named) -> Callable[[Reading], Records]:
    """Return a reader of Bitget's tiers of contracts in USDT; it states no initial margin."""

    def read(reading: Reading) -> Records:
        records = Records()
        for row in reading.rows(_BitgetTier, "data"):
            with reading.row():
                item = reading.instrument(row.symbol, name_of)
                limit = reading.required(row.endUnit)
                records.margin_tiers.append(_tier(reading, item, row, (limit, None)))
        return records

    return read


_FIELDS: dict[type[Any], tuple[str, str, str, str]] = {
    _OkxTier: ("tier", "imr", "mmr", "maxLever"),
    _GateTier: ("tier", "initial_rate", "maintenance_rate", "leverage_max"),
    _KucoinTier: ("level", "initialMargin", "maintainMargin", "maxLeverage"),
    _BitgetTier: ("level", "", "keepMarginRate", "leverage"),
}
"""Names of number, initial margin, maintenance margin and leverage of a tier."""


def _tier(
    reading: Reading, item: Instrument, row: Any, size: tuple[float | None, float | None]
) -> MarginTier:
    """Return one tier; `size` is its largest position in USD and in coins."""
    number_name, initial_name, maintenance_name, leverage_name = _FIELDS[type(row)]
    number = reading.required(getattr(row, number_name))
    leverage = reading.required(getattr(row, leverage_name))
    maintenance = reading.required(getattr(row, maintenance_name))
    initial = reading.required(getattr(row, initial_name)) if initial_name else None
    if not 0.0 < maintenance <= 1.0:
        reading.fail(f"{item.name}: expected a maintenance margin above 0 and up to 1, got {maintenance:g}")
    if initial is not None and initial < maintenance:
        reading.fail(
            f"{item.name}: an initial margin of {initial:g} is below the maintenance {maintenance:g}"
        )
    return MarginTier(item, int(number), *size, initial, maintenance, leverage)


class _OkxLoan(Wire):
    ccy: str
    rate: NUMBER
    quota: NUMBER = None


class _OkxLoans(Wire):
    basic: list[_OkxLoan]


class _BybitLoan(Wire):
    currency: str
    hourlyBorrowRate: NUMBER
    borrowable: bool = True
    maxBorrowingAmount: NUMBER = None


class _BybitLevel(Wire):
    vipLevel: str
    loans: list[_BybitLoan] = msgspec.field(name="list")


def okx_loans(reading: Reading) -> Records:
    """Read OKX's basic rates, which are those of a day."""
    records = Records()
    for group in reading.part(list[_OkxLoans], "data"):
        for row in group.basic:
            with reading.row():
                rate = reading.required(row.rate) * _DAYS_PER_YEAR
                most = reading.number(row.quota)
                records.borrow_rates.append(BorrowRate(row.ccy, None, rate, most))
    return records


def bybit_loans(reading: Reading) -> Records:
    """Read Bybit's rates, which are those of an hour, of accounts without a tier and coins that it lends."""
    records = Records()
    for level in reading.part(list[_BybitLevel], "result.vipCoinList"):
        if level.vipLevel != _NO_TIER:
            continue
        for row in level.loans:
            if not row.borrowable or reading.number(row.hourlyBorrowRate) is None:
                continue
            with reading.row():
                rate = reading.required(row.hourlyBorrowRate) * _HOURS_PER_YEAR
                most = reading.number(row.maxBorrowingAmount)
                records.borrow_rates.append(BorrowRate(row.currency, None, rate, most))
    return records
