"""One part of each kind, which `srl new` writes under another name, and which tests hold to its kit."""
