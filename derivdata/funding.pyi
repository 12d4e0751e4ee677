"""What `derivdata.fetch.funding` holds, under the documented name."""

from derivdata.fetch.funding import *
