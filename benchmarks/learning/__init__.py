"""Learning: what training gains, drawn from the runs that `srl train` leaves behind."""
