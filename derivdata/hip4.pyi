"""What `derivdata.fetch.hip4` holds, under the documented name."""

from derivdata.fetch.hip4 import *
