"""What `derivdata.fetch.builders` holds, under the documented name."""

from derivdata.fetch.builders import *
