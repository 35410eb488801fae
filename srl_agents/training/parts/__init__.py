"""Single parts of a run that the loop, the process that plays ahead and a cluster's workers build."""
