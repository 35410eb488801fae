"""Which weights move when: rules on the adapters of several learners, around the optimizer step."""
