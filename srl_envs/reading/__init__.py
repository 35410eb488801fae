"""What users write in files, read and checked: settings, rows of tasks, names of wrappers and potentials."""
