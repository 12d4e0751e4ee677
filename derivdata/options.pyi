"""What `derivdata.fetch.options` holds, under the documented name."""

from derivdata.fetch.options import *
