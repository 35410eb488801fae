"""Teams with a workflow: one seat writes programs that are run, the next answers; or one takes both parts."""
