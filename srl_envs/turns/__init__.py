"""One turn of an episode: who is asked, how a reply is read, what a broken rule costs."""
