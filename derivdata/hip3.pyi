"""What `derivdata.fetch.hip3` holds, under the documented name."""

from derivdata.fetch.hip3 import *
