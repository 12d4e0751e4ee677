"""What `derivdata.fetch.liquidations` holds, under the documented name."""

from derivdata.fetch.liquidations import *
