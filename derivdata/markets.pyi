"""What `derivdata.fetch.markets` holds, under the documented name."""

from derivdata.fetch.markets import *
