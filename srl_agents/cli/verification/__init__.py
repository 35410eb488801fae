"""Commands that check SRL itself: its gradients on a model of the user, and its published results."""
