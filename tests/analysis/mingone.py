"""A slow, readable reference: Mingone's map, one surface at a time."""

import numpy as np
import xarray as xr

YEARS = np.array([1, 3, 7, 14, 30, 60, 90, 180]) / 365


def mingone(rho, log_first, log_steps, shares):
    """θ, ρ, ψ of one surface from free numbers (arXiv:2204.00312).

    `shares` are in (0, 1); `log_first` and `log_steps` are any numbers. The code follows the formulae.
    """
    count = len(rho)
    p = [1.0] + [
        max((1 + rho[i - 1]) / (1 + rho[i]), (1 - rho[i - 1]) / (1 - rho[i])) for i in range(1, count)
    ]
    theta = [np.exp(log_first)]
    for i in range(1, count):
        theta.append(theta[-1] * p[i] + np.exp(log_steps[i - 1]))
    f = [min(4 / (1 + abs(r)), np.sqrt(4 * t / (1 + abs(r)))) for r, t in zip(rho, theta, strict=True)]
    psi = []
    for i in range(count):
        least = psi[-1] * p[i] if i else 0.0
        caps = [f[j] / np.prod(p[i + 1 : j + 1]) for j in range(i, count)]
        if i:
            caps.append(psi[-1] * theta[i] / theta[i - 1])
        psi.append(least + shares[i] * (min(caps) - least))
    return np.array(theta), np.asarray(rho, dtype=float), np.array(psi)


def draw(rng, count):
    rho = np.tanh(rng.normal(-0.3, 0.4) + rng.normal(0, 0.15, count))
    return mingone(rho, rng.normal(-6, 1), rng.normal(-5, 1.5, count - 1), rng.uniform(0.05, 0.95, count))


def ssvi(k, theta, rho, psi):
    """Total variance as Gatheral and Jacquier write it."""
    phi = psi / theta
    return theta / 2 * (1 + rho * phi * k + np.sqrt((phi * k + rho) ** 2 + 1 - rho**2))


def quotes(theta, rho, psi, years, strikes=15, spread=2.5):
    """Log-moneyness and volatility ``(expiry, strike)`` of exact slices, within ± `spread` deviations."""
    k = np.linspace(-spread, spread, strikes) * np.sqrt(theta)[:, None]
    w = ssvi(k, theta[:, None], rho[:, None], psi[:, None])
    return k, np.sqrt(w / years[:, None])


def labelled(k, iv, years):
    dims = ("expiry", "strike")
    return xr.DataArray(k, dims=dims), xr.DataArray(iv, dims=dims), xr.DataArray(years, dims="expiry")


def ragged(surfaces, years=YEARS):
    """Surfaces of different sizes in one block ``(time, expiry, strike)``, NaN where one has less."""
    parts = [(*quotes(*slices, years[: len(slices[0])]), years[: len(slices[0])]) for slices in surfaces]
    expiries = max(len(t) for *_, t in parts)
    strikes = max(k.shape[1] for k, *_ in parts)
    k_all, iv_all = (np.full((len(parts), expiries, strikes), np.nan) for _ in range(2))
    t_all = np.full((len(parts), expiries), np.nan)
    for i, (k, iv, t) in enumerate(parts):
        k_all[i, : len(t), : k.shape[1]] = k
        iv_all[i, : len(t), : k.shape[1]] = iv
        t_all[i, : len(t)] = t
    dims = ("time", "expiry", "strike")
    return xr.DataArray(k_all, dims=dims), xr.DataArray(iv_all, dims=dims), xr.DataArray(t_all, dims=dims[:2])
