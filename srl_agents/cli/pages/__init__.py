"""Web pages that commands write or serve, each with its styles and scripts."""
