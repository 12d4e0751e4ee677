"""What `derivdata.fetch.oi` holds, under the documented name."""

from derivdata.fetch.oi import *
