"""A person as a policy, at the keyboard or in the browser."""
