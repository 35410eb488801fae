"""Games for a full table, with sides, open talk and votes."""
