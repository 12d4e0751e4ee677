"""What `derivdata.fetch.orderbook` holds, under the documented name."""

from derivdata.fetch.orderbook import *
