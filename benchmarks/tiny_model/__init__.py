"""How the shipped model `tiny` is made: corpus, tokenizer, pretraining, report."""
