"""What `derivdata.fetch.prices` holds, under the documented name."""

from derivdata.fetch.prices import *
