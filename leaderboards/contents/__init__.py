"""What a bundle holds, field by field: kinds of values, schemas, matches, claims."""
