"""What `derivdata.fetch.volume` holds, under the documented name."""

from derivdata.fetch.volume import *
