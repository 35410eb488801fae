"""Commands that check SRL itself on a model of the user."""
