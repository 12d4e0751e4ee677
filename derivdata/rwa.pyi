"""What `derivdata.fetch.rwa` holds, under the documented name."""

from derivdata.fetch.rwa import *
