"""Crypto derivatives data as tidy pandas frames and xarray surfaces."""
