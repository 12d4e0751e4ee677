"""The report's sections: each draws what it is about, says how to read it, and what the source lacks."""
