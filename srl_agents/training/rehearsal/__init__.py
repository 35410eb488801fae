"""A recipe's learning and generation at full size on a device without numbers: docs/design/rehearsal.md."""
