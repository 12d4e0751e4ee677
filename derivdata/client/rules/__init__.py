"""The rules that an answer must keep, one module per kind: contradictions, impossible and unlikely figures.

``docs/checked-answers.md`` is their table. A rule looks at an `Evidence`: the request, what the answer says
of itself, and the columns of its table. It yields a sentence for each breach, which names both sides. A
breach of a rule whose `outcome` is ``"error"`` is a `SchemaError`; any other is a `DataNotice`, and the table
comes, without the rows that the rule removed.
"""

from __future__ import annotations

from derivdata.client.rules import contradictions, impossible, unlikely
from derivdata.client.rules.definition import Rule

__all__ = ["RULES", "Rule"]


RULES: tuple[Rule, ...] = tuple(
    value
    for module in (impossible, contradictions, unlikely)
    for value in vars(module).values()
    if isinstance(value, Rule)
)
"""Every rule about one answer, in the order in which they are applied.

Impossible figures come first: a negative interval is not worth a comparison with the time between payments.
"""
