"""What several commands of boards share: options, the progress bar, and who may play for a board."""
