"""Pure functions on panels, surfaces and tables: one module per question."""
